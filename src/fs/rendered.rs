//! Computed files: one node a generation, whose bytes are made when its size is first asked.

use std::ffi::OsString;
use std::io;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

use crate::fs::Attr;
use crate::fs::Counters;
use crate::fs::Entry;
use crate::fs::FileKind;
use crate::fs::FsError;
use crate::fs::Ino;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::TimedAttr;
use crate::fs::body::Body;
use crate::fs::inode::Key;
use crate::fs::node::Node;
use crate::fs::node::NodeKind;
use crate::fs::sync::Mutex;
use crate::fs::sync::MutexGuard;
use crate::fs::sync::atomic::AtomicU64;
use crate::store::Stat;
use crate::view::Query;
use crate::view::RenderCost;
use crate::view::View;

/// How long the kernel may believe the attributes of a computed file: for ever, as they never
/// change; an hour is as good and keeps forgotten mistakes short.
const SETTLED: Duration = Duration::from_hours(1);

/// What makes a computed file the same file: what it is computed from, and at which moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RenderedKey {
    pub(crate) source: Source,
    pub(crate) version: Version,
}

/// What a computed file is computed from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// A view of the file `of`, or of what the computed file `of` says.
    View { of: Ino, view: Box<View> },
    /// The root's `README.md`.
    Readme,
    /// `.ignore`, in the directory `of`.
    Ignore { of: Ino },
    /// A search of all artifacts below the directory `of`.
    Search { of: Ino, query: Box<Query> },
    /// `manifest.json` of the conversation whose directory is `of`.
    Manifest { of: Ino },
    /// The summary of what the file `name`, which was removed from the directory `of`, was.
    Removed { of: Ino, name: OsString },
    /// `messages.json`, in the directory `of`.
    Messages { of: Ino },
    /// `.ctxfs/status.json`.
    Status,
    /// `.ctxfs/metrics`.
    Metrics,
    /// `.ctxfs/version`.
    ProgramVersion,
}

impl Source {
    /// Whether it is the same whatever anybody has stored.
    fn is_for_all(&self) -> bool {
        match self {
            Self::Readme | Self::Ignore { .. } | Self::ProgramVersion => true,
            Self::View { .. }
            | Self::Search { .. }
            | Self::Manifest { .. }
            | Self::Messages { .. }
            | Self::Removed { .. }
            | Self::Status
            | Self::Metrics => false,
        }
    }
}

/// The moment of what a file is computed from. Equal moments give equal bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Version {
    /// Changes seen by this mount, and results that ran out of time; of a computed file, which does
    /// not change, the latter alone.
    pub(crate) changes: u64,
    /// Bytes.
    pub(crate) size: u64,
    /// Last modification, in nanoseconds.
    pub(crate) modified: i64,
    /// Last change of anything, in nanoseconds: covers names and extended attributes.
    pub(crate) changed: i64,
    /// What the manifest knows; see `Shared::facts_version`.
    pub(crate) facts: u64,
}

/// A computed file at one moment.
pub(crate) struct RenderedNode {
    /// The file or directory that it is computed from, or the computed file that it is a view of.
    pub(crate) of: Option<Arc<Node>>,
    /// That file's attributes at this moment: times and owner of the computed one.
    pub(crate) origin: Stat,
    /// The end of what a reader was seen to read of it.
    pub(crate) read: AtomicU64,
    /// The tool whose output it shows, once it has been computed.
    pub(crate) tool: OnceLock<Option<String>>,
    state: Mutex<State>,
}

/// What is known of the bytes. The bytes themselves are in the body cache, or pinned by handles.
#[derive(Default)]
struct State {
    /// Their number, once they have been computed.
    size: Option<u64>,
    /// Who waits while they are being computed.
    waiting: Option<Vec<Done>>,
    /// Views of it that ran out of time.
    late: u64,
    /// What those got who waited, while the rest is still being computed.
    beginning: Option<Arc<Body>>,
}

/// The text that a view is a view of.
pub(crate) struct Text {
    pub(crate) text: Arc<Body>,
    /// When the view was asked for: computing the text took some of its time.
    pub(crate) asked: Instant,
}

/// Bytes of which any view takes less time than waking another thread is worth.
pub(crate) const QUICK: u64 = 256 * 1024;

