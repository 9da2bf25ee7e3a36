//! The thread that seals artifacts after their last writers have closed them.
//!
//! One thread seals all artifacts, one step at a time ([`seal_queue`](super::seal_queue)), so that
//! neither a large artifact nor a busy conversation delays others. No reader waits for the thread,
//! because views are computed from the bytes. The engine carries out each step. The mount decides
//! when to take a step, knows the writers, and records the file under its current name.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;

use crate::file_node::source;
use crate::{FileNode, FsError, Ino, Life, Node, Result, SealJob, Shared, lookup, record};
use ctxfs_engine::sync::lower_priority;
use ctxfs_engine::{FileLife as _, RecordChange, Result as EngineResult, SealStep, SealedFile};
use ctxfs_store::{Lease, lease_of};

/// Pause before the next attempt after a failed seal. It doubles up to [`FAILED_RARELY`].
const FAILED_RETRY: Duration = Duration::from_millis(500);
const FAILED_RARELY: Duration = Duration::from_mins(1);
/// Pause of a conversation while another process has locked its manifest or one of its files. It
/// doubles up to [`HELD_LONG`].
const HELD_RETRY: Duration = Duration::from_millis(10);
const HELD_LONG: Duration = Duration::from_millis(500);
/// Maximum number of artifacts whose sealing is retried. The recovery after the next start handles
/// the rest.
const MOST_FAILED: usize = 10_000;

enum JobResult {
    Done,
    Again(SealJob),
    Later(Duration, SealJob),
    Held(SealJob),
    Failed(FsError, SealJob),
}

pub(super) fn start(fs: &Arc<Shared>) -> io::Result<()> {
    let shared = Arc::clone(fs);
    fs.sealer.thread.start("ctxfs-seal", move || work(&shared))
}

fn work(fs: &Shared) {
    // Sealing uses only the processor time that writers and readers leave.
    lower_priority();
    let (mut failed, mut held) = (FailedSeals::default(), HashMap::new());
    while let Some((job, ending)) = fs.sealer.next() {
        let node = Arc::clone(job.node());
        let (ino, whom) = (node.ino, node.conversation());
        let done = catch_unwind(AssertUnwindSafe(|| run(fs, job, ending)));
        let progress = done.unwrap_or_else(|_| {
            tracing::error!(ino = ino.0, "sealing panicked");
            JobResult::Done
        });
        if !matches!(progress, JobResult::Held(_)) {
            held.remove(&whom);
        }
        match progress {
            JobResult::Again(job) => fs.sealer.submit_again(job),
            JobResult::Held(job) => {
                let pause = held.entry(whom).or_insert(HELD_RETRY / 2);
                *pause = (*pause * 2).min(HELD_LONG);
                fs.sealer.hold(*pause, job);
            }
            JobResult::Later(pause, job) => fs.sealer.submit_later(pause, job),
            JobResult::Failed(error, job) => {
                if let Some(pause) = failed.again(ino, &error).filter(|_| !ending) {
                    fs.sealer.submit_later(pause, job);
                }
            }
            JobResult::Done => {
                failed.0.remove(&ino);
            }
        }
        drop(node);
        fs.nodes.forget(ino, 1);
    }
}

#[derive(Default)]
struct FailedSeals(HashMap<Ino, Duration>);

impl FailedSeals {
    /// Returns the pause before the next attempt, and logs the first failure of a file. Returns
    /// `None` if too many files wait for another attempt.
    fn again(&mut self, ino: Ino, error: &FsError) -> Option<Duration> {
        if let Some(pause) = self.0.get_mut(&ino) {
            *pause = (*pause * 2).min(FAILED_RARELY);
            return Some(*pause);
        }
        tracing::warn!(ino = ino.0, %error, "sealing failed and will be tried again");
        let room = self.0.len() < MOST_FAILED;
        room.then(|| *self.0.entry(ino).or_insert(FAILED_RETRY))
    }
}

