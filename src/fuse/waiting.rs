//! Requests that have to wait. The threads that serve the kernel never wait themselves.
//!
//! An operation never waits for a lock or a lease of another process. It fails with EAGAIN before
//! it has changed anything ([`FsError::must_wait`]), and is retried until it succeeds or a signal
//! ends its client. One thread retries all requests. Conversations take turns. The requests of a
//! conversation take turns too, because they may wait for different locks.
//!
//! Other threads may work on a request for a long time. If a signal ends the client of such a
//! request before the reply, the retrying thread sends the reply ([`Unanswered`]).

use std::cell::Cell;
use std::collections::{HashSet, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::process::is_told_to_end;
use ctxfs_engine::sync::{Condvar, Mutex, now, thread_local};
use ctxfs_engine::workers::{BackgroundThread, JobOwner};

/// Maximum number of waiting requests of a conversation. Further requests fail with EAGAIN.
pub(super) const MOST: usize = 1024;
/// Number of requests of a conversation that are retried in a row.
const AT_ONCE: usize = 4;
/// Pause before the next retry. It doubles up to [`LONGEST`] while no request succeeds.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(16);
/// Minimum pause between two checks of the signals of all waiting clients. The pause is also at
/// least [`LOOK_SELDOM`] times as long as the last check took.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const LOOK_SELDOM: u32 = 10;
thread_local! {
    /// True on the thread that retries requests.
    static RETRIES: Cell<bool> = const { Cell::new(false) };
}

/// Why the wait of a request ends: the request is to be retried, there is no room to wait, or a
/// signal ends its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitOutcome {
    Again,
    NoRoom,
    Interrupted,
}

pub(super) type Continuation = Box<dyn FnOnce(WaitOutcome) + Send>;

struct WaitingRequest {
    tid: u32,
    again: Continuation,
}

pub(super) struct Unanswered {
    pub(super) tid: u32,
    pub(super) is_answered: Box<dyn Fn() -> bool + Send>,
    pub(super) interrupt: Box<dyn FnOnce() + Send>,
}

#[derive(Default)]
pub(super) struct WaitingRoom {
    queue: Mutex<WaitingQueue>,
    changed: Condvar,
    thread: BackgroundThread,
}

#[derive(Default)]
struct WaitingQueue {
    waiting: VecDeque<(JobOwner, VecDeque<WaitingRequest>)>,
    unanswered: Vec<Unanswered>,
    /// Number of requests of the current round that were retried and have to wait again.
    back: usize,
    closed: bool,
}

impl WaitingRoom {
    pub(super) fn start(self: &Arc<Self>) -> io::Result<()> {
        let room = Arc::clone(self);
        self.thread.start("ctxfs-wait", move || room.work())
    }

    /// Retries all waiting requests once more, and then ends the thread. No request can wait
    /// afterwards.
    pub(super) fn finish(&self) {
        self.queue.lock().closed = true;
        self.changed.notify_all();
        self.thread.join();
    }

    /// Keeps a request of the client thread `tid` until its next retry. Returns the request as an
    /// error if it cannot wait. A new request cannot wait if [`MOST`] requests of the conversation
    /// wait already. No request can wait once the mount is ending.
    pub(super) fn add(
        &self,
        whom: JobOwner,
        tid: u32,
        again: Continuation,
    ) -> Result<(), Continuation> {
        let new = !RETRIES.with(Cell::get);
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

    /// Watches a request that another thread works on. If a signal ends the client of the request
    /// before the reply, the request is interrupted.
    pub(super) fn watch(&self, request: Unanswered) {
        let mut queue = self.queue.lock();
        queue.unanswered.push(request);
        let is_first = queue.unanswered.len() == 1;
        drop(queue);
        if is_first {
            self.changed.notify_all();
        }
    }

    fn work(&self) {
        RETRIES.with(|tries| tries.set(true));
        let mut pause = SHORTEST;
        let mut look = now();
        while let Some(round) = self.next(pause) {
            let tried = round.len();
            call_all(round, WaitOutcome::Again);
            let back = std::mem::take(&mut self.queue.lock().back);
            let is_in_vain = tried > 0 && back >= tried;
            pause = if is_in_vain { (pause * 2).min(LONGEST) } else { SHORTEST };
            if now() >= look {
                look = self.end_interrupted();
            }
        }
    }

    fn end_interrupted(&self) -> Instant {
        let started = now();
        let waiting = self.queue.lock().threads();
        let told: HashSet<u32> = waiting.into_iter().filter(|tid| is_told_to_end(*tid)).collect();
        let pause = LOOK_EVERY.max((now() - started) * LOOK_SELDOM);
        if !told.is_empty() {
            let interrupted = self.queue.lock().take_of(&told);
            call_all(interrupted, WaitOutcome::Interrupted);
        }
        now() + pause
    }

    /// Returns the requests to retry after a pause; there may be none. Returns `None` at the end of
    /// the mount.
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
    fn take_round(&mut self) -> Vec<WaitingRequest> {
        let mut round = Vec::new();
        for (_, tries) in &mut self.waiting {
            let most = if self.closed { tries.len() } else { tries.len().min(AT_ONCE) };
            round.extend(tries.drain(..most));
        }
        self.waiting.retain(|(_, tries)| !tries.is_empty());
        round
    }

    fn threads(&mut self) -> Vec<u32> {
        self.unanswered.retain(|request| !(request.is_answered)());
        let requests = self.waiting.iter().flat_map(|(_, tries)| tries);
        let waiting = requests.map(|request| request.tid).filter(|tid| *tid != 0);
        waiting.chain(self.unanswered.iter().map(|request| request.tid)).collect()
    }

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
        let unanswered = self.unanswered.extract_if(.., |request| tids.contains(&request.tid));
        taken.extend(unanswered.map(|request| {
            let again = Box::new(move |_: WaitOutcome| (request.interrupt)());
            WaitingRequest { tid: request.tid, again }
        }));
        taken
    }
}

fn call_all(requests: Vec<WaitingRequest>, turn: WaitOutcome) {
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
            }) as Continuation
        };
        for _ in 0..MOST {
            assert!(room.add(Some(id("many")), 0, count()).is_ok());
        }
        assert!(room.add(Some(id("many")), 0, count()).is_err(), "too many");
        RETRIES.with(|tries| tries.set(true));
        assert!(room.add(Some(id("many")), 0, count()).is_ok(), "it waited before");
        RETRIES.with(|tries| tries.set(false));
        assert!(room.add(Some(id("few")), 0, count()).is_ok());
        let round = room.next(Duration::ZERO).unwrap();
        assert_eq!(round.len(), AT_ONCE + 1, "that of the few is among the first");
        room.queue.lock().closed = true;
        assert_eq!(room.next(Duration::ZERO).unwrap().len(), MOST + 1 - AT_ONCE);
        assert!(room.next(Duration::ZERO).is_none());
        assert!(room.add(Some(id("few")), 0, count()).is_err(), "nobody would try it");
    }
}