type Done = Box<dyn FnOnce(Result<Arc<Body>>) + Send>;

impl RenderedNode {
    pub(crate) fn new(of: Option<Arc<Node>>, origin: Stat) -> Self {
        let (read, tool) = (AtomicU64::new(0), OnceLock::new());
        Self { of, origin, read, tool, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The computed file that it is a view of.
    pub(crate) fn base(&self) -> Option<&Arc<Node>> {
        self.of.as_ref().filter(|of| matches!(of.kind, NodeKind::Rendered(_)))
    }

    /// The moment of a view of it.
    pub(crate) fn version_of_view(&self) -> Version {
        Version { changes: self.state().late, ..Version::default() }
    }

    /// Notes that a view of it ran out of time: whoever looks it up again gets another try.
    pub(crate) fn note_late(&self) {
        self.state().late += 1;
    }

    /// Gives its beginning to all who wait; that is then what it says, whatever comes of the rest.
    pub(crate) fn give(&self, beginning: Body) {
        let beginning = Arc::new(beginning);
        self.note_size(&beginning);
        self.state().beginning = Some(Arc::clone(&beginning));
        answer(self, &Ok(beginning));
    }

    fn beginning(&self) -> Option<Arc<Body>> {
        self.state().beginning.clone()
    }

    /// Lets `done` wait; whether it is the first, who has to compute.
    fn wait(&self, done: Done) -> bool {
        let mut state = self.state();
        let first = state.waiting.is_none();
        state.waiting.get_or_insert_default().push(done);
        first
    }

    /// Notes the number of bytes: before anybody can find them, since whoever does asks for it.
    fn note_size(&self, body: &Body) {
        self.state().size = Some(body.len());
    }

    /// Who has waited up to now.
    fn waited(&self) -> Vec<Done> {
        self.state().waiting.take().unwrap_or_default()
    }
}

impl Node {
    /// The attributes of a computed file: exact and lasting once it has been computed, else with
    /// size 0 and for no time at all, so that whoever wants the size asks for it.
    pub(crate) fn rendered_attr(&self, rendered: &RenderedNode) -> TimedAttr {
        let size = rendered.state().size;
        let attr = Attr::of_computed(self.ino, FileKind::File, size.unwrap_or(0), &rendered.origin);
        let for_all = matches!(&self.key, Key::Rendered(key) if key.source.is_for_all());
        let attr = if for_all { attr.for_all() } else { attr };
        TimedAttr { attr, ttl: if size.is_some() { SETTLED } else { Duration::ZERO } }
    }

    /// As a name leads to it: the name for no time, so that the next generation is seen at once.
    pub(crate) fn rendered_entry(&self, rendered: &RenderedNode) -> Entry {
        let TimedAttr { attr, ttl } = self.rendered_attr(rendered);
        Entry { attr, attr_ttl: ttl, entry_ttl: Duration::ZERO }
    }
}

impl Shared {
    /// Computes the bytes of `node` where they are not kept, and hands them to `done`: here where
    /// that is quick, else on a thread of the pool.
    pub(crate) fn body(
        self: &Arc<Self>,
        node: &Arc<Node>,
        done: impl FnOnce(Result<Arc<Body>>) + Send + 'static,
    ) {
        self.body_for(node, Box::new(done));
    }

    fn body_for(self: &Arc<Self>, node: &Arc<Node>, done: Done) {
        let NodeKind::Rendered(rendered) = &node.kind else { return done(Err(FsError::Stale)) };
        let known = || rendered.beginning().or_else(|| self.bodies.get(&node.ino));
        if let Some(body) = known() {
            return done(Ok(body));
        }
        if !rendered.wait(done) {
            return;
        }
        // Whoever computed it last may have ended since it was asked.
        if let Some(body) = known() {
            return answer(rendered, &Ok(body));
        }
        let Some(base) = rendered.base() else {
            return self.start(node, rendered.origin.size, None);
        };
        let (shared, node) = (Arc::clone(self), Arc::clone(node));
        let asked = Instant::now();
        let with_text = move |text: Result<Arc<Body>>| match text {
            Ok(text) => shared.start(&node, text.len(), Some(Text { text, asked })),
            Err(error) => end(&node, &Err(error)),
        };
        self.body_for(base, Box::new(with_text));
    }

    /// Computes the bytes of `node` from `length` bytes: here or on another thread.
    fn start(self: &Arc<Self>, node: &Arc<Node>, length: u64, text: Option<Text>) {
        let filters = runs_filter(node);
        if !filters && is_quick(node, length) {
            return self.compute(node, text.as_ref());
        }
        let (shared, node) = (Arc::clone(self), Arc::clone(node));
        let pool = if filters { &self.filter_pool } else { &self.pool };
        let whom = rendered_of(&node).and_then(|of| of.conversation());
        pool.submit(whom, move || shared.compute(&node, text.as_ref()));
    }

    fn compute(&self, node: &Arc<Node>, text: Option<&Text>) {
        let NodeKind::Rendered(rendered) = &node.kind else { return };
        let outcome = catch_unwind(AssertUnwindSafe(|| self.render(node, rendered, text)))
            .unwrap_or_else(|_| Err(FsError::Io(io::Error::other("computing a view panicked"))))
            .map(Arc::new);
        Counters::add(&self.counters.views_computed, 1);
        let outcome = match rendered.beginning() {
            Some(beginning) => {
                note_overtime(rendered, &outcome);
                Ok(beginning)
            }
            None => outcome,
        };
        if let Ok(body) = &outcome {
            rendered.note_size(body);
            self.bodies.insert(node.ino, Arc::clone(body));
        }
        rendered.state().beginning = None;
        end(node, &outcome);
    }

    /// Computes the bytes. Once they have been computed they are the same again, or
    /// [`FsError::Stale`]: a look-up then finds the next generation.
    fn render(&self, node: &Node, rendered: &RenderedNode, text: Option<&Text>) -> Result<Body> {
        let Key::Rendered(key) = &node.key else { return Err(FsError::Stale) };
        let before = rendered.state().size;
        let body = self.render_source(key, rendered, text, before.is_some())?;
        match before {
            Some(size) if size != body.len() => Err(FsError::Stale),
            _ => Ok(body),
        }
    }
}

/// The file or directory on disk that a computed file is of.
fn rendered_of(node: &Node) -> Option<&Arc<Node>> {
    match &node.kind {
        NodeKind::Rendered(rendered) => rendered.of.as_ref(),
        _ => None,
    }
}

/// Lets the next look-up of a view that went on find its rest, or try again.
fn note_overtime(rendered: &RenderedNode, outcome: &Result<Arc<Body>>) {
    if let Err(error) = outcome {
        tracing::debug!(%error, "the rest of a view was not computed");
    }
    if let Some(NodeKind::File(file)) = rendered.of.as_ref().map(|of| &of.kind) {
        file.writing().changes += 1;
    }
}

fn end(node: &Node, outcome: &Result<Arc<Body>>) {
    if let NodeKind::Rendered(rendered) = &node.kind {
        answer(rendered, outcome);
    }
}

/// Tells the outcome to all who wait for it.
fn answer(rendered: &RenderedNode, outcome: &Result<Arc<Body>>) {
    for done in rendered.waited() {
        done(share(outcome));
    }
}

/// Whether a program that its reader wrote is run: however small its input, it may take long.
fn runs_filter(node: &Node) -> bool {
    let Key::Rendered(RenderedKey { source: Source::View { view, .. }, .. }) = &node.key else {
        return false;
    };
    view.cost() == RenderCost::Program
}

/// Whether computing `node` from `length` bytes takes less time than waking another thread is worth.
fn is_quick(node: &Node, length: u64) -> bool {
    match &node.key {
        Key::Rendered(RenderedKey { source: Source::View { view, .. }, .. }) => {
            length <= QUICK || view.cost() == RenderCost::Constant
        }
        Key::Rendered(RenderedKey {
            source:
                Source::Manifest { .. }
                | Source::Messages { .. }
                | Source::Ignore { .. }
                | Source::Status
                | Source::Metrics,
            ..
        }) => false,
        _ => true,
    }
}

/// The same outcome for one more caller.
fn share(outcome: &Result<Arc<Body>>) -> Result<Arc<Body>> {
    match outcome {
        Ok(body) => Ok(Arc::clone(body)),
        Err(error) => Err(FsError::Io(io::Error::from_raw_os_error(error.errno().0))),
    }
}
