//! Push and pull of one conversation.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::sync::Arc;
use std::{io, mem};

use crate::bucket::{Deadline, log_prefix};
use crate::remote::files::compare_and_save;
use crate::remote::look::{list_promptly, look_for_readers};
use crate::remote::messages::MergedLog;
use crate::remote::notes::ShownMessages;
use crate::remote::source::{
    is_original_directory, locate_log, log_start, removed_messages, replaced_messages,
};
use crate::remote::{
    Agreement, Applied, Downloads, Fetcher, Home, LeftOut, LocalFiles, LocalSource, LogPosition,
    LookReport, Moment, NoSource, Notes, Objects, Pieces, Push, PushLock, PushSource, Pushed,
    RemoteArtifacts, RemoteError, Session, SkippedFile, Stored, StoredMessage, apply, disk, pieces,
};
use crate::replica::{Base, Changes, FileVersion, Plan, SegmentId, State, Step};
use ctxfs_core::model::Component;
use ctxfs_store::message::LockedLog;
use ctxfs_store::{
    Conversation, FileMark, Lease, PUBLISHED, Store, Usage, lease_of, stat_file, whole_blocks,
};

/// Maximum number of restarts of a push. A push restarts after it has finished a pending intent,
/// and after it has detected a copy of this host.
const ROUNDS: usize = 8;
const SECOND: u64 = 1_000_000_000;

/// When a push publishes a changed file: immediately, or once it has been unchanged for a while.
/// With `WhenQuiet`, a log that is often reopened is not sent each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pacing {
    Immediate,
    WhenQuiet,
}

/// Push and pull for the conversations of a store and its bucket. One operation runs at a time,
/// under the push lock. `now` returns the current time. `deadline` returns the deadline of a
/// request that starts now.
#[expect(missing_docs, reason = "described above")]
pub struct Synchronizer<'a> {
    pub store: &'a Store,
    pub bucket: &'a dyn Objects,
    pub home: &'a Home,
    pub lock: &'a PushLock,
    pub now: &'a dyn Fn() -> Moment,
    pub deadline: &'a dyn Fn() -> Deadline,
}

impl std::fmt::Debug for Synchronizer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Synchronizer").field(self.store).finish()
    }
}

/// Result of a push. `segments` are the segments that were sent. `left` has the files and messages
/// that were not published, by path, with the reasons. `live` files are still being written; they
/// are sent once they are complete. `is_partial` is true if part of the conversation could not be
/// read. Files in that part were neither sent nor treated as removed.
///
/// The push is complete if `left` and `live` are empty and `is_partial` is false.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "described above")]
pub struct Sent {
    pub segments: Vec<SegmentId>,
    pub left: BTreeMap<String, LeftOut>,
    pub live: Vec<String>,
    pub is_partial: bool,
}

impl Sent {
    /// Adds the result of an earlier push: its segments come first, and its one-time reports are
    /// kept.
    pub fn follow(&mut self, before: Self) {
        self.segments.splice(0..0, before.segments);
        let told = before.left.into_iter().filter(|(_, why)| why.is_told_once());
        self.left.extend(told);
    }

    fn tell(&mut self, left: Vec<(String, LeftOut)>) {
        self.left.retain(|_, why| why.is_told_once());
        self.left.extend(left);
    }
}

/// Result of a pull: the result of the look, and the numbers of files that were added, renamed and
/// removed. `refused` has segments that are ignored. `left` has files that were skipped. `no_room`
/// is the error of the first file for which there was no space. `error` is the error that stopped
/// the pull.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "described above")]
pub struct PullReport {
    pub looked: LookReport,
    pub refused: Vec<(SegmentId, RemoteError)>,
    pub steps: usize,
    pub added: usize,
    pub renamed: usize,
    pub removed: usize,
    pub left: Vec<SkippedFile>,
    pub no_room: Option<String>,
    pub error: Option<RemoteError>,
}

impl PullReport {
    fn new(
        looked: LookReport,
        refused: Vec<(SegmentId, RemoteError)>,
        applied: &mut Applied,
    ) -> Self {
        let count = |is_it: fn(&Step) -> bool| applied.done.iter().filter(|s| is_it(s)).count();
        Self {
            looked,
            refused,
            steps: applied.done.len(),
            added: count(|step| matches!(step, Step::Add { .. })),
            renamed: count(|step| matches!(step, Step::Rename { .. })),
            removed: count(|step| matches!(step, Step::Remove { .. })),
            left: mem::take(&mut applied.left),
            no_room: applied.no_room.take(),
            error: applied.error.take(),
        }
    }

