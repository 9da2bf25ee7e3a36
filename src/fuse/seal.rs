//! Sealing: analysing and recording an artifact once its last writer has gone.
//!
//! One thread does it, a step at a time, so that a large artifact does not keep small ones waiting,
//! nor one conversation another ([`seal_queue`](super::seal_queue)), and no reader waits for any.
//! Views never depend on it: they are computed from the bytes.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;

use crate::life::Life;
use crate::mask_stored::{is_to_be_masked, mask_stored};
use crate::measured::measured;
use crate::node::Node;
use crate::node::file::FileNode;
use crate::seal_queue::SealJob;
use crate::{FsError, Ino, Processes, Result, Shared, moved, recording};
use ctxfs_core::model::{Analysis, ArtifactState, LocalFile, Record};
use ctxfs_engine::sync::lower_priority;
use ctxfs_engine::{Counters, FileRef, RewriteCount, STEP, analyse};
use ctxfs_store::{Lease, lease_of, provenance_of};

/// The pause before a file that may still be written through a mapping is tried again.
const MAPPED_RETRY: Duration = Duration::from_millis(100);
/// The pause before a file is tried again that was cut, or written by another process, while it was
/// being sealed.
const CHANGED_RETRY: Duration = Duration::from_millis(10);
/// The pause before a file is analysed again whose analysis starts over because others write it.
const OTHERS_RETRY: Duration = Duration::from_millis(100);
/// The pause before a seal that failed is tried again; it doubles up to the longest one.
const FAILED_RETRY: Duration = Duration::from_millis(500);
const FAILED_RARELY: Duration = Duration::from_mins(1);
/// The pause of a conversation whose manifest, or a file, another process has locked; it doubles up
/// to the longest one.
const HELD_RETRY: Duration = Duration::from_millis(10);
const HELD_LONG: Duration = Duration::from_millis(500);
/// The most artifacts that are tried again. Others are left to recovery after the next start.
const MOST_FAILED: usize = 10_000;

/// The outcome of a step of a job.
enum JobResult {
    Done,
    Again(SealJob),
    Later(Duration, SealJob),
    /// Another process has what it needs.
    Held(SealJob),
    Failed(FsError, SealJob),
}

/// Starts the sealing thread of `fs`.
pub(super) fn start(fs: &Arc<Shared>) -> io::Result<()> {
    let shared = Arc::clone(fs);
    fs.sealer.thread.start("ctxfs-seal", move || work(&shared))
}

