//! Immediate removal of bytes from the bucket, for example of a secret.
//!
//! A removed file disappears from all hosts, but its bytes leave the bucket only some days later. A
//! message that was deleted from the log also stays in the bucket for some days. A purge deletes
//! bytes without this delay. It first saves a list of what it will delete, so that after an
//! interruption the next purge of the conversation can continue it.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::bucket::{
    BucketError, ObjectName, SEGMENT_BYTES, blocks_key, object_key, object_of, objects_prefix,
    segment_key, segment_of,
};
use crate::remote::files::{compare_and_save, key_of, mark_of, version_of};
use crate::remote::notes::Purging;
use crate::remote::pieces::{piece, pieces};
use crate::remote::source::{is_log_rewritten, locate_log, log_start, seen_messages};
use crate::remote::tidy::{UNNAMED, collect, collect_staged};
use crate::remote::{
    Collected, Downloads, LookReport, NoSource, Notes, Piece, Push, Pushed, RemoteError, Session,
    Stored, StoredMessage, StoredSegment, Synchronizer, look,
};
use crate::replica::{Base, Changes, FileKey, FileVersion, Origin, SegmentId, State};
use ctxfs_core::model::RelPath;
use ctxfs_store::{Conversation, FileMark, HISTORY, MESSAGES, RemovalOutcome};

/// Maximum number of searches for segments with bytes to purge. Other hosts may merge segments
/// during a search.
const ROUNDS: usize = 4;

/// Result of a purge or a dry run. A purge is complete unless [`Self::is_incomplete`] returns true.
/// The next purge of the conversation continues an incomplete one. In a dry run, the report states
/// what would be removed and deleted.
///
/// `artifacts` is the number of artifacts to purge: all that ever had the path, as far as the
/// records show. `messages` is the number of removed messages to purge. `is_removed_here` is true
/// if a local file was removed. `kept` is the reason why a local file was kept; the purge stopped
/// at that point. `missing` are the segments that are missing in the bucket; they may contain the
/// bytes, and a host may send them again. `is_left` is true if some segments still contain the
/// bytes because another host is publishing them.
///
/// `unnamed` is the number of remaining objects that no record names, so their content is unknown.
/// Such objects come from interrupted pushes, or belong to artifacts that were removed before a
/// merge. Objects remain if they are younger than a day, or if segments are unreadable or missing.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "described above")]
pub struct PurgeReport {
    pub artifacts: usize,
    pub messages: usize,
    pub is_removed_here: bool,
    pub kept: Option<&'static str>,
    pub deletions: Vec<Collected>,
    pub unnamed: usize,
    pub missing: Vec<SegmentId>,
    pub is_left: bool,
}

impl PurgeReport {
    /// Returns true if there was nothing to purge.
    pub fn is_empty(&self) -> bool {
        self.artifacts + self.messages + self.deletions.len() == 0
    }

    /// Returns true if the bytes may still be in the bucket.
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

struct PurgeRun<'a> {
    push: Push<'a>,
    session: Session,
    wanted: Purging,
    holders: BTreeSet<SegmentId>,
    purged: PurgeReport,
}

