//! The analysis of a growing file, continued from where it stopped.

use std::sync::Arc;

use crate::sync::Mutex;
use crate::{Counters, Engine, FileRef, Result, SourceFile};
use ctxfs_core::materialize::{Analyzer, Checkpoints};
use ctxfs_core::model::{Analysis, Component};
use ctxfs_store::Stat;

/// The bytes that one step of analysis reads. A step takes some milliseconds, so that waiting
/// readers and deadlines are noticed soon.
pub const STEP: u64 = 4 * 1024 * 1024;
/// The bytes that one read takes.
const BLOCK: usize = 256 * 1024;
/// The bytes that one read takes where the analysis is so far behind: they are analysed on several
/// threads.
const BEHIND: usize = 2 * 1024 * 1024;
/// The fewest analysed bytes that are worth a place among the states that are kept. Fewer are
/// analysed anew in some 0.3 ms.
const LEAST_KEPT: u64 = 64 * 1024;

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
///
/// Its state is there while somebody uses it; see `in_use`. After that it is one of the
/// states that the engine keeps, or goes. Most files that the kernel knows are at rest.
#[derive(Default)]
pub struct Tracker(Mutex<Option<Arc<Mutex<Tracked>>>>);

/// The state of an analysis, in use until this is dropped.
pub(crate) struct TrackerInUse<'a> {
    engine: &'a Engine,
    by: Option<Component>,
    tracker: &'a Tracker,
    state: Arc<Mutex<Tracked>>,
}

#[derive(Default)]
pub(super) struct Tracked {
    analyzer: Option<Box<Analyzer>>,
    /// The number of those who use it.
    users: u32,
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

/// Takes in what other processes did to `of`, which is open as `file`. Returns how often its bytes
/// were rewritten, and its attributes. Bytes that are elsewhere do not change.
pub(super) fn rewrites(
    engine: &Engine,
    of: &dyn SourceFile,
    file: FileRef<'_>,
) -> Result<(RewriteCount, Stat)> {
    match file {
        FileRef::Here(file) => of.rewrites(engine, file),
        FileRef::Far(far) => Ok((RewriteCount { own: of.own_rewrites(), others: 0 }, far.stat)),
    }
}

/// Analyses the first `goal` bytes or more of `of`, which is open as `file`.
///
/// Returns the analysis of the bytes seen, and true if they reach `goal` or the end. Calls
/// `expired` between steps. Looks for changes by other processes only once, before the first step,
/// so that the analysis ends even while they write.
pub fn analyse(
    engine: &Engine,
    of: &dyn SourceFile,
    file: FileRef<'_>,
    goal: u64,
    expired: &dyn Fn() -> bool,
) -> Result<(Analysis, bool)> {
    let _used = of.tracker().in_use(engine, of);
    let (rewrites, _) = rewrites(engine, of, file)?;
    loop {
        let step = of.tracker().step(engine, of, file, (goal, rewrites.others))?;
        if let Some(analysis) = step.analysis {
            return Ok((analysis, step.seen >= goal || step.ended));
        }
        if expired() {
            return Ok((of.tracker().so_far(), false));
        }
    }
}

impl Tracker {
    /// Keeps the state of the analysis of `of` until the result is dropped.
    pub(crate) fn in_use<'a>(
        &'a self,
        engine: &'a Engine,
        of: &dyn SourceFile,
    ) -> TrackerInUse<'a> {
        let mut slot = self.0.lock();
        let state = Arc::clone(slot.get_or_insert_default());
        state.lock().users += 1;
        TrackerInUse { engine, by: of.conversation(), tracker: self, state }
    }

    /// Returns true if a state that is begun now can be kept without pushing out that of another
    /// file of the same conversation, or if there is one.
    pub fn can_be_kept(&self, engine: &Engine, of: &dyn SourceFile) -> bool {
        self.seen() > 0 || engine.kept_analyses.has_room(of.conversation().as_ref())
    }

    /// Continues the analysis by one step to `goal`, after `others` rewrites by other processes.
    fn step(
        &self,
        engine: &Engine,
        of: &dyn SourceFile,
        file: FileRef<'_>,
        (goal, others): (u64, u64),
    ) -> Result<Step> {
        let (is_log, own) = (of.is_log(), of.own_rewrites());
        let state = self.state();
        let mut tracked = state.lock();
        let analyzer = tracked.resume(is_log, own, others);
        let stop = goal.min(analyzer.seen() + STEP);
        let is_behind = stop.saturating_sub(analyzer.seen()) >= BEHIND as u64;
        let most = if is_behind { BEHIND } else { BLOCK };
        let mut buffer = vec![0; most.min(usize::try_from(goal).unwrap_or(most))];
        while analyzer.seen() < stop {
            let most = buffer.len().min((stop - analyzer.seen()) as usize);
            let count = file.read_at(analyzer.seen(), &mut buffer[..most])?;
            if count == 0 {
                let analysis = Some(analyzer.finish());
                return Ok(Step { seen: analyzer.seen(), ended: true, analysis });
            }
            if count >= BEHIND {
                analyzer.push_side_by_side(&buffer[..count]);
            } else {
                analyzer.push(&buffer[..count]);
            }
            Counters::add(&engine.counters.bytes_analysed, count as u64);
        }
        let seen = analyzer.seen();
        let analysis = (seen >= goal).then(|| analyzer.finish());
        Ok(Step { seen, ended: false, analysis })
    }

    fn so_far(&self) -> Analysis {
        self.state().lock().analyzer.get_or_insert_default().finish()
    }

    /// Returns the checkpoints of the log's text, as far as it is analysed.
    pub(crate) fn checkpoints(&self) -> Checkpoints {
        self.so_far_or_default(Analyzer::checkpoints)
    }

    /// Returns the number of bytes that are analysed.
    pub fn seen(&self) -> u64 {
        self.so_far_or_default(Analyzer::seen)
    }

    /// Returns what `read` finds in the state, if there is one.
    fn so_far_or_default<T: Default>(&self, read: impl FnOnce(&Analyzer) -> T) -> T {
        let Some(state) = self.0.lock().clone() else { return T::default() };
        let tracked = state.lock();
        tracked.analyzer.as_deref().map(read).unwrap_or_default()
    }

    fn state(&self) -> Arc<Mutex<Tracked>> {
        Arc::clone(self.0.lock().get_or_insert_default())
    }
}

impl Drop for TrackerInUse<'_> {
    fn drop(&mut self) {
        let mut slot = self.tracker.0.lock();
        let mut tracked = self.state.lock();
        tracked.users -= 1;
        if tracked.users > 0 {
            return;
        }
        let seen = tracked.analyzer.as_deref().map_or(0, Analyzer::seen);
        drop(tracked);
        if seen < LEAST_KEPT {
            *slot = None;
        } else {
            drop(slot);
            self.engine.kept_analyses.keep(self.by.take(), &self.state);
        }
    }
}

impl Tracked {
    /// Drops the state, unless somebody uses it. The next analysis begins at the first byte.
    pub(super) fn drop_unless_used(&mut self) {
        if self.users == 0 {
            self.analyzer = None;
        }
    }

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
