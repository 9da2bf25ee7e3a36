//! Keeping an output in a directory of the tool-output layout.

use std::fs::File;
use std::io;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context as _;

use crate::cli::args::PutArgs;
use crate::cli::put::asked::Asked;
use crate::cli::put::output::Filed;
use crate::cli::put::output::Output;
use crate::cli::put::receive::receive;
use crate::materialize::Analyzer;
use crate::model::ArtifactState;
use crate::model::Record;
use crate::store::Artifact;
use crate::store::ToolOutputDir;

/// Writes standard input to a new file of the directory.
pub(super) fn keep(args: &PutArgs, asked: &Asked) -> anyhow::Result<Output> {
    let (dir, file, path) = create(args, asked)?;
    let mut sink = Sink { file, analyzer: Analyzer::new() };
    receive(&mut sink, asked.stored_rules())
        .map_err(|cut| cut.told(&path.display().to_string()))?;
    let Sink { file, analyzer } = sink;
    let filed = settle(dir, &file, path)?;
    let analysis = analyzer.finish();
    let record = Record {
        state: ArtifactState::Sealed,
        provenance: asked.provenance(),
        ..Record::default()
    };
    let content = Artifact::new(Arc::new(file), analysis.bytes);
    Ok(Output::new(content, analysis, record, asked).filed_as(filed))
}

/// Copies an output that is stored to a new file of the directory.
pub(super) fn copy(output: Output, args: &PutArgs, asked: &Asked) -> anyhow::Result<Output> {
    let (dir, mut file, path) = create(args, asked)?;
    io::copy(&mut output.content.file().as_ref(), &mut file)
        .with_context(|| format!("cannot write all of `{}`", path.display()))?;
    Ok(output.filed_as(settle(dir, &file, path)?))
}

fn create(args: &PutArgs, asked: &Asked) -> anyhow::Result<(ToolOutputDir, File, PathBuf)> {
    let dir = ToolOutputDir::open(&asked.limits.dir)?;
    let tool = args.tool.as_deref().unwrap_or_default();
    let (file, path) = dir.create(tool, SystemTime::now())?;
    Ok((dir, file, path))
}

/// Brings content and name to the disk.
fn settle(dir: ToolOutputDir, file: &File, path: PathBuf) -> anyhow::Result<Filed> {
    file.sync_all().with_context(|| format!("cannot write all of `{}`", path.display()))?;
    dir.sync()?;
    Ok(Filed { dir, path })
}

/// Analyses what it writes.
struct Sink {
    file: File,
    analyzer: Analyzer,
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.analyzer.push(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
