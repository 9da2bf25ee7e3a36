//! Immediate removal of bytes from the bucket, for example of a secret.
//!
//! A removed file disappears from all hosts, but its bytes leave the bucket some days later, as do
//! those of a message that was deleted from the log. A purge does not wait. It first saves what it
//! is to delete, so that the next purge of the conversation continues an interrupted one.

mod here;
mod known;

use std::collections::BTreeSet;

use crate::bucket::{
    BucketError, ObjectName, blocks_key, object_key, object_of, objects_prefix, segment_key,
};
use crate::remote::collect::{UNNAMED, collect_older, collect_staged};
use crate::remote::notes::Purging;
use crate::remote::pieces::pieces;
use crate::remote::purge::known::{KnownPieces, holders};
use crate::remote::{
    Collected, Looked, NoSource, Notes, Push, Pushed, RemoteError, Session, Sync, look,
};
use crate::replica::{Changes, Origin, SegmentId, State};
use ctxfs_core::model::RelPath;
use ctxfs_store::Conversation;

///+ Maximum rounds of looking for segments with the bytes: other hosts may merge them meanwhile.
const ROUNDS: usize = 4;

///+ Result of a purge or a dry run.
#[derive(Debug, Default)]
pub struct Purged {
    ///+ Number of artifacts to purge: those that ever had the path, as far as records tell.
    pub artifacts: usize,
    ///+ Number of removed messages to purge.
    pub messages: usize,
    ///+ True if a local file was removed, or would be.
    pub is_removed_here: bool,
    ///+ Reason for keeping a local file; then the purge stopped there.
    pub kept: Option<&'static str>,
    ///+ Objects and segments that were deleted, or would be.
    pub deletions: Vec<Collected>,
    ///+ Number of remaining objects of unknown content, which no record names: of interrupted
    ///+ pushes, or of artifacts that were removed before a merge. They are younger than a day, or
    ///+ part of the log is unreadable.
    pub unnamed: usize,
    ///+ Segments that are missing in the bucket. They may contain the bytes and be sent again.
    pub missing: Vec<SegmentId>,
    ///+ True if segments still contain the bytes, since another host is publishing them.
    pub is_left: bool,
}

impl Purged {
    ///+ Returns true if nothing was found.
    pub fn is_empty(&self) -> bool {
        self.artifacts + self.messages + self.deletions.len() == 0
    }

    ///+ Returns true if the bytes may still be in the bucket.
    pub fn is_incomplete(&self) -> bool {
        let failed = |each: &Collected| matches!(each.outcome, Some(Err(_)));
        let is_unknown = self.artifacts + self.messages == 0 && self.unnamed > 0;
        self.kept.is_some()
            || self.is_left
            || is_unknown
            || !self.missing.is_empty()
            || self.deletions.iter().any(failed)
    }
}

struct Doing<'a> {
    push: Push<'a>,
    session: Session,
    wanted: Purging,
    ///+ Segments that have, or had, content to purge.
    holders: BTreeSet<SegmentId>,
    purged: Purged,
}