fn work(fs: &Shared) {
    // Sealing takes the time that writers and readers leave.
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

/// The files that could not be sealed, with the pause before the next try of each.
#[derive(Default)]
struct FailedSeals(HashMap<Ino, Duration>);

impl FailedSeals {
    /// Returns the pause before the next try, and logs the first failure of a file. Returns `None`
    /// if too many files wait.
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
    let result = match &job {
        SealJob::NoteLive(node) => note_live(fs, node).map(|()| JobResult::Done),
        SealJob::Follow(node) => follow(fs, node),
        SealJob::Seal(node) => seal(fs, node, ending),
        SealJob::Analyse(node) => analyse_sealed(fs, node, ending),
    };
    let result = match result {
        Err(error) if is_absent(&error) => look_elsewhere(fs, &job),
        result => result,
    };
    result.unwrap_or_else(|error| match error.errno().0 {
        libc::ENOENT | libc::ESTALE => JobResult::Done,
        libc::EAGAIN if !ending => JobResult::Held(job),
        _ => JobResult::Failed(error, job),
    })
}

/// Returns true if the error says that a file is not where it was.
fn is_absent(error: &FsError) -> bool {
    matches!(error.errno().0, libc::ENOENT | libc::ESTALE)
}

/// Does the job again where the file is now, if another process has moved it. If it was removed,
/// there is nothing to seal.
fn look_elsewhere(fs: &Shared, job: &SealJob) -> Result<JobResult> {
    let node = job.node();
    let file = node.as_file()?;
    let open = file.any_open().filter(|_| file.life().is_unsealed());
    if let Some(open) = open
        && moved::find(fs, node, &open)?
    {
        return Ok(JobResult::Again(job.clone()));
    }
    moved::settle_lost(fs, node)?;
    Ok(JobResult::Done)
}

/// Records that the artifact is live, unless it has been closed meanwhile.
fn note_live(fs: &Shared, node: &Arc<Node>) -> Result<()> {
    if !node.as_file()?.life().has_writers() {
        return Ok(());
    }
    moved::settle(fs, node)?;
    recording::record_as(fs, node, Life::noted_live, |_| ())
}

fn follow(fs: &Shared, node: &Arc<Node>) -> Result<JobResult> {
    let file = node.as_file()?;
    if !file.is_artifact() {
        return Ok(JobResult::Done);
    }
    let behind = file.life().end().saturating_sub(file.tracker.seen());
    let Some(open) = file.any_open().filter(|_| behind >= STEP / 4) else {
        return Ok(JobResult::Done);
    };
    // Otherwise it would be analysed from its beginning again and again. Sealing does it once.
    if !file.tracker.can_be_kept(&fs.engine, &**file) {
        return Ok(JobResult::Done);
    }
    let clock = fs.engine.store.clock();
    let (rewrites, _) = file.notice(&open, clock)?;
    let goal = file.tracker.seen() + behind;
    let (_, whole) = analyse(&fs.engine, &**file, FileRef::Here(&open), goal, &|| true)?;
    // While other processes write, too, the analysis would start over each time.
    let done = whole || file.notice(&open, clock)?.0 != rewrites;
    Ok(if done { JobResult::Done } else { JobResult::Again(SealJob::Follow(Arc::clone(node))) })
}

/// Records the artifact as sealed, with its analysis if one step is enough for that. Otherwise the
/// analysis follows.
fn seal(fs: &Shared, node: &Arc<Node>, ending: bool) -> Result<JobResult> {
    let file = node.as_file()?;
    let Some(is_mapped) = needs_seal(&file.life()) else { return Ok(JobResult::Done) };
    note_killed(file, &*fs.options.processes);
    moved::settle(fs, node)?;
    if !file.is_artifact() && !is_to_be_masked(&fs.engine, file) {
        file.life().sealed();
        return Ok(JobResult::Done);
    }
    let again = || SealJob::Seal(Arc::clone(node));
    let open = Arc::new(file.open(OFlags::RDONLY | OFlags::NOATIME)?);
    if is_mapped {
        if lease_of(&open) == Lease::Held {
            match ending {
                false => return Ok(JobResult::Later(MAPPED_RETRY, again())),
                // What is sealed must not change any more. The next mount finds it incomplete.
                true if fs.options.write_once => return Ok(JobResult::Done),
                true => {}
            }
        }
        file.life().unmapped();
    }
    let masked = mask_stored(&fs.engine, file, ending).unwrap_or_else(|error| {
        tracing::warn!(ino = node.ino.0, %error, "a file could not be redacted");
        true
    });
    if !masked {
        return Ok(JobResult::Again(again()));
    }
    if !file.is_artifact() {
        file.life().sealed();
        return Ok(JobResult::Done);
    }
    analyse_and_record(fs, node, &open, ending)
}

/// Returns true if a file that is to be sealed may be mapped. Returns `None` if it is not to be
/// sealed now.
fn needs_seal(life: &Life) -> Option<bool> {
    (!life.has_writers() && life.is_unsealed()).then(|| life.is_mapped())
}

/// Analyses an artifact by a step, and records it as sealed.
fn analyse_and_record(
    fs: &Shared,
    node: &Arc<Node>,
    open: &Arc<File>,
    ending: bool,
) -> Result<JobResult> {
    let file = node.as_file()?;
    let clock = fs.engine.store.clock();
    let (rewrites, stat) = file.notice(open, clock)?;
    // What is recorded of a file has to be told from what it is after the next change.
    if let Some(pause) = clock.settles_in(&stat).filter(|_| !ending) {
        return Ok(JobResult::Later(pause, SealJob::Seal(Arc::clone(node))));
    }
    let analysis = try_analysis(fs, file, open, &|| true)?;
    let is_whole = analysis.is_some();
    let sealing = Sealing { rewrites, file: stat.local_file(), analysis, ending };
    match record_sealed(fs, node, open, sealing)? {
        Recorded::Changed => Ok(JobResult::Later(CHANGED_RETRY, SealJob::Seal(Arc::clone(node)))),
        Recorded::Sealed if is_whole => Ok(JobResult::Done),
        Recorded::Sealed => Ok(JobResult::Again(SealJob::Analyse(Arc::clone(node)))),
    }
}

/// The facts to record about an artifact.
struct Sealing {
    /// The rewrites before the analysis began.
    rewrites: RewriteCount,
    /// The file as it was then.
    file: LocalFile,
    analysis: Option<Analysis>,
    /// True if the mount is ending, so that there is no later try.
    ending: bool,
}

/// The outcome of recording an artifact.
enum Recorded {
    /// It is sealed, or has a writer again.
    Sealed,
    /// It changed meanwhile.
    Changed,
}

fn record_sealed(
    fs: &Shared,
    node: &Arc<Node>,
    open: &Arc<File>,
    sealing: Sealing,
) -> Result<Recorded> {
    let Sealing { rewrites, file, analysis, ending } = sealing;
    let provenance = provenance_of(open)?;
    let measured = analysis.as_ref().and_then(|_| measured(&fs.engine, node.as_file().ok()?, open));
    let tokens = analysis.as_ref().map(|found| (found.tokens, found.bytes));
    let (mut tool, mut changed) = (None, false);
    let change = |life: &mut Life, mut record: Record| {
        if life.has_writers() {
            return None;
        }
        let speaks = |found: &Analysis| found.bytes == record.size && life.rewrites() == rewrites;
        changed = !analysis.as_ref().is_none_or(speaks);
        if changed && !ending {
            return None;
        }
        if record.state == ArtifactState::Live {
            record.state = ArtifactState::Sealed;
        }
        record.provenance.update(&provenance);
        tool = record.provenance.tool_name();
        let once = record.once || fs.options.write_once;
        let (analysis, view_sizes) = (analysis.filter(|_| !changed), measured);
        Some(Record { file: Some(file), owner: None, analysis, view_sizes, once, ..record })
    };
    recording::record_as(fs, node, change, Life::sealed)?;
    if changed && !ending {
        return Ok(Recorded::Changed);
    }
    note_sealed(fs, node)?;
    count_stored(fs, node, tool, tokens.or(ending.then_some((1, 4))))?;
    Ok(Recorded::Sealed)
}

/// Counts a sealed artifact, and tells retention and other hosts of it.
fn note_sealed(fs: &Shared, node: &Node) -> Result<()> {
    Counters::add(&fs.engine.counters.sealed, 1);
    let end = node.as_file()?.life().end();
    if let Some(id) = node.conversation() {
        fs.engine.retention.note_sealed(&fs.engine.options.keep, &id, end);
        fs.engine.changed(&id, Some(end));
    }
    Ok(())
}

/// Continues the analysis of a sealed artifact by a step. Records it once it is complete.
fn analyse_sealed(fs: &Shared, node: &Arc<Node>, ending: bool) -> Result<JobResult> {
    let file = node.as_file()?;
    if ending || file.life().is_unsealed() {
        return Ok(JobResult::Done);
    }
    let open = Arc::new(file.open(OFlags::RDONLY | OFlags::NOATIME)?);
    let clock = fs.engine.store.clock();
    let (rewrites, _) = file.notice(&open, clock)?;
    // Where its state was pushed out meanwhile it would be again, so this goes on to the end.
    let was_pushed_out = file.tracker.seen() == 0;
    let expired = || !was_pushed_out || fs.sealer.is_ending();
    let Some(analysis) = try_analysis(fs, file, &open, &expired)? else {
        let job = SealJob::Analyse(Arc::clone(node));
        let unchanged = file.notice(&open, clock)?.0 == rewrites;
        return Ok(if unchanged {
            JobResult::Again(job)
        } else {
            JobResult::Later(OTHERS_RETRY, job)
        });
    };
    let tokens = Some((analysis.tokens, analysis.bytes));
    let mut tool = None;
    let change = |life: &mut Life, record: Record| {
        let unchanged = !life.is_unsealed() && life.rewrites() == rewrites;
        let same = unchanged && record.size == analysis.bytes;
        tool = record.provenance.tool_name();
        same.then_some(Record { analysis: Some(analysis), ..record })
    };
    recording::record_as(fs, node, change, |_| ())?;
    count_stored(fs, node, tool, tokens)?;
    Ok(JobResult::Done)
}

/// Counts the bytes of a file that were stored since it was last counted, at `tokens.0` tokens for
/// `tokens.1` bytes. Without `tokens`, they are counted later.
fn count_stored(
    fs: &Shared,
    node: &Node,
    tool: Option<String>,
    tokens: Option<(u64, u64)>,
) -> Result<()> {
    let (Some(id), Some(tokens)) = (node.conversation(), tokens) else { return Ok(()) };
    let bytes = node.as_file()?.life().take_uncounted();
    if bytes > 0 {
        fs.engine.counting.stored_part(&id, tool, bytes, tokens);
    }
    Ok(())
}

/// Continues the analysis by a step, and by more until time has `expired`. Returns it once it is
/// complete.
fn try_analysis(
    fs: &Shared,
    file: &FileNode,
    open: &File,
    expired: &dyn Fn() -> bool,
) -> Result<Option<Analysis>> {
    let found = fs.engine.analysis(file, FileRef::Here(open), None, expired)?;
    Ok(found.whole.then(|| (*found.analysis).clone()))
}

/// Records that the file may lack its end if its writer was killed.
fn note_killed(file: &FileNode, processes: &dyn Processes) {
    let thread = file.life().take_closing_thread();
    if let Some(signal) = thread.and_then(|thread| thread.killed_by(processes)) {
        file.life().failed(format!("its writer was killed by signal {signal}"));
    }
}
