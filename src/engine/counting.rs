//! Counting the outputs that are stored and the texts that are read, for `ctxfs stats`.
//!
//! Counts are kept in memory and added to the store every few seconds and at the end, so a server
//! that is killed loses the last ones. No operation waits for them.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::sync::{Condvar, Mutex};
use crate::worker::Worker;
use crate::{Base, Computed, Engine, OpenText, Recipe};
use ctxfs_core::materialize::token_count;
use ctxfs_core::model::{Amount, Component, Counts, Record, counted_tool};

/// The longest time for which counts are in memory alone.
const UNSAVED: Duration = Duration::from_secs(5);
/// The most conversations and tools that are counted in memory. With more, counts are saved at
/// once.
const MOST: usize = 1024;
/// The most bytes whose tokens are counted. The first bytes of a longer text are a sample.
const SAMPLE: u64 = 256 * 1024;

/// Counts that are not in the store yet.
#[derive(Default)]
pub struct Counting {
    unsaved: Mutex<Unsaved>,
    changed: Condvar,
    thread: Worker,
}

#[derive(Default)]
struct Unsaved {
    counts: HashMap<(Component, String), Counts>,
    closed: bool,
}

impl fmt::Debug for Counting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counting").finish_non_exhaustive()
    }
}

impl Counting {
    /// Starts the thread that saves counts.
    pub(crate) fn start(&self, engine: &Arc<Engine>) -> io::Result<()> {
        let engine = Arc::clone(engine);
        self.thread.start("ctxfs-count", move || {
            while engine.counting.wait() {
                engine.counting.save(&engine);
            }
        })
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

    /// Waits until there is something to save. Returns false at the end.
    fn wait(&self) -> bool {
        let mut unsaved = self.unsaved.lock();
        let empty = |unsaved: &mut Unsaved| unsaved.counts.is_empty() && !unsaved.closed;
        self.changed.wait_while(&mut unsaved, empty);
        let few = |unsaved: &mut Unsaved| unsaved.counts.len() < MOST && !unsaved.closed;
        self.changed.wait_while_for(&mut unsaved, few, UNSAVED);
        !unsaved.closed
    }

    /// Counts `bytes` stored bytes of an output, at `tokens.0` tokens for `tokens.1` bytes.
    pub fn stored_part(
        &self,
        id: &Component,
        tool: Option<String>,
        bytes: u64,
        tokens: (u64, u64),
    ) {
        let stored = Amount::once(bytes, share(tokens.0, bytes, tokens.1));
        let counts = Counts { stored, ..Counts::default() };
        self.add(id.clone(), tool.unwrap_or_default(), &counts);
    }

    /// Counts an output that was stored at once.
    pub(crate) fn stored(&self, id: &Component, record: &Record) {
        let tokens = record.analysis.as_ref().map_or(record.size / 4, |found| found.tokens);
        let counts = Counts { stored: Amount::once(record.size, tokens), ..Counts::default() };
        self.add(id.clone(), tool_of(record), &counts);
    }

    /// Counts the `amount` that went to the model in place of an output.
    pub(crate) fn handed(&self, id: &Component, record: &Record, amount: Amount) {
        let counts = Counts { handed: amount, ..Counts::default() };
        self.add(id.clone(), tool_of(record), &counts);
    }

    /// Counts an output of `bytes` bytes that a person removed. `record` is its last record.
    pub(crate) fn deleted(&self, id: &Component, bytes: u64, record: Option<Record>) {
        // An output that a rule removed is counted already.
        let record = record.filter(|record| record.removed.is_none()).unwrap_or_default();
        let tokens = record.analysis.as_ref().map_or(bytes / 4, |found| found.tokens);
        let counts = Counts { deleted: Amount::once(bytes, tokens), ..Counts::default() };
        self.add(id.clone(), tool_of(&record), &counts);
    }

    /// Counts the bytes that were read of a computed file, which is being closed.
    pub fn read(&self, open: &OpenText) {
        let Some(counted) = counted_as(&open.of) else { return };
        let seen = open.seen();
        if seen == 0 && !open.text.is_empty() {
            return;
        }
        let amount = Amount::once(seen, tokens_of(open, seen));
        let mut counts = Counts::default();
        if counted.stands_in {
            counts.handed = amount;
        } else {
            counts.read = amount;
        }
        counts.views.insert(counted.view.to_owned(), 1);
        self.add(counted.conversation, counted.tool, &counts);
    }

    /// Forgets the unsaved counts of a conversation that is about to be removed.
    pub(crate) fn forget(&self, id: &Component) {
        self.unsaved.lock().counts.retain(|(of, _), _| of != id);
    }

    /// Adds the counts to the store. Those that cannot be added are lost, as counts are no reason
    /// to fail.
    pub(crate) fn save(&self, engine: &Engine) {
        let counts = std::mem::take(&mut self.unsaved.lock().counts);
        let mut by_conversation: HashMap<Component, Vec<(String, Counts)>> = HashMap::new();
        for ((id, tool), counts) in counts {
            let tool = engine.secrets.mask_text(tool);
            by_conversation.entry(id).or_default().push((tool, counts));
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        for (id, counts) in by_conversation {
            let Ok(Some(conversation)) = engine.store.conversation(&id) else { continue };
            if let Err(error) = conversation.count(now.as_millis() as i64, counts) {
                tracing::debug!(%error, "counts were not saved");
            }
        }
    }

    /// Ends the thread and saves the last counts.
    pub(crate) fn finish(&self, engine: &Engine) {
        self.unsaved.lock().closed = true;
        self.changed.notify_all();
        self.thread.join();
        self.save(engine);
    }
}

fn tool_of(record: &Record) -> String {
    record.provenance.tool_name().unwrap_or_default()
}

/// The row in which a read of a computed file is counted.
struct CountedAs {
    conversation: Component,
    tool: String,
    view: &'static str,
    /// True if it went to a model in place of an output.
    stands_in: bool,
}

fn counted_as(of: &Computed) -> Option<CountedAs> {
    let (view, stands_in) = match &of.recipe {
        Recipe::View(view) => (view.kind(), view.is_stand_in()),
        Recipe::Search(..) => ("search", false),
        _ => return None,
    };
    let mut tool = of.tool();
    let mut base = &of.base;
    while let Base::Text(text) = base {
        tool = tool.or_else(|| text.tool());
        base = &text.base;
    }
    let tool = tool.and_then(|tool| tool.as_deref()).unwrap_or_default().to_owned();
    Some(CountedAs { conversation: base.conversation()?, tool, view, stands_in })
}

/// Returns the number of tokens in the first `seen` bytes of a text.
fn tokens_of(open: &OpenText, seen: u64) -> u64 {
    let sample = seen.min(SAMPLE);
    let counted = open.text.read(0, sample as usize, token_count).unwrap_or(sample / 4);
    if seen == sample { counted } else { share(counted, seen, sample) }
}

/// Returns the share of `tokens` that `part` of `whole` bytes have.
fn share(tokens: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(tokens) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}
