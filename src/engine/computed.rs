//! Computed files: each has one recipe and one version, and its text is computed once for all
//! readers.

use std::ffi::OsString;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::sync::Mutex;
use crate::sync::atomic::AtomicU64;
use crate::sync::atomic::Ordering::Relaxed;
use crate::workers::QUICK_INPUT;
use crate::{EngineError, Reader, Result, SourceDir, SourceFile, Version, ViewText};
use ctxfs_core::model::Component;
use ctxfs_view::{CorpusQuery, RenderCost, View};

/// The content of a computed file, as its kind and arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Recipe {
    /// A view of a file, or of the text of another view.
    View(Arc<View>),
    /// The root's `README.md`, an introduction to the tree.
    Readme,
    /// The root's `.ignore`, with the names that recursive searches skip.
    Ignore,
    /// A search of the artifacts below a directory that the reader may read.
    Search(Arc<CorpusQuery>, Reader),
    /// `manifest.json` of a conversation, with the artifacts that the reader may read.
    Manifest(Reader),
    /// The summary of a file of this name whose content was removed.
    Removed(OsString),
    /// The message log of a conversation as one JSON array.
    Messages,
    /// A page of this name about the door itself: `.ctxfs/status.json` and its siblings.
    Door(&'static str),
}

impl Recipe {
    /// Returns true if it does not depend on the store, so that everybody may read it.
    pub fn is_public(&self) -> bool {
        match self {
            Self::Readme | Self::Ignore | Self::Door("version") => true,
            Self::View(_)
            | Self::Search(..)
            | Self::Manifest(_)
            | Self::Messages
            | Self::Removed(_)
            | Self::Door(_) => false,
        }
    }

    /// Returns true if it is gathered from all outputs of a conversation, as a listing is.
    pub fn gathers(&self) -> bool {
        matches!(self, Self::Search(..) | Self::Manifest(_))
    }

    /// Returns the reader that its text is for. `None` if the text is the same for all who may read
    /// it.
    pub fn reader(&self) -> Option<&Reader> {
        match self {
            Self::Search(_, reader) | Self::Manifest(reader) => Some(reader),
            Self::View(_)
            | Self::Readme
            | Self::Ignore
            | Self::Removed(_)
            | Self::Messages
            | Self::Door(_) => None,
        }
    }

    /// Returns the recipe of the same file for `reader`, who is asked for only if that matters.
    #[must_use]
    pub fn asked_by(self, reader: impl FnOnce() -> Reader) -> Self {
        match self {
            Self::Search(query, _) => Self::Search(query, reader()),
            Self::Manifest(_) => Self::Manifest(reader()),
            other => other,
        }
    }

    /// Returns the work that a view takes.
    pub(super) fn cost(&self) -> Option<RenderCost> {
        match self {
            Self::View(view) => Some(view.cost()),
            _ => None,
        }
    }

