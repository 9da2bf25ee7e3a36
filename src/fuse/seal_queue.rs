//! The queue of the sealing thread.
//!
//! Conversations take turns of one step each, so that no conversation delays another. Within a
//! conversation, new jobs come before jobs that need another step, so that small outputs need not
//! wait for large ones. While another process holds a manifest lock, only the jobs of that
//! conversation pause.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{FsError, Ino, Node, Result};
use ctxfs_engine::sync::atomic::Ordering::Relaxed;
use ctxfs_engine::sync::{Condvar, Mutex, now, thread};
use ctxfs_engine::workers::{BackgroundThread, JobOwner};

/// Time during which jobs accumulate before the thread starts. If a program opens, writes and
/// closes an output within this time, the thread wakes only once for it.
const GATHER: Duration = Duration::from_millis(5);
/// Number of new jobs of a conversation that may run in a row before a started job continues.
const BEGIN: u32 = 16;
/// Maximum number of waiting jobs of a conversation. Beyond it, no file of the conversation is
/// opened for writing. A node and a job together take less than a kilobyte.
const MOST: usize = 16_384;

/// A job of the sealing thread. The queue holds at most one job of each kind for a file. A job
/// keeps its node in the inode table until the job is done.
///
/// - `NoteLive` records a file with a writer as live, so that the next mount notices a crash.
/// - `Follow` continues the analysis of a growing file.
/// - `Seal` seals a file that has no writer.
/// - `Analyse` completes the record of a sealed file.
#[derive(Clone)]
pub(crate) enum SealJob {
    NoteLive(Arc<Node>),
    Follow(Arc<Node>),
    Seal(Arc<Node>),
    Analyse(Arc<Node>),
}

type JobKey = (Ino, Discriminant<SealJob>);

impl SealJob {
    pub(super) fn node(&self) -> &Arc<Node> {
        match self {
            Self::NoteLive(node) | Self::Follow(node) | Self::Seal(node) | Self::Analyse(node) => {
                node
            }
        }
    }

    fn key(&self) -> JobKey {
        (self.node().ino, discriminant(self))
    }

    fn seals(&self) -> bool {
        matches!(self, Self::Seal(_))
    }
}

#[derive(Default)]
pub(crate) struct Sealer {
    queue: Mutex<SealQueue>,
    changed: Condvar,
    /// Separate from `changed`, so that new jobs do not wake the thread while it lets jobs
    /// accumulate.
    ended: Condvar,
    pub(super) thread: BackgroundThread,
}

#[derive(Default)]
struct SealQueue {
    jobs: HashMap<JobOwner, ConversationJobs>,
    turns: VecDeque<JobOwner>,
    known: HashSet<JobKey>,
    /// Jobs by the time at which they are due. The number distinguishes jobs with the same time.
    later: BTreeMap<(Instant, u64), (JobOwner, SealJob)>,
    known_later: HashSet<JobKey>,
    /// Jobs that run while no other job is due, newest first: the output that was written last is
    /// the most likely to be read, and a client that lists all of them begins with the oldest.
    idle: VecDeque<SealJob>,
    number: u64,
    seals: usize,
    /// `busy` is true while a job runs. `sealing` is true while a job that seals runs.
    busy: bool,
    sealing: bool,
    closed: bool,
}

#[derive(Default)]
struct ConversationJobs {
    new: VecDeque<SealJob>,
    begun: VecDeque<SealJob>,
    in_a_row: u32,
    held: Option<Instant>,
}

impl Sealer {
    pub(crate) fn submit(&self, job: SealJob) {
        self.add(job, |jobs| &mut jobs.new);
    }

    pub(super) fn submit_again(&self, job: SealJob) {
        self.add(job, |jobs| &mut jobs.begun);
    }

    fn add(&self, job: SealJob, list: fn(&mut ConversationJobs) -> &mut VecDeque<SealJob>) {
        let whom = job.node().conversation();
        if self.queue.lock().add(whom, job, list) {
            self.changed.notify_all();
        }
    }

    pub(super) fn submit_later(&self, pause: Duration, job: SealJob) {
        let whom = job.node().conversation();
        self.queue.lock().add_later(now() + pause, whom, job);
    }

    /// Adds a job that runs while no other job is due. The job is dropped if [`MOST`] such jobs wait.
    pub(super) fn submit_idle(&self, job: SealJob) {
        let mut queue = self.queue.lock();
        if queue.idle.len() < MOST && queue.known.insert(job.key()) {
            keep_known(&job);
            queue.idle.push_back(job);
        }
    }

    /// Puts back a job that needs a lock of another process, and pauses its conversation.
    pub(super) fn hold(&self, pause: Duration, job: SealJob) {
        let whom = job.node().conversation();
        let mut queue = self.queue.lock();
        queue.add(whom.clone(), job, |jobs| &mut jobs.begun);
        if let Some(jobs) = queue.jobs.get_mut(&whom) {
            jobs.held = Some(now() + pause);
        }
    }

    pub(super) fn is_ending(&self) -> bool {
        self.queue.lock().closed
    }

