//! The queue of the sealing thread.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

use crate::engine::sync::Condvar;
use crate::engine::sync::Mutex;
use crate::engine::sync::atomic::Ordering::Relaxed;
use crate::engine::sync::now;
use crate::engine::sync::thread;
use crate::engine::worker::Worker;
use crate::fs::node::Node;

/// The time for which the thread lets jobs gather: an output that is written at once is opened,
/// written and closed before the thread looks at it, and wakes it only once.
const GATHER: Duration = Duration::from_millis(5);

/// A job of the sealing thread.
pub(crate) enum SealJob {
    /// Records a file that got its first writer as live, so that a crash is noticed.
    NoteLive(Arc<Node>),
    /// Continues the analysis of a growing file.
    Follow(Arc<Node>),
    /// Seals a file whose last writer has gone.
    Seal(Arc<Node>),
    /// Completes the analysis of a sealed file.
    Analyse(Arc<Node>),
}

impl SealJob {
    pub(super) fn node(&self) -> &Arc<Node> {
        match self {
            Self::NoteLive(node) | Self::Follow(node) | Self::Seal(node) | Self::Analyse(node) => {
                node
            }
        }
    }
}

/// The jobs of the sealing thread, and the thread.
#[derive(Default)]
pub(crate) struct Sealer {
    queue: Mutex<SealQueue>,
    changed: Condvar,
    /// Separate from `changed`, so that jobs do not wake a thread that lets them gather.
    ended: Condvar,
    pub(super) thread: Worker,
}

#[derive(Default)]
struct SealQueue {
    jobs: VecDeque<SealJob>,
    later: Vec<(Instant, SealJob)>,
    /// True while a job that was taken is not done.
    busy: bool,
    closed: bool,
}

impl Sealer {
    pub(crate) fn submit(&self, job: SealJob) {
        keep_known(&job);
        self.queue.lock().jobs.push_back(job);
        self.changed.notify_all();
    }

    pub(super) fn submit_later(&self, pause: Duration, job: SealJob) {
        keep_known(&job);
        self.queue.lock().later.push((now() + pause, job));
    }

    /// Returns the number of jobs that are not done.
    pub(crate) fn waiting(&self) -> usize {
        let queue = self.queue.lock();
        queue.jobs.len() + queue.later.len() + usize::from(queue.busy)
    }

    /// Waits until nothing is left to do, for at most `most`.
    pub(crate) fn settle(&self, most: Duration) {
        let started = now();
        while self.waiting() > 0 && now() - started < most {
            thread::sleep(GATHER);
        }
    }

    /// Ends the thread once its queue is empty.
    pub(crate) fn finish(&self) {
        self.queue.lock().closed = true;
        self.changed.notify_all();
        self.ended.notify_all();
        self.thread.join();
    }

    /// Waits for the next job that is due. Returns it with true if the mount is ending, or `None`
    /// at the end.
    pub(super) fn next(&self) -> Option<(SealJob, bool)> {
        let mut queue = self.queue.lock();
        loop {
            queue.wake_due();
            let next = queue.jobs.pop_front();
            queue.busy = next.is_some();
            if let Some(job) = next {
                return Some((job, queue.closed));
            }
            if queue.closed {
                return None;
            }
            let pause = queue.later.iter().map(|(due, _)| *due).min();
            let pause = pause.map_or(Duration::from_hours(1), |due| due - now().min(due));
            self.changed.wait_for(&mut queue, pause);
            self.ended.wait_while_for(&mut queue, |queue| !queue.closed, GATHER);
        }
    }
}

impl SealQueue {
    fn wake_due(&mut self) {
        let now = now();
        let all = self.closed;
        for (due, job) in std::mem::take(&mut self.later) {
            if all || due <= now {
                self.jobs.push_back(job);
            } else {
                self.later.push((due, job));
            }
        }
    }
}

/// Keeps the node in the table until the job is done: a new node of the same file would not know
/// that it is about to be sealed.
fn keep_known(job: &SealJob) {
    job.node().lookups.fetch_add(1, Relaxed);
}
