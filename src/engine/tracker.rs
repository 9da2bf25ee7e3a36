//! The analysis of a file that grows, carried on from where it stopped.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::AtomicU64;

use crate::engine::Counters;
use crate::engine::Result;
use crate::engine::SourceFile;
use crate::engine::sync::Mutex;
use crate::materialize::Analyzer;
use crate::materialize::Checkpoints;
use crate::model::Analysis;

/// The bytes that one step of analysis reads. It takes some milliseconds, so that a waiting reader
/// or a due deadline is seen soon.
pub(crate) const STEP: u64 = 4 * 1024 * 1024;
/// The bytes that one read of a step takes.
const BLOCK: usize = 256 * 1024;

/// How often bytes that stood before may have changed. While it is the same, they are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RewriteCount {
    /// By this process.
    pub own: u64,
    /// By others, as far as this process has noticed.
    pub others: u64,
}

/// The analysis of the first bytes of a file, to be carried on.
#[derive(Default)]
pub struct Tracker(Mutex<Tracked>);

#[derive(Default)]
struct Tracked {
    analyzer: Option<Box<Analyzer>>,
    /// The count when the analysis began: a later rewrite makes it void.
    began: RewriteCount,
}

/// What one step has found.
struct Step {
    /// The bytes analysed so far.
    seen: u64,
    /// True at the end of the file.
    ended: bool,
    /// The analysis, where the step has reached its goal or the end of the file.
    analysis: Option<Analysis>,
}

/// Analyses the first `goal` bytes or more of `of`, which is open as `file`.
///
/// Returns the analysis of the bytes seen, and whether they are all that was asked for: `expired`
/// is asked between steps. What other processes did is looked at once, before: while they write on,
/// the analysis ends all the same. Adds the bytes that it reads to `read`.
pub(crate) fn analyse(
    of: &dyn SourceFile,
    file: &File,
    goal: u64,
    expired: &dyn Fn() -> bool,
    read: &AtomicU64,
) -> Result<(Analysis, bool)> {
    let (rewrites, _) = of.rewrites(file)?;
    loop {
        let step = of.tracker().step(of, file, goal, rewrites.others, read)?;
        if let Some(analysis) = step.analysis {
            return Ok((analysis, step.seen >= goal || step.ended));
        }
        if expired() {
            return Ok((of.tracker().so_far(), false));
        }
    }
}

impl Tracker {
    /// Carries the analysis on by one step.
    fn step(
        &self,
        of: &dyn SourceFile,
        file: &File,
        goal: u64,
        others: u64,
        read: &AtomicU64,
    ) -> Result<Step> {
        let (is_log, own) = (of.is_log(), of.own_rewrites());
        let mut tracked = self.0.lock();
        let analyzer = tracked.resume(is_log, own, others);
        let stop = goal.min(analyzer.seen() + STEP);
        let mut buffer = vec![0; BLOCK.min(usize::try_from(goal).unwrap_or(BLOCK))];
        while analyzer.seen() < stop {
            let most = buffer.len().min((stop - analyzer.seen()) as usize);
            let count = file.read_at(&mut buffer[..most], analyzer.seen())?;
            if count == 0 {
                let analysis = Some(analyzer.finish());
                return Ok(Step { seen: analyzer.seen(), ended: true, analysis });
            }
            analyzer.push(&buffer[..count]);
            Counters::add(read, count as u64);
        }
        let seen = analyzer.seen();
        let analysis = (seen >= goal).then(|| analyzer.finish());
        Ok(Step { seen, ended: false, analysis })
    }

    fn so_far(&self) -> Analysis {
        self.0.lock().analyzer.get_or_insert_default().finish()
    }

    /// Returns where the text of the log stands, as far as it is analysed.
    pub(crate) fn checkpoints(&self) -> Checkpoints {
        self.0.lock().analyzer.as_ref().map(|analyzer| analyzer.checkpoints()).unwrap_or_default()
    }

    /// Returns the bytes that are analysed already.
    pub(crate) fn seen(&self) -> u64 {
        self.0.lock().analyzer.as_ref().map_or(0, |analyzer| analyzer.seen())
    }

    /// Frees the state. The next analysis begins at the first byte.
    pub(crate) fn reset(&self) {
        self.0.lock().analyzer = None;
    }
}

impl Tracked {
    /// Returns the analyzer, a new one where the bytes before have changed.
    fn resume(&mut self, is_log: bool, own: u64, others: u64) -> &mut Analyzer {
        // Another thread that noticed the others later has begun anew for all.
        let rewrites = RewriteCount { own, others: others.max(self.began.others) };
        let same_kind = self.analyzer.as_ref().is_none_or(|known| known.is_of_log() == is_log);
        if self.began != rewrites || !same_kind {
            self.analyzer = None;
            self.began = rewrites;
        }
        let new = || Box::new(if is_log { Analyzer::of_log() } else { Analyzer::new() });
        self.analyzer.get_or_insert_with(new)
    }
}

impl std::fmt::Debug for Tracker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tracker").field("seen", &self.seen()).finish_non_exhaustive()
    }
}
