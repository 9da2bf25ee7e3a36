//! Sealing: what happens to an artifact once its last writer has gone.
//!
//! One thread does it, a step at a time, so that a large artifact does not keep small ones waiting
//! and no reader waits for either. Views never depend on it: they are computed from the bytes.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::Weak;
use std::time::Duration;
use std::time::Instant;

use rustix::fs::OFlags;

use crate::fs::Counters;
use crate::fs::FsError;
use crate::fs::Ino;
use crate::fs::Processes;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::file::FileNode;
use crate::fs::file::Noted;
use crate::fs::file::STEP;
use crate::fs::file::Writing;
use crate::fs::node::Node;
use crate::fs::sync::Condvar;
use crate::fs::sync::Mutex;
use crate::fs::sync::MutexGuard;
use crate::fs::sync::atomic::Ordering::Relaxed;
use crate::fs::sync::give_way;
use crate::fs::sync::now;
use crate::fs::sync::thread;
use crate::fs::sync::thread::JoinHandle;
use crate::model::Analysis;
use crate::model::Record;
use crate::model::ArtifactState;
use crate::store::Lease;
use crate::store::lease_is_free;
use crate::store::provenance_of;
use crate::store::this_process;

/// How long the thread lets jobs gather once there is one: an output that is written at once is then
/// opened, written and closed before the thread looks at it, and wakes it only once.
const GATHER: Duration = Duration::from_millis(5);
/// How often a mapping that may still be written is looked at.
const MAPPED_RETRY: Duration = Duration::from_millis(100);
/// How soon a file is looked at again that was cut, or written by another process, while it was
/// being sealed.
const CHANGED_RETRY: Duration = Duration::from_millis(10);
/// How often a file is looked at whose analysis begins anew because others write it.
const OTHERS_RETRY: Duration = Duration::from_millis(100);
/// How soon it is tried again to seal what the disk has failed, and how seldom after many times.
const FAILED_RETRY: Duration = Duration::from_millis(500);
const FAILED_RARELY: Duration = Duration::from_mins(1);
/// Artifacts that are tried again. More are left to whoever looks at them after the next start.
const MOST_FAILED: usize = 10_000;
/// How many finished analyses are kept to be carried on by the next append.
const RESUMABLE: usize = 8;

/// What is to be done about a file.
pub(crate) enum Job {
    /// A writer opened it: the manifest learns that it is live, so that a crash is noticed.
    Opened(Arc<Node>),
    /// It grows: its analysis is carried on.
    Follow(Arc<Node>),
    /// Its last writer has gone.
    Seal(Arc<Node>),
    /// It is sealed, and its analysis was not yet at the end.
    Analyse(Arc<Node>),
}

impl Job {
    fn node(&self) -> &Arc<Node> {
        match self {
            Self::Opened(node) | Self::Follow(node) | Self::Seal(node) | Self::Analyse(node) => {
                node
            }
        }
    }
}

/// The queue of the sealing thread.
#[derive(Default)]
pub(crate) struct Sealer {
    queue: Mutex<Queue>,
    changed: Condvar,
    /// Told apart from `changed`, so that jobs do not wake a thread that lets them gather.
    ended: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    later: Vec<(Instant, Job)>,
    /// One has been taken out, and is not done yet.
    busy: bool,
    closed: bool,
}

enum Outcome {
    Done,
    Again(Job),
    Later(Duration, Job),
    Failed(FsError, Job),
}

impl Sealer {
    pub(crate) fn submit(&self, job: Job) {
        // The kernel must not forget the node before the job is done: a new node of the same file
        // would not know that it is about to be sealed.
        job.node().lookups.fetch_add(1, Relaxed);
        self.queue().jobs.push_back(job);
        self.changed.notify_all();
    }

    fn submit_later(&self, pause: Duration, job: Job) {
        job.node().lookups.fetch_add(1, Relaxed);
        self.queue().later.push((now() + pause, job));
    }

    /// Jobs that are not done.
    pub(crate) fn waiting(&self) -> usize {
        let queue = self.queue();
        queue.jobs.len() + queue.later.len() + usize::from(queue.busy)
    }

    /// Waits until nothing is left to do, but not for longer than `most`.
    pub(crate) fn settle(&self, most: Duration) {
        let started = now();
        while self.waiting() > 0 && now() - started < most {
            thread::sleep(GATHER);
        }
    }

