//! Publishing of local changes. The bytes are sent first, followed by a segment that refers to
//! them.
//!
//! A segment is saved to the local disk before it is sent, so an interrupted push continues with
//! the same bytes. If the name of the segment is already taken in the bucket, the bytes are
//! compared. Equal bytes mean that the segment was sent before. Different bytes mean that a copy of
//! this host is also publishing.

mod batch;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use crate::bucket::{
    BucketError, Created, Deadline, ObjectName, ObjectPlace, PackedObject, Place, PutLine,
    SMALL_BYTES, SegmentHead, blocks_key, object_key, segment_key,
};
use crate::remote::look::{look, look_at_news};
use crate::remote::notes::{Untidy, WriterProgress, append_sent};
use crate::remote::push::batch::{
    Batch, DAY, NewMessages, PartsPlan, ReadyBytes, ReadyFile, Upload, check_move, checked,
    planned, recorded, small, too_long, unread,
};
use crate::remote::source::{OpenedFile, OwnLine, PushSource, after_published};
use crate::remote::{Agreement, Home, Intent, Moment, Notes, Objects, RemoteError};
use crate::replica::{Base, Changes, Clock, LocalPut, Origin, SegmentId, Stamp};

pub use batch::LeftOut;
pub(crate) use batch::Session;
pub(super) use batch::{PackedFile, message_text};

/// Maximum number of artifacts and messages in one `remove` line and in one segment. An artifact
/// that is replaced by a file of the segment does not count.
pub(super) const MOST_REMOVED: usize = 100_000;
const MOST_MOVED: usize = 4 << 20;
/// Maximum bytes of one origin in a `remove` line. `MOVE_BYTES` is the maximum of a move without
/// its path, and `ESCAPED` is the maximum of one escaped byte of the path.
const REMOVED_BYTES: usize = 48;
const MOVE_BYTES: usize = 128;
const ESCAPED: usize = 2;
const SLOWEST: u64 = 1 << 20;
/// Maximum age of the last look when a segment is sent, and maximum duration of a list.
pub(super) const LOOK_AGE: Duration = Duration::from_mins(30);

/// A push of one conversation. `ends` is true if the conversation was removed on this host; the
/// pushed removals then state this.
pub(crate) struct Push<'a> {
    pub bucket: &'a dyn Objects,
    pub home: &'a Home,
    pub notes: &'a Notes,
    pub source: &'a dyn PushSource,
    pub now: &'a dyn Fn() -> Moment,
    pub ends: bool,
    /// A function that returns the deadline of a request that starts now. Each request gets its own
    /// deadline, regardless of how long earlier requests took. An upload gets one additional second
    /// per MiB.
    pub deadline: &'a dyn Fn() -> Deadline,
}

/// Result of a push. `segments` were sent, and `left` has the files and messages that were not
/// published, with the reasons. If `again` is true, the caller must compare and push once more.
/// `is_new_writer` is true if a copy of this host was detected.
#[derive(Debug, Default)]
pub(crate) struct Pushed {
    pub segments: Vec<SegmentId>,
    pub left: Vec<(String, LeftOut)>,
    pub again: bool,
    pub is_new_writer: bool,
}

