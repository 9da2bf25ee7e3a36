//! The states of analyses that nobody uses at the moment, kept so that the next append or view
//! continues them.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use crate::sync::Mutex;
use crate::tracker::Tracked;
use ctxfs_core::model::Component;

/// The states that are kept. Those of a plain log take some 170 KiB each, and the worst that was
/// found, of random words, 680 KiB.
const MOST: usize = 32;

/// The states that are kept while they are not used, those used longest ago first.
#[derive(Default)]
pub(crate) struct KeptAnalyses(Mutex<VecDeque<KeptAnalysis>>);

/// The state of a file's analysis, and the conversation of the file.
struct KeptAnalysis {
    by: Option<Component>,
    state: Weak<Mutex<Tracked>>,
}

impl KeptAnalyses {
    /// Keeps a state that was just used. If there are too many, drops one of the conversation that
    /// has most of them: the one that it used longest ago.
    pub(super) fn keep(&self, by: Option<Component>, state: &Arc<Mutex<Tracked>>) {
        let state = Arc::downgrade(state);
        let mut kept = self.0.lock();
        kept.retain(|other| other.state.strong_count() > 0 && !other.state.ptr_eq(&state));
        kept.push_back(KeptAnalysis { by, state });
        let dropped = (kept.len() > MOST).then(|| largest(&kept)).and_then(|at| kept.remove(at));
        drop(kept);
        if let Some(state) = dropped.and_then(|dropped| dropped.state.upgrade()) {
            state.lock().drop_unless_used();
        }
    }

    /// Returns true if one more state of `by` would not push out another one of `by`.
    pub(super) fn has_room(&self, by: Option<&Component>) -> bool {
        let kept = self.0.lock();
        kept.len() < MOST || kept.get(largest(&kept)).is_some_and(|oldest| oldest.by.as_ref() != by)
    }
}

/// Returns the position of the first state of the conversation that has most of them.
fn largest(kept: &VecDeque<KeptAnalysis>) -> usize {
    let count = |by: &Option<Component>| kept.iter().filter(|one| one.by == *by).count();
    let mut most = (0, 0);
    for (at, one) in kept.iter().enumerate() {
        let count = count(&one.by);
        if count > most.0 {
            most = (count, at);
        }
    }
    most.1
}

impl std::fmt::Debug for KeptAnalyses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeptAnalyses").field("states", &self.0.lock().len()).finish_non_exhaustive()
    }
}