    pub(crate) fn waiting(&self) -> usize {
        let queue = self.queue.lock();
        queue.known.len() + queue.later.len() + usize::from(queue.busy)
    }

    /// Fails with EAGAIN while [`MOST`] jobs of the conversation wait. No further file of the
    /// conversation may then be opened for writing.
    pub(super) fn check_backlog(&self, whom: &JobOwner) -> Result<()> {
        let queue = self.queue.lock();
        let waiting = queue.jobs.get(whom).map_or(0, |jobs| jobs.new.len() + jobs.begun.len());
        match waiting {
            MOST.. => {
                Err(FsError::TryAgain("too many outputs of the conversation wait to be sealed"))
            }
            _ => Ok(()),
        }
    }

    /// Waits until every file without writers is sealed, at most for the time `most`. Does not wait
    /// for live files or for incomplete analyses.
    pub(crate) fn settle(&self, most: Duration) {
        let started = now();
        let is_sealing = || {
            let queue = self.queue.lock();
            queue.sealing || queue.seals > 0
        };
        while is_sealing() && now() - started < most {
            thread::sleep(GATHER);
        }
    }

    pub(crate) fn finish(&self) {
        self.queue.lock().closed = true;
        self.changed.notify_all();
        self.ended.notify_all();
        self.thread.join();
    }

    /// Waits for the next due job. Returns the job, with true if the mount is ending. Returns
    /// `None` if the mount is ending and no job is left.
    pub(super) fn next(&self) -> Option<(SealJob, bool)> {
        let mut queue = self.queue.lock();
        loop {
            queue.wake_due();
            let next = queue.take();
            queue.busy = next.is_some();
            queue.sealing = next.as_ref().is_some_and(SealJob::seals);
            if let Some(job) = next {
                return Some((job, queue.closed));
            }
            if queue.closed {
                return None;
            }
            let pause = queue.due().map_or(Duration::from_hours(1), |due| due - now().min(due));
            self.changed.wait_for(&mut queue, pause);
            self.ended.wait_while_for(&mut queue, |queue| !queue.closed, GATHER);
        }
    }
}

impl SealQueue {
    fn add(
        &mut self,
        whom: JobOwner,
        job: SealJob,
        list: fn(&mut ConversationJobs) -> &mut VecDeque<SealJob>,
    ) -> bool {
        if !self.known.insert(job.key()) {
            return false;
        }
        keep_known(&job);
        let jobs = self.jobs.entry(whom.clone()).or_insert_with(|| {
            self.turns.push_back(whom);
            ConversationJobs::default()
        });
        self.seals += usize::from(job.seals());
        list(jobs).push_back(job);
        true
    }

    fn add_later(&mut self, due: Instant, whom: JobOwner, job: SealJob) {
        if self.known_later.insert(job.key()) {
            keep_known(&job);
            self.number += 1;
            self.later.insert((due, self.number), (whom, job));
        }
    }

    fn take(&mut self) -> Option<SealJob> {
        let now = now();
        let closed = self.closed;
        let may = |jobs: &ConversationJobs| closed || jobs.held.is_none_or(|end| end <= now);
        let next = self.turns.iter().position(|whom| self.jobs.get(whom).is_some_and(may));
        let Some(next) = next else {
            let job = self.idle.pop_back().filter(|_| !closed)?;
            self.known.remove(&job.key());
            return Some(job);
        };
        let whom = self.turns.remove(next)?;
        let jobs = self.jobs.get_mut(&whom)?;
        let job = jobs.take()?;
        self.known.remove(&job.key());
        self.seals -= usize::from(job.seals());
        jobs.held = None;
        if jobs.is_empty() {
            self.jobs.remove(&whom);
        } else {
            self.turns.push_back(whom);
        }
        Some(job)
    }

    fn wake_due(&mut self) {
        let now = now();
        while let Some(first) = self.later.first_entry()
            && (self.closed || first.key().0 <= now)
        {
            let (whom, job) = first.remove();
            self.known_later.remove(&job.key());
            let kept = Arc::clone(job.node());
            self.add(whom, job, |jobs| &mut jobs.begun);
            // If `add` has added the job, it has counted the look-up a second time.
            kept.lookups.fetch_sub(1, Relaxed);
        }
    }

    fn due(&self) -> Option<Instant> {
        let held = self.jobs.values().filter_map(|jobs| jobs.held);
        held.chain(self.later.keys().map(|(due, _)| *due).next()).min()
    }
}

impl ConversationJobs {
    fn take(&mut self) -> Option<SealJob> {
        let list = if self.new.is_empty() || self.in_a_row >= BEGIN && !self.begun.is_empty() {
            self.in_a_row = 0;
            &mut self.begun
        } else {
            self.in_a_row += 1;
            &mut self.new
        };
        list.pop_front()
    }

    fn is_empty(&self) -> bool {
        self.new.is_empty() && self.begun.is_empty()
    }
}

/// Keeps the node in the table until the job is done. A new node of the same file would not have
/// the state that sealing needs.
fn keep_known(job: &SealJob) {
    job.node().lookups.fetch_add(1, Relaxed);
}
