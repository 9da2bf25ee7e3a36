//! Threads for work that may take a while, so that no kernel request waits behind another's view.

use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::PoisonError;

use crate::fs::sync::Condvar;
use crate::fs::sync::Mutex;
use crate::fs::sync::MutexGuard;
use crate::fs::sync::thread;

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

#[derive(Default)]
struct State {
    jobs: std::collections::VecDeque<Job>,
    closed: bool,
}

impl Pool {
    /// Starts `count` threads called `name`.
    pub(crate) fn start(name: &str, count: usize) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let spawn = |_| {
            let queue = Arc::clone(&queue);
            thread::Builder::new().name(name.to_owned()).spawn(move || queue.work())
        };
        let threads = (0..count).map(spawn).collect::<std::io::Result<_>>()?;
        Ok(Self { queue, threads })
    }

    /// Runs `job` on one of the threads, in the order of submission.
    pub(crate) fn submit(&self, job: impl FnOnce() + Send + 'static) {
        self.queue.lock().jobs.push_back(Box::new(job));
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
        while let Some(job) = self.next() {
            // A job answers its caller by itself; one that panics drops its reply, which then
            // answers EIO.
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!("a job panicked; its caller got EIO");
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
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
