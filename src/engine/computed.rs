//! Computed files. Each has one recipe and one version, and its text is computed once for all
//! readers.

use std::ffi::OsString;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::counting::{Counting, proportion};
use crate::sync::Mutex;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::Relaxed;
use crate::workers::QUICK_INPUT;
use crate::{EngineError, Reader, Result, SourceDir, SourceFile, Version, ViewText};
use ctxfs_core::materialize::token_count;
use ctxfs_core::model::{Amount, Component, Counts};
use ctxfs_view::{CorpusQuery, RenderCost, View};

/// Maximum number of bytes whose tokens are counted. The count for a longer text is extrapolated.
const SAMPLE: u64 = 256 * 1024;

/// The kind and the arguments of a computed file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Recipe {
    /// A view of a file, or of the text of another view.
    View(Arc<View>),
    /// The root's `README.md`, an introduction to the tree.
    Readme,
    /// The root's `.ignore`, with the names that recursive searches skip.
    Ignore,
    /// A search of the artifacts below a directory, limited to those that the reader may read.
    Search(Arc<CorpusQuery>, Reader),
    /// `manifest.json` of a conversation, limited to the artifacts that the reader may read.
    Manifest(Reader),
    /// The summary of a removed file with this name.
    Removed(OsString),
    /// The message log of a conversation as one JSON array.
    Messages,
    /// A page of this name about the door itself, such as `.ctxfs/status.json`.
    Door(&'static str),
}

impl Recipe {
    /// Returns true if the text does not depend on the store. Every user may then read it.
    pub fn is_public(&self) -> bool {
        matches!(self, Self::Readme | Self::Ignore | Self::Door("version"))
    }

    /// Returns true if the text is gathered from all outputs of a conversation.
    pub fn gathers(&self) -> bool {
        self.reader().is_some()
    }

    /// Returns the reader for whom the text is made. `None` if the text is the same for everyone
    /// who may read it.
    pub fn reader(&self) -> Option<&Reader> {
        match self {
            Self::Search(_, reader) | Self::Manifest(reader) => Some(reader),
            _ => None,
        }
    }

    /// Returns the recipe of the same file for `reader`. Calls `reader` only if the text depends on
    /// the reader.
    #[must_use]
    pub fn asked_by(self, reader: impl FnOnce() -> Reader) -> Self {
        match self {
            Self::Search(query, _) => Self::Search(query, reader()),
            Self::Manifest(_) => Self::Manifest(reader()),
            other => other,
        }
    }

    pub(crate) fn cost(&self) -> Option<RenderCost> {
        match self {
            Self::View(view) => Some(view.cost()),
            _ => None,
        }
    }

    /// Returns true if computing the text from `input` bytes takes less time than passing the work
    /// to another thread.
    pub(crate) fn is_quick(&self, input: u64) -> bool {
        match self {
            Self::View(view) => input <= QUICK_INPUT || view.cost() == RenderCost::Constant,
            Self::Manifest(_)
            | Self::Messages
            | Self::Ignore
            | Self::Door("status.json" | "metrics") => false,
            Self::Readme | Self::Search(..) | Self::Removed(_) | Self::Door(_) => true,
        }
    }
}

/// The source of a computed file.
#[derive(Clone)]
pub enum Base {
    /// No source in the store.
    Nothing,
    /// A file.
    File(Arc<dyn SourceFile>),
    /// A directory, with everything below it.
    Dir(Arc<dyn SourceDir>),
    /// The text of a view.
    Text(Arc<Computed>),
    /// A page that a door writes about itself.
    Door(Arc<dyn Fn() -> Result<String> + Send + Sync>),
}

impl Base {
    pub(crate) fn conversation(&self) -> Option<Component> {
        match self {
            Self::File(file) => file.conversation(),
            Self::Dir(dir) => dir.place().ok()?.conversation().cloned(),
            Self::Text(base) => base.base.conversation(),
            Self::Nothing | Self::Door(_) => None,
        }
    }

    /// Returns true for a file whose bytes may have to be fetched from the bucket.
    pub(crate) fn is_far(&self) -> bool {
        matches!(self, Self::File(file) if file.is_far())
    }

    pub(crate) fn file(&self) -> Result<&dyn SourceFile> {
        match self {
            Self::File(file) => Ok(&**file),
            _ => Err(EngineError::Stale),
        }
    }

