//! Storing an output in a directory of the tool-output layout.

use std::fs::File;
use std::io;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context as _;

use crate::cli::args::PutArgs;
use crate::cli::put::call::CallSettings;
use crate::cli::put::kept::KeptOutput;
use crate::cli::put::kept::ToolOutputFile;
use crate::cli::put::receive::receive;
use crate::materialize::Analyzer;
use crate::model::ArtifactState;
use crate::model::Record;
use crate::store::Artifact;
use crate::store::ToolOutputDir;

/// Writes standard input to a new file of the directory.
pub(super) fn keep(args: &PutArgs, call_settings: &CallSettings) -> anyhow::Result<KeptOutput> {
    let (dir, file, path) = create(args, call_settings)?;
    let mut sink = Sink { file, analyzer: Analyzer::new() };
    receive(&mut sink, call_settings.stored_rules())
        .map_err(|cut| cut.into_error(&path.display().to_string()))?;
    let Sink { file, analyzer } = sink;
    let filed = settle(dir, &file, path)?;
    let analysis = analyzer.finish();
    let record = Record {
        state: ArtifactState::Sealed,
        provenance: call_settings.provenance(),
        ..Record::default()
    };
    let content = Artifact::new(Arc::new(file), analysis.bytes);
    Ok(KeptOutput::new(content, analysis, record, call_settings).filed_as(filed))
}

/// Copies an output that is stored to a new file of the directory.
pub(super) fn copy(
    output: KeptOutput,
    args: &PutArgs,
    call_settings: &CallSettings,
) -> anyhow::Result<KeptOutput> {
    let (dir, mut file, path) = create(args, call_settings)?;
    io::copy(&mut output.content.file().as_ref(), &mut file)
        .with_context(|| format!("cannot write all of `{}`", path.display()))?;
    Ok(output.filed_as(settle(dir, &file, path)?))
}

fn create(
    args: &PutArgs,
    call_settings: &CallSettings,
) -> anyhow::Result<(ToolOutputDir, File, PathBuf)> {
    let dir = ToolOutputDir::open(&call_settings.limits.dir)?;
    let tool = args.tool.as_deref().unwrap_or_default();
    let (file, path) = dir.create(tool, SystemTime::now())?;
    Ok((dir, file, path))
}

/// Syncs the file and the directory.
fn settle(dir: ToolOutputDir, file: &File, path: PathBuf) -> anyhow::Result<ToolOutputFile> {
    file.sync_all().with_context(|| format!("cannot write all of `{}`", path.display()))?;
    dir.sync()?;
    Ok(ToolOutputFile { dir, path })
}

/// A file whose content is analysed while it is written.
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