    fn found_nothing(&self) -> bool {
        let is_whole = self.refused.is_empty() && self.looked.refused.is_empty();
        is_whole && self.steps == 0 && self.left.is_empty() && self.error.is_none()
    }
}

impl Synchronizer<'_> {
    /// Publishes all changes of a conversation since the last push.
    pub fn push(&self, conversation: &Conversation) -> Result<Sent, RemoteError> {
        self.push_in(conversation, &mut Session::default(), Pacing::Immediate)
    }

    pub(super) fn push_in(
        &self,
        conversation: &Conversation,
        session: &mut Session,
        pacing: Pacing,
    ) -> Result<Sent, RemoteError> {
        let notes = self.home.conversation(conversation.id())?;
        let mut sent = Sent::default();
        for _ in 0..ROUNDS {
            let is_replaced = log_is_replaced(conversation, &notes)?;
            let (agreement, mut files) =
                compare_and_save(conversation, &notes, self.store.clock())?;
            let mut changes = Changes::since(&agreement.base, &files.found);
            if pacing == Pacing::WhenQuiet && self.hold_back(&changes, &mut files) {
                changes = Changes::since(&agreement.base, &files.found);
            }
            if is_replaced {
                let Agreement { messages, writer, .. } = &agreement;
                changes.removed.extend(replaced_messages(&notes, messages, *writer)?);
            }
            let pushed = self.run(conversation, &notes, &changes, session)?;
            sent.segments.extend(pushed.segments);
            sent.tell(pushed.left);
            let live = changes.puts.iter().filter(|(_, put)| put.digest.is_none());
            sent.live = live.map(|(path, _)| path.clone()).collect();
            sent.is_partial = files.unread.count() > 0;
            if !pushed.again {
                forget_replaced_log(conversation, &notes)?;
                break;
            }
        }
        Ok(sent)
    }

    /// Treats files as still being written if they were published before and were changed recently.
    /// Such a file is held back until it has been unchanged for one second per MiB. Returns true if
    /// a file is held back.
    fn hold_back(&self, changes: &Changes, files: &mut LocalFiles) -> bool {
        let now = (self.now)().micros().saturating_mul(1000) as i64;
        let mut holds = false;
        for (path, put) in &changes.puts {
            let FileVersion { size, modified } = put.version;
            let rested = now.saturating_sub(modified).max(0).unsigned_abs();
            let rests = !put.replaces.is_empty() && rested < (size >> 20).saturating_mul(SECOND);
            if rests && let Some(found) = files.found.get_mut(path) {
                found.digest = None;
                holds = true;
            }
        }
        holds
    }

    fn run(
        &self,
        conversation: &Conversation,
        notes: &Notes,
        changes: &Changes,
        session: &mut Session,
    ) -> Result<Pushed, RemoteError> {
        self.pushing(notes, &LocalSource::new(conversation)).run(changes, session)
    }

    /// Publishes that a conversation was removed from this store. This removes all artifacts in the
    /// last agreement of this host with the bucket, and the messages that readers saw on this host.
    /// Content that other hosts have added since then stays.
    pub fn push_removal(&self, id: &Component) -> Result<Sent, RemoteError> {
        let notes = self.home.conversation(id)?;
        let (mut session, mut sent) = (Session::default(), Sent::default());
        for _ in 0..ROUNDS {
            let before = notes.agreement()?;
            let mut changes = Changes::since(&before.base, &BTreeMap::new());
            changes.removed.extend(removed_messages(&notes, before.writer)?);
            let push = Push { ends: true, ..self.pushing(&notes, &NoSource) };
            let pushed = push.run(&changes, &mut session)?;
            sent.segments.extend(pushed.segments);
            sent.tell(pushed.left);
            if !pushed.again {
                self.forget_log(&notes, &notes.agreement()?)?;
                let Pieces { pieces, refused } = pieces(&notes)?;
                notes.keep_over(refused.is_empty() && State::of_all(pieces).is_over())?;
                break;
            }
        }
        Ok(sent)
    }

    pub(super) fn pushing<'s>(&'s self, notes: &'s Notes, source: &'s dyn PushSource) -> Push<'s> {
        let (bucket, home, now) = (self.bucket, self.home, self.now);
        Push { bucket, home, notes, source, now, ends: false, deadline: self.deadline }
    }

    /// Fetches and applies changes of other hosts. If this host already knows an artifact but does
    /// not have its bytes, the bytes stay in the bucket. Fetches refused segments again if
    /// `downloads` is immediate, because they may have been repaired.
    pub fn pull(
        &self,
        conversation: &Conversation,
        downloads: Downloads,
    ) -> Result<PullReport, RemoteError> {
        let notes = self.notes_to_pull(conversation.id(), downloads)?;
        let all = (None, downloads == Downloads::OnRead);
        let looked = look_for_readers(self.bucket, &notes, self.deadline, all)?;
        self.apply_look(conversation, &notes, (looked, None), downloads)
    }

    /// Like [`Self::pull`], for a conversation that is not in the store. If the conversation is
    /// empty or missing in the bucket, returns `None` and stores nothing.
    pub fn pull_new(
        &self,
        id: &Component,
        downloads: Downloads,
    ) -> Result<Option<(Arc<Conversation>, PullReport)>, RemoteError> {
        let listed = list_promptly(self.bucket, &log_prefix(id), &[], self.deadline)?.listed;
        if listed.is_empty() {
            // A directory of the conversation may have been left behind.
            self.home.known_conversation(id)?.map_or(Ok(()), |notes| notes.keep_look())?;
            return Ok(None);
        }
        let notes = self.notes_to_pull(id, downloads)?;
        let listed = (Some(listed), downloads == Downloads::OnRead);
        let mut looked = look_for_readers(self.bucket, &notes, self.deadline, listed)?;
        let merged = MergedState::of(&mut looked, &notes)?;
        // Unreadable segments may contain living content.
        let is_refused = !merged.refused.is_empty() || !looked.refused.is_empty();
        let is_over = merged.state.is_over() && !is_refused;
        notes.keep_over(is_over)?;
        if is_over {
            return Ok(None);
        }
        let conversation = self.store.create_conversation(id)?;
        let came = self.apply_look(&conversation, &notes, (looked, Some(merged)), downloads)?;
        Ok(Some((conversation, came)))
    }

    fn notes_to_pull(&self, id: &Component, downloads: Downloads) -> Result<Notes, RemoteError> {
        let notes = self.home.conversation(id)?;
        if downloads == Downloads::Immediate {
            notes.forget_refusals()?;
        }
        Ok(notes)
    }

    /// Applies the result of a look. `merged` has the state if the caller has already merged the
    /// segments.
    fn apply_look(
        &self,
        conversation: &Conversation,
        notes: &Notes,
        (mut looked, merged): (LookReport, Option<MergedState>),
        downloads: Downloads,
    ) -> Result<PullReport, RemoteError> {
        let settled = settled(conversation, &looked);
        if let Some(settled) = &settled
            && notes.is_settled(settled)?
        {
            return Ok(PullReport { looked, ..PullReport::default() });
        }
        let has_sent = self.finish_lost_intent(conversation, notes, &looked)?;
        let MergedState { mut state, ids, refused } = match merged.filter(|_| !has_sent) {
            Some(merged) => merged,
            None => MergedState::of(&mut looked, notes)?,
        };
        let is_replaced = log_is_replaced(conversation, notes)?;
        let (agreement, files) = compare_and_save(conversation, notes, self.store.clock())?;
        let is_whole = refused.is_empty() && looked.refused.is_empty();
        let plan = plan(&agreement.base, &files, &state, is_whole);
        drop(files);
        let fetcher = Fetcher::new(self.bucket, (notes, &state), downloads, self.deadline);
        let (now, limits) = ((self.now)().wall as i64, self.home.limits());
        let mut applied = apply(conversation, plan.steps, &fetcher, (now, limits));
        let is_over = is_whole && state.is_over();
        // The rest of the function needs only the messages of the state, so free the artifacts.
        state.artifacts.clear();
        let mut came = PullReport::new(looked, refused, &mut applied);
        let mut after = agreement.with_base(plan.base);
        after.base.follow(applied.done);
        // A host that created the conversation again has seen none of the old content.
        let ends =
            is_over && state.removed.ends && (!agreement.is_new() || notes.shown()?.is_some());
        if ends && notes.shown()?.is_none() {
            // Record the removal, in case of a crash.
            notes.keep_shown(Some(&ShownMessages::default()))?;
        }
        notes.save(&agreement, &after)?;
        notes.keep_over(is_over)?;
        // While the log is replaced, readers see the new log unchanged until it is published.
        let kept = if is_replaced {
            Ok(())
        } else {
            self.keep_messages(conversation, notes, (ids, &state), agreement.messages)
        };
        came.error = came.error.or(kept.err());
        if ends && came.error.is_none() && came.left.is_empty() {
            self.end_here(conversation, notes)?;
        }
        if let Some(settled) = settled
            && came.found_nothing()
            && !is_replaced
            && !ends
        {
            notes.keep_settled(&settled)?;
        }
        Ok(came)
    }

    fn keep_messages(
        &self,
        conversation: &Conversation,
        notes: &Notes,
        (segments, state): (BTreeSet<SegmentId>, &State<Stored, StoredMessage>),
        at: LogPosition,
    ) -> Result<(), RemoteError> {
        let (home, now) = (self.home, (self.now)().micros());
        MergedLog { home, notes, conversation, state, segments, at, now }.keep()
    }

    /// Finishes an intent whose segment reached the bucket although the response was lost. The
    /// changes of the intent must be agreed on before the segment is applied. Otherwise they would
    /// count as changes of another host. Returns true if there was such an intent.
    fn finish_lost_intent(
        &self,
        conversation: &Conversation,
        notes: &Notes,
        looked: &LookReport,
    ) -> Result<bool, RemoteError> {
        let Some((intent, _)) = notes.intent()? else { return Ok(false) };
        let id = intent.segment;
        let was_sent = looked.there.contains(&id) || notes.covered()?.contains(&id);
        if was_sent {
            self.run(conversation, notes, &Changes::default(), &mut Session::default())?;
        }
        Ok(was_sent)
    }
}