    pub(crate) fn dir(&self) -> Result<&dyn SourceDir> {
        match self {
            Self::Dir(dir) => Ok(&**dir),
            _ => Err(EngineError::Stale),
        }
    }
}

/// A computed file at one version.
///
/// A mount holds one for each view in the kernel's cache, and most are never read. The state for
/// readers and for the computation is therefore allocated only when it is first needed.
pub struct Computed {
    /// The key of the text in the cache.
    number: u64,
    pub(crate) recipe: Recipe,
    pub(crate) base: Base,
    pub(crate) version: Version,
    readers: OnceLock<Box<TextReaders>>,
    progress: Mutex<TextProgress>,
}

#[derive(Default)]
struct TextReaders {
    read: AtomicU64,
    /// The tool that produced the output. Set when the text is computed.
    tool: OnceLock<Option<Box<str>>>,
}

/// The progress of computing a text. The text itself is in the cache or held by readers.
#[derive(Default)]
struct TextProgress {
    size: Option<u64>,
    work: Option<Box<TextWork>>,
}

#[derive(Default)]
struct TextWork {
    waiting: Option<Vec<Callback>>,
    /// The number of views of this text that ran out of time.
    late: u64,
    beginning: Option<Arc<ViewText>>,
}

pub(crate) struct BaseText {
    pub(crate) text: Arc<ViewText>,
    /// The time at which the view of this text was requested. Computing the text used up part of
    /// the view's deadline.
    pub(crate) asked: Instant,
}

pub(crate) type Callback = Box<dyn FnOnce(Result<Arc<ViewText>>) + Send>;

impl Computed {
    /// Creates a computed file of `base` at `version`. Computes nothing.
    pub fn new(recipe: Recipe, base: Base, version: Version) -> Self {
        /// Each number is used only once in a process.
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (readers, progress) = (OnceLock::new(), Mutex::default());
        Self { number, recipe, base, version, readers, progress }
    }

    /// Records the tool that produced the output.
    pub(crate) fn note_tool(&self, tool: impl FnOnce() -> Option<String>) {
        self.readers().tool.get_or_init(|| tool().map(String::into_boxed_str));
    }

    fn readers(&self) -> &TextReaders {
        self.readers.get_or_init(Box::default)
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the conversation of the source.
    pub fn conversation(&self) -> Option<Component> {
        self.base.conversation()
    }

    /// Returns the recipe.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// Returns the version.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Returns the length in bytes, once it is known.
    pub fn size(&self) -> Option<u64> {
        self.progress.lock().size
    }

    /// Sets the length to that in a record, if no length is known yet. The text must then have this
    /// length.
    pub fn know_size(&self, size: u64) {
        self.progress.lock().size.get_or_insert(size);
    }

    /// Returns the version for a view of this text.
    pub fn version_of_view(&self) -> Version {
        Version { changes: self.work(|work| work.late), ..Version::default() }
    }

    fn work<T: Default>(&self, read: impl FnOnce(&TextWork) -> T) -> T {
        self.progress.lock().work.as_deref().map(read).unwrap_or_default()
    }

    fn work_mut<T>(&self, change: impl FnOnce(&mut TextWork) -> T) -> T {
        change(self.progress.lock().work.get_or_insert_default())
    }

    /// Counts a view of this text that ran out of time, so that the next look-up computes the view
    /// again.
    pub(crate) fn note_late(&self) {
        self.work_mut(|work| work.late += 1);
    }

    /// Passes `beginning` to all waiting callers. It remains the text of this version, even once
    /// the rest is computed.
    pub(crate) fn give_beginning(&self, beginning: ViewText) {
        let beginning = Arc::new(beginning);
        self.note_size(&beginning);
        self.work_mut(|work| work.beginning = Some(Arc::clone(&beginning)));
        self.answer(Ok(beginning));
    }

    pub(crate) fn beginning(&self) -> Option<Arc<ViewText>> {
        self.work(|work| work.beginning.clone())
    }

    /// Adds `done` to the callers that wait for the text. Returns true for the first caller, which
    /// has to compute the text.
    pub(crate) fn wait(&self, done: Callback) -> bool {
        self.work_mut(|work| {
            let first = work.waiting.is_none();
            work.waiting.get_or_insert_default().push(done);
            first
        })
    }

    fn note_size(&self, text: &ViewText) {
        self.progress.lock().size = Some(text.len());
    }

    /// Ends a computation. Calls `keep` to cache the text, then passes `outcome` to all waiting
    /// callers. If callers have received a beginning, the beginning remains the text of this
    /// version. The next look-up of the view then finds the rest, or computes it again.
    pub(crate) fn finish(&self, outcome: Result<ViewText>, keep: impl FnOnce(&Arc<ViewText>)) {
        let mut outcome = outcome.map(Arc::new);
        if let Some(beginning) = self.beginning() {
            if let Err(error) = &outcome {
                tracing::debug!(%error, "the rest of a view was not computed");
            }
            if let Base::File(file) = &self.base {
                file.note_change();
            }
            outcome = Ok(beginning);
        }
        if let Ok(text) = &outcome {
            // A caller that receives the text reads its length next.
            self.note_size(text);
            keep(text);
        }
        self.work_mut(|work| work.beginning = None);
        self.answer(outcome);
    }

    pub(crate) fn answer(&self, outcome: Result<Arc<ViewText>>) {
        let waiting = self.work_mut(|work| work.waiting.take()).unwrap_or_default();
        let outcome = outcome.map_err(Arc::new);
        for done in waiting {
            done(outcome.clone().map_err(EngineError::Shared));
        }
    }
}

/// An open computed file. It holds the text, and the number of bytes read, which is counted at
/// close.
pub struct OpenText {
    of: Arc<Computed>,
    /// The text.
    pub text: Arc<ViewText>,
    /// The largest offset that was read.
    read: AtomicU64,
}

impl OpenText {
    /// Opens `of`, whose text is `text`.
    pub fn new(of: Arc<Computed>, text: Arc<ViewText>) -> Self {
        Self { of, text, read: AtomicU64::new(0) }
    }

