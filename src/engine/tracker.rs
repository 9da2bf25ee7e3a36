//! The state of the analysis of a growing file, from which the analysis can continue, and the
//! finished analyses that are kept in memory.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use quick_cache::sync::Cache;

use crate::sync::Mutex;
use crate::{Counters, FileRef, Identity, Result, recent_cache};
use ctxfs_core::materialize::{Analyzer, SNIFFED};
use ctxfs_core::model::{Analysis, Component, Content};

/// Number of bytes that one step of analysis reads. A step takes a few milliseconds, so that
/// waiting readers and deadlines are noticed soon.
pub(crate) const STEP: u64 = 4 * 1024 * 1024;
const BLOCK: usize = 256 * 1024;
/// Number of bytes of one read if the analysis is at least this far behind. Several threads analyse
/// these bytes.
const BEHIND: usize = 2 * 1024 * 1024;
/// Minimum number of analysed bytes for which the state is kept. Analysing fewer bytes again takes
/// at most about 0.3 ms.
const LEAST_KEPT: u64 = 64 * 1024;
/// Maximum number of states that are kept. The state of a plain log takes about 170 KiB. The
/// largest state measured, of random words, takes 680 KiB.
const KEPT: usize = 32;
/// Maximum number of finished analyses in memory. The manifest has the rest.
const REMEMBERED: usize = 256;

/// The number of times that existing bytes may have changed. While the count is the same, the bytes
/// are the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RewriteCount {
    pub own: u64,
    /// Number of rewrites by other processes that this process has detected.
    pub others: u64,
}

/// The analysis of the beginning of a file. It can be continued.
///
/// The state exists while an analysis or a view uses it. Afterwards the engine keeps the states of
/// a few files and drops the rest, because most files in the kernel's cache are idle.
#[derive(Default)]
pub(crate) struct Tracker(Mutex<Option<Arc<Mutex<Tracked>>>>);

/// A guard that holds the state of an analysis in use. When the guard is dropped, the engine
/// decides whether to keep the state.
pub(crate) struct TrackerInUse<'a> {
    kept: &'a KeptAnalyses,
    conversation: Option<Component>,
    tracker: &'a Tracker,
    state: Arc<Mutex<Tracked>>,
}

#[derive(Default)]
pub(crate) struct Tracked {
    analyzer: Option<Box<Analyzer>>,
    users: u32,
    /// The rewrite count when the analysis began. A later rewrite invalidates the analysis.
    began: RewriteCount,
}

#[derive(Clone, Copy)]
pub(crate) struct AnalysisGoal<'a> {
    pub(crate) file: FileRef<'a>,
    pub(crate) is_log: bool,
    pub(crate) rewrites: RewriteCount,
    pub(crate) bytes: u64,
}

/// The result of one step of an analysis.
///
/// - `seen`: number of bytes analysed so far
/// - `ended`: true if the end of the file was reached
/// - `analysis`: the analysis, if the goal or the end of the file was reached
pub(crate) struct AnalysisStep {
    pub(crate) seen: u64,
    pub(crate) ended: bool,
    pub(crate) analysis: Option<Analysis>,
}

impl Tracker {
    /// Keeps the state of the analysis until the returned guard is dropped. The state then goes to
    /// `kept`, charged to `conversation`.
    pub(crate) fn in_use<'a>(
        &'a self,
        kept: &'a KeptAnalyses,
        conversation: Option<Component>,
    ) -> TrackerInUse<'a> {
        // The slot stays locked, so that the last user cannot empty it in the meantime.
        let mut slot = self.0.lock();
        let state = Arc::clone(slot.get_or_insert_default());
        state.lock().users += 1;
        drop(slot);
        TrackerInUse { kept, conversation, tracker: self, state }
    }

    pub(crate) fn step(&self, counters: &Counters, goal: AnalysisGoal<'_>) -> Result<AnalysisStep> {
        let AnalysisGoal { file, is_log, rewrites, bytes: goal } = goal;
        let state = self.state();
        let mut tracked = state.lock();
        let analyzer = tracked.resume(is_log, rewrites);
        let stop = goal.min(analyzer.seen() + STEP);
        let is_behind = stop.saturating_sub(analyzer.seen()) >= BEHIND as u64;
        let most = if is_behind { BEHIND } else { BLOCK };
        let mut buffer = vec![0; most.min(usize::try_from(goal).unwrap_or(most))];
        while analyzer.seen() < stop {
            let most = buffer.len().min((stop - analyzer.seen()) as usize);
            let count = file.read_at(analyzer.seen(), &mut buffer[..most])?;
            if count == 0 {
                let analysis = Some(analyzer.finish());
                return Ok(AnalysisStep { seen: analyzer.seen(), ended: true, analysis });
            }
            if count >= BEHIND {
                analyzer.push_side_by_side(&buffer[..count]);
            } else {
                analyzer.push(&buffer[..count]);
            }
            Counters::add(&counters.bytes_analysed, count as u64);
        }
        let seen = analyzer.seen();
        let analysis = (seen >= goal).then(|| analyzer.finish());
        Ok(AnalysisStep { seen, ended: false, analysis })
    }

    pub(crate) fn so_far(&self) -> Analysis {
        self.state().lock().analyzer.get_or_insert_default().finish()
    }

    /// Reads from the analyzer. Returns the default if the file is not analysed.
    pub(crate) fn read<T: Default>(&self, read: impl FnOnce(&Analyzer) -> T) -> T {
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
            self.kept.keep(self.conversation.take(), &self.state);
        }
    }
}

