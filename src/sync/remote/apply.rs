//! Doing on this disk what other hosts did.

mod addition;
mod renames;

use std::collections::BTreeSet;
use std::{mem, thread};

use crate::remote::Limits;
use crate::remote::apply::addition::Additions;
use crate::remote::apply::renames::Renames;
use crate::remote::error::RemoteError;
use crate::remote::mark::{mark_of, shared_path};
use crate::replica::{Entry, FileKey, Found, Step};
use ctxfs_core::model::RelPath;
use ctxfs_store::{Conversation, RemovalOutcome, StoreError, Usage, whole_blocks};

pub use crate::remote::apply::addition::{Fetch, Known, Parcel};

/// Why a path of a step is not touched.
const REFUSED: &str = "its path is refused: no file that hosts share can have it";

/// What became of steps.
#[derive(Debug, Default)]
pub struct Applied {
    /// The steps that were done, and are on the disk. One that added a file has the key and version
    /// of that.
    pub done: Vec<Step>,
    /// The steps that were left for the next time. A full disk is told once.
    pub left: Vec<Left>,
    /// The error of the first step that was left because the disk is full.
    pub no_room: Option<String>,
    /// The error after which no further step was tried, as it would not have gone better. The steps
    /// that are `done` are done all the same.
    pub error: Option<RemoteError>,
}

/// A step that was left for the next time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The file.
    pub path: String,
    /// The reason.
    pub why: String,
}

/// Does steps on the disk, one after the other, those that can be done. `now` is the time in
/// milliseconds since the epoch, for traces of content that was never to change. For a caller that
/// holds the lock of pushes and looks. Files come that stay within the `limits`; the first one that
/// would not is told.
///
/// Nothing is touched that is not as the step says, that somebody writes, or that is no file which
/// hosts share. A name that is given is free before. Whenever this stops, each file is whole, under
/// its old name, its new one, or a name made of the new one.
pub fn apply<'a>(
    conversation: &'a Conversation,
    steps: Vec<Step>,
    fetch: &'a dyn Fetch,
    (now, limits): (i64, Limits),
) -> Applied {
    let mut applying = Applying::new(conversation, (now, limits));
    let tried = applying.remove_all(&steps);
    let tried = tried.and_then(|()| applying.rename_all(&steps));
    let tried = tried.and_then(|()| applying.fetch_all(steps, fetch));
    applying.finish(tried)
}

/// Steps that are being done.
pub(super) struct Applying<'a> {
    conversation: &'a Conversation,
    now: i64,
    limits: Limits,
    /// The bytes of the conversation, once they were measured.
    used: Option<u64>,
    applied: Applied,
    /// The directories that have other names now; `None` is that of the conversation.
    touched: BTreeSet<Option<RelPath>>,
}

impl<'a> Applying<'a> {
    fn new(conversation: &'a Conversation, (now, limits): (i64, Limits)) -> Self {
        let (applied, touched) = (Applied::default(), BTreeSet::new());
        Self { conversation, now, limits, used: None, applied, touched }
    }

    fn remove_all(&mut self, steps: &[Step]) -> Result<(), RemoteError> {
        for step in steps {
            if let Step::Remove { path, found, .. } = step
                && self.remove(path, found)?
            {
                self.applied.done.push(step.clone());
            }
        }
        Ok(())
    }

    /// Returns true if that is done.
    fn remove(&mut self, text: &str, found: &Found) -> Result<bool, RemoteError> {
        let Some(path) = self.shared_path(text) else { return Ok(false) };
        let removed = match (found.key, mark_of(found.key, found.version)) {
            (FileKey::Elsewhere(origin), _) => ctxfs_store::shared::remove_far(
                self.conversation,
                &path,
                &origin.to_string(),
                self.now,
            ),
            (FileKey::Here { .. }, Some(mark)) => {
                ctxfs_store::shared::remove(self.conversation, &path, &mark, self.now)
            }
            (FileKey::Here { .. }, None) => return Ok(false),
        };
        match self.settled(text, removed)? {
            Some(RemovalOutcome::Removed) => {
                self.touch(&path);
                Ok(true)
            }
            Some(RemovalOutcome::Kept(why)) => {
                self.leave(text, why);
                Ok(false)
            }
            None => Ok(false),
        }
    }