/// Plans the steps of a pull. If segments are unreadable, plans no removals, because the files that
/// seem to be removed may be in these segments.
fn plan(
    base: &Base,
    files: &LocalFiles,
    state: &State<Stored, StoredMessage>,
    is_whole: bool,
) -> Plan {
    let changes = Changes::since(base, &files.found);
    let mut plan = Plan::new(base, &files.found, state, &changes, &files.directories);
    plan.steps.retain(|step| is_whole || !matches!(step, Step::Remove { .. }));
    plan
}

/// Returns a fingerprint of bucket and conversation. It changes whenever a pull may have something
/// to do. Returns `None` if it cannot be computed.
fn settled(conversation: &Conversation, looked: &LookReport) -> Option<String> {
    let number = conversation.state_number().ok()?;
    let mut hasher = blake3::Hasher::new();
    for id in &looked.there {
        hasher.update(id.to_string().as_bytes()).update(b"\0");
    }
    Some(format!("{} {number:016x}", hasher.finalize().to_hex()))
}

/// Returns true if the local message log was replaced or removed and this is not published yet. If
/// the whole conversation is gone, that is a loss and not a change to publish, and the result is
/// false. If the result is false, the agreement is saved with the current position of the log.
///
/// A conversation without a manifest counts as gone. The exception is a conversation that has only
/// messages in the agreement, and whose directory is at least as old as the published log.
fn log_is_replaced(conversation: &Conversation, notes: &Notes) -> Result<bool, RemoteError> {
    let messages = notes.progress()?.messages;
    if locate_log(conversation, messages)? == Some(messages) {
        return Ok(false);
    }
    let before = notes.agreement()?;
    let after = match locate_log(conversation, before.messages)? {
        Some(messages) => Agreement { messages, ..before.clone() },
        None if conversation.has_manifest()? => return Ok(true),
        None if before.base.entries.is_empty()
            && is_original_directory(conversation, before.messages)? =>
        {
            return Ok(true);
        }
        None => before.without_log(LogPosition::default()),
    };
    notes.save(&before, &after)?;
    Ok(false)
}

