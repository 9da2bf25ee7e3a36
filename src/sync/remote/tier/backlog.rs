//! Conversations with changes that may be missing in the bucket.
//!
//! The files to send are found on disk, so the backlog has only the names of conversations. The
//! number of conversations in the store limits the size of the backlog.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use ctxfs_core::model::Component;

const LONGEST_PAUSE: Duration = Duration::from_mins(10);

/// At shutdown, a conversation is retried only while its pause is at most this many times as long
/// as the first one.
const FEW: u32 = 32;

#[derive(Debug, Default)]
pub(super) struct PushBacklog {
    waiting: BTreeMap<Component, WaitingPush>,
    turns: BTreeSet<(Instant, Component)>,
    sending: Option<(Component, WaitingPush)>,
    pub(super) changes: u64,
    pub(super) end: Option<Instant>,
    pub(super) lag: Option<Duration>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WaitingPush {
    pub(super) since: Instant,
    due: Instant,
    pause: Duration,
    pub(super) outputs: u64,
    pub(super) bytes: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct BacklogTotals {
    pub(super) conversations: u64,
    pub(super) outputs: u64,
    pub(super) bytes: u64,
    pub(super) oldest: Option<Instant>,
}

impl WaitingPush {
    pub(super) fn new(now: Instant, pause: Duration) -> Self {
        Self { since: now, due: now + pause, pause, outputs: 0, bytes: 0 }
    }

    pub(super) fn with(self, outputs: u64, bytes: u64, since: Instant) -> Self {
        Self { outputs, bytes, since: self.since.min(since), ..self }
    }

    pub(super) fn sent(self, now: Instant) -> Self {
        Self { since: now, outputs: 0, bytes: 0, ..self }
    }

    /// Returns the state for a retry after a longer pause, by exponential backoff. The pause is at
    /// least `least`, and at most [`LONGEST_PAUSE`].
    pub(super) fn later(self, now: Instant, least: Duration) -> Self {
        let pause = (self.pause * 2).max(least).min(LONGEST_PAUSE);
        Self { due: now + pause, pause, ..self }
    }

    pub(super) fn may_retry(self, every: Duration) -> bool {
        self.pause <= every * FEW
    }

    pub(super) fn at(self, due: Instant) -> Self {
        Self { due, ..self }
    }
}

impl PushBacklog {
    /// Records a change in a conversation. `sealed` has the number of bytes if the change completes
    /// an output. The push is due `every` after the first change. Returns true if the pusher thread
    /// must recompute its wait.
    pub(super) fn note(
        &mut self,
        id: &Component,
        sealed: Option<u64>,
        now: Instant,
        every: Duration,
    ) -> bool {
        let known = self.waiting.get(id).copied();
        let mut waiting = known.unwrap_or(WaitingPush::new(now, every));
        waiting.outputs += u64::from(sealed.is_some());
        waiting.bytes += sealed.unwrap_or_default();
        (waiting.due, waiting.pause) = (waiting.due.min(now + every), every);
        self.put(id, waiting);
        known.is_none_or(|known| known.due != waiting.due)
    }

    pub(super) fn give_back(&mut self, id: &Component, waiting: WaitingPush) {
        self.sending = None;
        let merged = match self.waiting.get(id) {
            Some(known) => WaitingPush {
                since: known.since.min(waiting.since),
                due: known.due,
                pause: known.pause,
                outputs: known.outputs + waiting.outputs,
                bytes: known.bytes + waiting.bytes,
            },
            None => waiting,
        };
        self.put(id, merged);
    }

    pub(super) fn found(&mut self, id: &Component, waiting: WaitingPush) {
        let known = self.waiting.get(id).copied().unwrap_or(waiting);
        let WaitingPush { outputs, bytes, .. } = waiting;
        let since = known.since.min(waiting.since);
        self.put(id, WaitingPush { since, outputs, bytes, ..known });
    }

    fn put(&mut self, id: &Component, waiting: WaitingPush) {
        if let Some(before) = self.waiting.insert(id.clone(), waiting) {
            self.turns.remove(&(before.due, id.clone()));
        }
        self.turns.insert((waiting.due, id.clone()));
        self.changes += 1;
    }

    /// Takes the conversation that is due first. At shutdown, all conversations are due. The taken
    /// conversation counts as waiting until it is returned to the backlog or [`Self::sent`] is
    /// called.
    pub(super) fn take(&mut self, now: Instant) -> Option<(Component, WaitingPush)> {
        let is_turn = |(due, _): &&(Instant, Component)| *due <= now || self.end.is_some();
        let turn = self.turns.first().filter(is_turn)?.clone();
        self.turns.remove(&turn);
        let waiting = self.waiting.remove(&turn.1)?;
        self.sending = Some((turn.1.clone(), waiting));
        Some((turn.1, waiting))
    }

    pub(super) fn sent(&mut self) {
        self.sending = None;
    }

    pub(super) fn next_turn(&self) -> Option<Instant> {
        self.turns.first().map(|(due, _)| *due)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn has_left(&self) -> bool {
        !self.waiting.is_empty() || self.sending.is_some()
    }

    pub(super) fn totals(&self) -> BacklogTotals {
        let sending = self.sending.as_ref();
        let all = || self.waiting.values().chain(sending.map(|(_, waiting)| waiting));
        let is_apart = sending.is_some_and(|(id, _)| !self.waiting.contains_key(id));
        BacklogTotals {
            conversations: self.waiting.len() as u64 + u64::from(is_apart),
            outputs: all().map(|waiting| waiting.outputs).sum(),
            bytes: all().map(|waiting| waiting.bytes).sum(),
            oldest: all().map(|waiting| waiting.since).min(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(2);

    fn id(name: &str) -> Component {
        Component::new(name).unwrap()
    }

    #[test]
    fn what_is_done_within_a_time_goes_together() {
        let (mut backlog, start) = (PushBacklog::default(), Instant::now());
        let after = |millis| start + Duration::from_millis(millis);
        assert!(backlog.note(&id("a"), Some(10), start, EVERY));
        assert!(!backlog.note(&id("a"), Some(20), after(1900), EVERY));
        assert_eq!(backlog.take(after(1999)), None);
        let (taken, waiting) = backlog.take(after(2000)).unwrap();
        assert_eq!((taken, waiting.outputs, waiting.bytes), (id("a"), 2, 30));
        assert!(backlog.is_empty() && backlog.has_left(), "it is being sent");
        backlog.sent();
        assert!(!backlog.has_left());
    }

    #[test]
    fn turns_come_in_the_order_in_which_they_were_asked_for() {
        let (mut backlog, start) = (PushBacklog::default(), Instant::now());
        for (name, millis) in [("b", 0), ("a", 5), ("b", 6), ("c", 7)] {
            backlog.note(&id(name), None, start + Duration::from_millis(millis), EVERY);
        }
        let late = start + 2 * EVERY;
        let (first, _) = backlog.take(late).unwrap();
        backlog.note(&first, None, late, EVERY);
        let rest: Vec<_> = std::iter::from_fn(|| backlog.take(late)).map(|(id, _)| id).collect();
        assert_eq!((first, rest), (id("b"), vec![id("a"), id("c")]));
        assert_eq!(backlog.next_turn(), Some(late + EVERY));
    }

    #[test]
    fn what_cannot_be_sent_waits_longer_each_time_until_something_is_done() {
        let (mut backlog, start) = (PushBacklog::default(), Instant::now());
        backlog.note(&id("a"), Some(1), start, EVERY);
        let mut now = start + EVERY;
        for seconds in [4, 8, 16] {
            let (_, waiting) = backlog.take(now).unwrap();
            backlog.give_back(&id("a"), waiting.later(now, EVERY));
            assert_eq!(backlog.next_turn(), Some(now + Duration::from_secs(seconds)));
            now = backlog.next_turn().unwrap();
        }
        let (_, waiting) = backlog.take(now).unwrap();
        backlog.give_back(&id("a"), waiting.later(now, EVERY));
        assert!(backlog.note(&id("a"), None, now, EVERY));
        assert_eq!(backlog.next_turn(), Some(now + EVERY));
        let totals = backlog.totals();
        assert_eq!((totals.outputs, totals.bytes, totals.oldest), (1, 1, Some(start)));
    }

    #[test]
    fn at_the_end_it_is_everybodys_turn() {
        let (mut backlog, start) = (PushBacklog::default(), Instant::now());
        backlog.note(&id("a"), None, start, EVERY);
        backlog.end = Some(start + EVERY);
        assert!(backlog.take(start).is_some());
    }
}