impl Push<'_> {
    /// Publishes the changes since the saved agreement, and new messages.
    ///
    /// If an intent is pending, only finishes that intent: see [`Pushed::again`]. Segments that
    /// were sent before a failure stay published and agreed on.
    pub(crate) fn run(
        &self,
        changes: &Changes,
        session: &mut Session,
    ) -> Result<Pushed, RemoteError> {
        let mut pushed = Pushed::default();
        self.look_first(session, &mut pushed)?;
        if let Some((intent, bytes)) = self.notes.intent()? {
            self.finish(&intent, &bytes, session, &mut pushed)?;
            pushed.again = true;
            return Ok(pushed);
        }
        // A crash may have left an incomplete intent.
        self.notes.drop_intent()?;
        self.pass_over_published()?;
        let taken = self.taken(changes, &mut pushed)?;
        self.publish(&taken, session, &mut pushed)?;
        Ok(pushed)
    }

    /// Runs a look if the last one is at least [`LOOK_AGE`] old. A host that was restored from a
    /// backup, even with its memory, does not know the segments that it sent after the backup, and
    /// would reuse their names. Segments stay in the bucket for longer than that after a look, even
    /// if they are merged. During that time, the bucket refuses another segment with the same name.
    fn look_first(&self, session: &mut Session, pushed: &mut Pushed) -> Result<(), RemoteError> {
        let now = (self.now)();
        if session.looked.as_ref().is_some_and(|looked| now.since(looked) < LOOK_AGE) {
            return Ok(());
        }
        if look_at_news(self.bucket, self.notes, self.deadline)?.is_copied {
            self.renew_writer(session, pushed)?;
        }
        session.looked = Some(now);
        Ok(())
    }

    pub(super) fn renew_writer(
        &self,
        session: &mut Session,
        pushed: &mut Pushed,
    ) -> Result<(), RemoteError> {
        self.home.new_writer()?;
        session.uploads.clear();
        pushed.is_new_writer = true;
        Ok(())
    }

    /// Moves the position in the message log behind the lines that the bucket has already, if this
    /// host has a writer id that is new in the conversation. See [`after_published`].
    fn pass_over_published(&self) -> Result<(), RemoteError> {
        if self.notes.progress()?.writer == Some(self.home.writer()?) {
            return Ok(());
        }
        let before = self.notes.agreement()?;
        // A host that was shown messages of others, and has sent none, has not lost its state. If it
        // begins with the words of another host, these are its own.
        let is_fresh = before.writer.is_none() && self.notes.shown()?.is_some();
        if is_fresh || self.source.message_lines(&before.messages)?.0.is_empty() {
            return Ok(());
        }
        let messages = after_published(self.source, self.notes, &before)?;
        self.notes.save(&before, &Agreement { messages, ..before.clone() })
    }

    /// Publishes all complete changes in as many segments as needed. Removals and moves come first.
    /// Messages come last because they refer to files.
    fn publish(
        &self,
        changes: &Changes,
        session: &mut Session,
        pushed: &mut Pushed,
    ) -> Result<(), RemoteError> {
        let complete = |(_, put): &(&String, &LocalPut)| put.digest.is_some();
        let mut puts = changes.puts.iter().filter(complete).peekable();
        let (moves, removed) = (changes.moves.clone(), changes.removed.clone());
        let mut others = Changes { puts: BTreeMap::new(), moves, removed };
        leave_bad_moves(&mut others, pushed);
        loop {
            let (some, weight) = first_of(&mut others);
            let mut batch = Batch::new(some, weight, self.ends);
            let is_end = others.is_empty();
            while let Some((path, put)) = puts.next_if(|_| is_end && !batch.is_full()) {
                match self.ready(path, put, session)? {
                    Ok(ready) => batch.add(path, put, ready),
                    Err(why) => pushed.left.push((path.clone(), why)),
                }
            }
            let is_last = is_end && puts.peek().is_none();
            if is_last && !batch.is_full() {
                batch.messages = self.messages(pushed)?;
            }
            if is_last && batch.is_empty() {
                return Ok(());
            }
            if !batch.is_empty() && !self.send(&batch, session, pushed)? {
                pushed.again = true;
                return Ok(());
            }
        }
    }

    fn messages(&self, pushed: &mut Pushed) -> Result<Option<NewMessages>, RemoteError> {
        loop {
            let (lines, at) = self.source.message_lines(&self.notes.progress()?.messages)?;
            if lines.is_empty() {
                return Ok(None);
            }
            let before = self.notes.agreement()?;
            let mut after = before.clone();
            let texts = texts_of(lines, &mut after.unshared, pushed);
            if !texts.is_empty() || at == before.messages {
                self.notes.save(&before, &after)?;
                return Ok((!texts.is_empty()).then_some(NewMessages { texts, at }));
            }
            after.messages = at;
            self.notes.save(&before, &after)?;
        }
    }
}