fn forget_replaced_log(conversation: &Conversation, notes: &Notes) -> Result<(), RemoteError> {
    if !log_is_replaced(conversation, notes)? {
        return Ok(());
    }
    let (before, messages) = (notes.agreement()?, log_start(conversation)?);
    notes.save(&before, &before.without_log(messages))
}

impl Synchronizer<'_> {
    /// Downloads all artifacts of a conversation that have no local bytes, within the limits.
    /// Returns the number of downloads and the skipped artifacts. If several artifacts have no
    /// room, returns only the first of them.
    pub fn fetch_all(
        &self,
        conversation: &Conversation,
        artifacts: &RemoteArtifacts,
    ) -> Result<(usize, Vec<SkippedFile>), RemoteError> {
        let (mut came, mut left) = (0, Vec::new());
        let (limits, mut is_full) = (self.home.limits(), false);
        let mut used =
            limits.quota.map_or(Ok(0), |_| Usage::of(conversation).map(|all| all.bytes))?;
        for artifact in conversation.far_artifacts(None)? {
            let (size, disk) = (artifact.record.size, self.store.space()?);
            let fits = limits.check_disk(&disk, size).and_then(|()| limits.check_quota(used, size));
            if let Err(shortage) = fits {
                if !mem::replace(&mut is_full, true) {
                    left.push(SkippedFile {
                        path: artifact.record.path,
                        why: shortage.to_string(),
                    });
                }
                continue;
            }
            used = used.saturating_add(whole_blocks(size));
            match artifacts.bring_here(conversation, &artifact) {
                Ok(true) => came += 1,
                Ok(false) => {}
                Err(error) if error.may_pass() => return Err(error),
                Err(error) => {
                    let (path, why) = (artifact.record.path, error.to_string());
                    left.push(SkippedFile { path, why });
                }
            }
        }
        Ok((came, left))
    }
}

