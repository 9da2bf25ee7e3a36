//! The store that an installation makes.

use std::path::Path;
use std::{fs, io};

use crate::install::replace;

/// The files of a store in which nothing was ever stored.
const NEW: [&str; 2] = ["VERSION", "context"];

/// Removes a store in which nothing was ever stored, with the directories up to `base` that are
/// then empty. One that cannot be removed does no harm.
pub(super) fn remove_unused(store: &Path, base: Option<&Path>) {
    let outputs = store.join(NEW[1]);
    if is_new(store).is_ok_and(|is_new| is_new)
        && (fs::remove_dir(&outputs).is_ok() || !outputs.exists())
    {
        replace::remove(&store.join(NEW[0]), base.unwrap_or(store)).ok();
    }
}

fn is_new(store: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(store)? {
        if NEW.iter().all(|name| entry.as_ref().is_ok_and(|entry| entry.file_name() != *name)) {
            return Ok(false);
        }
    }
    Ok(store.join(NEW[0]).exists())
}