fn texts_of(
    lines: Vec<OwnLine>,
    unshared: &mut BTreeMap<u64, u64>,
    pushed: &mut Pushed,
) -> Vec<String> {
    let mut texts = Vec::with_capacity(lines.len());
    for OwnLine { offset, length: bytes, text, .. } in lines {
        match text.map_or_else(|| Err(too_long()), message_text) {
            Ok(text) => texts.push(text),
            Err(why) => {
                unshared.insert(offset, bytes);
                let left = LeftOut::Message { bytes, why };
                pushed.left.push((format!("{MESSAGES} at byte {offset}"), left));
            }
        }
    }
    texts
}

fn first_of(others: &mut Changes) -> (Changes, usize) {
    let next = others.removed.iter().nth(MOST_REMOVED).copied();
    let rest = next.map(|next| others.removed.split_off(&next)).unwrap_or_default();
    let removed = mem::replace(&mut others.removed, rest);
    let (mut moves, mut weight) = (BTreeMap::new(), REMOVED_BYTES * removed.len());
    while weight < MOST_MOVED
        && let Some((origin, to)) = others.moves.pop_first()
    {
        weight += MOVE_BYTES + ESCAPED * to.len();
        moves.insert(origin, to);
    }
    (Changes { puts: BTreeMap::new(), moves, removed }, weight)
}

fn leave_bad_moves(changes: &mut Changes, pushed: &mut Pushed) {
    changes.moves.retain(|origin, to| match check_move(*origin, to) {
        Ok(()) => true,
        Err(why) => {
            pushed.left.push((to.clone(), why));
            false
        }
    });
}

/// State of a segment in the bucket after an attempt to send it. A segment that was merged counts
/// as sent. `Copied` means that the bucket has a different segment with this name, so a copy of
/// this host publishes too. `Old` means that the segment is not in the bucket and is too old to be
/// sent.
enum SendOutcome {
    Sent,
    Copied,
    Old,
}

