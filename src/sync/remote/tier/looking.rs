//! Runs the looks: on behalf of readers, this module asks the bucket for changes of other hosts.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::bucket::{BucketError, CONVERSATIONS, Deadline, conversation_of};
use crate::remote::look::MOST_CONVERSATIONS;
use crate::remote::tier::TierInner;
use crate::remote::tier::access::OpenBucket;
use crate::remote::tier::looks::{LookAnswer, LookTarget};
use crate::remote::{Downloads, LookOutcome, PullReport, RemoteError, Synchronizer};
use ctxfs_core::model::Component;
use ctxfs_store::Conversation;

/// Duration for which a look retries its requests to the bucket. `LOCK` is the duration for which
/// it waits for the push lock.
const PATIENCE: Duration = Duration::from_secs(10);
const LOCK: Duration = Duration::from_secs(2);
const CONVERSATIONS_AGE: Duration = Duration::from_mins(1);

struct LookEnd<'a>(&'a TierInner, &'a LookTarget);

impl Drop for LookEnd<'_> {
    fn drop(&mut self) {
        let longest = CONVERSATIONS_AGE.max(self.0.access.options.poll);
        self.0.looks.end(self.1, (self.0.now)(), longest);
    }
}

impl TierInner {
    pub(super) fn max_age(&self, at: Option<&Component>) -> Duration {
        let poll = self.access.options.poll;
        if at.is_some() { poll } else { poll.max(CONVERSATIONS_AGE) }
    }

    pub(super) fn look(self: &Arc<Self>, at: Option<&Component>, patience: Duration) -> bool {
        let now = (self.now)();
        if self.breaker.is_open(now) {
            return false;
        }
        let place = at.cloned();
        match self.looks.ask(&place, now, self.max_age(at)) {
            LookAnswer::Enough { is_new } => return is_new,
            LookAnswer::Wanted { needs_thread: true } => self.start_looker(),
            LookAnswer::Wanted { needs_thread: false } => {}
        }
        if self.breaker.has_failed() {
            return false;
        }
        self.looks.wait(&place, patience);
        true
    }

    fn start_looker(self: &Arc<Self>) {
        let inner = Arc::clone(self);
        let work = move || {
            while let Some(place) = inner.looks.next() {
                inner.run_look(&place);
            }
        };
        if let Err(error) = thread::Builder::new().name("ctxfs-look".to_owned()).spawn(work) {
            tracing::warn!(%error, "no thread can look what other hosts did");
            self.looks.lacks_thread();
        }
    }

    fn run_look(&self, place: &LookTarget) {
        let _ending = LookEnd(self, place);
        let heard = match &self.looker {
            Some(looker) => self.record(place.as_ref(), looker.look_now(place.as_ref())),
            None => self.look_here(place),
        };
        let Ok(heard) = heard else { return };
        if let Some(conversations) = heard.conversations {
            *self.others.lock() = conversations.into();
        }
        if heard.is_answered {
            self.breaker.succeeded(place.as_ref());
            if let Some(id) = place {
                self.drop_gone(id);
            }
        }
    }

    pub(super) fn look_here(&self, place: &LookTarget) -> Result<LookOutcome, RemoteError> {
        let Some(known) = self.identify()? else { return Ok(LookOutcome::default()) };
        let heard = match place {
            Some(id) => {
                let answered = self.look_at(&known, id);
                answered.map(|is_answered| LookOutcome { is_answered, conversations: None })
            }
            None => self.list(&known),
        };
        self.record(place.as_ref(), heard)
    }

    fn look_at(&self, known: &OpenBucket, id: &Component) -> Result<bool, RemoteError> {
        let Some(lock) = self.access.lock(known, LOCK)? else { return Ok(false) };
        let _turn = self.access.lock_conversation(id);
        self.access.sync((known, &*lock), PATIENCE, |sync| {
            let came = match sync.store.conversation(id)? {
                Some(conversation) => {
                    let came = sync.pull(&conversation, Downloads::OnRead)?;
                    Some((conversation, came))
                }
                // The removal must be published before the conversation can be looked at.
                None if known.home.is_removed(sync.store, id)? => return Ok(false),
                None => sync.pull_new(id, Downloads::OnRead)?,
            };
            let Some((conversation, came)) = came else { return Ok(true) };
            if !came.looked.gone.is_empty() {
                known.artifacts.forget(id);
            }
            let settled = self.settle(sync, &conversation, came);
            *self.last.lock() = Some(conversation);
            settled
        })
    }

    fn settle(
        &self,
        sync: &Synchronizer<'_>,
        conversation: &Conversation,
        came: PullReport,
    ) -> Result<bool, RemoteError> {
        if self.access.options.pushes {
            match sync.resend(conversation, &came.looked) {
                Ok(resent) => {
                    for key in &resent.taken {
                        tracing::warn!(%key, "the bucket has lost this, and has other bytes there");
                    }
                }
                Err(RemoteError::Bucket(BucketError::Refused { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        for left in &came.left {
            tracing::debug!(path = %left.path, why = %left.why, "a change of others waits");
        }
        let no_room = came.no_room.map(|why| RemoteError::NoRoom { why });
        came.error.or(no_room).map_or(Ok(true), Err)
    }

    /// Removes a conversation from the list of remote ones if it is not in the store. Called after
    /// a look at it, and after its removal.
    pub(super) fn drop_gone(&self, id: &Component) {
        let mut others = self.others.lock();
        if others.contains(id) && matches!(self.access.store.conversation(id), Ok(None)) {
            *others = others.iter().filter(|other| *other != id).cloned().collect();
        }
    }

    /// Lists the conversations in the bucket, without the ones that are known to be removed.
    fn list(&self, known: &OpenBucket) -> Result<LookOutcome, RemoteError> {
        let deadline = Deadline::after(PATIENCE);
        let names = self.access.bucket.list_dirs(CONVERSATIONS, MOST_CONVERSATIONS, deadline)?;
        let all = names.iter().filter_map(|name| conversation_of(name));
        let is_gone = |id: &Component| known.home.is_gone(&self.access.store, id).unwrap_or(false);
        let (gone, mut conversations): (Vec<_>, Vec<_>) = all.partition(is_gone);
        self.look_again(known, &gone);
        // Conversations may have been removed during the list.
        conversations.retain(|id| !is_gone(id));
        Ok(LookOutcome { is_answered: true, conversations: Some(conversations) })
    }

    /// Runs a look at one removed conversation, because another host may have created it again.
    /// Chooses the conversation whose last look is the oldest.
    fn look_again(&self, known: &OpenBucket, gone: &[Component]) {
        let looked = |id: &Component| known.home.known_conversation(id).ok()??.looked().ok()?;
        // Skip removals that are not published yet.
        let is_told =
            |id: &&Component| !known.home.is_removed(&self.access.store, id).unwrap_or(true);
        let Some(id) = gone.iter().filter(is_told).min_by_key(|id| looked(id)) else { return };
        if let Err(error) = self.look_at(known, id) {
            tracing::debug!(%error, "a conversation that is gone cannot be looked at");
            // Record the look even after a failure, so that other conversations get their turn
            // first.
            if let Ok(Some(notes)) = known.home.known_conversation(id) {
                let _noted = notes.keep_look();
            }
        }
    }
}