    /// Ends the thread once its queue is empty.
    pub(crate) fn finish(&self) {
        self.queue().closed = true;
        self.changed.notify_all();
        self.ended.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the sealing thread panicked");
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job that is due, and whether the mount is ending; `None` at the end.
    fn next(&self) -> Option<(Job, bool)> {
        let mut queue = self.queue();
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
            let woken = self.changed.wait_timeout(queue, pause);
            queue = woken.unwrap_or_else(PoisonError::into_inner).0;
            let gathered = self.ended.wait_timeout_while(queue, GATHER, |queue| !queue.closed);
            queue = gathered.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Queue {
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

/// Starts the sealing thread of `shared`.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let weak = Arc::downgrade(shared);
    let thread = thread::Builder::new().name("ctxfs-seal".to_owned()).spawn(move || work(&weak))?;
    *shared.sealer.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
    Ok(())
}

fn work(shared: &Weak<Shared>) {
    let Some(shared) = shared.upgrade() else { return };
    // Writers and readers come first: sealing takes the time that they leave.
    give_way();
    let mut resumable = VecDeque::new();
    let mut failed = Failed::default();
    while let Some((job, ending)) = shared.sealer.next() {
        let node = Arc::clone(job.node());
        let ino = node.ino;
        let done = catch_unwind(AssertUnwindSafe(|| shared.run(job, ending)));
        let outcome = done.unwrap_or_else(|_| {
            tracing::error!(ino = ino.0, "sealing panicked");
            Outcome::Done
        });
        match outcome {
            Outcome::Again(job) => shared.sealer.submit(job),
            Outcome::Later(pause, job) => shared.sealer.submit_later(pause, job),
            Outcome::Failed(error, job) => {
                if let Some(pause) = failed.again(ino, &error).filter(|_| !ending) {
                    shared.sealer.submit_later(pause, job);
                }
            }
            Outcome::Done => {
                failed.0.remove(&ino);
                keep_resumable(&mut resumable, &node);
            }
        }
        drop(node);
        shared.nodes.forget(ino, 1);
    }
}

/// What could not be sealed, and how long it waits until the next try.
#[derive(Default)]
struct Failed(HashMap<Ino, Duration>);

impl Failed {
    /// When to try again; says so the first time. Not, where too many wait.
    fn again(&mut self, ino: Ino, error: &FsError) -> Option<Duration> {
        if let Some(pause) = self.0.get_mut(&ino) {
            *pause = (*pause * 2).min(FAILED_RARELY);
            return Some(*pause);
        }
        tracing::warn!(ino = ino.0, %error, "sealing failed, and is tried again");
        let room = self.0.len() < MOST_FAILED;
        room.then(|| *self.0.entry(ino).or_insert(FAILED_RETRY))
    }
}

/// Keeps the state of the last few analyses, so that a log which is opened for append again and
/// again is never read again from its beginning.
fn keep_resumable(kept: &mut VecDeque<Weak<Node>>, node: &Arc<Node>) {
    let weak = Arc::downgrade(node);
    kept.retain(|other| !other.ptr_eq(&weak));
    kept.push_back(weak);
    while kept.len() > RESUMABLE {
        let oldest = kept.pop_front().and_then(|node| node.upgrade());
        if let Some(node) = oldest
            && let Ok(file) = node.as_file()
            && file.writing().writers == 0
        {
            file.drop_analysis();
        }
    }
}

impl Shared {
    fn run(&self, job: Job, ending: bool) -> Outcome {
        let result = match &job {
            Job::Opened(node) => self.note_live(node).map(|()| Outcome::Done),
            Job::Follow(node) => self.follow(node),
            Job::Seal(node) => self.seal(node, ending),
            Job::Analyse(node) => self.analyse_sealed(node, ending),
        };
        result.unwrap_or_else(|error| match error.errno().0 {
            // A file that was removed or moved behind the mount has nothing to be sealed.
            libc::ENOENT | libc::ESTALE => Outcome::Done,
            _ => Outcome::Failed(error, job),
        })
    }

    /// Records that the artifact is live, unless it has been closed meanwhile.
    fn note_live(&self, node: &Arc<Node>) -> Result<()> {
        if node.as_file()?.writing().writers == 0 {
            return Ok(());
        }
        let live = |writing: &mut Writing, record: Record| {
            if writing.writers == 0 {
                return None;
            }
            writing.noted = Some(Noted { generation: record.generation, lives: writing.lives });
            let owner = this_process();
            Some(Record { state: ArtifactState::Live, owner, analysis: None, ..record })
        };
        self.record_as(node, live, |_| ())
    }

    fn follow(&self, node: &Arc<Node>) -> Result<Outcome> {
        let file = node.as_file()?;
        if !node.place().is_some_and(|(_, path)| path.is_artifact()) {
            return Ok(Outcome::Done);
        }
        let behind = file.writing().end.saturating_sub(file.analysed());
        let Some(open) = file.any_open().filter(|_| behind >= STEP / 4) else {
            return Ok(Outcome::Done);
        };
        let (past, _) = file.meet(&open)?;
        let (goal, read) = (file.analysed() + behind, &self.counters.bytes_analysed);
        let (_, whole) = file.analyse(&open, goal, &|| true, read)?;
        // Behind others who write too it would begin anew each time.
        let done = whole || file.meet(&open)?.0 != past;
        Ok(if done { Outcome::Done } else { Outcome::Again(Job::Follow(Arc::clone(node))) })
    }

    /// Records the artifact as sealed, with its analysis where one step is enough for that;
    /// else that follows.
    fn seal(&self, node: &Arc<Node>, ending: bool) -> Result<Outcome> {
        let file = node.as_file()?;
        let mapped = {
            let writing = file.writing();
            if writing.writers > 0 || !writing.unsealed {
                return Ok(Outcome::Done);
            }
            writing.mapped
        };
        note_killed(file, &*self.options.processes);
        if !node.place().is_some_and(|(_, path)| path.is_artifact()) {
            file.writing().sealed();
            return Ok(Outcome::Done);
        }
        let open = Arc::new(file.open(OFlags::RDONLY | OFlags::NOATIME)?);
        if mapped && lease_is_free(&open) == Lease::Held && !ending {
            return Ok(Outcome::Later(MAPPED_RETRY, Job::Seal(Arc::clone(node))));
        }
        if mapped {
            let mut writing = file.writing();
            writing.rewritten();
            // Whoever maps it from now on has opened it anew.
            writing.mapped = false;
        }
        let redacted = self.redact_stored(file, ending).unwrap_or_else(|error| {
            tracing::warn!(ino = node.ino.0, %error, "an artifact could not be redacted");
            true
        });
        if !redacted {
            return Ok(Outcome::Again(Job::Seal(Arc::clone(node))));
        }
        let (past, _) = file.meet(&open)?;
        let analysis = self.try_analysis(node, &open)?;
        let provenance = provenance_of(&open)?;
        let whole = analysis.is_some();
        let tokens = analysis.as_ref().map(|found| (found.tokens, found.bytes));
        let mut tool = None;
        let mut changed = false;
        let change = |writing: &mut Writing, mut record: Record| {
            if writing.writers > 0 {
                return None;
            }
            let speaks =
                |analysis: &Analysis| analysis.bytes == record.size && writing.past() == past;
            changed = !analysis.as_ref().is_none_or(speaks);
            if changed && !ending {
                return None;
            }
            if record.state == ArtifactState::Live {
                record.state = ArtifactState::Sealed;
            }
            record.provenance.update(&provenance);
            tool = record.provenance.tool_name();
            Some(Record { owner: None, analysis: analysis.filter(|_| !changed), ..record })
        };
        self.record_as(node, change, Writing::sealed)?;
        if changed && !ending {
            return Ok(Outcome::Later(CHANGED_RETRY, Job::Seal(Arc::clone(node))));
        }
        Counters::add(&self.counters.sealed, 1);
        if let Some(id) = node.conversation() {
            self.note_sealed(&id, file.writing().end);
            let tokens = tokens.or(ending.then_some((1, 4)));
            self.count_stored(&id, tool, file, tokens);
        }
        Ok(if whole { Outcome::Done } else { Outcome::Again(Job::Analyse(Arc::clone(node))) })
    }

    /// Carries the analysis of a sealed artifact on by a step; at its end, records it.
    fn analyse_sealed(&self, node: &Arc<Node>, ending: bool) -> Result<Outcome> {
        let file = node.as_file()?;
        if ending || file.writing().unsealed {
            return Ok(Outcome::Done);
        }
        let open = Arc::new(file.open(OFlags::RDONLY | OFlags::NOATIME)?);
        let (past, _) = file.meet(&open)?;
        let Some(analysis) = self.try_analysis(node, &open)? else {
            let job = Job::Analyse(Arc::clone(node));
            let unchanged = file.meet(&open)?.0 == past;
            return Ok(if unchanged {
                Outcome::Again(job)
            } else {
                Outcome::Later(OTHERS_RETRY, job)
            });
        };
        let tokens = Some((analysis.tokens, analysis.bytes));
        let mut tool = None;
        let change = |writing: &mut Writing, record: Record| {
            let unchanged = !writing.unsealed && writing.past() == past;
            let same = unchanged && record.size == analysis.bytes;
            tool = record.provenance.tool_name();
            same.then_some(Record { analysis: Some(analysis), ..record })
        };
        self.record_as(node, change, |_| ())?;
        if let Some(id) = node.conversation() {
            self.count_stored(&id, tool, file, tokens);
        }
        Ok(Outcome::Done)
    }

    /// The analysis after one more step, if that reached the end.
    fn try_analysis(&self, node: &Arc<Node>, open: &Arc<File>) -> Result<Option<Analysis>> {
        let found = self.analysis(node, open, None, &|| true)?;
        Ok(found.whole.then(|| (*found.analysis).clone()))
    }
}

/// A file that a killed writer closed may lack its end.
fn note_killed(file: &FileNode, processes: &dyn Processes) {
    let closer = file.writing().closer.take();
    if let Some(signal) = closer.and_then(|closer| closer.killed_by(processes)) {
        file.writing().trouble = Some(format!("its writer was killed by signal {signal}"));
    }
}
