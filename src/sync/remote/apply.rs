//! Applies changes of other hosts to local files.

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

///+ Reason for skipping the path of a step.
const REFUSED: &str = "its path is refused: no file that hosts share can have it";

///+ Outcome of [`apply`].
#[derive(Debug, Default)]
pub struct Applied {
    ///+ Applied steps, synced to disk. An added file has its key and version here.
    pub done: Vec<Step>,
    ///+ Skipped steps, which the next pull tries again. A full disk is reported once.
    pub left: Vec<Left>,
    ///+ Error of the first step that was skipped for lack of space.
    pub no_room: Option<String>,
    ///+ Error that stopped the run, since later steps would have failed too. The steps in `done` are
    ///+ applied nevertheless.
    pub error: Option<RemoteError>,
}

///+ A step that was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    ///+ Path of the file.
    pub path: String,
    ///+ Reason.
    pub why: String,
}

///+ Applies steps one by one, as far as possible, and skips the others. `now` is the time in
///+ milliseconds since the epoch, for the records of content that must not change. The caller holds
///+ the push lock. New files stay within `limits`; the first one over them is reported.
///+
///+ A file is only touched if it is a shared file, is in the state that the step expects, and is not
///+ open for writing. A rename never replaces a file. When this is interrupted, each file is whole,
///+ under its old name, its new name, or a temporary name made from the new one.
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

pub(super) struct Applying<'a> {
    conversation: &'a Conversation,
    now: i64,
    limits: Limits,
    /// The bytes of the conversation, once they were measured.
    used: Option<u64>,
    applied: Applied,
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

    fn remove(&mut self, text: &str, found: &Found) -> Result<bool, RemoteError> {
        let Some(path) = self.shared_path(text) else { return Ok(false) };
        let removed = match (found.key, mark_of(found.key, found.version)) {
            (FileKey::Elsewhere(origin), _) => {
                self.conversation.depart_far(&path, &origin.to_string(), self.now)
            }
            (FileKey::Here { .. }, Some(mark)) => self.conversation.depart(&path, &mark, self.now),
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
        self.conversation.remove_cut_arrivals()?;
        let entry = |step| match step {
            Step::Add { entry } => Some(entry),
            Step::Remove { .. } | Step::Rename { .. } => None,
        };
        let entries: Vec<Entry> = steps.into_iter().filter_map(entry).collect();
        let (added, tried) = thread::scope(|scope| {
            let mut additions = Additions::new(scope, fetch, entries);
            let tried = additions.add_all(self);
            // Artifacts that are pending at a failure are recorded nevertheless.
            let ended = additions.end(self);
            (additions.done(), tried.and(ended))
        });
        // There may be many additions, and few of the others.
        let mut done: Vec<Step> = added.into_iter().map(|entry| Step::Add { entry }).collect();
        done.splice(0..0, mem::take(&mut self.applied.done));
        self.applied.done = done;
        tried
    }

    ///+ Returns the value of an attempt at `path`, or `None` if the error is about this path only:
    ///+ then the path is skipped.
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

    ///+ Reserves `size` bytes within the limits. Returns false, and skips `path`, if they do not
    ///+ fit.
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

    fn shared_path(&mut self, text: &str) -> Option<RelPath> {
        let path = shared_path(text);
        if path.is_none() {
            self.leave(text, REFUSED);
        }
        path
    }

    ///+ Syncs all changes to disk. If that fails, none counts as done: the next comparison finds
    ///+ them.
    fn finish(mut self, tried: Result<(), RemoteError>) -> Applied {
        self.applied.error = tried.err();
        if let Err(error) = self.conversation.sync_parents(mem::take(&mut self.touched)) {
            self.applied.done.clear();
            self.applied.error.get_or_insert(error.into());
        }
        self.conversation.manifest().compact_if_wasteful();
        self.applied
    }
}

fn is_full(error: &StoreError) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}

#[cfg(test)]
mod tests;
