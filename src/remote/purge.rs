//! Bytes that have to leave the bucket now, such as a secret.
//!
//! Removing a file removes it everywhere, but its bytes leave the bucket some days later. A purge
//! does not wait. What is to go is noted first: whatever is cut off, the next purge of this
//! conversation goes on.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::bucket::BucketError;
use crate::bucket::ObjectName;
use crate::bucket::blocks_key;
use crate::bucket::log_prefix;
use crate::bucket::object_key;
use crate::bucket::object_of;
use crate::bucket::objects_prefix;
use crate::bucket::segment_key;
use crate::bucket::segment_of;
use crate::model::RelPath;
use crate::remote::Collected;
use crate::remote::NoSource;
use crate::remote::Notes;
use crate::remote::Piece;
use crate::remote::Push;
use crate::remote::Pushed;
use crate::remote::RemoteError;
use crate::remote::Session;
use crate::remote::Sync;
use crate::remote::notes::Purging;
use crate::remote::pieces::pieces;
use crate::replica::Base;
use crate::replica::Changes;
use crate::replica::Origin;
use crate::replica::SegmentId;
use crate::replica::State;
use crate::store::Conversation;
use crate::store::FileMark;
use crate::store::RemovalOutcome;

/// How often it is looked again for segments that have the bytes: another host may have merged them
/// meanwhile.
const ROUNDS: usize = 4;

/// The outcome of a purge, or of one that would be.
#[derive(Debug, Default)]
pub struct Purged {
    /// The artifacts that go. None if the bucket knows none at that path.
    pub artifacts: usize,
    /// True if the file of this store was removed, or would be.
    pub is_removed_here: bool,
    /// Why the file of this store stays; nothing further was done then.
    pub kept: Option<&'static str>,
    /// The objects and segments that were deleted, or would be.
    pub deletions: Vec<Collected>,
    /// Objects that nobody names, and of which nobody knows what they hold: those of pushes that
    /// were cut off, and of artifacts that were removed before a merge. They are collected when
    /// they are a week old.
    pub unnamed: usize,
    /// True if segments still have the bytes: another host is publishing them.
    pub is_left: bool,
}

impl Purged {
    /// Returns true if the bytes may still be in the bucket.
    pub fn is_incomplete(&self) -> bool {
        let failed = |each: &Collected| matches!(each.outcome, Some(Err(_)));
        self.kept.is_some() || self.is_left || self.deletions.iter().any(failed)
    }
}