    fn rename_all(&mut self, steps: &[Step]) -> Result<(), RemoteError> {
        let mut renames = Renames::default();
        for step in steps {
            if let Step::Rename { from, found, entry, .. } = step {
                let (from, to) = (self.shared_path(from), self.shared_path(&entry.path));
                if let (Some(from), Some(to)) = (from, to) {
                    renames.push(step, found, (from, to));
                }
            }
        }
        renames.run(self)
    }

    fn fetch_all(&mut self, steps: Vec<Step>, fetch: &'a dyn Fetch) -> Result<(), RemoteError> {
        ctxfs_store::Arrival::remove_unfinished(self.conversation)?;
        let entry = |step| match step {
            Step::Add { entry } => Some(entry),
            Step::Remove { .. } | Step::Rename { .. } => None,
        };
        let entries: Vec<Entry> = steps.into_iter().filter_map(entry).collect();
        let (added, tried) = thread::scope(|scope| {
            let mut additions = Additions::new(scope, fetch, entries);
            let tried = additions.add_all(self);
            // What was asked for before a failure is added all the same.
            let ended = additions.end(self);
            (additions.done(), tried.and(ended))
        });
        // Of these there may be many, and few of the others.
        let mut done: Vec<Step> = added.into_iter().map(|entry| Step::Add { entry }).collect();
        done.splice(0..0, mem::take(&mut self.applied.done));
        self.applied.done = done;
        tried
    }

    /// Returns what an attempt at `path` gave, or none if that is to be left for the next time.
    /// Fails if it is not about one place of the store.
    fn settled<T>(
        &mut self,
        path: &str,
        tried: Result<T, StoreError>,
    ) -> Result<Option<T>, RemoteError> {
        match tried {
            Ok(given) => Ok(Some(given)),
            Err(error) if is_full(&error) => {
                self.leave_for_room(path, &error);
                Ok(None)
            }
            Err(error) if error.is_of_place() => {
                self.leave(path, error);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reserves `size` bytes within the limits. Returns false if they do not fit.
    fn has_room(&mut self, path: &RelPath, size: u64) -> Result<bool, RemoteError> {
        let measured = match (self.used, self.limits.quota) {
            (None, Some(_)) => Some(Usage::of(self.conversation)?.bytes),
            (used, _) => used,
        };
        self.used = measured;
        let used = measured.unwrap_or_default();
        let disk = self.conversation.dir().space();
        let disk = disk.map_err(|error| self.conversation.error_at("measure", path, error))?;
        let checked = self.limits.check_disk(&disk, size);
        if let Err(shortage) = checked.and_then(|()| self.limits.check_quota(used, size)) {
            self.leave_for_room(&path.to_text(), shortage);
            return Ok(false);
        }
        self.used = measured.map(|used| used.saturating_add(whole_blocks(size)));
        Ok(true)
    }

    /// Notes that the directory of `path` has other names now.
    fn touch(&mut self, path: &RelPath) {
        self.touched.insert(path.parent());
    }

    fn leave(&mut self, path: &str, why: impl std::fmt::Display) {
        self.applied.left.push(Left { path: path.to_owned(), why: why.to_string() });
    }

    fn leave_for_room(&mut self, path: &str, why: impl std::fmt::Display) {
        if self.applied.no_room.is_none() {
            self.applied.no_room = Some(why.to_string());
            self.leave(path, why);
        }
    }

    /// Returns the path of a step, if a file that hosts share can have it.
    fn shared_path(&mut self, text: &str) -> Option<RelPath> {
        let path = shared_path(text);
        if path.is_none() {
            self.leave(text, REFUSED);
        }
        path
    }

    /// Brings all that was done to the disk. If that fails, nothing counts as done: it is found by
    /// comparing again.
    fn finish(mut self, tried: Result<(), RemoteError>) -> Applied {
        self.applied.error = tried.err();
        if let Err(error) =
            ctxfs_store::shared::sync_parents(self.conversation, mem::take(&mut self.touched))
        {
            self.applied.done.clear();
            self.applied.error.get_or_insert(error.into());
        }
        self.conversation.manifest().compact_if_wasteful();
        self.applied
    }
}

/// Returns true if the disk, or the share of it that this user has, is full.
fn is_full(error: &StoreError) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

#[cfg(test)]
mod tests;