impl Push<'_> {
    /// Builds a segment from a batch, saves it to disk, and sends it. Returns false if the caller
    /// must start over.
    fn send(
        &self,
        batch: &Batch,
        session: &mut Session,
        pushed: &mut Pushed,
    ) -> Result<bool, RemoteError> {
        let progress = self.notes.progress()?;
        let Some(id) = self.next_id(&progress)? else {
            self.renew_writer(session, pushed)?;
            return Ok(false);
        };
        let mut clock = Clock::default();
        clock.see(progress.stamp);
        let now = (self.now)();
        let made = batch.make(id, &mut clock, now.micros()).map_err(RemoteError::of(id))?;
        let intent = Intent {
            segment: id,
            stamp: made.publication.segment.latest(),
            accepted: made.publication.accepted,
            messages: batch.messages.as_ref().map(|messages| messages.at),
            since: batch.since(&now),
            digest: blake3::hash(&made.bytes).to_hex().to_string(),
        };
        if !made.publication.segment.removed.is_empty() {
            let removed = Some(now.clone());
            let untidy = self.notes.untidy()?.unwrap_or_else(|| Untidy::new(now.clone()));
            self.notes.keep_untidy(Some(&Untidy { removed, ..untidy }))?;
        }
        self.notes.keep_intent(&intent, &made.bytes)?;
        // An object may belong to one record only.
        session.uploads.retain(|path, _| !batch.ready.contains_key(path));
        self.finish(&intent, &made.bytes, session, pushed)
    }

    /// Returns the name of the next segment, or `None` if this host needs a new writer id. The host
    /// needs one in two cases. If a segment with this name or a later one exists, the host is a
    /// restored backup. If the previous segment is unknown, the conversation ended and its last
    /// segment was deleted; other hosts would then see a gap.
    pub(crate) fn next_id(
        &self,
        progress: &WriterProgress,
    ) -> Result<Option<SegmentId>, RemoteError> {
        let writer = self.home.writer()?;
        let number = if progress.writer == Some(writer) { progress.next } else { 1 };
        let is_later = |id: &SegmentId| id.writer == writer && id.number >= number;
        let (here, covered) = (self.notes.segments()?, self.notes.covered()?);
        let is_known = here.iter().any(is_later) || covered.ids().any(|id| is_later(&id));
        let before = SegmentId { writer, number: number.saturating_sub(1) };
        let follows = number <= 1 || here.contains(&before) || covered.contains(&before);
        Ok((follows && !is_known).then_some(SegmentId { writer, number }))
    }

    /// Sends the segment of an intent. Returns false if the caller must start over.
    pub(crate) fn finish(
        &self,
        intent: &Intent,
        bytes: &[u8],
        session: &mut Session,
        pushed: &mut Pushed,
    ) -> Result<bool, RemoteError> {
        let outcome = if self.is_accepted(intent)? {
            SendOutcome::Sent
        } else {
            // Uploads may have taken long.
            self.look_first(session, pushed)?;
            self.outcome(intent, bytes)?
        };
        match outcome {
            SendOutcome::Sent => {
                self.accept(intent, bytes)?;
                pushed.segments.push(intent.segment);
                Ok(true)
            }
            SendOutcome::Copied => {
                if self.home.writer()? == intent.segment.writer {
                    self.renew_writer(session, pushed)?;
                }
                session.uploads.clear();
                // What the other one has sent must be known before this host sends more.
                session.looked = None;
                self.notes.drop_intent()?;
                Ok(false)
            }
            SendOutcome::Old => {
                session.uploads.clear();
                self.notes.drop_intent()?;
                Ok(false)
            }
        }
    }

    fn is_accepted(&self, intent: &Intent) -> Result<bool, RemoteError> {
        let WriterProgress { writer, next, .. } = self.notes.progress()?;
        Ok(writer == Some(intent.segment.writer) && intent.segment.number < next)
    }

    fn outcome(&self, intent: &Intent, bytes: &[u8]) -> Result<SendOutcome, RemoteError> {
        if let Some(outcome) = self.outcome_by_merges(intent, bytes)? {
            return Ok(outcome);
        }
        let key = self.key(intent.segment);
        if (self.now)().since(&intent.since) > DAY {
            return self.outcome_of_old(intent, bytes);
        }
        let whole = bytes::Bytes::copy_from_slice(bytes);
        let since = (self.now)();
        match self.bucket.create(&key, &whole, (self.deadline)())? {
            Created::New if (self.now)().since(&since) < LOOK_AGE => Ok(SendOutcome::Sent),
            // While this host was suspended, a copy of it may have sent another segment with this
            // name, which was merged and deleted.
            Created::New => {
                look(self.bucket, self.notes, self.deadline)?;
                Ok(self.outcome_by_merges(intent, bytes)?.unwrap_or(SendOutcome::Sent))
            }
            Created::Exists => self.compare(&key, bytes),
        }
    }

    fn outcome_of_old(&self, intent: &Intent, bytes: &[u8]) -> Result<SendOutcome, RemoteError> {
        let key = self.key(intent.segment);
        match self.compare(&key, bytes) {
            Err(RemoteError::Bucket(error)) if error.is_absent() => {}
            outcome => return outcome,
        }
        look(self.bucket, self.notes, self.deadline)?;
        Ok(self.outcome_by_merges(intent, bytes)?.unwrap_or(SendOutcome::Old))
    }

    /// Returns the outcome for a segment according to merges that cover its name. The segment was
    /// sent if one of them states its digest. Returns `None` if no merge covers the name. The bytes
    /// cannot be compared, because a covered segment may already be deleted.
    fn outcome_by_merges(
        &self,
        intent: &Intent,
        bytes: &[u8],
    ) -> Result<Option<SendOutcome>, RemoteError> {
        let (id, covered) = (intent.segment, self.notes.covered()?);
        if !covered.contains(&id) {
            return Ok(None);
        }
        let head = SegmentHead::read(bytes).map_err(RemoteError::of(id))?;
        let digest = head.and_then(|head| head.digest(bytes));
        let was_sent = digest.is_some_and(|digest| covered.has(id, digest) == Some(true));
        Ok(Some(if was_sent { SendOutcome::Sent } else { SendOutcome::Copied }))
    }

    fn compare(&self, key: &str, bytes: &[u8]) -> Result<SendOutcome, RemoteError> {
        let there = self.bucket.get(key, None, (self.deadline)())?;
        Ok(if there == bytes { SendOutcome::Sent } else { SendOutcome::Copied })
    }

    fn key(&self, id: SegmentId) -> String {
        segment_key(self.notes.conversation(), id)
    }

    fn accept(&self, intent: &Intent, bytes: &[u8]) -> Result<(), RemoteError> {
        if !self.is_accepted(intent)? {
            self.notes.keep_segment(intent.segment, bytes)?;
            if !append_sent(self.notes, intent)? {
                let before = self.notes.agreement()?;
                self.notes.save(&before, &agreed(&before, intent))?;
            }
        }
        self.notes.drop_intent()
    }
}