impl Sync<'_> {
    /// Removes what is, or was, at `path` everywhere, and its bytes from the bucket. With `dry_run`
    /// only tells what would go.
    ///
    /// `conversation` is none if it is not in this store.
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
            // What is about to be sent may have the bytes.
            push.settle(&mut session)?;
        }
        self.look(notes)?;
        let found = pieces(notes)?.pieces;
        let wanted = wanted(&found, &notes.agreement()?.base, path, notes.purging()?);
        let artifacts = wanted.origins.len();
        let file = conversation.and_then(|conversation| mark_at(conversation, path));
        let is_removed_here = file.is_some() && artifacts > 0;
        let mut purged = Purged { artifacts, is_removed_here, ..Purged::default() };
        if dry_run || artifacts == 0 {
            purged.deletions = would_go(notes, &found, &wanted);
            self.count_unnamed(notes, &mut purged)?;
            return Ok(purged);
        }
        notes.keep_purging(&wanted)?;
        purged.kept = self.remove_here(conversation, path, file)?;
        if purged.kept.is_none() {
            publish_removal(&push, &wanted, &mut session)?;
            notes.forget_objects(&wanted.objects)?;
            self.delete_objects(notes, &wanted, &mut purged);
            self.rewrite_segments(&push, &wanted, &mut session, &mut purged)?;
            self.count_unnamed(notes, &mut purged)?;
        }
        if !purged.is_incomplete() {
            notes.drop_purging()?;
        }
        Ok(purged)
    }

    /// Removes the file of this store. Returns why it stays, if it does.
    fn remove_here(
        &self,
        conversation: Option<&Conversation>,
        path: &RelPath,
        file: Option<FileMark>,
    ) -> Result<Option<&'static str>, RemoteError> {
        let (Some(conversation), Some(mark)) = (conversation, file) else {
            // There are views of what is elsewhere, too.
            self.store.clear_cache()?;
            return Ok(None);
        };
        match conversation.depart(path, &mark, (self.now)().wall as i64)? {
            RemovalOutcome::Removed => {
                conversation.sync_parents([path.parent()])?;
                // Views may have the bytes, too.
                self.store.clear_cache()?;
                Ok(None)
            }
            RemovalOutcome::Kept(why) => Ok(Some(why)),
        }
    }

    fn delete_objects(&self, notes: &Notes, wanted: &Purging, purged: &mut Purged) {
        let keys = object_keys(notes, &wanted.objects).collect();
        purged.deletions.extend(self.delete(keys));
    }

    /// Merges away the segments that have records or bytes of what goes, and deletes them and all
    /// others that are covered. A host that lists meanwhile may see neither a merge nor what it
    /// covers, and does at its next look.
    fn rewrite_segments(
        &self,
        push: &Push<'_>,
        wanted: &Purging,
        session: &mut Session,
        purged: &mut Purged,
    ) -> Result<(), RemoteError> {
        for _ in 0..ROUNDS {
            let found = pieces(push.notes)?.pieces;
            for id in holders(&found, wanted) {
                let part = BTreeSet::from([id]);
                if !push.merge_part(&found, &part, session, &mut Pushed::default())? {
                    push.settle(session)?;
                }
            }
            self.delete_covered(push.notes, purged)?;
            purged.is_left = !holders(&pieces(push.notes)?.pieces, wanted).is_empty();
            if !purged.is_left {
                break;
            }
        }
        Ok(())
    }

    fn delete_covered(&self, notes: &Notes, purged: &mut Purged) -> Result<(), RemoteError> {
        let looked = self.look(notes)?;
        let covered = notes.covered()?;
        let there = looked.segments.iter().filter_map(|listed| segment_of(&listed.name));
        let covered: Vec<SegmentId> = there.filter(|id| covered.contains(id)).collect();
        let keys = covered.iter().map(|id| segment_key(notes.conversation(), *id)).collect();
        let deleted = self.delete(keys);
        for (id, _) in covered.iter().zip(&deleted).filter(|(_, each)| is_done(each)) {
            notes.forget_segment(*id)?;
        }
        purged.deletions.extend(deleted);
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

    fn count_unnamed(&self, notes: &Notes, purged: &mut Purged) -> Result<(), RemoteError> {
        let prefix = objects_prefix(notes.conversation());
        let listed = self.bucket.list(&prefix, (self.deadline)())?;
        let living = State::of_all(pieces(notes)?.pieces).artifacts.into_values();
        let used: BTreeSet<_> = living.filter_map(|claim| claim.artifact.object).collect();
        let names = listed.iter().filter_map(|each| object_of(&each.name)).map(|(name, _)| name);
        let unnamed: BTreeSet<_> = names.filter(|name| !used.contains(name)).collect();
        purged.unnamed = unnamed.len();
        Ok(())
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

fn mark_at(conversation: &Conversation, path: &RelPath) -> Option<FileMark> {
    conversation.dir().stat_at(path).ok().map(|stat| FileMark::of(&stat))
}

/// Returns what goes: all that ever had the name, all that this host sees under it, and what an
/// earlier purge that was cut off was to remove.
fn wanted(found: &[Piece], base: &Base, path: &RelPath, before: Purging) -> Purging {
    let path = path.to_text();
    let mut wanted = before;
    let seen = base.entries.iter().filter(|entry| entry.path == path);
    wanted.origins.extend(seen.flat_map(|entry| entry.origins.iter().copied()));
    for piece in found {
        let named = piece.artifacts.iter().filter(|(_, claim)| claim.path == path);
        wanted.origins.extend(named.map(|(origin, _)| *origin));
        let moved = piece.moves.iter().filter(|(_, to)| to.to == path);
        wanted.origins.extend(moved.map(|(origin, _)| *origin));
    }
    let artifacts = found.iter().flat_map(|piece| &piece.artifacts);
    let gone: BTreeMap<_, _> = artifacts.filter(|(id, _)| wanted.origins.contains(*id)).collect();
    wanted.objects.extend(gone.values().filter_map(|claim| claim.artifact.object));
    wanted
}

/// Returns the segments that have records of what goes.
fn holders(found: &[Piece], wanted: &Purging) -> BTreeSet<SegmentId> {
    let has = |piece: &&Piece| piece.artifacts.keys().any(|each| wanted.origins.contains(each));
    found.iter().filter(has).map(|piece| piece.id).collect()
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

fn would_go(notes: &Notes, found: &[Piece], wanted: &Purging) -> Vec<Collected> {
    let segments = holders(found, wanted).into_iter();
    let prefix = log_prefix(notes.conversation());
    let segments = segments.map(|id| format!("{prefix}{id}.tar.zst"));
    let keys = object_keys(notes, &wanted.objects).chain(segments);
    keys.map(|key| Collected { key, size: 0, outcome: None }).collect()
}

#[cfg(test)]
mod tests;
