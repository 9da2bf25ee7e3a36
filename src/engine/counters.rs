//! Counters of this process since its start, for `.ctxfs/status.json`.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Value, json};

/// Counters that only grow.
#[derive(Debug, Default)]
pub struct Counters {
    /// Bytes written through the mount.
    pub bytes_written: AtomicU64,
    /// Bytes that analysis has read: as many as were written, if each is read once.
    pub bytes_analysed: AtomicU64,
    /// Artifacts sealed.
    pub sealed: AtomicU64,
    /// Artifacts removed by retention.
    pub removed: AtomicU64,
    /// Views computed.
    pub views_computed: AtomicU64,
    /// Views that ran out of time and showed a part.
    pub views_out_of_time: AtomicU64,
    /// 1 if readers read the store's files directly, else 0.
    pub passthrough: AtomicU64,
    /// Operations that took longer than the slow limit.
    pub slow_operations: AtomicU64,
}

impl Counters {
    /// Adds `count` to a counter.
    pub fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Relaxed);
    }

    /// Returns all but `passthrough` as a JSON object.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "bytesWritten": self.bytes_written.load(Relaxed),
            "bytesAnalysed": self.bytes_analysed.load(Relaxed),
            "sealed": self.sealed.load(Relaxed),
            "removed": self.removed.load(Relaxed),
            "viewsComputed": self.views_computed.load(Relaxed),
            "viewsOutOfTime": self.views_out_of_time.load(Relaxed),
            "slowOperations": self.slow_operations.load(Relaxed),
        })
    }
}
