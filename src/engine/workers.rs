//! Background threads, and pools of threads for slow work. With a pool, a quick request does not
//! have to wait until the view of another request is computed.
//!
//! In a pool, conversations take turns, and no conversation may occupy all threads at once. A
//! request of one conversation therefore waits for at most one job of another.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::sync::thread::JoinHandle;
use crate::sync::{Condvar, Mutex, thread};
use ctxfs_core::model::Component;

/// Maximum input in bytes for which computing a view takes less time than passing the work to
/// another thread.
pub(crate) const QUICK_INPUT: u64 = 256 * 1024;

/// A background thread. The owner first signals the thread to end, and then calls [`Self::join`].
#[derive(Default)]
pub struct BackgroundThread(Mutex<Option<JoinHandle<()>>>);

impl BackgroundThread {
    pub fn start(&self, name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work)?;
        *self.0.lock() = Some(thread);
        Ok(())
    }

    /// Waits for the thread to end, if it was started. Returns at once if called on the thread
    /// itself.
    pub fn join(&self) {
        let Some(thread) = self.0.lock().take() else { return };
        if thread.thread().id() != thread::current().id() && thread.join().is_err() {
            tracing::error!("a background thread panicked");
        }
    }
}

impl std::fmt::Debug for BackgroundThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackgroundThread").finish_non_exhaustive()
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// The conversation of a job. `None` for a job that belongs to no single conversation.
pub type JobOwner = Option<Component>;

/// A pool of threads with a queue. Dropping the pool finishes the queued jobs and then ends the
/// threads.
///
/// The threads start with the first job, so a process that computes no view has no threads for it.
pub struct WorkerPool {
    name: &'static str,
    count: usize,
    queue: Arc<JobQueue>,
    threads: Mutex<Vec<BackgroundThread>>,
}

#[derive(Default)]
struct JobQueue {
    jobs: Mutex<Jobs>,
    ready: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<(JobOwner, VecDeque<Job>)>,
    running: HashMap<JobOwner, usize>,
    threads: usize,
    closed: bool,
}

impl Jobs {
    fn add(&mut self, whom: JobOwner, job: Job) {
        match self.waiting.iter_mut().find(|(other, _)| *other == whom) {
            Some((_, jobs)) => jobs.push_back(job),
            None => self.waiting.push_back((whom, VecDeque::from([job]))),
        }
    }

    /// Returns the maximum number of threads that one conversation may occupy: all but one.
    fn most_of_one(&self) -> usize {
        (self.threads - 1).max(1)
    }

    fn can_begin(&self, whom: &JobOwner) -> bool {
        let waiting = self.waiting.iter().map(|(other, jobs)| (other, jobs.len()));
        let running = self.running.iter().map(|(other, count)| (other, *count));
        let (mut all, mut own) = (0, 0);
        for (other, count) in waiting.chain(running) {
            all += count;
            own += if other == whom { count } else { 0 };
        }
        all < self.threads && own < self.most_of_one()
    }

    /// Takes the next job of the first conversation that may occupy one more thread.
    fn take(&mut self) -> Option<(JobOwner, Job)> {
        let most = self.most_of_one();
        let may = |whom: &JobOwner| self.running.get(whom).copied().unwrap_or_default() < most;
        let next = self.waiting.iter().position(|(whom, _)| may(whom))?;
        let (whom, mut jobs) = self.waiting.remove(next)?;
        let job = jobs.pop_front()?;
        if !jobs.is_empty() {
            self.waiting.push_back((whom.clone(), jobs));
        }
        *self.running.entry(whom.clone()).or_default() += 1;
        Some((whom, job))
    }

    fn done(&mut self, whom: &JobOwner) {
        if let Some(running) = self.running.get_mut(whom) {
            *running -= 1;
            if *running == 0 {
                self.running.remove(whom);
            }
        }
    }
}

impl WorkerPool {
    /// Creates a pool of `count` threads called `name`. A conversation may occupy all threads but
    /// one.
    pub fn new(name: &'static str, count: usize) -> Self {
        let queue = Arc::new(JobQueue::default());
        queue.jobs.lock().threads = count;
        Self { name, count, queue, threads: Mutex::default() }
    }

    /// Runs `job` on one of the threads. Jobs of the same conversation `whom` start in order.
    pub fn submit(&self, whom: JobOwner, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.start()?;
        self.queue.jobs.lock().add(whom, Box::new(job));
        self.queue.ready.notify_one();
        Ok(())
    }

