//! Publishing what was done here: bytes, then a segment that says so.
//!
//! What is to be sent is on the disk as it will be sent before it is sent. So whatever is cut off,
//! the next push goes on: where the name of a segment is taken, the same bytes mean that it was
//! sent, and others mean that a copy of this host publishes too.

mod batch;
mod packed_file;
mod parts;
mod ready;
mod sending;
mod source;
mod stand_in;
mod uploads;
mod write_once;

use std::collections::BTreeMap;
use std::time::Duration;
use std::{fmt, mem};

use crate::bucket::Deadline;
use crate::remote::look::look;
use crate::remote::{Home, Moment, Notes, Objects, RemoteError};
use crate::replica::{Changes, LocalPut, SegmentId};

use batch::{Batch, Messages};
use write_once::MESSAGES;

pub(super) use packed_file::PackedFile;
pub(super) use ready::message;
pub use source::{NoSource, Opened, OwnLine, Source};
pub use uploads::Session;

/// The time after which a segment is not sent any more: its objects may be collected some days
/// later.
const DAY: Duration = Duration::from_hours(24);
/// The artifacts and messages that one line removes, at most: a line has a bound. A segment of this
/// host removes no more, beside what its files replace.
pub(super) const MOST_REMOVED: usize = 100_000;
/// The bytes of removals and moves from which on a segment has no room for more moves.
const MOST_MOVED: usize = 4 << 20;
/// The most bytes of what is removed, of a move beside its path, and of each byte of that.
const REMOVED_BYTES: usize = 48;
const MOVE_BYTES: usize = 128;
const ESCAPED: usize = 2;
/// The bytes that an upload must get through in a second, at least.
const SLOWEST: u64 = 1 << 20;

/// What a push needs.
pub struct Push<'a> {
    /// Where to.
    pub bucket: &'a dyn Objects,
    /// What this host keeps about the bucket.
    pub home: &'a Home,
    /// What it keeps about the conversation.
    pub notes: &'a Notes,
    /// The files and messages of the conversation.
    pub source: &'a dyn Source,
    /// The clock.
    pub now: &'a dyn Fn() -> Moment,
    /// True if the conversation was removed here: what is removed says so.
    pub ends: bool,
    /// Returns until when a request that begins now is repeated, however long what came before has
    /// taken. An upload gets a second more for each MiB.
    pub deadline: &'a dyn Fn() -> Deadline,
}

impl fmt::Debug for Push<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Push").field(self.notes).finish()
    }
}

/// What a push did.
#[derive(Debug, Default)]
pub struct Pushed {
    /// The segments that the bucket has now.
    pub segments: Vec<SegmentId>,
    /// The files that were left out, and why. Nothing was said of them.
    pub left: Vec<(String, LeftOut)>,
    /// True if something is left to do: find out again what was done here, and push.
    pub again: bool,
    /// True if a copy of this host was met, and this one has another name now.
    pub is_new_writer: bool,
}

/// A reason why a file or a message was not published.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeftOut {
    /// It changed, or is being written: the next push sees what it has become.
    #[error("it has changed since")]
    Changed,
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Unread(String),
    /// No segment can say it.
    #[error("it cannot be shared: {0}")]
    Refused(String),
    /// No segment can say this message: the others are published without it. That is told once.
    #[error("a message of {bytes} bytes cannot be shared, and stays on this host: {why}")]
    Message {
        /// Its bytes.
        bytes: u64,
        /// The reason.
        why: String,
    },
    /// The bucket takes nothing that replaces or removes what it has.
    #[error(
        "the bucket is write-once: what it has under this name stays. Use another name for what is \
         new"
    )]
    WriteOnce,
}

impl LeftOut {
    /// Returns true if no later push tells of it.
    #[must_use]
    pub fn is_told_once(&self) -> bool {
        matches!(self, Self::Message { .. })
    }
}

impl Push<'_> {
    /// Publishes changes that were found since the agreement in the notes, and new messages.
    ///
    /// Where something was about to be sent before, that alone is finished: see [`Pushed::again`].
    /// What was published before a failure stays published, and is agreed upon.
    pub fn run(&self, changes: &Changes, session: &mut Session) -> Result<Pushed, RemoteError> {
        let mut pushed = Pushed::default();
        self.look_first(session, &mut pushed)?;
        if let Some((intent, bytes)) = self.notes.intent()? {
            self.finish(&intent, &bytes, session, &mut pushed)?;
            pushed.again = true;
            return Ok(pushed);
        }
        // A crash may have left one that does not count.
        self.notes.drop_intent()?;
        let taken = self.taken(changes, &mut pushed)?;
        self.publish(&taken, session, &mut pushed)?;
        Ok(pushed)
    }

    /// Looks, if the last time was a day ago: a backup that was restored, perhaps with its memory,
    /// does not know what it had sent. What was sent since a look stays for a day at least, merged
    /// or not, so nothing of its name can be stored until then.
    fn look_first(&self, session: &mut Session, pushed: &mut Pushed) -> Result<(), RemoteError> {
        let now = (self.now)();
        if session.looked.as_ref().is_some_and(|looked| now.since(looked) < DAY) {
            return Ok(());
        }
        if look(self.bucket, self.notes, (self.deadline)())?.is_copied {
            self.become_another(session, pushed)?;
        }
        session.looked = Some(now);
        Ok(())
    }

    pub(super) fn become_another(
        &self,
        session: &mut Session,
        pushed: &mut Pushed,
    ) -> Result<(), RemoteError> {
        self.home.new_writer()?;
        session.uploads.clear();
        pushed.is_new_writer = true;
        Ok(())
    }

    /// Publishes all that is complete, in as many segments as it takes. What was removed and moved
    /// comes first, and messages last, since they tell of files.
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

    /// Returns the next messages that are not published; none if all are. Notes those that no
    /// segment can say, and passes over them.
    fn messages(&self, pushed: &mut Pushed) -> Result<Option<Messages>, RemoteError> {
        loop {
            let before = self.notes.agreement()?;
            let (lines, at) = self.source.message_lines(&before.messages)?;
            if lines.is_empty() {
                return Ok(None);
            }
            let mut after = before.clone();
            let texts = texts_of(lines, &mut after.unshared, pushed);
            if !texts.is_empty() || at == before.messages {
                self.notes.save(&before, &after)?;
                return Ok((!texts.is_empty()).then_some(Messages { texts, at }));
            }
            after.messages = at;
            self.notes.save(&before, &after)?;
        }
    }
}

/// Returns the messages in lines that a segment can say. The others go to `unshared` and are told.
fn texts_of(
    lines: Vec<OwnLine>,
    unshared: &mut BTreeMap<u64, u64>,
    pushed: &mut Pushed,
) -> Vec<String> {
    let mut texts = Vec::with_capacity(lines.len());
    for OwnLine { offset, length: bytes, text } in lines {
        match text.map_or_else(|| Err(ready::too_long()), ready::message) {
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

/// Takes as much out of moves and removals as goes into one segment. Returns that, and the bytes
/// that it has there at most.
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

/// Takes out what no segment can say. It stays as it is here.
fn leave_bad_moves(changes: &mut Changes, pushed: &mut Pushed) {
    changes.moves.retain(|origin, to| match ready::check_move(*origin, to) {
        Ok(()) => true,
        Err(why) => {
            pushed.left.push((to.clone(), why));
            false
        }
    });
}

#[cfg(test)]
mod tests;
