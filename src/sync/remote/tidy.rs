//! Keeping a conversation of a bucket small: merges, and the end of what is of no use any more.

use crate::bucket::log_prefix;
use crate::remote::collect::{WEEK, collect_staged};
use crate::remote::{
    Collected, Looked, NoSource, Notes, Push, RemoteError, Session, Sync, collect, look, store_now,
};
use crate::replica::{Changes, SegmentId};
use ctxfs_core::model::Component;

/// How often something is tried that begins anew: what was about to be sent is finished, and a copy
/// of this host was met.
const ROUNDS: usize = 8;

/// The segments of a conversation from which on it is looked whether merging is worth it.
const MANY: usize = 64;

/// The extent of tidying.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tidying {
    /// Nothing is changed: it is told what would be done.
    Look,
    /// Segments are merged, and nothing is deleted.
    Merge,
    /// What is of no use any more is deleted, too.
    Delete,
}

/// What was done, or would be.
#[derive(Debug, Default)]
pub struct Tidied {
    /// The merges that the bucket has now.
    pub merges: Vec<SegmentId>,
    /// The number of segments that would be merged; 0 if it was done.
    pub to_merge: usize,
    /// What was deleted, or would be.
    pub deletions: Vec<Collected>,
    /// Why nothing was deleted after a push, if not all of the log can be read.
    pub blind: Option<RemoteError>,
}

impl Tidied {
    /// Returns true if something should have been deleted and was not.
    pub fn is_hindered(&self) -> bool {
        self.deletions.iter().any(|each| matches!(each.outcome, Some(Err(_))))
    }
}

impl Sync<'_> {
    /// Does what [`Self::tidy`] does after a push, if there are many segments that no merge covers.
    /// `None` if there is no need.
    pub fn tidy_many(
        &self,
        id: &Component,
        tidying: Tidying,
    ) -> Result<Option<Tidied>, RemoteError> {
        let notes = self.home.conversation(id)?;
        let covered = notes.covered()?;
        let living = notes.segments()?.into_iter().filter(|segment| !covered.contains(segment));
        if living.count() < MANY {
            return Ok(None);
        }
        match self.tidy(id, tidying) {
            Err(blind @ (RemoteError::Blind { .. } | RemoteError::NoLog { .. })) => {
                Ok(Some(Tidied { blind: Some(blind), ..Tidied::default() }))
            }
            tidied => tidied.map(Some),
        }
    }

    /// Merges the segments of a conversation where that is worth it, deletes segments that were
    /// covered a day ago, objects that nobody has named for a week, and what writes have left that
    /// were cut off a week ago.
    pub fn tidy(&self, id: &Component, tidying: Tidying) -> Result<Tidied, RemoteError> {
        let notes = self.home.conversation(id)?;
        let push = self.pushing(&notes, &NoSource);
        if tidying == Tidying::Look {
            return self.tidiable(&push, &notes);
        }
        let mut tidied = Tidied { merges: push.merge_all()?, ..Tidied::default() };
        if tidying == Tidying::Delete {
            // What says that nothing lives any more goes last.
            tidied.deletions = collect(self.bucket, &notes, false, (self.deadline)())?;
            tidied.deletions.extend(self.swept(&push, &notes)?);
            tidied.deletions.extend(collect_staged(
                self.bucket,
                id,
                (None, WEEK),
                (self.deadline)(),
            )?);
        }
        for each in &tidied.deletions {
            tracing::info!(key = %each.key, outcome = ?each.outcome, "deleted from the bucket");
        }
        Ok(tidied)
    }

    fn swept(&self, push: &Push<'_>, notes: &Notes) -> Result<Vec<Collected>, RemoteError> {
        let (looked, id) = (self.look(notes)?, notes.conversation());
        if looked.segments.is_empty() {
            return Ok(Vec::new());
        }
        let now = store_now(self.bucket, id, (self.deadline)())?;
        let listed = push.to_sweep(&looked, now)?.into_iter();
        let swept = push.sweep(&looked, now)?.into_iter();
        let deletions = listed.zip(swept).map(|(listed, (_, outcome))| {
            let (key, size) = (format!("{}{}", log_prefix(id), listed.name), listed.size);
            Collected { key, size, outcome: Some(outcome) }
        });
        Ok(deletions.collect())
    }

    fn tidiable(&self, push: &Push<'_>, notes: &Notes) -> Result<Tidied, RemoteError> {
        let looked = self.look(notes)?;
        let to_merge = push.to_merge(&looked)?.len();
        // Without writing anything, now is not earlier than that.
        let now = looked.segments.iter().map(|each| each.modified_ms).max().unwrap_or_default();
        let prefix = log_prefix(notes.conversation());
        let segments = push.to_sweep(&looked, now)?.into_iter().map(|listed| Collected {
            key: format!("{prefix}{}", listed.name),
            size: listed.size,
            outcome: None,
        });
        let mut deletions: Vec<_> = segments.collect();
        deletions.extend(collect(self.bucket, notes, true, (self.deadline)())?);
        let id = notes.conversation();
        deletions.extend(collect_staged(self.bucket, id, (Some(now), WEEK), (self.deadline)())?);
        Ok(Tidied { to_merge, deletions, ..Tidied::default() })
    }

    /// Looks. Fails if not all of the log can be read: the rest may need what seems useless.
    pub(super) fn look(&self, notes: &Notes) -> Result<Looked, RemoteError> {
        let looked = look(self.bucket, notes, (self.deadline)())?;
        looked.blindness(notes, &[])?.map_or(Ok(looked), Err)
    }
}

impl Push<'_> {
    /// Finishes what was about to be sent.
    pub(super) fn settle(&self, session: &mut Session) -> Result<(), RemoteError> {
        for _ in 0..ROUNDS {
            if !self.run(&Changes::default(), session)?.again {
                break;
            }
        }
        Ok(())
    }

    /// Merges as long as that is worth it. Returns the merges.
    fn merge_all(&self) -> Result<Vec<SegmentId>, RemoteError> {
        let (mut session, mut merges) = (Session::default(), Vec::new());
        self.settle(&mut session)?;
        for _ in 0..ROUNDS {
            let looked = look(self.bucket, self.notes, (self.deadline)())?;
            let pushed = self.merge(&looked, &mut session)?;
            let is_done = pushed.segments.is_empty() && !pushed.again;
            merges.extend(pushed.segments);
            if is_done {
                break;
            }
            if pushed.again {
                self.settle(&mut session)?;
            }
        }
        Ok(merges)
    }
}

#[cfg(test)]
mod tests;
