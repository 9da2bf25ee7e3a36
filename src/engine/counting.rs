//! The counters of this process, and the counts of outputs and reads that `ctxfs stats` reports.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::sync::{Condvar, Mutex};
use crate::{BackgroundThread, Confinement, Secrets};
use ctxfs_core::model::{Amount, Component, Counts, Record, counted_tool};
use ctxfs_store::Store;

/// Counters of this process since its start, for `.ctxfs/status.json`.
///
/// - `bytes_analysed`: bytes that analysis has read. Equal to the number of bytes written if each
///   byte is read once.
/// - `removed`: number of artifacts removed by retention
#[derive(Debug, Default)]
pub struct Counters {
    pub bytes_analysed: AtomicU64,
    pub sealed: AtomicU64,
    pub removed: AtomicU64,
    pub views_computed: AtomicU64,
    pub views_out_of_time: AtomicU64,
}

/// The state of a door, which `.ctxfs/status.json` and `.ctxfs/metrics` show.
///
/// - `passthrough`: true if readers read the store's files directly (FUSE passthrough)
/// - `nodes`: number of files and directories that the kernel knows, including the root
/// - `waiting_to_seal`: number of jobs of the sealing thread
#[derive(Debug, Default, PartialEq, Eq)]
pub struct DoorStatus {
    pub bytes_written: u64,
    pub slow_operations: u64,
    pub passthrough: bool,
    pub confinement: Confinement,
    pub nodes: usize,
    pub open_handles: usize,
    pub waiting_to_seal: usize,
}

impl Counters {
    pub fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Relaxed);
    }

    /// Returns all counters as a JSON object, including the counters of the door.
    pub(crate) fn to_json(&self, door: &DoorStatus) -> Value {
        json!({
            "bytesWritten": door.bytes_written,
            "bytesAnalysed": self.bytes_analysed.load(Relaxed),
            "sealed": self.sealed.load(Relaxed),
            "removed": self.removed.load(Relaxed),
            "viewsComputed": self.views_computed.load(Relaxed),
            "viewsOutOfTime": self.views_out_of_time.load(Relaxed),
            "slowOperations": door.slow_operations,
        })
    }
}

/// Maximum time for which counts are only in memory.
const UNSAVED: Duration = Duration::from_secs(5);
/// Maximum number of conversation and tool pairs with counts in memory. At the limit, counts are
/// saved at once.
const MOST: usize = 1024;

/// Counts of stored outputs and read texts, by conversation and tool.
///
/// The counts are added to the store every few seconds and at shutdown, so a server that is killed
/// loses the most recent ones. Operations neither wait for this nor fail because of it.
pub(crate) struct Counting {
    store: Store,
    secrets: Secrets,
    unsaved: Mutex<UnsavedCounts>,
    changed: Condvar,
    thread: BackgroundThread,
}

#[derive(Default)]
struct UnsavedCounts {
    counts: HashMap<(Component, String), Counts>,
    closed: bool,
}

impl Counting {
    pub(crate) fn new(store: Store, secrets: Secrets) -> Self {
        let (unsaved, changed) = (Mutex::default(), Condvar::default());
        Self { store, secrets, unsaved, changed, thread: BackgroundThread::default() }
    }

    pub(crate) fn start(self: &Arc<Self>) -> io::Result<()> {
        let counting = Arc::clone(self);
        self.thread.start("ctxfs-count", move || {
            while counting.wait() {
                counting.save();
            }
        })
    }

    pub(crate) fn finish(&self) {
        self.unsaved.lock().closed = true;
        self.changed.notify_all();
        self.thread.join();
        self.save();
    }

    pub(crate) fn add(&self, id: Component, tool: String, counts: &Counts) {
        let tool = counted_tool(tool);
        let mut unsaved = self.unsaved.lock();
        *unsaved.counts.entry((id, tool)).or_default() += counts;
        let (first, full) = (unsaved.counts.len() == 1, unsaved.counts.len() >= MOST);
        drop(unsaved);
        if first || full {
            self.changed.notify_all();
        }
    }

    /// Waits until there are counts to save. Returns false at shutdown.
    fn wait(&self) -> bool {
        let mut unsaved = self.unsaved.lock();
        let empty = |unsaved: &mut UnsavedCounts| unsaved.counts.is_empty() && !unsaved.closed;
        self.changed.wait_while(&mut unsaved, empty);
        let few = |unsaved: &mut UnsavedCounts| unsaved.counts.len() < MOST && !unsaved.closed;
        self.changed.wait_while_for(&mut unsaved, few, UNSAVED);
        !unsaved.closed
    }

    pub(crate) fn stored(&self, id: &Component, record: &Record) {
        let tokens = record.analysis.as_ref().map_or(record.size / 4, |found| found.tokens);
        let counts = Counts { stored: Amount::once(record.size, tokens), ..Counts::default() };
        self.add(id.clone(), tool_of(record), &counts);
    }

    pub(crate) fn handed(&self, id: &Component, record: &Record, amount: Amount) {
        let counts = Counts { handed: amount, ..Counts::default() };
        self.add(id.clone(), tool_of(record), &counts);
    }

    /// Counts an output of `bytes` bytes that a user removed. `record` is its last record.
    pub(crate) fn deleted(&self, id: &Component, bytes: u64, record: Option<Record>) {
        // Removals by a retention rule are already counted.
        let record = record.filter(|record| record.removed.is_none()).unwrap_or_default();
        let tokens = record.analysis.as_ref().map_or(bytes / 4, |found| found.tokens);
        let counts = Counts { deleted: Amount::once(bytes, tokens), ..Counts::default() };
        self.add(id.clone(), tool_of(&record), &counts);
    }

    pub(crate) fn forget(&self, id: &Component) {
        self.unsaved.lock().counts.retain(|(of, _), _| of != id);
    }

    /// Adds the counts to the store. Counts that cannot be added are lost.
    pub(crate) fn save(&self) {
        let counts = std::mem::take(&mut self.unsaved.lock().counts);
        let mut by_conversation: HashMap<Component, Vec<(String, Counts)>> = HashMap::new();
        for ((id, tool), counts) in counts {
            let tool = self.secrets.mask_text(tool);
            by_conversation.entry(id).or_default().push((tool, counts));
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        for (id, counts) in by_conversation {
            let Ok(Some(conversation)) = self.store.conversation(&id) else { continue };
            if let Err(error) = conversation.count(now.as_millis() as i64, counts) {
                tracing::debug!(%error, "counts were not saved");
            }
        }
    }
}

fn tool_of(record: &Record) -> String {
    record.provenance.tool_name().unwrap_or_default()
}

/// Returns the tokens of `part` bytes, if `whole` bytes have `tokens`.
pub(crate) fn proportion(tokens: u64, part: u64, whole: u64) -> u64 {
    let tokens = u128::from(tokens) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(tokens).unwrap_or(u64::MAX)
}
