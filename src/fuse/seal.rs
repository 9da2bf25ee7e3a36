//! Sealing: masking, analysing and recording an artifact after its last writer has closed it.
//!
//! One thread seals all artifacts, one step at a time ([`seal_queue`](super::seal_queue)), so that
//! neither a large artifact nor a busy conversation delays others. No reader waits for the thread,
//! because views are computed from the bytes.
//!
//! Secrets are masked in place before the artifact is recorded as sealed. A mask has the same
//! length as its secret. Until then, the disk has the bytes as they were written.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;

use crate::file_node::source;
use crate::{FileNode, FsError, Ino, Life, Node, Result, SealJob, Shared, lookup, record};
use ctxfs_core::model::{
    Amount, Analysis, ArtifactState, Content as _, Counts, LocalFile, Record, is_scratch,
};
use ctxfs_core::redact::{BLOCK, SecretRules, masks, settled};
use ctxfs_engine::sync::lower_priority;
use ctxfs_engine::{Counters, DoorFile as _, Engine, FileLife as _, RewriteCount, proportion};
use ctxfs_store::{Artifact, Lease, lease_of, provenance_of, stat_file};

/// Pause before the next attempt to seal a file that may still be written through a mapping.
const MAPPED_RETRY: Duration = Duration::from_millis(100);
/// Pause before the next attempt to seal a file that was truncated, or written by another process,
/// while it was being sealed.
const CHANGED_RETRY: Duration = Duration::from_millis(10);
/// Pause before the next attempt to analyse a file that other processes write.
const OTHERS_RETRY: Duration = Duration::from_millis(100);
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

