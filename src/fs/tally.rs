//! Counting what is stored and what is read, for `ctxfs stats`.
//!
//! It is counted in memory and added to the store every few seconds and at the end: a server that is
//! killed loses what happened since. Nothing waits for it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::Weak;
use std::time::Duration;
use std::time::SystemTime;

use crate::fs::Shared;
use crate::fs::body::Body;
use crate::fs::file::FileNode;
use crate::fs::inode::Key;
use crate::fs::node::Node;
use crate::fs::node::NodeKind;
use crate::fs::rendered::RenderedKey;
use crate::fs::rendered::Source;
use crate::fs::sync::Condvar;
use crate::fs::sync::Mutex;
use crate::fs::sync::MutexGuard;
use crate::fs::sync::atomic::AtomicU64;
use crate::fs::sync::atomic::Ordering::Relaxed;
use crate::fs::sync::thread;
use crate::fs::sync::thread::JoinHandle;
use crate::materialize::token_count;
use crate::model::Amount;
use crate::model::Component;
use crate::model::Counts;
use crate::model::Record;
use crate::view::View;

/// How long counts stay in memory alone.
const UNSAVED: Duration = Duration::from_secs(5);
/// Conversations and tools that are counted in memory; with more, they are added at once.
const MOST: usize = 1024;
/// Bytes of which tokens are counted; of more, that many are a sample.
const SAMPLE: u64 = 256 * 1024;

/// What was counted and is not in the store yet.
#[derive(Default)]
pub(crate) struct Tally {
    state: Mutex<State>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    counted: HashMap<(Component, String), Counts>,
    closed: bool,
}

/// A view that is open: what is read of it counts when it is closed.
pub(crate) struct OpenView {
    node: Arc<Node>,
    pub(crate) body: Arc<Body>,
    /// The end of what was read.
    read: AtomicU64,
}

impl OpenView {
    pub(crate) fn new(node: Arc<Node>, body: Arc<Body>) -> Self {
        Self { node, body, read: AtomicU64::new(0) }
    }

    /// Notes that it was read up to `end`.
    pub(crate) fn note_read(&self, end: u64) {
        self.read.fetch_max(end.min(self.body.len()), Relaxed);
    }

    /// Bytes that its reader has seen: a reader that we did not see read was given what the kernel
    /// kept of the reader before.
    fn seen(&self) -> u64 {
        let NodeKind::Rendered(rendered) = &self.node.kind else { return 0 };
        let read = self.read.load(Relaxed);
        let before = rendered.read.fetch_max(read, Relaxed);
        if read == 0 { before } else { read }
    }

    /// Of the first bytes, that many.
    fn tokens(&self, seen: u64) -> u64 {
        let sample = seen.min(SAMPLE);
        let counted = self.body.read(0, sample as usize, token_count).unwrap_or(sample / 4);
        if seen == sample {
            return counted;
        }
        share(counted, seen, sample)
    }
}

impl Tally {
    fn add(&self, id: Component, tool: String, counts: &Counts) {
        let mut state = self.state();
        *state.counted.entry((id, tool)).or_default() += counts;
        let (first, full) = (state.counted.len() == 1, state.counted.len() >= MOST);
        drop(state);
        if first || full {
            self.changed.notify_all();
        }
    }

    /// Waits until something is to be added to the store; false at the end.
    fn wait(&self) -> bool {
        let empty = |state: &mut State| state.counted.is_empty() && !state.closed;
        let some = self.changed.wait_while(self.state(), empty);
        let some = some.unwrap_or_else(PoisonError::into_inner);
        let few = |state: &mut State| state.counted.len() < MOST && !state.closed;
        let gathered = self.changed.wait_timeout_while(some, UNSAVED, few);
        !gathered.unwrap_or_else(PoisonError::into_inner).0.closed
    }

    /// Ends the thread. What is still in memory is its caller's.
    fn finish(&self) {
        self.state().closed = true;
        self.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the counting thread panicked");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the thread that adds to the store.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let weak = Arc::downgrade(shared);
    let thread =
        thread::Builder::new().name("ctxfs-count".to_owned()).spawn(move || work(&weak))?;
    *shared.tally.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
    Ok(())
}

fn work(shared: &Weak<Shared>) {
    let Some(shared) = shared.upgrade() else { return };
    while shared.tally.wait() {
        shared.save_counts();
    }
}

impl Shared {
    /// Counts what was stored of `file` since it was last counted, which has `tokens.0` tokens in
    /// `tokens.1` bytes; where nobody knows yet, later.
    pub(crate) fn count_stored(
        &self,
        id: &Component,
        tool: Option<String>,
        file: &FileNode,
        tokens: Option<(u64, u64)>,
    ) {
        let Some((tokens, of)) = tokens else { return };
        let bytes = std::mem::take(&mut file.writing().uncounted);
        if bytes > 0 {
            let stored = Amount::once(bytes, share(tokens, bytes, of));
            let counts = Counts { stored, ..Counts::default() };
            self.tally.add(id.clone(), tool.unwrap_or_default(), &counts);
        }
    }