    /// Returns true if computing it from `input` bytes takes less time than handing it to another
    /// thread.
    pub(super) fn is_quick(&self, input: u64) -> bool {
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

/// The source that a computed file is computed from.
#[derive(Clone)]
pub enum Base {
    /// Nothing in the store.
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
    /// Returns its conversation.
    pub(super) fn conversation(&self) -> Option<Component> {
        match self {
            Self::File(file) => file.conversation(),
            Self::Dir(dir) => dir.place().ok()?.conversation().cloned(),
            Self::Text(base) => base.base.conversation(),
            Self::Nothing | Self::Door(_) => None,
        }
    }

    /// Returns true if it is a file whose bytes may have to be fetched.
    pub(super) fn is_far(&self) -> bool {
        matches!(self, Self::File(file) if file.is_far())
    }

    pub(super) fn file(&self) -> Result<&dyn SourceFile> {
        match self {
            Self::File(file) => Ok(&**file),
            _ => Err(EngineError::Stale),
        }
    }

    pub(super) fn dir(&self) -> Result<&dyn SourceDir> {
        match self {
            Self::Dir(dir) => Ok(&**dir),
            _ => Err(EngineError::Stale),
        }
    }
}

/// A computed file at one version.
pub struct Computed {
    /// The key of its text in the cache.
    number: u64,
    pub(super) recipe: Recipe,
    pub(super) base: Base,
    pub(super) version: Version,
    /// Nothing before it is first computed. A mount holds a computed file for each view that the
    /// kernel knows, and most are never read.
    readers: OnceLock<Box<TextReaders>>,
    progress: Mutex<TextProgress>,
}

/// The readers of a text, as far as they are known.
#[derive(Default)]
struct TextReaders {
    /// The largest offset up to which it was seen to be read.
    read: AtomicU64,
    /// The tool whose output it shows, once it has been computed.
    tool: OnceLock<Option<Box<str>>>,
}

/// The progress of computing a text. The text itself is in the cache, or held by readers.
#[derive(Default)]
struct TextProgress {
    /// Its length in bytes, once it has been computed.
    size: Option<u64>,
    /// Nothing before the first time.
    work: Option<Box<TextWork>>,
}

/// The work of computing a text.
#[derive(Default)]
struct TextWork {
    /// The callers that wait while it is being computed.
    waiting: Option<Vec<Callback>>,
    /// The number of views of it that ran out of time.
    late: u64,
    /// The beginning that was handed out while the rest is still being computed.
    beginning: Option<Arc<ViewText>>,
}

/// The text that a view is computed from, if that is the text of another view.
pub(super) struct BaseText {
    pub(super) text: Arc<ViewText>,
    /// The time at which the view was asked for: computing the text took some of its time.
    pub(super) asked: Instant,
}

pub(super) type Callback = Box<dyn FnOnce(Result<Arc<ViewText>>) + Send>;

impl Computed {
    /// Creates a computed file of `base` at `version`. Computes nothing.
    pub fn new(recipe: Recipe, base: Base, version: Version) -> Self {
        /// No number is used twice in a process.
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (readers, progress) = (OnceLock::new(), Mutex::default());
        Self { number, recipe, base, version, readers, progress }
    }

    /// Returns the tool whose output it shows, once that is known.
    pub(super) fn tool(&self) -> Option<&Option<Box<str>>> {
        self.readers.get()?.tool.get()
    }

    /// Notes the tool whose output it shows.
    pub(super) fn note_tool(&self, tool: impl FnOnce() -> Option<String>) {
        self.readers().tool.get_or_init(|| tool().map(String::into_boxed_str));
    }

    fn readers(&self) -> &TextReaders {
        self.readers.get_or_init(Box::default)
    }

    /// Returns the key of its text in the cache.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Returns the conversation that it is computed for.
    pub fn conversation(&self) -> Option<Component> {
        self.base.conversation()
    }

    /// Returns its recipe.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// Returns its version.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// Returns its length in bytes, once it has been computed.
    pub fn size(&self) -> Option<u64> {
        self.progress.lock().size
    }

    /// Notes its length as somebody recorded it. What is computed must have this length.
    pub fn know_size(&self, size: u64) {
        self.progress.lock().size.get_or_insert(size);
    }

    /// Returns the version of a view of its text.
    pub fn version_of_view(&self) -> Version {
        Version { changes: self.work(|work| work.late), ..Version::default() }
    }

    fn work<T: Default>(&self, read: impl FnOnce(&TextWork) -> T) -> T {
        self.progress.lock().work.as_deref().map(read).unwrap_or_default()
    }

    fn work_mut<T>(&self, change: impl FnOnce(&mut TextWork) -> T) -> T {
        change(self.progress.lock().work.get_or_insert_default())
    }

    /// Counts a view of its text that ran out of time, so that the next look-up tries again.
    pub(super) fn note_late(&self) {
        self.work_mut(|work| work.late += 1);
    }

    /// Hands `beginning` to all callers that wait. It is then the text of this version, even if the
    /// rest is computed.
    pub(super) fn give_beginning(&self, beginning: ViewText) {
        let beginning = Arc::new(beginning);
        self.note_size(&beginning);
        self.work_mut(|work| work.beginning = Some(Arc::clone(&beginning)));
        self.answer(Ok(beginning));
    }

    /// Returns the beginning that was handed out.
    pub(super) fn beginning(&self) -> Option<Arc<ViewText>> {
        self.work(|work| work.beginning.clone())
    }

    /// Drops the beginning, as the rest has been computed.
    pub(super) fn drop_beginning(&self) {
        self.work_mut(|work| work.beginning = None);
    }

    /// Adds `done` to the callers that wait for the text. Returns true for the first one, which has
    /// to compute it.
    pub(super) fn wait(&self, done: Callback) -> bool {
        self.work_mut(|work| {
            let first = work.waiting.is_none();
            work.waiting.get_or_insert_default().push(done);
            first
        })
    }

    /// Records the length. Must be called before any caller gets the text, as it then asks for the
    /// length.
    pub(super) fn note_size(&self, text: &ViewText) {
        self.progress.lock().size = Some(text.len());
    }

    /// Hands the outcome to all callers that wait.
    pub(super) fn answer(&self, outcome: Result<Arc<ViewText>>) {
        let waiting = self.work_mut(|work| work.waiting.take()).unwrap_or_default();
        let outcome = outcome.map_err(Arc::new);
        for done in waiting {
            done(outcome.clone().map_err(EngineError::Shared));
        }
    }

    /// Makes the next look-up of a view that went on past its deadline find the rest, or try again.
    pub(super) fn note_outcome_of_late_view(&self, outcome: &Result<Arc<ViewText>>) {
        if let Err(error) = outcome {
            tracing::debug!(%error, "the rest of a view was not computed");
        }
        if let Base::File(file) = &self.base {
            file.note_change();
        }
    }
}

/// An open computed file. Holds its text, and the number of bytes read for counting at close.
pub struct OpenText {
    pub(super) of: Arc<Computed>,
    /// The text.
    pub text: Arc<ViewText>,
    /// The largest offset up to which it was read.
    read: AtomicU64,
}

impl OpenText {
    /// Opens `of`, whose text is `text`.
    pub fn new(of: Arc<Computed>, text: Arc<ViewText>) -> Self {
        Self { of, text, read: AtomicU64::new(0) }
    }

    /// Records that it was read up to `end`.
    pub fn note_read(&self, end: u64) {
        let end = end.min(self.text.len());
        self.read.fetch_max(end, Relaxed);
        self.of.readers().read.fetch_max(end, Relaxed);
    }

    /// Returns the number of bytes that its reader has seen. A reader that was not seen to read got
    /// the bytes that the kernel had cached for an earlier one.
    pub(super) fn seen(&self) -> u64 {
        match self.read.load(Relaxed) {
            0 => self.of.readers().read.load(Relaxed),
            read => read,
        }
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

    /// The kernel tells of the end of a read whenever it likes.
    #[test]
    fn what_the_kernel_had_cached_was_seen_whoever_is_closed_first() {
        let of = Arc::new(Computed::new(Recipe::Readme, Base::Nothing, Version::default()));
        let text = Arc::new(ViewText::new(b"one\ntwo\n".to_vec(), 0, None));
        let first = OpenText::new(Arc::clone(&of), Arc::clone(&text));
        let second = OpenText::new(of, text);
        first.note_read(8);
        assert_eq!((second.seen(), first.seen()), (8, 8));
    }
}