    /// Records a read up to the offset `end`.
    pub fn note_read(&self, end: u64) {
        let end = end.min(self.text.len());
        self.read.fetch_max(end, Relaxed);
        self.of.readers().read.fetch_max(end, Relaxed);
    }

    /// Returns the number of bytes that the reader has seen. If no read was recorded, the kernel
    /// served the reader from bytes that it had cached for an earlier reader.
    fn seen(&self) -> u64 {
        match self.read.load(Relaxed) {
            0 => self.of.readers().read.load(Relaxed),
            read => read,
        }
    }

    fn tokens(&self, seen: u64) -> u64 {
        let sample = seen.min(SAMPLE);
        let counted = self.text.read(0, sample as usize, token_count).unwrap_or(sample / 4);
        if seen == sample { counted } else { proportion(counted, seen, sample) }
    }
}

impl Counting {
    /// Counts the bytes read from a computed file that is being closed. Only views and searches of
    /// a conversation are counted.
    pub fn read(&self, open: &OpenText) {
        let (view, stands_in) = match &open.of.recipe {
            Recipe::View(view) => (view.kind(), view.is_stand_in()),
            Recipe::Search(..) => ("search", false),
            _ => return,
        };
        let (mut tool, mut of) = (None, &open.of);
        loop {
            tool = tool.or_else(|| of.readers.get()?.tool.get());
            let Base::Text(text) = &of.base else { break };
            of = text;
        }
        let Some(id) = of.base.conversation() else { return };
        let seen = open.seen();
        if seen == 0 && !open.text.is_empty() {
            return;
        }
        let amount = Amount::once(seen, open.tokens(seen));
        let mut counts = Counts::default();
        *(if stands_in { &mut counts.handed } else { &mut counts.read }) = amount;
        counts.views.insert(view.to_owned(), 1);
        let tool = tool.and_then(|tool| tool.as_deref()).unwrap_or_default().to_owned();
        self.add(id, tool, &counts);
    }
}

impl std::fmt::Debug for Base {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::File(_) => "File",
            Self::Dir(_) => "Dir",
            Self::Text(_) => "Text",
            Self::Door(_) => "Door",
        })
    }
}

impl std::fmt::Debug for OpenText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenText").field("of", &self.of).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Computed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Computed").field("recipe", &self.recipe).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kernel may report the end of a read at any time.
    #[test]
    fn what_the_kernel_had_cached_was_seen_whoever_is_closed_first() {
        let of = Arc::new(Computed::new(Recipe::Readme, Base::Nothing, Version::default()));
        let text = Arc::new(ViewText::new(b"one\ntwo\n".to_vec(), 0, None, None));
        let first = OpenText::new(Arc::clone(&of), Arc::clone(&text));
        let second = OpenText::new(of, text);
        first.note_read(8);
        assert_eq!((second.seen(), first.seen()), (8, 8));
    }
}
