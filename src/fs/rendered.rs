//! Computed files: one node a generation, whose bytes are made when its size is first asked.

use std::io;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::time::Duration;

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
use crate::store::Stat;
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
    /// A view of a file.
    View { of: Ino, view: Box<View> },
    /// The root's `README.md`.
    Readme,
    /// `.ignore`, in the directory `of`.
    Ignore { of: Ino },
    /// `manifest.json` of the conversation whose directory is `of`.
    Manifest { of: Ino },
    /// `.ctxfs/status.json`.
    Status,
    /// `.ctxfs/version`.
    ProgramVersion,
}

/// The moment of what a file is computed from. Equal moments give equal bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(crate) struct Version {
    /// Changes seen by this mount, and results that ran out of time.
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
    /// The file or directory that it is computed from.
    pub(crate) of: Option<Arc<Node>>,
    /// That file's attributes at this moment: times and owner of the computed one.
    pub(crate) origin: Stat,
    state: Mutex<State>,
}

/// What is known of the bytes. The bytes themselves are in the body cache, or pinned by handles.
#[derive(Default)]
struct State {
    /// Their number, once they have been computed.
    size: Option<u64>,
    /// Who waits while they are being computed.
    waiting: Option<Vec<Done>>,
}

type Done = Box<dyn FnOnce(Result<Arc<Body>>) + Send>;

impl RenderedNode {
    pub(crate) fn new(of: Option<Arc<Node>>, origin: Stat) -> Self {
        Self { of, origin, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `done` wait; whether it is the first, who has to compute.
    fn wait(&self, done: Done) -> bool {
        let mut state = self.state();
        let first = state.waiting.is_none();
        state.waiting.get_or_insert_default().push(done);
        first
    }

    /// Notes the outcome; returns who waited for it.
    fn computed(&self, outcome: &Result<Arc<Body>>) -> Vec<Done> {
        let mut state = self.state();
        if let Ok(body) = outcome {
            state.size = Some(body.len());
        }
        state.waiting.take().unwrap_or_default()
    }
}

impl Node {
    /// The attributes of a computed file: exact and lasting once it has been computed, else with
    /// size 0 and for no time at all, so that whoever wants the size asks for it.
    pub(crate) fn rendered_attr(&self, rendered: &RenderedNode) -> TimedAttr {
        let size = rendered.state().size;
        let attr = Attr::of_computed(self.ino, FileKind::File, size.unwrap_or(0), &rendered.origin);
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
        let NodeKind::Rendered(rendered) = &node.kind else { return done(Err(FsError::Stale)) };
        if let Some(body) = self.bodies.get(&node.ino) {
            return done(Ok(body));
        }
        if !rendered.wait(Box::new(done)) {
            return;
        }
        // Whoever computed it last may have ended since the cache was asked.
        if let Some(body) = self.bodies.get(&node.ino) {
            return answer(rendered, &Ok(body));
        }
        let filters = runs_filter(node);
        if !filters && is_quick(rendered) {
            return self.compute(node);
        }
        let (shared, node) = (Arc::clone(self), Arc::clone(node));
        let pool = if filters { &self.filter_pool } else { &self.pool };
        pool.submit(move || shared.compute(&node));
    }

    fn compute(&self, node: &Arc<Node>) {
        let NodeKind::Rendered(rendered) = &node.kind else { return };
        let outcome = catch_unwind(AssertUnwindSafe(|| self.render(node, rendered)))
            .unwrap_or_else(|_| Err(FsError::Io(io::Error::other("computing a view panicked"))))
            .map(Arc::new);
        Counters::add(&self.counters.views_computed, 1);
        if let Ok(body) = &outcome {
            self.bodies.insert(node.ino, Arc::clone(body));
        }
        answer(rendered, &outcome);
    }

    /// Computes the bytes. Once they have been computed they are the same again, or
    /// [`FsError::Stale`]: a look-up then finds the next generation.
    fn render(&self, node: &Node, rendered: &RenderedNode) -> Result<Body> {
        let Key::Rendered(key) = &node.key else { return Err(FsError::Stale) };
        let before = rendered.state().size;
        let body = self.render_source(key, rendered, before.is_some())?;
        match before {
            Some(size) if size != body.len() => Err(FsError::Stale),
            _ => Ok(body),
        }
    }
}

/// Tells the outcome to all who wait for it.
fn answer(rendered: &RenderedNode, outcome: &Result<Arc<Body>>) {
    for done in rendered.computed(outcome) {
        done(share(outcome));
    }
}

/// Whether a program that its reader wrote is run: however small its input, it may take long.
fn runs_filter(node: &Node) -> bool {
    let Key::Rendered(RenderedKey { source: Source::View { view, .. }, .. }) = &node.key else {
        return false;
    };
    matches!(**view, View::Jq(_))
}

fn is_quick(rendered: &RenderedNode) -> bool {
    /// Bytes of which any view takes less time than waking another thread is worth.
    const QUICK: u64 = 256 * 1024;
    match rendered.of.as_ref().map(|of| &of.kind) {
        Some(NodeKind::File(_)) => rendered.origin.size <= QUICK,
        Some(_) => false,
        None => true,
    }
}

/// The same outcome for one more caller.
fn share(outcome: &Result<Arc<Body>>) -> Result<Arc<Body>> {
    match outcome {
        Ok(body) => Ok(Arc::clone(body)),
        Err(error) => Err(FsError::Io(io::Error::from_raw_os_error(error.errno().0))),
    }
}
