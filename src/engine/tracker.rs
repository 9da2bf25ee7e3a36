//! The analysis of a growing file, continued from where it stopped.

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

/// The bytes that one step of analysis reads. A step takes some milliseconds, so that waiting
/// readers and deadlines are noticed soon.
pub(crate) const STEP: u64 = 4 * 1024 * 1024;
/// The bytes that one read takes.
const BLOCK: usize = 256 * 1024;

/// The number of times that existing bytes may have changed. While it is the same, so are the
/// bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RewriteCount {
    /// By this process.
    pub own: u64,
    /// By other processes, as far as this one has noticed.
    pub others: u64,
}

/// The analysis of the beginning of a file, which can be continued.
#[derive(Default)]
pub struct Tracker(Mutex<Tracked>);

#[derive(Default)]
struct Tracked {
    analyzer: Option<Box<Analyzer>>,
    /// The count when the analysis began. A later rewrite makes the analysis void.
    began: RewriteCount,
}

/// The outcome of one step.
struct Step {
    /// The bytes analysed so far.
    seen: u64,
    /// True at the end of the file.
    ended: bool,
    /// The analysis, if the step has reached its goal or the end of the file.
    analysis: Option<Analysis>,
}

/// Analyses the first `goal` bytes or more of `of`, which is open as `file`.
///
/// Returns the analysis of the bytes seen, and true if they reach `goal` or the end. Calls
/// `expired` between steps. Looks for changes by other processes only once, before the first step,
/// so that the analysis ends even while they write. Adds the number of bytes that it reads to
/// `read`.
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
    /// Continues the analysis by one step.
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

    /// Returns the checkpoints of the log's text, as far as it is analysed.
    pub(crate) fn checkpoints(&self) -> Checkpoints {
        self.0.lock().analyzer.as_ref().map(|analyzer| analyzer.checkpoints()).unwrap_or_default()
    }

    /// Returns the number of bytes that are analysed.
    pub(crate) fn seen(&self) -> u64 {
        self.0.lock().analyzer.as_ref().map_or(0, |analyzer| analyzer.seen())
    }

    /// Drops the state. The next analysis begins at the first byte.
    pub(crate) fn reset(&self) {
        self.0.lock().analyzer = None;
    }
}

impl Tracked {
    /// Returns the analyzer, or a new one if the bytes that it has seen may have changed.
    fn resume(&mut self, is_log: bool, own: u64, others: u64) -> &mut Analyzer {
        // A thread that noticed a later change by others has started over for all.
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