    /// Counts an output that was stored at once.
    pub(crate) fn count_output(&self, id: &Component, record: &Record) {
        let tokens = record.analysis.as_ref().map_or(record.size / 4, |found| found.tokens);
        let counts = Counts { stored: Amount::once(record.size, tokens), ..Counts::default() };
        self.tally.add(id.clone(), record.provenance.tool_name().unwrap_or_default(), &counts);
    }

    /// Counts `text`, which goes to the model in place of an output.
    pub(crate) fn count_handed(&self, id: &Component, record: &Record, text: &[u8]) {
        let handed = Amount::once(text.len() as u64, token_count(text));
        let counts = Counts { handed, ..Counts::default() };
        self.tally.add(id.clone(), record.provenance.tool_name().unwrap_or_default(), &counts);
    }

    /// Counts an output that somebody removed, and what was recorded of it.
    pub(crate) fn count_deleted(&self, id: &Component, bytes: u64, record: Option<Record>) {
        // What was removed by a rule before is counted already.
        let record = record.filter(|record| record.removed.is_none()).unwrap_or_default();
        let tokens = record.analysis.as_ref().map_or(bytes / 4, |found| found.tokens);
        let counts = Counts { deleted: Amount::once(bytes, tokens), ..Counts::default() };
        self.tally.add(id.clone(), record.provenance.tool_name().unwrap_or_default(), &counts);
    }

    /// Counts what was read of a view that is closed.
    pub(crate) fn count_read(&self, view: &OpenView) {
        let Some((id, tool, kind, stands_in)) = counted_as(&view.node) else { return };
        let seen = view.seen();
        if seen == 0 && view.body.len() > 0 {
            return;
        }
        let amount = Amount::once(seen, view.tokens(seen));
        let mut counts = Counts::default();
        if stands_in {
            counts.handed = amount;
        } else {
            counts.read = amount;
        }
        counts.views.insert(kind.to_owned(), 1);
        self.tally.add(id, tool, &counts);
    }

    /// Forgets what was counted of a conversation that is about to be removed.
    pub(crate) fn forget_counts(&self, id: &Component) {
        self.tally.state().counted.retain(|(of, _), _| of != id);
    }

    /// Adds what was counted to the store. What cannot be added is lost: it is not worth more.
    pub(crate) fn save_counts(&self) {
        let counted = std::mem::take(&mut self.tally.state().counted);
        let mut by_conversation: HashMap<Component, Vec<(String, Counts)>> = HashMap::new();
        for ((id, tool), counts) in counted {
            by_conversation.entry(id).or_default().push((tool, counts));
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        for (id, counts) in by_conversation {
            let Ok(Some(conversation)) = self.store.conversation(&id) else { continue };
            if let Err(error) = conversation.count(now.as_millis() as i64, counts) {
                tracing::debug!(%error, "what was read was not counted");
            }
        }
    }

    /// Ends the counting thread and adds what is left.
    pub(crate) fn finish_counting(&self) {
        self.tally.finish();
        self.save_counts();
    }
}

/// The conversation, the tool and the kind of a view, and whether it stands in for an output.
fn counted_as(node: &Node) -> Option<(Component, String, &'static str, bool)> {
    let NodeKind::Rendered(rendered) = &node.kind else { return None };
    let Key::Rendered(RenderedKey { source, .. }) = &node.key else { return None };
    let (kind, stands_in) = match source {
        Source::View { view, .. } => (view.kind(), stands_in(view)),
        Source::Search { .. } => ("search", false),
        _ => return None,
    };
    let mut of = rendered.of.as_ref()?;
    let mut tool = rendered.tool.get();
    while let NodeKind::Rendered(base) = &of.kind {
        tool = tool.or_else(|| base.tool.get());
        of = base.of.as_ref()?;
    }
    let id = of.conversation()?;
    Some((id, tool.cloned().flatten().unwrap_or_default(), kind, stands_in))
}

/// What `part` of `whole` bytes has of `tokens`.
fn share(tokens: u64, part: u64, whole: u64) -> u64 {
    let share = u128::from(tokens) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// Whether a view is made to be given to a model in place of the output.
fn stands_in(view: &View) -> bool {
    matches!(view, View::Summary | View::Envelope | View::Handle | View::Preview)
}
