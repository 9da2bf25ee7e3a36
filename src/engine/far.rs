//! Artifacts whose bytes are not on this disk: finding them by name, and opening them.

use std::ffi::OsStr;
use std::sync::{Arc, OnceLock};

use crate::{
    DirPlace, Engine, EngineError, OpenFar, OpenFile, Result, Snapshot, SourceDir, ViewText,
    same_name, spool,
};
use ctxfs_core::model::{Component, RelPath};
use ctxfs_store::{FarArtifact, Stat};

/// The reason why bytes cannot be read that have left the bucket.
const GONE: &str = "the bucket has them no more, as another host has removed the output or they \
                    were lost; `ctxfs remote check` tells what is missing";

/// Returns the attributes of the artifact `name` in `dir`, if its bytes are not on this disk, or of
/// the file that has come meanwhile. For a caller who has found that no file has that name. Where
/// the manifest cannot be read, there is no such artifact.
pub(crate) fn stat_of(engine: &Engine, dir: &dyn SourceDir, name: &OsStr) -> Result<Option<Stat>> {
    let place = dir.place()?;
    let DirPlace::Below(id, folder) = &place else { return Ok(None) };
    if !place.holds_artifacts() {
        return Ok(None);
    }
    let Ok(path) = RelPath::below(Some(folder), name) else { return Ok(None) };
    let far = engine.conversation(id)?.far(&path);
    let far = far.ok().flatten().map(|far| far.stat);
    let come = || engine.options.far.as_ref().and_then(|_| dir.dir().ok()?.stat(name).ok());
    Ok(far.or_else(come))
}

impl Engine {
    /// Opens an artifact of the conversation `id` whose bytes are not on this disk. Asks nobody for
    /// them yet.
    pub fn open_far(&self, id: &Component, artifact: &FarArtifact) -> OpenFile {
        OpenFile::Far(Arc::new(OpenFar {
            store: self.options.far.clone(),
            conversation: id.clone(),
            record: artifact.record.clone(),
            path: self.options.place(id, &artifact.path).file(),
            file: OnceLock::new(),
            stat: artifact.stat,
        }))
    }
}

/// Returns the summary of an artifact whose bytes cannot be read because of `error`: it says why.
pub(super) fn show_away(
    engine: &Engine,
    (snapshot, by): (&Snapshot, Option<Component>),
    error: &EngineError,
) -> Result<ViewText> {
    let mut record = snapshot.record.clone();
    engine.secrets.mask_provenance(&mut record.provenance);
    let is_gone = error.raw_os_error() == libc::ESTALE;
    let why = if is_gone { GONE.to_owned() } else { error.to_string() };
    let same_name = same_name::others_at(engine, &snapshot.place)?;
    let text = ctxfs_view::away(&record, &why, &snapshot.place, &same_name);
    let text = spool::held_text(engine, &text, by)?;
    Ok(text.with_whole(false))
}