/// Number of bytes that one step masks.
const MASKED_AT_ONCE: u64 = 4 * 1024 * 1024;

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
    let result = match &job {
        SealJob::NoteLive(node) => note_live(fs, node).map(|()| JobResult::Done),
        SealJob::Follow(node) => follow(fs, node),
        SealJob::Seal(node) => seal(fs, node, ending),
        SealJob::Analyse(node) => analyse_sealed(fs, node, ending),
    };
    let result = match result {
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

fn note_live(fs: &Shared, node: &Arc<Node>) -> Result<()> {
    if !node.as_file()?.life().has_writers() {
        return Ok(());
    }
    record::settle_moved(fs, node)?;
    record::record_as(fs, node, Life::noted_live, |_| ())
}

fn follow(fs: &Shared, node: &Arc<Node>) -> Result<JobResult> {
    let file = node.as_file()?;
    if !file.is_artifact() {
        return Ok(JobResult::Done);
    }
    let Some(open) = file.any_open() else { return Ok(JobResult::Done) };
    let end = file.life().end();
    let goes_on = source(file).follow(&fs.engine, &open, end)?;
    let again = || JobResult::Again(SealJob::Follow(Arc::clone(node)));
    Ok(if goes_on { again() } else { JobResult::Done })
}

/// Records the artifact as sealed. The record includes the analysis if one step completes it.
/// Otherwise another job completes the analysis.
fn seal(fs: &Shared, node: &Arc<Node>, ending: bool) -> Result<JobResult> {
    let file = node.as_file()?;
    let is_mapped = {
        let life = file.life();
        if life.has_writers() || !life.is_unsealed() {
            return Ok(JobResult::Done);
        }
        life.is_mapped()
    };
    record::settle_moved(fs, node)?;
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
                // A sealed artifact must not change. The next mount marks this one as incomplete.
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

fn analyse_and_record(
    fs: &Shared,
    node: &Arc<Node>,
    open: &Arc<File>,
    ending: bool,
) -> Result<JobResult> {
    let file = node.as_file()?;
    let clock = fs.engine.store().clock();
    let (rewrites, stat) = file.state.rewrites(open, clock)?;
    // Waits until the modification time of the file would show the next change.
    if let Some(pause) = clock.settles_in(&stat).filter(|_| !ending) {
        return Ok(JobResult::Later(pause, SealJob::Seal(Arc::clone(node))));
    }
    let analysis = source(file).analyse(&fs.engine, open, &|| true)?;
    let is_whole = analysis.is_some();
    let sealing = Sealing { rewrites, file: stat.local_file(), analysis, ending };
    let seal = || SealJob::Seal(Arc::clone(node));
    Ok(match record_sealed(fs, node, open, sealing)? {
        false => JobResult::Later(CHANGED_RETRY, seal()),
        true if is_whole => JobResult::Done,
        true => JobResult::Again(SealJob::Analyse(Arc::clone(node))),
    })
}

struct Sealing {
    rewrites: RewriteCount,
    file: LocalFile,
    analysis: Option<Analysis>,
    ending: bool,
}

/// Records the artifact as sealed, unless it has a writer again. If its bytes have changed since
/// the analysis, records nothing and returns false. If the mount is ending, records the artifact
/// without the analysis instead.
fn record_sealed(
    fs: &Shared,
    node: &Arc<Node>,
    open: &Arc<File>,
    sealing: Sealing,
) -> Result<bool> {
    let Sealing { rewrites, file, analysis, ending } = sealing;
    let provenance = provenance_of(open)?;
    let source = source(node.as_file()?);
    let measured = analysis.as_ref().and_then(|_| source.view_sizes(&fs.engine, open));
    let tokens = analysis.as_ref().map(|found| (found.tokens, found.bytes));
    let (mut tool, mut changed) = (None, false);
    let change = |life: &mut Life, mut record: Record| {
        if life.has_writers() {
            return None;
        }
        let speaks =
            |found: &Analysis| found.bytes == record.size && life.bytes.rewrites() == rewrites;
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
    record::record_as(fs, node, change, Life::sealed)?;
    if changed && !ending {
        return Ok(false);
    }
    note_sealed(fs, node)?;
    count_stored(fs, node, tool, tokens.or(ending.then_some((1, 4))))?;
    Ok(true)
}

fn note_sealed(fs: &Shared, node: &Node) -> Result<()> {
    Counters::add(&fs.engine.counters().sealed, 1);
    let end = node.as_file()?.life().end();
    if let Some(id) = node.conversation() {
        fs.engine.note_sealed(&id, end);
    }
    Ok(())
}

/// Continues the analysis of a sealed artifact by one step. Records the analysis when it is
/// complete.
fn analyse_sealed(fs: &Shared, node: &Arc<Node>, ending: bool) -> Result<JobResult> {
    let file = node.as_file()?;
    if ending || file.life().is_unsealed() {
        return Ok(JobResult::Done);
    }
    let open = Arc::new(file.open(OFlags::RDONLY | OFlags::NOATIME)?);
    let clock = fs.engine.store().clock();
    let (rewrites, _) = file.state.rewrites(&open, clock)?;
    // If the analysis state was evicted in the meantime, it would be evicted again. This call
    // therefore continues to the end.
    let was_pushed_out = file.state.analysed() == 0;
    let expired = || !was_pushed_out || fs.sealer.is_ending();
    let Some(analysis) = source(file).analyse(&fs.engine, &open, &expired)? else {
        let job = SealJob::Analyse(Arc::clone(node));
        let unchanged = file.state.rewrites(&open, clock)?.0 == rewrites;
        return Ok(if unchanged {
            JobResult::Again(job)
        } else {
            JobResult::Later(OTHERS_RETRY, job)
        });
    };
    let tokens = Some((analysis.tokens, analysis.bytes));
    let mut tool = None;
    let change = |life: &mut Life, record: Record| {
        let unchanged = !life.is_unsealed() && life.bytes.rewrites() == rewrites;
        let same = unchanged && record.size == analysis.bytes;
        tool = record.provenance.tool_name();
        same.then_some(Record { analysis: Some(analysis), ..record })
    };
    record::record_as(fs, node, change, |_| ())?;
    count_stored(fs, node, tool, tokens)?;
    Ok(JobResult::Done)
}

/// Counts the bytes that were stored since the file was last counted. `tokens` is a ratio:
/// `tokens.0` tokens for `tokens.1` bytes. Without `tokens`, the bytes are counted later.
fn count_stored(
    fs: &Shared,
    node: &Node,
    tool: Option<String>,
    tokens: Option<(u64, u64)>,
) -> Result<()> {
    let (Some(id), Some(tokens)) = (node.conversation(), tokens) else { return Ok(()) };
    let bytes = node.as_file()?.life().take_uncounted();
    if bytes > 0 {
        let stored = Amount::once(bytes, proportion(tokens.0, bytes, tokens.1));
        let counts = Counts { stored, ..Counts::default() };
        fs.engine.count(&id, tool.unwrap_or_default(), &counts);
    }
    Ok(())
}

/// Returns true if secrets in the stored bytes of `file` must be masked after it is closed. Scratch
/// files are not masked, and the message log accepts only masked messages.
pub(super) fn is_to_be_masked(engine: &Engine, file: &FileNode) -> bool {
    let is_scratch = || file.place().is_none_or(|(_, path)| is_scratch(path.file_name()));
    engine.stored_rules().is_some() && !file.is_message_log() && !is_scratch()
}

/// Masks secrets in the stored bytes of a file without writers. Does one step, or everything if the
/// mount is `ending`. Returns true once the whole file is masked.
pub(super) fn mask_stored(engine: &Engine, file: &FileNode, ending: bool) -> Result<bool> {
    let Some(rules) = engine.stored_rules() else { return Ok(true) };
    let open = Arc::new(file.open(OFlags::RDWR | OFlags::NOATIME)?);
    let mut steps = MASKED_AT_ONCE / BLOCK;
    while ending || steps > 0 {
        if mask_block(file, &open, rules)? {
            return Ok(true);
        }
        steps = steps.saturating_sub(1);
    }
    Ok(false)
}

/// Returns the number of the block at which to continue after block `number` needed no mask. Skips
/// the blocks in the middle of a hole, which are all alike. `length` is the file length in bytes.
///
/// The masks of a block depend on bytes up to one block away. Only blocks with a hole on both sides
/// are therefore skipped.
fn after_hole(open: &File, number: u64, length: u64) -> u64 {
    let from = number.saturating_sub(1) * BLOCK;
    let data = match rustix::fs::seek(open, SeekFrom::Data(from)) {
        Err(Errno::NXIO) => length,
        found => found.unwrap_or(from),
    };
    (data / BLOCK).saturating_sub(1)
}

/// Masks the next block, with the life of the file locked so that no client can write. Returns true
/// if it was the last block.
fn mask_block(file: &FileNode, open: &Arc<File>, rules: &SecretRules) -> Result<bool> {
    let mut life = file.life();
    let content = Artifact::new(Arc::clone(open), stat_file(open)?.size);
    if life.has_writers() {
        return Ok(true);
    }
    let number = life.redacted() / BLOCK;
    let read = |offset, length| content.bytes(offset, length);
    let masks = masks(rules, number, content.len(), read)?;
    for (offset, mask) in &masks {
        open.write_all_at(mask, *offset)?;
    }
    let changed = if masks.is_empty() { None } else { Some(stat_file(open)?) };
    let skipped = if masks.is_empty() { after_hole(open, number, content.len()) } else { 0 };
    let end = skipped.max(number + 1) * BLOCK;
    let done = end >= content.len();
    let masked = if done { settled(content.len()) } else { end };
    life.masked(masked, changed.as_ref());
    Ok(done)
}