impl Synchronizer<'_> {
    /// Removes from all hosts the artifacts that are or were at `path`, and deletes their bytes in
    /// the bucket. If `path` is the message log, purges removed messages only. If `dry_run` is
    /// true, only reports what would be deleted.
    ///
    /// `conversation` is `None` if the conversation is not in this store.
    pub fn purge(
        &self,
        notes: &Notes,
        conversation: Option<&Conversation>,
        path: &RelPath,
        dry_run: bool,
    ) -> Result<PurgeReport, RemoteError> {
        let (push, mut session) = (self.pushing(notes, &NoSource), Session::default());
        if self.home.is_write_once()? {
            return Err(RemoteError::WriteOnce);
        }
        if !dry_run {
            // A pending intent may contain bytes to purge.
            push.settle(&mut session)?;
            if let Some(conversation) = conversation.filter(|_| is_log(path)) {
                self.push_removed_messages(&push, conversation, &mut session)?;
            }
        }
        let looked = self.look_at_readable(notes)?;
        let known = KnownPieces::read(self, notes, &looked)?;
        let wanted = known.wanted(&notes.agreement()?.base, path, notes.purging()?);
        let mut purged = PurgeReport {
            artifacts: wanted.origins.len(),
            messages: wanted.messages.len(),
            missing: looked.missing_in_bucket(),
            ..PurgeReport::default()
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
        let mut run = PurgeRun { push, session, wanted, holders, purged };
        if run.purged.artifacts + run.purged.messages + run.holders.len() > 0 {
            self.purge_known(notes, conversation, path, &mut run)?;
        }
        if run.purged.kept.is_none() {
            self.delete_unnamed(notes, &mut run.purged)?;
        }
        let purged = run.purged;
        if !purged.is_incomplete() {
            notes.keep_purging(None)?;
        }
        Ok(purged)
    }

    /// Runs a look. Fails if a segment is unreadable, because it may contain bytes to purge.
    fn look_at_readable(&self, notes: &Notes) -> Result<LookReport, RemoteError> {
        let looked = look(self.bucket, notes, self.deadline)?;
        let is_readable = looked.refused.is_empty() && notes.refused()?.is_empty();
        let blind = if is_readable { None } else { looked.incomplete_log(notes, &[])? };
        blind.map_or(Ok(looked), Err)
    }

    fn purge_known(
        &self,
        notes: &Notes,
        conversation: Option<&Conversation>,
        path: &RelPath,
        run: &mut PurgeRun<'_>,
    ) -> Result<(), RemoteError> {
        notes.keep_purging(Some(&run.wanted))?;
        let place = (path, &run.wanted);
        (run.purged.is_removed_here, run.purged.kept) =
            self.remove_here(notes, conversation, place)?;
        if run.purged.kept.is_some() {
            return Ok(());
        }
        publish_removal(&run.push, &run.wanted, &mut run.session)?;
        notes.forget_objects(&run.wanted.objects)?;
        let keys = object_keys(notes, &run.wanted.objects).collect();
        run.purged.deletions.extend(self.delete(keys));
        self.rewrite_segments(run)?;
        match conversation.filter(|_| !run.wanted.messages.is_empty()) {
            // The merged log still contains the messages.
            Some(conversation) => self.pull(conversation, Downloads::OnRead).map(drop),
            None => Ok(()),
        }
    }

    /// Replaces each segment that has records or bytes to purge by a merge without them, and
    /// deletes the old segments. If another host lists the bucket at the same time, its list may
    /// miss both the segment and the merge. The next look of that host finds the merge.
    fn rewrite_segments(&self, run: &mut PurgeRun<'_>) -> Result<(), RemoteError> {
        for _ in 0..ROUNDS {
            let notes = run.push.notes;
            let found = pieces(notes)?.pieces;
            let living = holders(&found, &run.wanted);
            run.holders.extend(&living);
            for id in living {
                let (part, session) = (BTreeSet::from([id]), &mut run.session);
                match run.push.merge_part(&found, &part, session, &mut Pushed::default()) {
                    Ok(true) => {}
                    Ok(false) => run.push.settle(session)?,
                    // Another host has merged the segment.
                    Err(error) if error.is_absent() => break,
                    Err(error) => return Err(error),
                }
            }
            self.delete_holders(run)?;
            run.purged.is_left = !holders(&pieces(notes)?.pieces, &run.wanted).is_empty();
            if !run.purged.is_left {
                break;
            }
        }
        Ok(())
    }

    fn delete_holders(&self, run: &mut PurgeRun<'_>) -> Result<(), RemoteError> {
        let notes = run.push.notes;
        self.look_at_readable(notes)?;
        let covered = notes.covered()?;
        let gone: Vec<_> = run.holders.iter().copied().filter(|id| covered.contains(id)).collect();
        let keys = gone.iter().map(|id| segment_key(notes.conversation(), *id)).collect();
        let deleted = self.delete(keys);
        for (id, _) in gone.iter().zip(&deleted).filter(|(_, each)| is_done(each)) {
            notes.forget_segment(*id)?;
            run.holders.remove(id);
        }
        run.purged.deletions.extend(deleted);
        Ok(())
    }

    /// Deletes objects that no record names, if they are so old that no push can still publish
    /// them. Counts the younger ones. The object of a purged artifact can be among them, because
    /// its record may be gone already.
    fn delete_unnamed(&self, notes: &Notes, purged: &mut PurgeReport) -> Result<(), RemoteError> {
        let (id, deadline) = (notes.conversation(), (self.deadline)());
        let staged = collect_staged(self.bucket, id, (u64::MAX, 0, true), deadline)?;
        purged.unnamed = self.unnamed(notes)?;
        if staged.is_empty() && purged.unnamed == 0 {
            return Ok(());
        }
        let now = match self.store_now(id) {
            Err(RemoteError::Clocks { .. }) => return Ok(()),
            clock => clock?.now,
        };
        let when = (now, UNNAMED, false);
        purged.deletions.extend(collect_staged(self.bucket, id, when, deadline)?);
        if purged.unnamed == 0 {
            return Ok(());
        }
        match collect(self.bucket, notes, (now, UNNAMED), self.deadline) {
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

const AT_ONCE: usize = 16;

struct KnownPieces {
    pieces: Vec<Piece>,
    state: State<Stored, StoredMessage>,
    unreadable: BTreeSet<SegmentId>,
}

impl KnownPieces {
    /// Parses all segments, including covered ones. A look does not fetch covered segments, so this
    /// function fetches the ones that are not stored locally.
    fn read(
        sync: &Synchronizer<'_>,
        notes: &Notes,
        looked: &LookReport,
    ) -> Result<Self, RemoteError> {
        let found = pieces(notes)?.pieces;
        let state = State::of(&found);
        let mut known = Self { pieces: found, state, unreadable: BTreeSet::new() };
        let covered = notes.covered()?;
        let here: BTreeSet<_> = notes.segments()?.into_iter().collect();
        let listed = looked.segments.iter().filter(|listed| listed.size <= SEGMENT_BYTES);
        let listed = listed.filter_map(|listed| segment_of(&listed.name));
        let covered = listed.filter(|id| covered.contains(id));
        let (here, remote): (Vec<_>, Vec<_>) = covered.partition(|id| here.contains(id));
        for id in here {
            known.add(id, notes.open_segment(id))?;
        }
        for some in remote.chunks(AT_ONCE) {
            let key = |id: &SegmentId| (segment_key(notes.conversation(), *id), None);
            let keys: Vec<_> = some.iter().map(key).collect();
            let got = sync.bucket.get_many(&keys, (sync.deadline)());
            for (id, bytes) in some.iter().zip(got) {
                match bytes {
                    Ok(bytes) => known.add(*id, StoredSegment::of(*id, bytes))?,
                    Err(error) if error.is_absent() => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(known)
    }

    fn add(
        &mut self,
        id: SegmentId,
        segment: Result<StoredSegment, RemoteError>,
    ) -> Result<(), RemoteError> {
        match segment.and_then(|segment| piece(&segment)) {
            Ok(piece) => self.pieces.push(piece),
            Err(RemoteError::Segment { .. } | RemoteError::TooMany { .. }) => {
                self.unreadable.insert(id);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Returns the artifacts that ever had this path, on this host or in the bucket. If `path` is
    /// the message log, returns its removed messages. Adds the artifacts and messages in `before`,
    /// which an interrupted purge left.
    fn wanted(&self, base: &Base, path: &RelPath, before: Purging) -> Purging {
        let mut wanted = before;
        if is_log(path) {
            let messages = self.pieces.iter().flat_map(|piece| piece.messages.iter());
            let living: BTreeSet<_> =
                self.state.messages.keys().map(|(_, origin)| origin).collect();
            let removed = messages.map(|(origin, _)| origin).filter(|each| !living.contains(each));
            wanted.messages.extend(removed);
        } else {
            wanted.origins.extend(self.named(base, &path.to_text()));
        }
        let holders = self.holders(&wanted);
        for piece in &self.pieces {
            let is_holder = holders.contains(&piece.id);
            let goes = |origin: &Origin| {
                wanted.origins.contains(origin)
                    || is_holder && !self.state.artifacts.contains_key(origin)
            };
            let gone = piece.artifacts.iter().filter(|(origin, _)| goes(origin));
            let objects: Vec<ObjectName> =
                gone.filter_map(|(_, claim)| claim.artifact.object).collect();
            wanted.objects.extend(objects);
        }
        wanted
    }

    fn named(&self, base: &Base, path: &str) -> BTreeSet<Origin> {
        let seen = base.entries.iter().filter(|entry| entry.path == path);
        let mut named: BTreeSet<_> = seen.flat_map(|entry| entry.origins.iter().copied()).collect();
        for piece in &self.pieces {
            let put = piece.artifacts.iter().filter(|(_, claim)| claim.path == path);
            named.extend(put.map(|(origin, _)| *origin));
            let moved = piece.moves.iter().filter(|(_, to)| to.to == path);
            named.extend(moved.map(|(origin, _)| *origin));
        }
        named
    }

    fn holders(&self, wanted: &Purging) -> BTreeSet<SegmentId> {
        let mut holders = holders(&self.pieces, wanted);
        holders.extend(&self.unreadable);
        holders
    }
}

fn holders(found: &[Piece], wanted: &Purging) -> BTreeSet<SegmentId> {
    let has = |piece: &&Piece| {
        piece.artifacts.keys().any(|each| wanted.origins.contains(each))
            || piece.moves.keys().any(|each| wanted.origins.contains(each))
            || piece.messages.keys().any(|each| wanted.messages.contains(each))
    };
    found.iter().filter(has).map(|piece| piece.id).collect()
}

fn is_log(path: &RelPath) -> bool {
    path.to_text() == format!("{HISTORY}/{MESSAGES}")
}

type PurgedFiles = BTreeMap<RelPath, (FileKey, FileVersion)>;

impl Synchronizer<'_> {
    fn push_removed_messages(
        &self,
        push: &Push<'_>,
        conversation: &Conversation,
        session: &mut Session,
    ) -> Result<(), RemoteError> {
        let (notes, before) = (push.notes, push.notes.agreement()?);
        if is_log_rewritten(conversation, before.messages)? {
            let removed = seen_messages(notes, None, before.writer)?;
            if !removed.is_empty() {
                push.run(&Changes { removed, ..Changes::default() }, session)?;
            }
            let (before, messages) = (notes.agreement()?, log_start(conversation)?);
            notes.save(&before, &before.without_log(messages))?;
        } else if locate_log(conversation, before.messages)?.is_some() {
            return Ok(());
        }
        self.push(conversation).map(drop)
    }

    /// Removes the local files of purged artifacts, including renamed ones. Returns true if a file
    /// was removed. If a file was kept, also returns the reason.
    fn remove_here(
        &self,
        notes: &Notes,
        conversation: Option<&Conversation>,
        place: (&RelPath, &Purging),
    ) -> Result<(bool, Option<&'static str>), RemoteError> {
        let mut touched = BTreeSet::new();
        if let Some(conversation) = conversation {
            let now = (self.now)().wall as i64;
            for (path, (key, version)) in self.files_of(notes, conversation, place)? {
                let outcome = match (key, mark_of(key, version)) {
                    (FileKey::Remote(origin), _) => ctxfs_store::shared::remove_far(
                        conversation,
                        &path,
                        &origin.to_string(),
                        now,
                    )?,
                    (_, Some(mark)) => {
                        ctxfs_store::shared::remove(conversation, &path, &mark, now)?
                    }
                    (_, None) => continue,
                };
                match outcome {
                    RemovalOutcome::Removed => _ = touched.insert(path.parent()),
                    RemovalOutcome::Kept(why) => return Ok((!touched.is_empty(), Some(why))),
                }
            }
        }
        let is_removed = !touched.is_empty();
        if let Some(conversation) = conversation {
            ctxfs_store::shared::sync_parents(conversation, touched)?;
            // The records of removed files contain the arguments of their calls, and perhaps their
            // names.
            conversation.manifest().compact()?;
        }
        // Cached views may contain the bytes, including those of remote artifacts.
        self.store.clear_cache()?;
        Ok((is_removed, None))
    }

    fn is_here(
        &self,
        notes: &Notes,
        conversation: Option<&Conversation>,
        place: (&RelPath, &Purging),
    ) -> Result<bool, RemoteError> {
        let files = conversation.map(|conversation| self.files_of(notes, conversation, place));
        Ok(files.transpose()?.is_some_and(|files| !files.is_empty()))
    }

    fn files_of(
        &self,
        notes: &Notes,
        conversation: &Conversation,
        (path, wanted): (&RelPath, &Purging),
    ) -> Result<PurgedFiles, RemoteError> {
        if is_log(path) || wanted.origins.is_empty() {
            return Ok(PurgedFiles::new());
        }
        let (agreement, here) = compare_and_save(conversation, notes, self.store.clock())?;
        let goes = |origin| wanted.origins.contains(&origin);
        let entries = agreement.base.entries.iter();
        let entries = entries.filter(|entry| entry.origins.iter().copied().any(goes));
        let keys: HashSet<_> = entries.map(|entry| entry.key).collect();
        let found = here.found.iter().filter(|(_, found)| match found.key {
            FileKey::Remote(origin) => goes(origin),
            key @ FileKey::Local { .. } => keys.contains(&key),
        });
        let found = found.filter_map(|(path, found)| {
            Some((RelPath::from_text(path).ok()?, (found.key, found.version)))
        });
        let mut files: PurgedFiles = found.collect();
        if let Ok(stat) = conversation.dir().stat_at(path) {
            let mark = FileMark::of(&stat);
            files.entry(path.clone()).or_insert((key_of(&mark), version_of(&mark)));
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests;
