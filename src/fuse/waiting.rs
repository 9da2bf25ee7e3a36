//! Requests that have to wait, so that the threads which serve the kernel never do.
//!
//! An operation never waits for a lock or a lease of another process: it fails with EAGAIN before
//! it has changed anything ([`FsError::must_wait`]), and is tried again until it succeeds, or until
//! the client that waits is told to end. One thread tries all that wait. Conversations take turns,
//! and so do the requests of each, as they may wait for different things.
//!
//! Others are worked on elsewhere, and their clients may be told to end, too: the same thread then
//! answers them ([`Unanswered`]).

use std::cell::Cell;
use std::collections::{HashSet, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::interrupted::is_told_to_end;
use ctxfs_engine::sync::{Condvar, Mutex, now, thread_local};
use ctxfs_engine::worker::Worker;
use ctxfs_engine::workers::Beneficiary;

/// The most requests of a conversation that wait. Others get EAGAIN.
pub(super) const MOST: usize = 1024;
/// The requests of a conversation that are tried in a row.
const AT_ONCE: usize = 4;
/// The pause before requests are tried again. It doubles up to the longest one while none succeeds.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(16);
/// The pause before the signals of all clients that wait are looked up again, and how many times as
/// long as looking them up it is at least.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOK_SELDOM: u32 = 10;
thread_local! {
    /// True while the thread tries requests that have waited.
    static TRIES: Cell<bool> = const { Cell::new(false) };
}

/// The end of a request's wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is to be tried again.
    Again,
    /// It may not wait.
    NoRoom,
    /// Whoever waits for it is told to end.
    Interrupted,
}

/// Tries a request again, or answers it with an error.
pub(super) type Try = Box<dyn FnOnce(Turn) + Send>;

/// A request that waits.
struct WaitingRequest {
    /// The thread that waits for its answer; 0 if that is not known.
    tid: u32,
    again: Try,
}

/// A request that is worked on elsewhere, and whose client need not wait for that.
pub(super) trait Unanswered: Send {
    /// Returns true if its client has an answer.
    fn is_answered(&self) -> bool;

    /// Answers that the wait was interrupted, unless its client has an answer.
    fn interrupt(&self);
}

/// The requests that wait, and the thread that tries them.
#[derive(Default)]
pub(super) struct WaitingRoom {
    queue: Mutex<WaitingQueue>,
    changed: Condvar,
    thread: Worker,
}

#[derive(Default)]
struct WaitingQueue {
    waiting: VecDeque<(Beneficiary, VecDeque<WaitingRequest>)>,
    /// The requests that are worked on elsewhere, each with the thread that waits for its answer.
    unanswered: Vec<(u32, Box<dyn Unanswered>)>,
    /// The requests that came back since this was last asked.
    back: usize,
    closed: bool,
}

impl WaitingRoom {
    pub(super) fn start(self: &Arc<Self>) -> io::Result<()> {
        let room = Arc::clone(self);
        self.thread.start("ctxfs-wait", move || room.work())
    }

    /// Tries everything once more, then ends the thread. Nothing can wait afterwards.
    pub(super) fn finish(&self) {
        self.queue.lock().closed = true;
        self.changed.notify_all();
        self.thread.join();
    }

    /// Keeps a request, for whose answer the thread `tid` waits, until it is time to try it again.
    /// Returns it if it cannot wait: one that has not waited before, where too many of its
    /// conversation wait already, and any one at the end.
    pub(super) fn add(&self, whom: Beneficiary, tid: u32, again: Try) -> Result<(), Try> {
        let new = !TRIES.with(Cell::get);
        let mut queue = self.queue.lock();
        if queue.closed {
            return Err(again);
        }
        match queue.waiting.iter_mut().find(|(other, _)| *other == whom) {
            Some((_, tries)) if new && tries.len() >= MOST => return Err(again),
            Some((_, tries)) => tries.push_back(WaitingRequest { tid, again }),
            None => {
                queue.waiting.push_back((whom, VecDeque::from([WaitingRequest { tid, again }])));
            }
        }
        queue.back += usize::from(!new);
        drop(queue);
        self.changed.notify_all();
        Ok(())
    }

    /// Interrupts a request that is worked on elsewhere if `tid`, the thread that waits for its
    /// answer, is told to end before that.
    pub(super) fn watch(&self, tid: u32, request: Box<dyn Unanswered>) {
        let mut queue = self.queue.lock();
        queue.unanswered.push((tid, request));
        let is_first = queue.unanswered.len() == 1;
        drop(queue);
        if is_first {
            self.changed.notify_all();
        }
    }

    fn work(&self) {
        TRIES.with(|tries| tries.set(true));
        let mut pause = SHORTEST;
        let mut look = now();
        while let Some(round) = self.next(pause) {
            let tried = round.len();
            call_all(round, Turn::Again);
            let back = std::mem::take(&mut self.queue.lock().back);
            let is_in_vain = tried > 0 && back >= tried;
            pause = if is_in_vain { (pause * 2).min(LONGEST) } else { SHORTEST };
            if now() >= look {
                look = self.end_interrupted();
            }
        }
    }

