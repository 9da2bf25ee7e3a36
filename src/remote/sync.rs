//! One conversation: what was done here goes out, and what others did comes in.

use std::collections::BTreeMap;

use crate::bucket::Deadline;
use crate::remote::Agreement;
use crate::remote::Fetcher;
use crate::remote::Files;
use crate::remote::Home;
use crate::remote::Left;
use crate::remote::LeftOut;
use crate::remote::LocalSource;
use crate::remote::Looked;
use crate::remote::Moment;
use crate::remote::Notes;
use crate::remote::Objects;
use crate::remote::Push;
use crate::remote::PushLock;
use crate::remote::Pushed;
use crate::remote::RemoteError;
use crate::remote::Session;
use crate::remote::apply;
use crate::remote::files;
use crate::remote::look;
use crate::remote::pieces;
use crate::replica::Changes;
use crate::replica::Plan;
use crate::replica::SegmentId;
use crate::replica::State;
use crate::replica::Step;
use crate::store::Conversation;
use crate::store::Store;

/// How often a push begins anew: after a segment that was about to be sent, and after a copy of
/// this host was met.
const ROUNDS: usize = 8;

/// A store and the bucket that it shares.
pub struct Sync<'a> {
    /// The store.
    pub store: &'a Store,
    /// The bucket.
    pub bucket: &'a dyn Objects,
    /// What the store keeps about it.
    pub home: &'a Home,
    /// The right to do all this, one process at a time.
    pub lock: &'a PushLock,
    /// The clock.
    pub now: &'a dyn Fn() -> Moment,
    /// Until when a request that begins now is repeated.
    pub deadline: &'a dyn Fn() -> Deadline,
}

impl std::fmt::Debug for Sync<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Sync").field(self.store).finish()
    }
}

/// What was sent.
#[derive(Debug, Default)]
pub struct Sent {
    /// The segments that the bucket has now.
    pub segments: Vec<SegmentId>,
    /// What was left out, by path, and why.
    pub left: BTreeMap<String, LeftOut>,
    /// Files that are being written. They are sent once they are complete.
    pub live: usize,
    /// True if not all of the conversation could be read: what is there was neither sent nor taken
    /// for removed.
    pub is_partial: bool,
}

/// What came.
#[derive(Debug, Default)]
pub struct Came {
    /// What the look found.
    pub looked: Looked,
    /// The segments that do not count, and why.
    pub refused: Vec<(SegmentId, RemoteError)>,
    /// The number of files that came, were renamed or removed.
    pub steps: usize,
    /// The files that were left as they are, and why.
    pub left: Vec<Left>,
    /// The error after which nothing further was tried.
    pub error: Option<RemoteError>,
}

impl Sync<'_> {
    /// Publishes all that was done in a conversation since the last time.
    pub fn push(&self, conversation: &Conversation) -> Result<Sent, RemoteError> {
        let notes = self.home.conversation(conversation.id())?;
        let (mut session, mut sent) = (Session::default(), Sent::default());
        for _ in 0..ROUNDS {
            let (agreement, files) = self.now_here(conversation, &notes)?;
            let changes = Changes::since(&agreement.base, &files.found);
            let pushed = self.run(conversation, &notes, &changes, &mut session)?;
            sent.segments.extend(pushed.segments);
            sent.left = pushed.left.into_iter().collect();
            sent.live = changes.puts.values().filter(|put| put.digest.is_none()).count();
            sent.is_partial = files.unread.count() > 0;
            if !pushed.again {
                break;
            }
        }
        Ok(sent)
    }

    fn run(
        &self,
        conversation: &Conversation,
        notes: &Notes,
        changes: &Changes,
        session: &mut Session,
    ) -> Result<Pushed, RemoteError> {
        let (bucket, home, now) = (self.bucket, self.home, self.now);
        let source = LocalSource::new(conversation);
        let push = Push { bucket, home, notes, source: &source, now, deadline: (self.deadline)() };
        push.run(changes, session)
    }

    /// Looks into the bucket, and does here what others did. Everything comes, whole.
    pub fn pull(&self, conversation: &Conversation) -> Result<Came, RemoteError> {
        let notes = self.home.conversation(conversation.id())?;
        let looked = look(self.bucket, &notes, (self.deadline)())?;
        self.recognize(conversation, &notes, &looked)?;
        let found = pieces(&notes)?;
        let state = State::of(&found.pieces);
        let (agreement, files) = self.now_here(conversation, &notes)?;
        let changes = Changes::since(&agreement.base, &files.found);
        let Files { found: here, directories, .. } = &files;
        let mut plan = Plan::new(&agreement.base, here, &state, &changes, directories);
        if !found.refused.is_empty() {
            // What seems to be removed may be in a segment that cannot be read.
            plan.steps.retain(|step| !matches!(step, Step::Remove { .. }));
        }
        let deadline = self.deadline;
        let fetcher = Fetcher { bucket: self.bucket, notes: &notes, state: &state, deadline };
        let applied = apply(conversation, &plan.steps, &fetcher, (self.now)().wall as i64);
        let mut after = Agreement { base: plan.base, ..agreement.clone() };
        after.base.follow(&applied.done);
        notes.save(&agreement, &after)?;
        let (steps, left, error) = (applied.done.len(), applied.left, applied.error);
        Ok(Came { looked, refused: found.refused, steps, left, error })
    }

    /// Hears of a segment of this host whose answer was lost. It must be agreed upon before it is
    /// seen among those of others, or what it says would be done here as if others had done it.
    fn recognize(
        &self,
        conversation: &Conversation,
        notes: &Notes,
        looked: &Looked,
    ) -> Result<(), RemoteError> {
        let Some((intent, _)) = notes.intent()? else { return Ok(()) };
        let id = intent.segment;
        let name = format!("{id}.");
        let is_there = looked.segments.iter().any(|listed| listed.name.starts_with(&name));
        if is_there || notes.covered()?.contains(&id) {
            self.run(conversation, notes, &Changes::default(), &mut Session::default())?;
        }
        Ok(())
    }

    /// Returns what host and bucket agreed upon, and the files as they are.
    fn now_here(
        &self,
        conversation: &Conversation,
        notes: &Notes,
    ) -> Result<(Agreement, Files), RemoteError> {
        let mut agreement = notes.agreement()?;
        let mut files = files(conversation, &agreement.base, self.store.clock())?;
        if !conversation.has_manifest()? {
            files.assume_elsewhere(&agreement.base);
        }
        agreement.base.heal(&files.found);
        Ok((agreement, files))
    }
}

#[cfg(test)]
mod tests;
