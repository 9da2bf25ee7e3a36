//! Queue of looks. All readers of a conversation share one look.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use ctxfs_core::model::Component;

const LOOKERS: usize = 4;
const MOST_WAITING: usize = 256;
const MOST_KNOWN: usize = 4096;
/// A look counts as just ended for this long after its end. A file that a reader failed to find
/// before the look may be here now.
const JUST: Duration = Duration::from_millis(100);

/// Target of a look. It is a conversation, or `None` for the list of conversations.
pub(super) type LookTarget = Option<Component>;

#[derive(Debug, Default)]
pub(super) struct LookQueue {
    state: Mutex<LookQueueState>,
    wanted: Condvar,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct LookQueueState {
    known: HashMap<LookTarget, LookState>,
    waiting: VecDeque<LookTarget>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct LookState {
    ended: Option<Instant>,
    is_wanted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LookAnswer {
    /// No look is needed because the last one is recent enough, or none is possible because the
    /// queue is full. `is_new` is true if a look has just ended.
    Enough { is_new: bool },
    /// A look is queued or running. If `needs_thread` is true, the caller must start another
    /// thread.
    Wanted { needs_thread: bool },
}

impl LookQueue {
    pub(super) fn is_due(&self, at: Option<&Component>, now: Instant, age: Duration) -> bool {
        let state = self.state.lock();
        let fresh = |ended: Instant| now.saturating_duration_since(ended) < age;
        let look = state.known.get(&at.cloned());
        look.is_none_or(|look| look.is_wanted || !look.ended.is_some_and(fresh))
    }

    pub(super) fn ask(&self, at: &LookTarget, now: Instant, age: Duration) -> LookAnswer {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if state.is_closed {
            return LookAnswer::Enough { is_new: false };
        }
        let look = state.known.entry(at.clone()).or_default();
        if look.is_wanted {
            return LookAnswer::Wanted { needs_thread: false };
        }
        let past = look.ended.map(|ended| now.saturating_duration_since(ended));
        if past.is_some_and(|past| past < age) || state.waiting.len() >= MOST_WAITING {
            return LookAnswer::Enough { is_new: past.is_some_and(|past| past < JUST) };
        }
        look.is_wanted = true;
        state.waiting.push_back(at.clone());
        let needs_thread = state.idle < state.waiting.len() && state.threads < LOOKERS;
        state.threads += usize::from(needs_thread);
        drop(guard);
        self.wanted.notify_one();
        LookAnswer::Wanted { needs_thread }
    }

    pub(super) fn wait(&self, at: &LookTarget, patience: Duration) {
        let mut state = self.state.lock();
        let is_wanted = |state: &mut LookQueueState| {
            !state.is_closed && state.known.get(at).is_some_and(|look| look.is_wanted)
        };
        self.ended.wait_while_for(&mut state, is_wanted, patience);
    }

    pub(super) fn next(&self) -> Option<LookTarget> {
        let mut state = self.state.lock();
        state.idle += 1;
        let is_idle = |state: &mut LookQueueState| !state.is_closed && state.waiting.is_empty();
        self.wanted.wait_while(&mut state, is_idle);
        state.idle -= 1;
        if state.is_closed { None } else { state.waiting.pop_front() }
    }

    pub(super) fn end(&self, at: &LookTarget, now: Instant, longest: Duration) {
        let mut state = self.state.lock();
        if let Some(look) = state.known.get_mut(at) {
            (look.ended, look.is_wanted) = (Some(now), false);
        }
        if state.known.len() > MOST_KNOWN {
            let young = |ended: Instant| now.saturating_duration_since(ended) < longest;
            state.known.retain(|_, look| look.is_wanted || look.ended.is_some_and(young));
        }
        drop(state);
        self.ended.notify_all();
    }

    pub(super) fn lacks_thread(&self) {
        self.state.lock().threads -= 1;
    }

    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.wanted.notify_all();
        self.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL: Duration = Duration::from_secs(2);

    #[test]
    fn one_look_serves_all_who_ask_until_it_is_old() {
        let (looks, start) = (LookQueue::default(), Instant::now());
        let at = Some(Component::new("c7").unwrap());
        assert!(looks.is_due(at.as_ref(), start, POLL));
        assert_eq!(looks.ask(&at, start, POLL), LookAnswer::Wanted { needs_thread: true });
        for _ in 0..1000 {
            assert_eq!(looks.ask(&at, start, POLL), LookAnswer::Wanted { needs_thread: false });
        }
        assert_eq!(looks.next(), Some(at.clone()));
        assert!(looks.is_due(at.as_ref(), start, POLL), "it is under way");
        looks.end(&at, start, POLL);
        assert!(!looks.is_due(at.as_ref(), start, POLL));
        let later = start + POLL / 2;
        assert_eq!(looks.ask(&at, later, POLL), LookAnswer::Enough { is_new: false });
        assert_eq!(looks.ask(&at, start, POLL), LookAnswer::Enough { is_new: true });
        assert!(looks.is_due(at.as_ref(), start + POLL, POLL));
    }

    #[test]
    fn what_is_remembered_and_what_waits_is_bounded() {
        let (looks, start) = (LookQueue::default(), Instant::now());
        let place = |number: usize| Some(Component::new(format!("c{number}")).unwrap());
        for number in 0..MOST_WAITING {
            assert!(matches!(looks.ask(&place(number), start, POLL), LookAnswer::Wanted { .. }));
        }
        let more = looks.ask(&place(MOST_WAITING), start, POLL);
        assert_eq!(more, LookAnswer::Enough { is_new: false });
        for number in 0..2 * MOST_KNOWN {
            let at = place(number);
            let _asked = looks.ask(&at, start, POLL);
            looks.next();
            looks.end(&at, start, POLL);
        }
        looks.end(&place(0), start + 2 * POLL, POLL);
        assert!(looks.state.lock().known.len() <= MOST_KNOWN);
    }

    #[test]
    fn nobody_waits_longer_than_his_patience_or_after_the_end() {
        let (looks, start) = (LookQueue::default(), Instant::now());
        looks.ask(&None, start, POLL);
        looks.wait(&None, Duration::from_millis(1));
        looks.close();
        looks.wait(&None, Duration::from_hours(1));
        assert_eq!(looks.next(), None);
    }
}
