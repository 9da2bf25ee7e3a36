//! The earlier outputs with which views compare an output: the output of the last run of the same
//! command, of the run with a number, or of another call.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use crate::{
    Engine, EngineError, FilePlace, Recipe, Resolved, Result, Source, StoredDir, Version,
    keyed_hash, stored_source,
};
use ctxfs_core::model::{Folder, Record, RelPath};
use ctxfs_store::{Conversation, FileType, earlier_run, numbered_run};
use ctxfs_view::{EarlierName, View, run_key};

/// The output that a view compares with. `run` is the number of its run, if it is a run of the same
/// command.
pub(crate) struct EarlierOutput {
    pub(crate) run: Option<u64>,
    pub(crate) source: Source,
}

impl EarlierOutput {
    /// Finds the output with which `view` compares the output at `at`, which has this `record`.
    /// Returns `None` for another view, and if no earlier run is stored. Fails with
    /// [`EngineError::NotFound`] if the view names an output that does not exist.
    pub(crate) fn find(
        engine: &Engine,
        view: &View,
        at: &FilePlace,
        record: &Record,
    ) -> Result<Option<Self>> {
        let conversation = engine.conversation(&at.0)?;
        let provenance = &record.provenance;
        let run = || provenance.run.clone().or_else(|| run_key(provenance, ""));
        let found = match view {
            View::Since => {
                let run = run().map(|run| earlier_run(&conversation, &run, record.created));
                run.transpose()?.flatten().map(|(number, record)| (Some(number), record.path))
            }
            View::SinceRun(name) => match Self::named(engine, &conversation, name) {
                Err(EngineError::NotFound) => {
                    let number = name.number().ok_or(EngineError::NotFound)?;
                    let run = run().ok_or(EngineError::NotFound)?;
                    let record = numbered_run(&conversation, (&run, record.created), number)?;
                    Some((Some(number), record.ok_or(EngineError::NotFound)?.path))
                }
                source => return Ok(Some(Self { run: None, source: source? })),
            },
            _ => None,
        };
        let Some((run, path)) = found else { return Ok(None) };
        let path = RelPath::from_text(&path)?;
        let dir = directory(&conversation, path.parent().as_ref())?;
        let stat = engine.stat(&*dir, path.file_name())?;
        Ok(Some(Self { run, source: stored_source(engine, &dir, (path.file_name(), &stat))? }))
    }

    // The name has the meaning that it has in a directory of artifacts.
    fn named(engine: &Engine, conversation: &Conversation, name: &EarlierName) -> Result<Source> {
        let mut log = OsString::from(name.name().as_os_str());
        log.push(".log");
        let names = [
            (Folder::Tool, name.name().as_os_str()),
            (Folder::Terminal, name.name().as_os_str()),
            (Folder::Terminal, &log),
        ];
        for (folder, name) in names {
            let path = RelPath::new(folder.path())?;
            let Ok(dir) = directory(conversation, Some(&path)) else { continue };
            match engine.resolve(&*dir, false, name) {
                Ok(Resolved::Disk(entry)) if entry.stat.kind() == FileType::File => {
                    return stored_source(engine, &dir, (&entry.name, &entry.stat));
                }
                Ok(_) | Err(EngineError::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Err(EngineError::NotFound)
    }
}

fn directory(conversation: &Conversation, path: Option<&RelPath>) -> Result<Arc<StoredDir>> {
    let top = StoredDir::top(conversation.dir().try_clone()?, Some(conversation.id()));
    let path = path.map(|path| path.as_os_str().as_bytes()).unwrap_or_default();
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let dir = names.map(OsStr::from_bytes).try_fold(top, |dir, name| dir.open(name))?;
    Ok(Arc::new(dir))
}

/// Returns a version that changes with the output with which a view of `source` compares. Returns
/// the default version for other views.
pub(crate) fn version(engine: &Engine, recipe: &Recipe, source: &Source) -> Result<Version> {
    let Recipe::View(view) = recipe else { return Ok(Version::default()) };
    if !matches!(**view, View::Since | View::SinceRun(_)) {
        return Ok(Version::default());
    }
    let snapshot = source.snapshot(engine)?;
    let mut record = snapshot.record;
    record.provenance.update(&snapshot.file.provenance()?);
    let found = match EarlierOutput::find(engine, view, &snapshot.at, &record) {
        Err(EngineError::NotFound) => None,
        found => found?,
    };
    let Some(EarlierOutput { run, source }) = found else { return Ok(Version::default()) };
    let earlier = source.snapshot(engine)?;
    let version = earlier.version(engine)?;
    let facts = keyed_hash((run, &earlier.at, version));
    // Bytes that come from the bucket take as long as many bytes.
    let size = if source.is_far() { u64::MAX } else { version.size };
    Ok(Version { size, facts, ..Version::default() })
}

#[cfg(test)]
mod tests;
