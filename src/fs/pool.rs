//! Threads for work that may take a while, so that no kernel request waits behind another's view.
//!
//! Work is taken for each conversation in turn, and for none on all threads at once: whatever is
//! asked for in one, others wait for no more than a job.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::PoisonError;

use crate::fs::sync::Condvar;
use crate::fs::sync::Mutex;
use crate::fs::sync::MutexGuard;
use crate::fs::sync::thread;

use crate::model::Component;

type Job = Box<dyn FnOnce() + Send>;

/// A few threads and a queue. Dropping it lets queued jobs finish, then ends the threads.
pub(crate) struct Pool {
    queue: Arc<Queue>,
    threads: Vec<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    ready: Condvar,
}

/// For whom a job is done: a conversation, or nobody in particular.
pub(crate) type Whom = Option<Component>;

#[derive(Default)]
struct State {
    /// What waits for each, those who have waited longest first.
    waiting: VecDeque<(Whom, VecDeque<Job>)>,
    /// How many jobs of each run.
    running: HashMap<Whom, usize>,
    threads: usize,
    closed: bool,
}

impl State {
    fn add(&mut self, whom: Whom, job: Job) {
        match self.waiting.iter_mut().find(|(other, _)| *other == whom) {
            Some((_, jobs)) => jobs.push_back(job),
            None => self.waiting.push_back((whom, VecDeque::from([job]))),
        }
    }

    /// The next job of whoever is next and has not all threads but one.
    fn take(&mut self) -> Option<(Whom, Job)> {
        let most = (self.threads - 1).max(1);
        let may = |whom: &Whom| self.running.get(whom).copied().unwrap_or_default() < most;
        let next = self.waiting.iter().position(|(whom, _)| may(whom))?;
        let (whom, mut jobs) = self.waiting.remove(next)?;
        let job = jobs.pop_front()?;
        if !jobs.is_empty() {
            self.waiting.push_back((whom.clone(), jobs));
        }
        *self.running.entry(whom.clone()).or_default() += 1;
        Some((whom, job))
    }

    fn done(&mut self, whom: &Whom) {
        if let Some(running) = self.running.get_mut(whom) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(whom);
            }
        }
    }
}

impl Pool {
    /// Starts `count` threads called `name`, of which one conversation has all but one at most.
    pub(crate) fn start(name: &str, count: usize) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::default());
        queue.lock().threads = count;
        let spawn = |_| {
            let queue = Arc::clone(&queue);
            thread::Builder::new().name(name.to_owned()).spawn(move || queue.work())
        };
        let threads = (0..count).map(spawn).collect::<std::io::Result<_>>()?;
        Ok(Self { queue, threads })
    }

    /// Runs `job` on one of the threads, in the order in which jobs for `whom` are submitted.
    pub(crate) fn submit(&self, whom: Whom, job: impl FnOnce() + Send + 'static) {
        self.queue.lock().add(whom, Box::new(job));
        self.queue.ready.notify_one();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.ready.notify_all();
        let me = thread::current().id();
        for thread in self.threads.drain(..) {
            if thread.thread().id() != me && thread.join().is_err() {
                tracing::error!("a worker thread panicked");
            }
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        while let Some((whom, job)) = self.next() {
            // A job answers its caller by itself; one that panics drops its reply, which then
            // answers EIO.
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!("a job panicked; its caller got EIO");
            }
            self.lock().done(&whom);
            // Somebody may have waited for this one to end, rather than for a thread.
            self.ready.notify_all();
        }
    }

    fn next(&self) -> Option<(Whom, Job)> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.take() {
                return Some(job);
            }
            if state.closed && state.waiting.is_empty() {
                return None;
            }
            state = self.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(name: &str) -> Component {
        Component::new(name).unwrap()
    }

    #[test]
    fn each_has_its_turn_and_nobody_has_all_threads() {
        let mut state = State { threads: 3, ..State::default() };
        for _ in 0..1000 {
            state.add(Some(id("many")), Box::new(|| ()));
        }
        state.add(Some(id("few")), Box::new(|| ()));
        let mut taken = || state.take().map(|(whom, _)| whom);
        assert_eq!(taken(), Some(Some(id("many"))));
        assert_eq!(taken(), Some(Some(id("few"))), "after one of the others");
        assert_eq!(taken(), Some(Some(id("many"))));
        assert_eq!(taken(), None, "the third thread waits for somebody else");
        state.add(None, Box::new(|| ()));
        assert_eq!(state.take().map(|(whom, _)| whom), Some(None));
        state.done(&Some(id("many")));
        assert_eq!(state.take().map(|(taken, _)| taken), Some(Some(id("many"))));
    }

    #[test]
    fn all_that_was_asked_for_is_done_before_the_end() {
        let pool = Pool::start("test", 2).unwrap();
        let (send, received) = std::sync::mpsc::channel();
        for number in 0..100 {
            let send = send.clone();
            pool.submit(Some(id(["a", "b", "c"][number % 3])), move || {
                assert!(number != 50, "a job that panics");
                send.send(number).unwrap();
            });
        }
        drop(pool);
        drop(send);
        let mut done: Vec<usize> = received.iter().collect();
        done.sort_unstable();
        assert_eq!(done.len(), 99);
    }
}