    /// Runs `job` if a thread can start it at once. Otherwise drops the job and returns false.
    pub(crate) fn submit_unless_busy(
        &self,
        whom: JobOwner,
        job: impl FnOnce() + Send + 'static,
    ) -> io::Result<bool> {
        self.start()?;
        let mut jobs = self.queue.jobs.lock();
        let can_begin = jobs.can_begin(&whom);
        if can_begin {
            jobs.add(whom, Box::new(job));
            self.queue.ready.notify_one();
        }
        Ok(can_begin)
    }

    pub fn waiting(&self, whom: &JobOwner) -> usize {
        let jobs = self.queue.jobs.lock();
        jobs.waiting.iter().find(|(other, _)| other == whom).map_or(0, |(_, jobs)| jobs.len())
    }

    /// Finishes the queued jobs and then ends the threads.
    pub fn finish(&self) {
        self.queue.jobs.lock().closed = true;
        self.queue.ready.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock());
        threads.iter().for_each(BackgroundThread::join);
    }

    fn start(&self) -> io::Result<()> {
        let mut threads = self.threads.lock();
        if self.queue.jobs.lock().closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        while threads.len() < self.count {
            let (worker, queue) = (BackgroundThread::default(), Arc::clone(&self.queue));
            worker.start(self.name, move || queue.work())?;
            threads.push(worker);
        }
        Ok(())
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.finish();
    }
}

impl JobQueue {
    fn work(&self) {
        while let Some((whom, job)) = self.next() {
            // A job sends the reply to its caller. A job that panics drops the reply, which then
            // fails with EIO.
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                tracing::error!("a job panicked; its caller got EIO");
            }
            self.jobs.lock().done(&whom);
            // Another thread may be waiting for the end of this job instead of a new job.
            self.ready.notify_all();
        }
    }

    fn next(&self) -> Option<(JobOwner, Job)> {
        let mut jobs = self.jobs.lock();
        loop {
            if let Some(job) = jobs.take() {
                return Some(job);
            }
            if jobs.closed && jobs.waiting.is_empty() {
                return None;
            }
            self.ready.wait(&mut jobs);
        }
    }
}

impl std::fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerPool").field("name", &self.name).finish_non_exhaustive()
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
        let mut jobs = Jobs { threads: 3, ..Jobs::default() };
        for _ in 0..1000 {
            jobs.add(Some(id("many")), Box::new(|| ()));
        }
        jobs.add(Some(id("few")), Box::new(|| ()));
        let mut taken = || jobs.take().map(|(whom, _)| whom);
        assert_eq!(taken(), Some(Some(id("many"))));
        assert_eq!(taken(), Some(Some(id("few"))), "after one of the others");
        assert_eq!(taken(), Some(Some(id("many"))));
        assert_eq!(taken(), None, "the third thread waits for somebody else");
        jobs.add(None, Box::new(|| ()));
        assert_eq!(jobs.take().map(|(whom, _)| whom), Some(None));
        jobs.done(&Some(id("many")));
        assert_eq!(jobs.take().map(|(taken, _)| taken), Some(Some(id("many"))));
    }

    #[test]
    fn a_thread_is_free_for_those_who_may_have_it() {
        let mut jobs = Jobs { threads: 3, ..Jobs::default() };
        let (one, other) = (Some(id("one")), Some(id("other")));
        for free in [true, true, false] {
            assert_eq!(jobs.can_begin(&one), free);
            jobs.add(one.clone(), Box::new(|| ()));
            jobs.take();
        }
        jobs.waiting.clear();
        assert!(jobs.can_begin(&other));
        jobs.add(other.clone(), Box::new(|| ()));
        assert!(!jobs.can_begin(&other), "one that nobody has begun counts");
        jobs.done(&one);
        assert!(jobs.can_begin(&one));
    }

    #[test]
    fn all_that_was_asked_for_is_done_before_the_end() {
        let workers = WorkerPool::new("test", 2);
        let (send, received) = std::sync::mpsc::channel();
        for number in 0..100 {
            let send = send.clone();
            let whom = Some(id(["a", "b", "c"][number % 3]));
            let job = move || {
                assert!(number != 50, "a job that panics");
                send.send(number).unwrap();
            };
            workers.submit(whom, job).unwrap();
        }
        drop(workers);
        drop(send);
        let mut done: Vec<usize> = received.iter().collect();
        done.sort_unstable();
        assert_eq!(done.len(), 99);
    }
}