fn run(fs: &Shared, job: SealJob, ending: bool) -> JobResult {
    let result = match seal(fs, &job, ending) {
        Err(error) if matches!(error.errno().0, libc::ENOENT | libc::ESTALE) => {
            retry_where_moved(fs, &job)
        }
        result => result,
    };
    result.unwrap_or_else(|error| match error.errno().0 {
        libc::ENOENT | libc::ESTALE => JobResult::Done,
        libc::EAGAIN if !ending => JobResult::Held(job),
        _ => JobResult::Failed(error, job),
    })
}

/// Repeats the job at the current place of the file, if another process has moved it. If the file
/// was removed, there is nothing to seal.
fn retry_where_moved(fs: &Shared, job: &SealJob) -> Result<JobResult> {
    let node = job.node();
    let file = node.as_file()?;
    let open = file.any_open().filter(|_| file.life().is_unsealed());
    if let Some(open) = open
        && lookup::find_moved(fs, node, &open)?
    {
        return Ok(JobResult::Again(job.clone()));
    }
    record::settle_lost(fs, node)?;
    Ok(JobResult::Done)
}

/// Takes the next step in sealing the file of `job`, unless the job is no longer due.
fn seal(fs: &Shared, job: &SealJob, ending: bool) -> Result<JobResult> {
    let node = job.node();
    let file = node.as_file()?;
    let (has_writers, is_unsealed) = {
        let life = file.life();
        (life.has_writers(), life.is_unsealed())
    };
    let is_due = match job {
        SealJob::NoteLive(_) => has_writers,
        SealJob::Follow(_) => has_writers && file.is_artifact(),
        SealJob::Seal(_) => !has_writers && is_unsealed,
        SealJob::Analyse(_) => !is_unsealed && !ending,
    };
    if !is_due {
        return Ok(JobResult::Done);
    }
    // The last writer may close the file at any moment, so that each step may be one of sealing.
    record::settle_moved(fs, node)?;
    if let SealJob::NoteLive(_) = job {
        record::record_as(fs, node, Life::noted_live, false)?;
        return Ok(JobResult::Done);
    }
    Ok(match source(file).seal(&fs.engine, &Sealing { fs, node, file, ending })? {
        SealStep::Idle if !ending => {
            fs.sealer.submit_idle(SealJob::Analyse(Arc::clone(node)));
            JobResult::Done
        }
        SealStep::Done | SealStep::Idle => JobResult::Done,
        SealStep::Recorded => JobResult::Again(SealJob::Analyse(Arc::clone(node))),
        SealStep::Again => JobResult::Again(job.clone()),
        SealStep::Later(_) if ending => JobResult::Done,
        SealStep::Later(pause) => JobResult::Later(pause, job.clone()),
    })
}

struct Sealing<'a> {
    fs: &'a Shared,
    node: &'a Node,
    file: &'a FileNode,
    ending: bool,
}

impl SealedFile for Sealing<'_> {
    fn open(&self) -> EngineResult<Option<Arc<File>>> {
        if self.file.life().has_writers() {
            return Ok(self.file.any_open());
        }
        let open = Arc::new(self.file.open(OFlags::RDONLY | OFlags::NOATIME)?);
        if self.file.life().is_mapped() {
            // A sealed artifact must not change. If the mount is ending, the next one marks this
            // artifact as incomplete.
            let must_rest = !self.ending || self.fs.engine.options().write_once;
            if must_rest && lease_of(&open) == Lease::Held {
                return Ok(None);
            }
            self.file.life().unmapped();
        }
        Ok(Some(open))
    }

    fn open_to_mask(&self) -> EngineResult<Arc<File>> {
        Ok(Arc::new(self.file.open(OFlags::RDWR | OFlags::NOATIME)?))
    }

    fn record(&self, change: &mut RecordChange<'_>, seals: bool) -> EngineResult<()> {
        let change = |life: &mut Life, record| change(life, record);
        Ok(record::record_as(self.fs, self.node, change, seals)?)
    }

    fn is_ending(&self) -> bool {
        self.ending || self.fs.sealer.is_ending()
    }
}