fn agreed(before: &Agreement, intent: &Intent) -> Agreement {
    let mut base = before.base.clone();
    base.accept(&intent.accepted);
    let mut clock = before.clock;
    clock.see(intent.stamp);
    let (writer, next) = (Some(intent.segment.writer), intent.segment.number + 1);
    let messages = intent.messages.unwrap_or(before.messages);
    Agreement { base, writer, next, clock, messages, unshared: before.unshared.clone() }
}

impl Push<'_> {
    fn ready(
        &self,
        path: &str,
        put: &LocalPut,
        session: &mut Session,
    ) -> Result<Result<ReadyFile, LeftOut>, RemoteError> {
        let OpenedFile { file, record, mode, attributes } = match self.open(path, put) {
            Ok(opened) => opened,
            Err(why) => return Ok(Err(why)),
        };
        let digest = put.digest.as_deref().unwrap_or_default();
        let mut record = match recorded(record, path, put, digest) {
            Ok(record) => record,
            Err(why) => return Ok(Err(why)),
        };
        let bytes = if put.version.size <= SMALL_BYTES {
            small(file, put, digest).map(ReadyBytes::Small)
        } else {
            let file = Arc::new(file);
            let content = ctxfs_store::Artifact::new(Arc::clone(&file), put.version.size);
            let plan = planned(&mut record, &content)
                .inspect_err(|error| tracing::debug!(%error, "only all of it is sent"))
                .unwrap_or_default();
            self.upload(path, put, (file, plan), session)?.map(ReadyBytes::Object)
        };
        let (stamp, place) = (Stamp::default(), Place::Empty);
        let (parts, origin) = (None, None);
        let line = PutLine { record, mode, attributes, stamp, place, parts, origin };
        Ok(bytes.and_then(|bytes| checked(line, bytes)))
    }

    fn open(&self, path: &str, put: &LocalPut) -> Result<OpenedFile, LeftOut> {
        match self.source.open(path, put.key, put.version) {
            Ok(opened) => opened.ok_or(LeftOut::Changed),
            Err(error) => Err(LeftOut::Unread(error.to_string())),
        }
    }

    fn upload(
        &self,
        path: &str,
        put: &LocalPut,
        (file, plan): (Arc<File>, Option<PartsPlan>),
        session: &mut Session,
    ) -> Result<Result<Upload, LeftOut>, RemoteError> {
        let since = (self.now)();
        let known = session.uploads.get(path).filter(|upload| upload.fits(put, &since));
        if let Some(known) = known {
            return Ok(Ok(known.clone()));
        }
        let (conversation, name) = (self.notes.conversation(), ObjectName::random());
        let (stored, parts) = match plan {
            Some(plan) => {
                let (file, kept) = plan.watch(file);
                let stored = self.stored(name, put, file)?;
                (stored, Some(Arc::new(plan.picked(&kept.lock()))))
            }
            None => (self.stored(name, put, file)?, None),
        };
        let done = match stored {
            Ok(done) => done,
            Err(why) => return Ok(Err(why)),
        };
        let deadline = self.deadline_for(put.version.size);
        self.bucket.create(&blocks_key(conversation, name), &done.blocks.into(), deadline)?;
        let (packed, size, blocks) = (done.packed, done.size, done.blocks_digest);
        let object = ObjectPlace { name, packed, size, blocks };
        let (key, version, digest) = (put.key, put.version, done.digest);
        let upload = Upload { key, version, digest, since, object, parts };
        session.uploads.insert(path.to_owned(), upload.clone());
        Ok(Ok(upload))
    }

    fn stored(
        &self,
        name: ObjectName,
        put: &LocalPut,
        file: impl Read + Send,
    ) -> Result<Result<PackedObject, LeftOut>, RemoteError> {
        let mut content = PackedFile::new(file);
        let deadline = self.deadline_for(put.version.size);
        let key = object_key(self.notes.conversation(), name);
        match self.bucket.upload(&key, &mut content, put.version.size, deadline) {
            Ok(_) => {}
            Err(BucketError::Source { source, .. }) => return Ok(Err(unread(&source))),
            Err(error) => return Err(error.into()),
        }
        // The file changed during the upload, so no record will name the object.
        let done = content.done().filter(|done| put.digest.as_deref() == Some(&*done.digest));
        Ok(done.ok_or(LeftOut::Changed))
    }

    fn deadline_for(&self, bytes: u64) -> Deadline {
        Deadline::after((self.deadline)().left() + std::time::Duration::from_secs(bytes / SLOWEST))
    }
}