impl Home {
    /// Returns true if a conversation is not in the store because it was removed on this host or
    /// was empty at the last look. Another host may have created it again since then. Creates
    /// nothing.
    pub fn is_gone(&self, store: &Store, id: &Component) -> Result<bool, RemoteError> {
        if store.context().stat(id.as_os_str()).is_ok() {
            return Ok(false);
        }
        let Some(notes) = self.known_conversation(id)? else { return Ok(false) };
        Ok(notes.is_over()? || self.is_removed(store, id)?)
    }
}

impl Synchronizer<'_> {
    /// Removes a conversation from the store if another host removed it and it is empty. Keeps it
    /// if it has local content.
    fn end_here(&self, conversation: &Conversation, notes: &Notes) -> Result<(), RemoteError> {
        let before = notes.agreement()?;
        let log = match conversation.log_file()? {
            // Another program has the log open for writing.
            Some(log) if lease_of(&log) == Lease::Held => return Ok(()),
            Some(_) => Some(Arc::new(conversation.writable_log_file()?)),
            None => None,
        };
        let failed = |error: io::Error| conversation.log_error("lock", error);
        let _locked = log.as_ref().map(LockedLog::wait).transpose().map_err(failed)?;
        let has_own = |log: Arc<File>| {
            let mark = FileMark::of(&stat_file(&log)?);
            Ok(mark.size != before.messages.bytes_in(&mark) || !before.unshared.is_empty())
        };
        if log.clone().map(has_own).transpose().map_err(failed)?.unwrap_or_default() {
            return Ok(());
        }
        if self.store.remove_ended(conversation)? {
            self.forget_log(notes, &before)?;
        }
        Ok(())
    }

    /// Deletes the state about the messages of a removed conversation, because a new conversation
    /// with the same name has a new log.
    fn forget_log(&self, notes: &Notes, before: &Agreement) -> Result<(), RemoteError> {
        notes.save(before, &before.without_log(LogPosition::default()))?;
        notes.keep_shown(None)?;
        let id = notes.conversation();
        let removed = disk::remove(&self.home.messages(id)?, PUBLISHED);
        removed.map_err(RemoteError::at("forget the messages of", id.as_os_str().as_ref()))
    }
}

struct MergedState {
    state: State<Stored, StoredMessage>,
    ids: BTreeSet<SegmentId>,
    refused: Vec<(SegmentId, RemoteError)>,
}

impl MergedState {
    fn of(looked: &mut LookReport, notes: &Notes) -> Result<Self, RemoteError> {
        let Pieces { pieces, refused } = looked.pieces(notes)?;
        let mut ids: BTreeSet<_> = pieces.iter().map(|piece| piece.id).collect();
        let state = State::of_all(pieces);
        ids.extend(&state.covered);
        Ok(Self { state, ids, refused })
    }
}

#[cfg(test)]
pub(super) mod tests;
