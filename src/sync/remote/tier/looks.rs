//! The looks that readers ask for: one for all who ask, by a few threads.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use ctxfs_core::model::Component;

/// The threads that look.
const LOOKERS: usize = 4;
/// The most looks that wait for one. For more, what is here counts.
const MOST_WAITING: usize = 256;
/// The conversations from which on old looks are forgotten.
const MOST_KNOWN: usize = 4096;
/// A look that ended so short a time ago may have brought what its reader has just missed.
const JUST: Duration = Duration::from_millis(100);

/// What is looked at: a conversation, or which conversations there are.
pub(super) type Place = Option<Component>;

/// The looks.
#[derive(Debug, Default)]
pub(super) struct Looks {
    state: Mutex<State>,
    wanted: Condvar,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    known: HashMap<Place, Look>,
    waiting: VecDeque<Place>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Look {
    /// When the last one ended.
    ended: Option<Instant>,
    /// True if one waits or is under way.
    is_wanted: bool,
}

/// What a reader finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The last look is young enough, or no more can be taken. `is_new` if it has just ended.
    Enough { is_new: bool },
    /// A look waits or is under way. With `needs_thread`, one more thread is to be started.
    Wanted { needs_thread: bool },
}

impl Looks {
    /// Returns true if the last look at a place is older than `age`.
    pub(super) fn is_due(&self, at: Option<&Component>, now: Instant, age: Duration) -> bool {
        let state = self.state.lock();
        let fresh = |ended: Instant| now.saturating_duration_since(ended) < age;
        let look = state.known.get(&at.cloned());
        look.is_none_or(|look| look.is_wanted || !look.ended.is_some_and(fresh))
    }

    /// Asks for a look at a place, if the last one is older than `age`.
    pub(super) fn ask(&self, at: &Place, now: Instant, age: Duration) -> Asked {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if state.is_closed {
            return Asked::Enough { is_new: false };
        }
        let look = state.known.entry(at.clone()).or_default();
        if look.is_wanted {
            return Asked::Wanted { needs_thread: false };
        }
        let past = look.ended.map(|ended| now.saturating_duration_since(ended));
        if past.is_some_and(|past| past < age) || state.waiting.len() >= MOST_WAITING {
            return Asked::Enough { is_new: past.is_some_and(|past| past < JUST) };
        }
        look.is_wanted = true;
        state.waiting.push_back(at.clone());
        let needs_thread = state.idle < state.waiting.len() && state.threads < LOOKERS;
        state.threads += usize::from(needs_thread);
        drop(guard);
        self.wanted.notify_one();
        Asked::Wanted { needs_thread }
    }

    /// Waits until the look at a place has ended, for `patience` at most.
    pub(super) fn wait(&self, at: &Place, patience: Duration) {
        let mut state = self.state.lock();
        let is_wanted = |state: &mut State| {
            !state.is_closed && state.known.get(at).is_some_and(|look| look.is_wanted)
        };
        self.ended.wait_while_for(&mut state, is_wanted, patience);
    }

    /// Waits for the next look that is asked for. None at the end.
    pub(super) fn next(&self) -> Option<Place> {
        let mut state = self.state.lock();
        state.idle += 1;
        let is_idle = |state: &mut State| !state.is_closed && state.waiting.is_empty();
        self.wanted.wait_while(&mut state, is_idle);
        state.idle -= 1;
        if state.is_closed { None } else { state.waiting.pop_front() }
    }

    /// Notes that a look has ended.
    pub(super) fn end(&self, at: &Place, now: Instant, longest: Duration) {
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

    /// Notes that a thread could not be started.
    pub(super) fn lacks_thread(&self) {
        self.state.lock().threads -= 1;
    }

    /// Ends the threads and all waits.
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
        let (looks, start) = (Looks::default(), Instant::now());
        let at = Some(Component::new("c7").unwrap());
        assert!(looks.is_due(at.as_ref(), start, POLL));
        assert_eq!(looks.ask(&at, start, POLL), Asked::Wanted { needs_thread: true });
        for _ in 0..1000 {
            assert_eq!(looks.ask(&at, start, POLL), Asked::Wanted { needs_thread: false });
        }
        assert_eq!(looks.next(), Some(at.clone()));
        assert!(looks.is_due(at.as_ref(), start, POLL), "it is under way");
        looks.end(&at, start, POLL);
        assert!(!looks.is_due(at.as_ref(), start, POLL));
        let later = start + POLL / 2;
        assert_eq!(looks.ask(&at, later, POLL), Asked::Enough { is_new: false });
        assert_eq!(looks.ask(&at, start, POLL), Asked::Enough { is_new: true });
        assert!(looks.is_due(at.as_ref(), start + POLL, POLL));
    }

    #[test]
    fn what_is_remembered_and_what_waits_is_bounded() {
        let (looks, start) = (Looks::default(), Instant::now());
        let place = |number: usize| Some(Component::new(format!("c{number}")).unwrap());
        for number in 0..MOST_WAITING {
            assert!(matches!(looks.ask(&place(number), start, POLL), Asked::Wanted { .. }));
        }
        let more = looks.ask(&place(MOST_WAITING), start, POLL);
        assert_eq!(more, Asked::Enough { is_new: false });
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
        let (looks, start) = (Looks::default(), Instant::now());
        looks.ask(&None, start, POLL);
        looks.wait(&None, Duration::from_millis(1));
        looks.close();
        looks.wait(&None, Duration::from_hours(1));
        assert_eq!(looks.next(), None);
    }
}