    /// Ends the wait of those that are told to end. Returns the time at which to do so again.
    fn end_interrupted(&self) -> Instant {
        let started = now();
        let waiting = self.queue.lock().threads();
        let told: HashSet<u32> = waiting.into_iter().filter(|tid| is_told_to_end(*tid)).collect();
        let pause = LOOK_EVERY.max((now() - started) * LOOK_SELDOM);
        if !told.is_empty() {
            let interrupted = self.queue.lock().take_of(&told);
            call_all(interrupted, Turn::Interrupted);
        }
        now() + pause
    }

    /// Returns the requests to try after a pause, if any. Returns `None` at the end.
    fn next(&self, pause: Duration) -> Option<Vec<WaitingRequest>> {
        let mut queue = self.queue.lock();
        let none_waits = |queue: &mut WaitingQueue| !queue.closed && queue.waiting.is_empty();
        let idle = |queue: &mut WaitingQueue| none_waits(queue) && queue.unanswered.is_empty();
        self.changed.wait_while(&mut queue, idle);
        self.changed.wait_while_for(&mut queue, none_waits, LOOK_EVERY);
        if !queue.waiting.is_empty() {
            self.changed.wait_while_for(&mut queue, |queue| !queue.closed, pause);
        }
        let round = queue.take_round();
        (!round.is_empty() || !queue.closed).then_some(round)
    }
}

impl WaitingQueue {
    /// Takes the requests that are next, a few of each conversation.
    fn take_round(&mut self) -> Vec<WaitingRequest> {
        let mut round = Vec::new();
        for (_, tries) in &mut self.waiting {
            let most = if self.closed { tries.len() } else { tries.len().min(AT_ONCE) };
            round.extend(tries.drain(..most));
        }
        self.waiting.retain(|(_, tries)| !tries.is_empty());
        round
    }

    /// Returns the threads that wait. Forgets requests that are answered.
    fn threads(&mut self) -> Vec<u32> {
        self.unanswered.retain(|(_, request)| !request.is_answered());
        let requests = self.waiting.iter().flat_map(|(_, tries)| tries);
        let waiting = requests.map(|request| request.tid).filter(|tid| *tid != 0);
        waiting.chain(self.unanswered.iter().map(|(tid, _)| *tid)).collect()
    }

    /// Takes all requests of some threads.
    fn take_of(&mut self, tids: &HashSet<u32>) -> Vec<WaitingRequest> {
        let mut taken = Vec::new();
        for (_, tries) in &mut self.waiting {
            let all = std::mem::take(tries).into_iter();
            let (of_them, others): (Vec<_>, Vec<_>) =
                all.partition(|request| tids.contains(&request.tid));
            taken.extend(of_them);
            *tries = others.into();
        }
        self.waiting.retain(|(_, tries)| !tries.is_empty());
        let unanswered = self.unanswered.extract_if(.., |(tid, _)| tids.contains(tid));
        taken.extend(unanswered.map(|(tid, request)| {
            let again = Box::new(move |_: Turn| request.interrupt());
            WaitingRequest { tid, again }
        }));
        taken
    }
}

/// Calls what requests are to do next. One that panics drops its reply, which then answers EIO.
fn call_all(requests: Vec<WaitingRequest>, turn: Turn) {
    for WaitingRequest { again, .. } in requests {
        if catch_unwind(AssertUnwindSafe(|| again(turn))).is_err() {
            tracing::error!("a request that had waited panicked; its caller got EIO");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use ctxfs_core::model::Component;

    fn id(name: &str) -> Component {
        Component::new(name).unwrap()
    }

    #[test]
    fn conversations_take_turns_and_none_waits_without_bound() {
        let room = WaitingRoom::default();
        let tried = Arc::new(AtomicUsize::new(0));
        let count = || {
            let tried = Arc::clone(&tried);
            Box::new(move |_| {
                tried.fetch_add(1, Relaxed);
            }) as Try
        };
        for _ in 0..MOST {
            assert!(room.add(Some(id("many")), 0, count()).is_ok());
        }
        assert!(room.add(Some(id("many")), 0, count()).is_err(), "too many");
        TRIES.with(|tries| tries.set(true));
        assert!(room.add(Some(id("many")), 0, count()).is_ok(), "it waited before");
        TRIES.with(|tries| tries.set(false));
        assert!(room.add(Some(id("few")), 0, count()).is_ok());
        let round = room.next(Duration::ZERO).unwrap();
        assert_eq!(round.len(), AT_ONCE + 1, "that of the few is among the first");
        room.queue.lock().closed = true;
        assert_eq!(room.next(Duration::ZERO).unwrap().len(), MOST + 1 - AT_ONCE);
        assert!(room.next(Duration::ZERO).is_none());
        assert!(room.add(Some(id("few")), 0, count()).is_err(), "nobody would try it");
    }
}