impl Tracked {
    /// Returns the analyzer. Starts over with a new one if the bytes seen so far may have changed.
    fn resume(&mut self, is_log: bool, rewrites: RewriteCount) -> &mut Analyzer {
        // A thread that detected a later change by other processes has already started over for all
        // users.
        let others = rewrites.others.max(self.began.others);
        let rewrites = RewriteCount { others, ..rewrites };
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
        f.debug_struct("Tracker").field("seen", &self.read(Analyzer::seen)).finish_non_exhaustive()
    }
}

/// The idle states that are kept, least recently used first. The next append to a file, or the next
/// view of it, continues from its state.
#[derive(Default)]
pub(crate) struct KeptAnalyses(Mutex<VecDeque<KeptAnalysis>>);

struct KeptAnalysis {
    conversation: Option<Component>,
    state: Weak<Mutex<Tracked>>,
}

impl KeptAnalyses {
    /// Keeps a state that was just used. At the limit, drops the oldest state of the conversation
    /// with the most states.
    fn keep(&self, conversation: Option<Component>, state: &Arc<Mutex<Tracked>>) {
        let state = Arc::downgrade(state);
        let mut kept = self.0.lock();
        kept.retain(|other| other.state.strong_count() > 0 && !other.state.ptr_eq(&state));
        kept.push_back(KeptAnalysis { conversation, state });
        let dropped = (kept.len() > KEPT).then(|| largest(&kept)).and_then(|at| kept.remove(at));
        drop(kept);
        if let Some(state) = dropped.and_then(|dropped| dropped.state.upgrade()) {
            let mut tracked = state.lock();
            if tracked.users == 0 {
                tracked.analyzer = None;
            }
        }
    }

    /// Returns true if one more state of `conversation` would not evict another state of the same
    /// conversation.
    pub(crate) fn has_room(&self, conversation: Option<&Component>) -> bool {
        let kept = self.0.lock();
        let of_another = |oldest: &KeptAnalysis| oldest.conversation.as_ref() != conversation;
        kept.len() < KEPT || kept.get(largest(&kept)).is_some_and(of_another)
    }
}

/// Returns the position of the oldest state of the conversation with the most states.
fn largest(kept: &VecDeque<KeptAnalysis>) -> usize {
    let mut most = (0, 0);
    for (at, one) in kept.iter().enumerate() {
        let count = kept.iter().filter(|other| other.conversation == one.conversation).count();
        if count > most.0 {
            most = (count, at);
        }
    }
    most.1
}

#[derive(Debug, Clone)]
pub(crate) struct AnalysisSoFar {
    pub(crate) analysis: Arc<Analysis>,
    pub(crate) whole: bool,
}

/// Returns the analysis of the first bytes only. This is enough to tell text from binary, and the
/// result is the same before and after the artifact is sealed.
pub(crate) fn sniff(content: &dyn Content) -> Result<AnalysisSoFar> {
    let length = content.len().min(SNIFFED as u64);
    let mut analyzer = Analyzer::new();
    analyzer.push(&content.bytes(0, length as usize)?);
    let whole = analyzer.seen() == content.len();
    Ok(AnalysisSoFar { analysis: Arc::new(analyzer.finish()), whole })
}

/// The state of the bytes that an analysis covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ByteState {
    pub(crate) identity: Identity,
    pub(crate) rewrites: RewriteCount,
    pub(crate) size: u64,
    pub(crate) modified: i64,
}

pub(crate) struct Analyses(Cache<Identity, (ByteState, Arc<Analysis>)>);

impl Analyses {
    pub(crate) fn new() -> Self {
        Self(recent_cache(REMEMBERED))
    }

    pub(crate) fn get(&self, state: &ByteState) -> Option<Arc<Analysis>> {
        let (then, analysis) = self.0.get(&state.identity)?;
        let is_same = matches!(state.identity, Identity::Sealed(_)) || *state == then;
        is_same.then_some(analysis)
    }

    pub(crate) fn insert(&self, state: ByteState, analysis: &Arc<Analysis>) {
        self.0.insert(state.identity.clone(), (state, Arc::clone(analysis)));
    }
}
