
use crate::bucket::log_prefix;
use crate::remote::collect::{WEEK, collect_staged};
use crate::remote::{
    Collected, Looked, NoSource, Notes, Push, RemoteError, Session, Sync, collect, look, store_now,
};
use crate::replica::{Changes, SegmentId};
use ctxfs_core::model::Component;

///+ Maximum restarts: after a pending intent, and after a copy of this host was detected.
const ROUNDS: usize = 8;

///+ Number of segments from which on merging is considered.
const MANY: usize = 64;

///+ Extent of garbage collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tidying {
    ///+ Dry run: report only.
    Look,
    ///+ Merge segments, and delete nothing.
    Merge,
    ///+ Merge segments, and delete unused ones and unused objects.
    Delete,
}

///+ Result of a garbage collection or a dry run.
#[derive(Debug, Default)]
pub struct Tidied {
    ///+ Merged segments that were written.
    pub merges: Vec<SegmentId>,
    ///+ Number of segments that would be merged; 0 unless this is a dry run.
    pub to_merge: usize,
    ///+ Deletions that were made, or would be.
    pub deletions: Vec<Collected>,
    ///+ Reason for deleting nothing after a push: part of the log is unreadable.
    pub blind: Option<RemoteError>,
}

impl Tidied {
    ///+ Returns true if a deletion failed.
    pub fn is_hindered(&self) -> bool {
        self.deletions.iter().any(|each| matches!(each.outcome, Some(Err(_))))
    }
}

impl Sync<'_> {
    ///+ Does what [`Self::tidy`] does after a push, if there are many uncovered segments; else
    ///+ returns `None`.
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

    ///+ Merges the segments of a conversation where worthwhile, and deletes segments that were
    ///+ covered a day ago, objects that were unnamed for a week, and temporary files of writes that
    ///+ were interrupted a week ago.
    pub fn tidy(&self, id: &Component, tidying: Tidying) -> Result<Tidied, RemoteError> {
        let notes = self.home.conversation(id)?;
        let push = self.pushing(&notes, &NoSource);
        if tidying == Tidying::Look {
            return self.tidiable(&push, &notes);
        }
        let mut tidied = Tidied { merges: push.merge_all()?, ..Tidied::default() };
        if tidying == Tidying::Delete {
            // The last empty segment goes last: it shows that nothing lives.
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
        // A dry run writes nothing to learn the store's time; the present is not before this.
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

    ///+ Looks. Fails if part of the log is unreadable, since it may name what seems unused.
    pub(super) fn look(&self, notes: &Notes) -> Result<Looked, RemoteError> {
        let looked = look(self.bucket, notes, (self.deadline)())?;
        looked.blindness(notes, &[])?.map_or(Ok(looked), Err)
    }
}

impl Push<'_> {
    ///+ Finishes a pending intent.
    pub(super) fn settle(&self, session: &mut Session) -> Result<(), RemoteError> {
        for _ in 0..ROUNDS {
            if !self.run(&Changes::default(), session)?.again {
                break;
            }
        }
        Ok(())
    }

    ///+ Merges as long as that is worthwhile.
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
