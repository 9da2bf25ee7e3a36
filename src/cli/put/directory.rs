//! Storing an output in a directory of the tool-output layout.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context as _;

use crate::args::PutArgs;
use crate::put::output::{PutOutput, ToolOutputFile};
use crate::put::receive::receive;
use crate::settings::Settings;
use ctxfs_core::materialize::Analyzer;
use ctxfs_core::model::{ArtifactState, Limits, Provenance, Record};
use ctxfs_engine::{MaskedForm, OutputParts, ShownOutput, StoredOutput};
use ctxfs_store::{AnalysedFile, Artifact, ToolOutputDir};

/// Writes standard input to a new file of the directory.
pub(super) fn keep(
    args: &PutArgs,
    provenance: Provenance,
    limits: Limits,
    settings: &Settings,
) -> anyhow::Result<PutOutput> {
    let redaction = settings.redaction()?;
    let (dir, file, path) = create(args, &limits)?;
    let mut sink = MaskedForm::stored(redaction.as_ref(), AnalysedFile::new(file, Analyzer::new()));
    receive(&mut sink, MaskedForm::finish)
        .map_err(|cut| cut.into_error(&path.display().to_string()))?;
    let (file, analysis) = sink.into_inner().into_parts();
    let filed = settle(dir, &file, path)?;
    let parts = OutputParts {
        content: Artifact::new(Arc::new(file), analysis.bytes),
        analysis: Arc::new(analysis),
        record: Record { state: ArtifactState::Sealed, provenance, ..Record::default() },
        place: filed.place(),
        limits,
    };
    let output = ShownOutput::new(parts, redaction.as_ref())?;
    Ok(PutOutput::File { output, file: filed })
}

/// Copies an output that is stored to a new file of the directory.
pub(super) fn copy(
    output: &StoredOutput,
    args: &PutArgs,
    limits: &Limits,
) -> anyhow::Result<ToolOutputFile> {
    let (dir, mut file, path) = create(args, limits)?;
    io::copy(&mut output.content().file().as_ref(), &mut file)
        .with_context(|| format!("cannot write all of `{}`", path.display()))?;
    settle(dir, &file, path)
}

fn create(args: &PutArgs, limits: &Limits) -> anyhow::Result<(ToolOutputDir, File, PathBuf)> {
    let dir = ToolOutputDir::open(&limits.dir)?;
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
