//! Publishing local changes: first bytes, then a segment that refers to them.
//!
//! A segment is on the local disk before it is sent, so an interrupted push continues with the same
//! bytes. If the name of the segment is taken, equal bytes mean that it was sent before, and other
//! bytes that a copy of this host publishes too.

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

///+ Age after which a segment is not sent: its objects may be collected some days later.
const DAY: Duration = Duration::from_hours(24);
///+ Maximum artifacts and messages in one `remove` line, and in one segment, not counting the
///+ artifacts that its files replace.
pub(super) const MOST_REMOVED: usize = 100_000;
///+ Bytes of removals and moves from which on a segment takes no further moves.
const MOST_MOVED: usize = 4 << 20;
///+ Maximum bytes of a removal, of a move without its path, and of an escaped byte of that path.
const REMOVED_BYTES: usize = 48;
const MOVE_BYTES: usize = 128;
const ESCAPED: usize = 2;
///+ Minimum transfer rate of an upload in bytes per second.
const SLOWEST: u64 = 1 << 20;

///+ A push of one conversation.
pub struct Push<'a> {
    ///+ Target of the push.
    pub bucket: &'a dyn Objects,
    ///+ Local state about the bucket.
    pub home: &'a Home,
    ///+ Local state about the conversation.
    pub notes: &'a Notes,
    ///+ Files and messages of the conversation.
    pub source: &'a dyn Source,
    ///+ Returns the present.
    pub now: &'a dyn Fn() -> Moment,
    ///+ True if the conversation was removed on this host: its removals say so.
    pub ends: bool,
    ///+ Returns the deadline of a request that starts now. Each request has its own, however long
    ///+ earlier ones took. An upload gets an additional second per MiB.
    pub deadline: &'a dyn Fn() -> Deadline,
}

impl fmt::Debug for Push<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Push").field(self.notes).finish()
    }
}

///+ Result of a push.
#[derive(Debug, Default)]
pub struct Pushed {
    ///+ Segments that were sent.
    pub segments: Vec<SegmentId>,
    ///+ Files that were not published, and why.
    pub left: Vec<(String, LeftOut)>,
    ///+ True if the caller must compare and push once more.
    pub again: bool,
    ///+ True if a copy of this host was detected, and this one has a new writer id.
    pub is_new_writer: bool,
}

///+ Reason for not publishing a file or a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeftOut {
    ///+ The file changed, or is open for writing: the next push publishes its new state.
    #[error("it has changed since")]
    Changed,
    ///+ The file cannot be read.
    #[error("it cannot be read: {0}")]
    Unread(String),
    ///+ A record cannot describe the file.
    #[error("it cannot be shared: {0}")]
    Refused(String),
    ///+ The message cannot be shared; the others are published without it. Reported once.
    #[error("a message of {bytes} bytes cannot be shared, and stays on this host: {why}")]
    Message {
        ///+ Bytes of the message.
        bytes: u64,
        ///+ Reason.
        why: String,
    },
    ///+ The bucket is write-once, and the change would replace or remove something.
    #[error(
        "the bucket is write-once: what it has under this name stays. Use another name for what is \
         new"
    )]
    WriteOnce,
}

impl LeftOut {
    ///+ Returns true if no later push reports it again.
    #[must_use]
    pub fn is_told_once(&self) -> bool {
        matches!(self, Self::Message { .. })
    }
}

impl Push<'_> {
    ///+ Publishes changes relative to the saved agreement, and new messages.
    ///+
    ///+ If an intent is pending, finishes that only: see [`Pushed::again`]. Segments sent before a
    ///+ failure stay published and agreed upon.
    pub fn run(&self, changes: &Changes, session: &mut Session) -> Result<Pushed, RemoteError> {
        let mut pushed = Pushed::default();
        self.look_first(session, &mut pushed)?;
        if let Some((intent, bytes)) = self.notes.intent()? {
            self.finish(&intent, &bytes, session, &mut pushed)?;
            pushed.again = true;
            return Ok(pushed);
        }
        // A crash may have left an incomplete one.
        self.notes.drop_intent()?;
        let taken = self.taken(changes, &mut pushed)?;
        self.publish(&taken, session, &mut pushed)?;
        Ok(pushed)
    }

    ///+ Looks if the last look is a day old: a restored backup, even one of the memory, does not
    ///+ know what it had sent. Segments stay in the bucket for at least a day after a look, merged
    ///+ or not, so until then none of the same name can be stored.
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

    ///+ Publishes all complete changes, in as many segments as needed: removals and moves first, and
    ///+ messages last, since they refer to files.
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

    ///+ Returns the next unpublished messages. Saves those that cannot be shared, and skips them.
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

///+ Returns the texts of lines that can be shared. The others go to `unshared` and are reported.
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

///+ Splits off the moves and removals for one segment. Returns them with their maximum bytes.
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

///+ Drops moves that cannot be shared, and reports them.
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