impl Sync<'_> {
    ///+ Removes the artifacts that are or were at `path` from all hosts, and their bytes from the
    ///+ bucket. For the message log, only removed messages are purged. With `dry_run`, only reports
    ///+ what would be deleted.
    ///+
    ///+ `conversation` is `None` if it is not in this store.
    pub fn purge(
        &self,
        notes: &Notes,
        conversation: Option<&Conversation>,
        path: &RelPath,
        dry_run: bool,
    ) -> Result<Purged, RemoteError> {
        let (push, mut session) = (self.pushing(notes, &NoSource), Session::default());
        if self.home.is_write_once()? {
            return Err(RemoteError::WriteOnce);
        }
        if !dry_run {
            // An intent may contain the bytes.
            push.settle(&mut session)?;
            if let Some(conversation) = conversation.filter(|_| known::is_log(path)) {
                self.push_removed_messages(&push, conversation, &mut session)?;
            }
        }
        let looked = self.look_at_readable(notes)?;
        let known = KnownPieces::read(self, notes, &looked)?;
        let wanted = known.wanted(&notes.agreement()?.base, path, notes.purging()?);
        let mut purged = Purged {
            artifacts: wanted.origins.len(),
            messages: wanted.messages.len(),
            missing: looked.missing_in_bucket(),
            ..Purged::default()
        };
        let holders = known.holders(&wanted);
        if dry_run {
            purged.is_removed_here = self.is_here(notes, conversation, (path, &wanted))?;
            let segments = holders.iter().map(|id| segment_key(notes.conversation(), *id));
            let keys = object_keys(notes, &wanted.objects).chain(segments);
            let would_go = |key| Collected { key, size: 0, outcome: None };
            purged.deletions = keys.map(would_go).collect();
            purged.unnamed = self.unnamed(notes)?;
            return Ok(purged);
        }
        let mut doing = Doing { push, session, wanted, holders, purged };
        if doing.purged.artifacts + doing.purged.messages + doing.holders.len() > 0 {
            self.purge_known(notes, conversation, path, &mut doing)?;
        }
        if doing.purged.kept.is_none() {
            self.delete_unnamed(notes, &mut doing.purged)?;
        }
        let purged = doing.purged;
        if !purged.is_incomplete() {
            notes.drop_purging()?;
        }
        Ok(purged)
    }

    ///+ Looks. Fails if a segment is unreadable, since it may contain the bytes.
    fn look_at_readable(&self, notes: &Notes) -> Result<Looked, RemoteError> {
        let looked = look(self.bucket, notes, (self.deadline)())?;
        let is_readable = looked.refused.is_empty() && notes.refused()?.is_empty();
        let blind = if is_readable { None } else { looked.blindness(notes, &[])? };
        blind.map_or(Ok(looked), Err)
    }

    fn purge_known(
        &self,
        notes: &Notes,
        conversation: Option<&Conversation>,
        path: &RelPath,
        doing: &mut Doing<'_>,
    ) -> Result<(), RemoteError> {
        notes.keep_purging(&doing.wanted)?;
        let place = (path, &doing.wanted);
        (doing.purged.is_removed_here, doing.purged.kept) =
            self.remove_here(notes, conversation, place)?;
        if doing.purged.kept.is_some() {
            return Ok(());
        }
        publish_removal(&doing.push, &doing.wanted, &mut doing.session)?;
        notes.forget_objects(&doing.wanted.objects)?;
        let keys = object_keys(notes, &doing.wanted.objects).collect();
        doing.purged.deletions.extend(self.delete(keys));
        self.rewrite_segments(doing)?;
        match conversation.filter(|_| !doing.wanted.messages.is_empty()) {
            // The merged log still contains the messages.
            Some(conversation) => self.hear(conversation).map(drop),
            None => Ok(()),
        }
    }

    ///+ Rewrites the segments with records or bytes to purge, and deletes the old ones. A concurrent
    ///+ list of another host may miss both; its next look finds the merge.
    fn rewrite_segments(&self, doing: &mut Doing<'_>) -> Result<(), RemoteError> {
        for _ in 0..ROUNDS {
            let notes = doing.push.notes;
            let found = pieces(notes)?.pieces;
            let living = holders(&found, &doing.wanted);
            doing.holders.extend(&living);
            for id in living {
                let (part, session) = (BTreeSet::from([id]), &mut doing.session);
                match doing.push.merge_part(&found, &part, session, &mut Pushed::default()) {
                    Ok(true) => {}
                    Ok(false) => doing.push.settle(session)?,
                    // Another host merged it meanwhile.
                    Err(error) if error.is_absent() => break,
                    Err(error) => return Err(error),
                }
            }
            self.delete_holders(doing)?;
            doing.purged.is_left = !holders(&pieces(notes)?.pieces, &doing.wanted).is_empty();
            if !doing.purged.is_left {
                break;
            }
        }
        Ok(())
    }

    ///+ Deletes covered segments with content to purge.
    fn delete_holders(&self, doing: &mut Doing<'_>) -> Result<(), RemoteError> {
        let notes = doing.push.notes;
        self.look_at_readable(notes)?;
        let covered = notes.covered()?;
        let gone: Vec<_> =
            doing.holders.iter().copied().filter(|id| covered.contains(id)).collect();
        let keys = gone.iter().map(|id| segment_key(notes.conversation(), *id)).collect();
        let deleted = self.delete(keys);
        for (id, _) in gone.iter().zip(&deleted).filter(|(_, each)| is_done(each)) {
            notes.forget_segment(*id)?;
            doing.holders.remove(id);
        }
        doing.purged.deletions.extend(deleted);
        Ok(())
    }

    ///+ Deletes objects that no record names, once no push can still publish them: the record of a
    ///+ purged artifact may be gone. Counts the younger ones.
    fn delete_unnamed(&self, notes: &Notes, purged: &mut Purged) -> Result<(), RemoteError> {
        let (id, deadline) = (notes.conversation(), (self.deadline)());
        purged.deletions.extend(collect_staged(self.bucket, id, (None, UNNAMED), deadline)?);
        if self.unnamed(notes)? == 0 {
            return Ok(());
        }
        match collect_older(self.bucket, notes, (UNNAMED, false), (self.deadline)()) {
            Err(RemoteError::Blind { .. } | RemoteError::NoLog { .. }) => {}
            collected => purged.deletions.extend(collected?),
        }
        purged.unnamed = self.unnamed(notes)?;
        Ok(())
    }

    fn delete(&self, keys: Vec<String>) -> Vec<Collected> {
        let deleted = self.bucket.delete(keys, (self.deadline)()).into_iter();
        let told = |(key, outcome): (String, Result<(), BucketError>)| {
            tracing::info!(%key, is_done = outcome.is_ok(), "deleted from the bucket");
            Collected { key, size: 0, outcome: Some(outcome) }
        };
        deleted.map(told).collect()
    }

    fn unnamed(&self, notes: &Notes) -> Result<usize, RemoteError> {
        let prefix = objects_prefix(notes.conversation());
        let listed = self.bucket.list(&prefix, (self.deadline)())?;
        let living = State::of_all(pieces(notes)?.pieces).artifacts.into_values();
        let used: BTreeSet<_> = living.filter_map(|claim| claim.artifact.object).collect();
        let names = listed.iter().filter_map(|each| object_of(&each.name)).map(|(name, _)| name);
        let unnamed: BTreeSet<_> = names.filter(|name| !used.contains(name)).collect();
        Ok(unnamed.len())
    }
}

fn publish_removal(
    push: &Push<'_>,
    wanted: &Purging,
    session: &mut Session,
) -> Result<(), RemoteError> {
    for _ in 0..ROUNDS {
        let state = State::of_all(pieces(push.notes)?.pieces);
        let living = wanted.origins.iter().filter(|each| state.artifacts.contains_key(*each));
        let removed: BTreeSet<Origin> = living.copied().collect();
        if removed.is_empty() {
            break;
        }
        push.run(&Changes { removed, ..Changes::default() }, session)?;
    }
    Ok(())
}

fn is_done(deleted: &Collected) -> bool {
    matches!(deleted.outcome, Some(Ok(())))
}

fn object_keys<'a>(
    notes: &'a Notes,
    objects: &'a BTreeSet<ObjectName>,
) -> impl Iterator<Item = String> + 'a {
    let conversation = notes.conversation();
    let keys =
        move |name: &ObjectName| [object_key(conversation, *name), blocks_key(conversation, *name)];
    objects.iter().flat_map(keys)
}

#[cfg(test)]
mod tests;
