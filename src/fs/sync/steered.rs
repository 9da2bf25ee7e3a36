//! As shuttle runs it: one thread at a time, and which one goes on is the schedule's choice.
//!
//! Shuttle knows no time, and its waits never end by themselves. Here the clock moves when somebody
//! waits for it: a wait with a limit gives the others a turn, and is over.

mod mutex;
pub(crate) mod thread;

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::LockResult;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

pub(crate) use mutex::Mutex;
pub(crate) use mutex::MutexGuard;
pub(crate) use shuttle::sync::RwLock;
pub(crate) use shuttle::sync::RwLockReadGuard;
pub(crate) use shuttle::sync::atomic;
pub(crate) use shuttle::sync::mpsc;
pub(crate) use shuttle_dashmap::DashMap;

use crate::store::Conversation;
use crate::store::ManifestLock;
use crate::store::StoreError;

/// A limit that nobody waits for: such a wait ends when it is told to.
const FOR_EVER: Duration = Duration::from_mins(1);

static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);

thread_local! {
    /// Shuttle runs all threads of a test on one.
    static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// The time by which waiting threads are woken.
pub(crate) fn now() -> Instant {
    *BEGINNING + PASSED.get()
}

/// Nobody has priorities but the schedule.
pub(crate) fn give_way() {}

/// Lets time pass, and the others go on.
fn pass(time: Duration) {
    PASSED.set(PASSED.get() + time);
    shuttle::thread::yield_now();
}

/// As `std::sync::Condvar`.
#[derive(Default)]
pub(crate) struct Condvar(shuttle::sync::Condvar);

/// As `std::sync::WaitTimeoutResult`.
pub(crate) struct TimedOut(bool);

impl TimedOut {
    pub(crate) fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        Ok(guard.released(|inner| self.0.wait(inner).unwrap_or_else(PoisonError::into_inner)))
    }

    pub(crate) fn wait_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut waits: impl FnMut(&mut T) -> bool,
    ) -> LockResult<MutexGuard<'a, T>> {
        while waits(&mut guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        most: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, TimedOut)> {
        if most >= FOR_EVER {
            return Ok((self.wait(guard).unwrap_or_else(PoisonError::into_inner), TimedOut(false)));
        }
        let mutex = guard.of();
        drop(guard);
        pass(most);
        Ok((mutex.lock().unwrap_or_else(PoisonError::into_inner), TimedOut(true)))
    }

    pub(crate) fn wait_timeout_while<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        most: Duration,
        mut waits: impl FnMut(&mut T) -> bool,
    ) -> LockResult<(MutexGuard<'a, T>, TimedOut)> {
        let mut late = TimedOut(false);
        while !late.0 && waits(&mut guard) {
            (guard, late) = self.wait_timeout(guard, most).unwrap_or_else(PoisonError::into_inner);
        }
        Ok((guard, late))
    }
}

/// Waits for the manifest by giving the others a turn: the kernel's lock would stop them all.
pub(crate) fn hold(conversation: &Conversation) -> Result<ManifestLock, StoreError> {
    loop {
        match conversation.manifest().lock_at_once()? {
            Some(held) => return Ok(held),
            None => pass(Duration::ZERO),
        }
    }
}
