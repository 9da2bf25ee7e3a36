//! Outputs of one name: two hosts wrote them while they did not know of each other.

use crate::{Engine, Result};
use ctxfs_core::model::{Component, Place, RelPath};

/// Returns the names of the outputs that asked for the name of the one at `path`, or of the one
/// that has the name which it asked for: what its summary tells.
///
/// Names that look like it are found first, so others cost one `stat`, and nothing where no other
/// host has a part in the conversations.
pub fn others_of(engine: &Engine, id: &Component, path: &RelPath) -> Result<Vec<String>> {
    let Some(others) = &engine.options.other_hosts else { return Ok(Vec::new()) };
    let alike = engine.conversation(id)?.alike(path)?;
    if alike.is_empty() {
        return Ok(Vec::new());
    }
    let known = others.same_name(id, path);
    let names = alike.iter().map(RelPath::to_text).filter(|alike| known.contains(alike));
    Ok(names.map(|path| path.rsplit('/').next().unwrap_or_default().to_owned()).collect())
}

/// As [`others_of`], of the output at `place`.
pub(super) fn others_at(engine: &Engine, place: &Place) -> Result<Vec<String>> {
    if engine.options.other_hosts.is_none() {
        return Ok(Vec::new());
    }
    let (id, path) = (place.conversation(), place.path());
    others_of(engine, &Component::from_text(id)?, &RelPath::from_text(path)?)
}

#[cfg(any(test, feature = "testing"))]
pub mod fixture;
#[cfg(test)]
mod tests;