const MESSAGES: &str = "messages";

impl Push<'_> {
    /// Returns the changes that the bucket accepts. For a write-once bucket, drops and reports the
    /// changes that replace or remove something.
    fn taken<'c>(
        &self,
        changes: &'c Changes,
        pushed: &mut Pushed,
    ) -> Result<Cow<'c, Changes>, RemoteError> {
        let adds_only =
            changes.removed.is_empty() && changes.puts.values().all(|put| put.replaces.is_empty());
        if adds_only || !self.home.is_write_once()? {
            return Ok(Cow::Borrowed(changes));
        }
        let mut taken = changes.clone();
        let mut left = removed_from(&self.notes.agreement()?.base, &changes.removed);
        taken.removed.clear();
        taken.puts.retain(|path, put| {
            // A file that is being written is not sent in any case.
            let is_left = !put.replaces.is_empty() && put.digest.is_some();
            if is_left {
                left.insert(path.clone());
            }
            !is_left
        });
        pushed.left.extend(left.into_iter().map(|path| (path, LeftOut::WriteOnce)));
        Ok(Cow::Owned(taken))
    }
}

fn removed_from(base: &Base, removed: &BTreeSet<Origin>) -> BTreeSet<String> {
    let mut messages = removed.clone();
    let mut paths = BTreeSet::new();
    for entry in &base.entries {
        for origin in entry.origins.iter().filter(|origin| removed.contains(*origin)) {
            messages.remove(origin);
            paths.insert(entry.path.clone());
        }
    }
    if !messages.is_empty() {
        paths.insert(MESSAGES.to_owned());
    }
    paths
}

#[cfg(test)]
mod tests;
