//! The `.summary` of an output whose content was removed to make room.

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::{DirPlace, Engine, EngineError, Result, SourceDir, Version, ViewText, spool};
use ctxfs_core::model::{Component, Folder, Record, RelPath};
use ctxfs_store::Time;
use ctxfs_view::{Derived, Reading, View, readings};

/// An output whose content was removed.
#[derive(Debug)]
pub struct RemovedContent {
    /// The conversation that it was in.
    pub conversation: Component,
    /// The path that it had there.
    pub path: RelPath,
    record: Record,
}

impl RemovedContent {
    /// Returns the name that the file had.
    pub fn name(&self) -> &OsStr {
        self.path.file_name()
    }

    /// Returns true if the trace of it stays in the manifest.
    pub fn stays(&self) -> bool {
        self.record.removed.as_ref().is_some_and(|removal| removal.stays)
    }

    /// Returns the version of its summary.
    pub fn version(&self, engine: &Engine) -> Result<Version> {
        let Self { conversation, path, .. } = self;
        let position = engine.conversation(conversation)?.manifest().position(path)?;
        let mut hasher = DefaultHasher::new();
        (position, path, conversation).hash(&mut hasher);
        Ok(Version { facts: hasher.finish(), ..Version::default() })
    }

    /// Returns the time of its removal.
    pub fn time(&self) -> Time {
        let millis = self.record.removed.as_ref().map_or(0, |removal| removal.at);
        let nanos = millis.rem_euclid(1000) as u32 * 1_000_000;
        Time { seconds: millis.div_euclid(1000), nanos }
    }
}

/// Finds the removed content whose summary `name` means in the directory `dir`.
pub(super) fn find(
    engine: &Engine,
    dir: &dyn SourceDir,
    name: &OsStr,
) -> Result<Option<RemovedContent>> {
    let is_summary = |reading: &Reading| {
        reading.base.is_none() && matches!(reading.derived, Derived::File(View::Summary))
    };
    let Some((stem, _)) = readings(name).find(|(_, reading)| is_summary(reading)) else {
        return Ok(None);
    };
    let place = dir.place()?;
    let DirPlace::Below(id, folder) = &place else { return Ok(None) };
    if !place.holds_artifacts() {
        return Ok(None);
    }
    let conversation = engine.conversation(id)?;
    for (file, call) in names(stem, folder.as_os_str() == Folder::Tool.path()) {
        let Ok(path) = RelPath::below(Some(folder), &file) else { continue };
        if let Some(record) = conversation.removed(&path)?
            && call.is_none_or(|call| {
                record.provenance.call.as_ref().is_some_and(|known| call == &**known)
            })
        {
            return Ok(Some(RemovedContent { conversation: id.clone(), path, record }));
        }
    }
    Ok(None)
}

/// Computes the summary of the removed file `name` of the directory `dir`.
pub(super) fn show_removed(engine: &Engine, dir: &dyn SourceDir, name: &OsStr) -> Result<ViewText> {
    let DirPlace::Below(id, folder) = dir.place()? else { return Err(EngineError::Stale) };
    let path = RelPath::below(Some(&folder), name)?;
    let mut record = engine.conversation(&id)?.removed(&path)?.ok_or(EngineError::Stale)?;
    let removal = record.removed.take().ok_or(EngineError::Stale)?;
    engine.secrets.mask_provenance(&mut record.provenance);
    let place = engine.options.place(&id, &path);
    Ok(spool::held_text(engine, &ctxfs_view::removed(&record, &removal, &place), Some(id))?)
}

/// Returns the files that `stem` may name: one of that name, or the output of the call with that
/// id.
fn names(stem: &OsStr, in_tools: bool) -> impl Iterator<Item = (OsString, Option<&OsStr>)> {
    let of_call = ["json", "txt"].into_iter().filter(move |_| in_tools).map(move |extension| {
        let mut name = stem.to_owned();
        name.push(".");
        name.push(extension);
        (name, Some(stem))
    });
    std::iter::once((stem.to_owned(), None)).chain(of_call)
}
