//! Computed files. Each has one recipe and one version, and its text is computed once for all
//! readers.

use std::ffi::{OsStr, OsString};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
use crate::{
    Counting, DoorStatus, EngineError, QUICK_INPUT, Result, Source, SourceDir, Version, ViewText,
    proportion,
};
use ctxfs_core::materialize::token_count;
use ctxfs_core::model::{Amount, Component, Content as _, Counts};
use ctxfs_store::{FileType, Stat};
use ctxfs_view::{CorpusQuery, RenderCost, View, ViewDir};

/// Maximum number of bytes whose tokens are counted. The count for a longer text is extrapolated.
const SAMPLE: u64 = 256 * 1024;

/// The name of the page with the version of the program. This page exists even without a server.
pub(crate) const VERSION: &str = "version";

/// The kind and the arguments of a computed file.
///
/// - `Readme`: the root's `README.md`, an introduction to the tree
/// - `TopIgnore`: the root's `.ignore`, with the names that recursive searches skip
/// - `Ignore`: the `.ignore` of a directory of artifacts, which names real files beside the views
/// - `Removed`: the summary of a removed file with this name
/// - `Messages`: the message log of a conversation as one JSON array
/// - `Door`: a page of this name about the door itself, such as `.ctxfs/status.json`
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Recipe {
    View(Arc<View>),
    Readme,
    TopIgnore,
    Ignore,
    Search(Arc<CorpusQuery>, Reader),
    Manifest(Reader),
    Removed(OsString),
    Messages,
    Door(&'static str),
}

impl Recipe {
    /// Returns the search that `name` means in the directory of searches `dir`.
    pub fn search(dir: ViewDir, name: &OsStr) -> Option<Self> {
        let query = CorpusQuery::named(dir, name)?;
        Some(Self::Search(query.into(), Reader::Server))
    }

    /// Returns true if the text does not depend on the store. Every user may then read it.
    pub fn is_public(&self) -> bool {
        matches!(self, Self::Readme | Self::TopIgnore | Self::Door(VERSION))
    }

    /// Returns the reader for whom the text is gathered from all outputs of a conversation. `None`
    /// if the text does not depend on the reader.
    pub fn reader(&self) -> Option<&Reader> {
        match self {
            Self::Search(_, reader) | Self::Manifest(reader) => Some(reader),
            Self::View(_)
            | Self::Readme
            | Self::TopIgnore
            | Self::Ignore
            | Self::Removed(_)
            | Self::Messages
            | Self::Door(_) => None,
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
            Self::Readme
            | Self::TopIgnore
            | Self::Search(..)
            | Self::Removed(_)
            | Self::Door(_) => true,
        }
    }
}

/// Mode bits of a class of users. With `READ`, they can read a file. With `READ_AND_SEARCH`, they
/// can list and enter a directory.
const READ: u32 = 0o4;
const READ_AND_SEARCH: u32 = 0o5;

/// The reader of a text that is made from many files. On a mount that several users may access, the
/// text contains only what the reader may read, and states how much is left out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reader {
    /// The user that runs the server, or root. File modes do not restrict this reader.
    Server,
    User(Arc<User>),
}

/// A user, with the groups of the process that reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
    pub groups: Vec<u32>,
}

impl Reader {
    /// Returns true if the mode of a file or directory lets this reader read it. The mode of a
    /// directory must also let the reader enter. Calls `stat`, which returns the attributes, only
    /// if the mode matters.
    ///
    /// Capabilities are ignored, because their effect depends on user namespaces.
    pub(crate) fn may_read<E>(
        &self,
        stat: impl FnOnce() -> std::result::Result<Stat, E>,
    ) -> std::result::Result<bool, E> {
        let Self::User(user) = self else { return Ok(true) };
        let stat = stat()?;
        let wanted = if stat.kind() == FileType::Directory { READ_AND_SEARCH } else { READ };
        let shift = if stat.uid == user.uid {
            6
        } else if stat.gid == user.gid || user.groups.contains(&stat.gid) {
            3
        } else {
            0
        };
        Ok(stat.mode >> shift & wanted == wanted)
    }
}

/// The source of a computed file.
///
/// - `Nothing`: no source in the store
/// - `Dir`: a directory, with everything below it
/// - `Text`: the text of another computed file
/// - `Door`: the state of a door
#[derive(Clone)]
pub enum Base {
    Nothing,
    File(Source),
    Dir(Arc<dyn SourceDir>),
    Text(Arc<Computed>),
    Door(Arc<dyn Fn() -> Result<DoorStatus> + Send + Sync>),
}

impl Base {
    pub fn conversation(&self) -> Option<Component> {
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

    pub(crate) fn source(&self) -> Result<&Source> {
        match self {
            Self::File(source) => Ok(source),
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

/// A computed file at one version. The text of a version never changes.
///
/// A mount holds one for each view in the kernel's cache, and most are never read. The state for
/// readers and for the computation is therefore allocated only when it is first needed.
///
/// - `number`: the key of the text in the cache
pub struct Computed {
    pub(crate) number: u64,
    pub recipe: Recipe,
    pub base: Base,
    pub version: Version,
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
pub(crate) struct TextWork {
    waiting: Option<Vec<Callback>>,
    /// Number of times that a view of this text ran out of time. Each time gives that view a new
    /// version, so that the next look-up computes the view again.
    pub(crate) late: u64,
    beginning: Option<Arc<ViewText>>,
}

pub(crate) struct BaseText {
    pub(crate) text: Arc<ViewText>,
    /// The time at which the view of this text was requested. The time spent on computing the text
    /// counts against the view's deadline.
    pub(crate) asked: Instant,
}

pub(crate) type Callback = Box<dyn FnOnce(Result<Arc<ViewText>>) + Send>;

impl Computed {
    /// Creates a computed file of `base` at `version`. Computes nothing. If the record of a file has
    /// the length of the view, a text of another length is an error.
    pub fn new(recipe: Recipe, base: Base, version: Version) -> Self {
        let size = match (&recipe, &base) {
            (Recipe::View(view), Base::File(source)) => source.state().view_size(view, &version),
            _ => None,
        };
        let mut computed = Self::unmeasured(recipe, base, version);
        computed.progress.get_mut().size = size;
        computed
    }

    /// Creates a computed file for a door that shows no size before it has the text. Computes
    /// nothing.
    pub(crate) fn unmeasured(recipe: Recipe, base: Base, version: Version) -> Self {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (readers, progress) = (OnceLock::new(), Mutex::default());
        Self { number, recipe, base, version, readers, progress }
    }

    pub(crate) fn note_tool(&self, tool: impl FnOnce() -> Option<String>) {
        let readers = self.readers.get_or_init(Box::default);
        readers.tool.get_or_init(|| tool().map(String::into_boxed_str));
    }

    pub fn size(&self) -> Option<u64> {
        self.progress.lock().size
    }

    pub(crate) fn work<T: Default>(&self, read: impl FnOnce(&TextWork) -> T) -> T {
        self.progress.lock().work.as_deref().map(read).unwrap_or_default()
    }

    pub(crate) fn work_mut<T>(&self, change: impl FnOnce(&mut TextWork) -> T) -> T {
        change(self.progress.lock().work.get_or_insert_default())
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

/// An open computed file. It holds the text. When it is dropped, it adds the bytes that were read
/// to the counts, but only for views and searches of a conversation.
pub struct OpenText {
    counting: Arc<Counting>,
    of: Arc<Computed>,
    pub text: Arc<ViewText>,
    read: AtomicU64,
}

impl OpenText {
    pub(crate) fn new(counting: &Arc<Counting>, of: &Arc<Computed>, text: Arc<ViewText>) -> Self {
        let (counting, of, read) = (Arc::clone(counting), Arc::clone(of), AtomicU64::new(0));
        Self { counting, of, text, read }
    }

    pub fn note_read(&self, end: u64) {
        let end = end.min(self.text.len());
        self.read.fetch_max(end, Relaxed);
        self.of.readers.get_or_init(Box::default).read.fetch_max(end, Relaxed);
    }

    /// Returns the number of bytes that the reader has seen. If no read was recorded, the kernel
    /// served this reader from its cache. The most that any reader has seen is then returned.
    fn seen(&self) -> u64 {
        match self.read.load(Relaxed) {
            0 => self.of.readers.get().map_or(0, |readers| readers.read.load(Relaxed)),
            read => read,
        }
    }

    fn tokens(&self, seen: u64) -> u64 {
        let sample = seen.min(SAMPLE);
        let counted = self.text.read(0, sample as usize, token_count).unwrap_or(sample / 4);
        if seen == sample { counted } else { proportion(counted, seen, sample) }
    }
}

impl Drop for OpenText {
    fn drop(&mut self) {
        let (view, stands_in) = match &self.of.recipe {
            Recipe::View(view) => (view.kind(), view.is_stand_in()),
            Recipe::Search(..) => ("search", false),
            _ => return,
        };
        let (mut tool, mut of) = (None, &self.of);
        loop {
            tool = tool.or_else(|| of.readers.get()?.tool.get());
            let Base::Text(text) = &of.base else { break };
            of = text;
        }
        let Some(id) = of.base.conversation() else { return };
        let seen = self.seen();
        if seen == 0 && self.text.len() > 0 {
            return;
        }
        let amount = Amount::once(seen, self.tokens(seen));
        let mut counts = Counts::default();
        *(if stands_in { &mut counts.handed } else { &mut counts.read }) = amount;
        counts.views.insert(view.to_owned(), 1);
        let tool = tool.and_then(|tool| tool.as_deref()).unwrap_or_default().to_owned();
        self.counting.add(id, tool, &counts);
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
    use crate::redaction::Secrets;

    fn stat(mode: u32, uid: u32, gid: u32) -> Stat {
        Stat { mode, uid, gid, ..Stat::imagined() }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let user = User { uid: 7, gid: 70, groups: vec![71, 72] };
        let reader = Reader::User(Arc::new(user));
        let may = |stat| reader.may_read(|| Ok::<_, ()>(stat)).unwrap();
        for (mode, uid, gid, want) in [
            (0o100_400, 7, 1, true),
            (0o100_044, 7, 1, false),
            (0o100_040, 8, 70, true),
            (0o100_040, 8, 72, true),
            (0o100_404, 8, 72, false),
            (0o100_004, 8, 1, true),
            (0o100_440, 8, 1, false),
            (0o100_222, 7, 70, false),
            (0o040_700, 7, 1, true),
            (0o040_600, 7, 1, false),
            (0o040_055, 8, 71, true),
            (0o040_041, 8, 71, false),
        ] {
            assert_eq!(may(stat(mode, uid, gid)), want, "{mode:o} {uid} {gid}");
        }
        let nobody = || -> std::result::Result<Stat, ()> { panic!("the mode was asked for") };
        assert!(Reader::Server.may_read(nobody).unwrap());
    }

    /// The kernel may report the end of a read at any time.
    #[test]
    fn what_the_kernel_had_cached_was_seen_whoever_is_closed_first() {
        let of = Arc::new(Computed::new(Recipe::Readme, Base::Nothing, Version::default()));
        let text = Arc::new(ViewText::new(b"one\ntwo\n".to_vec(), 0, None, None));
        let dir = tempfile::tempdir().unwrap();
        let store = ctxfs_store::Store::open(dir.path()).unwrap();
        let counting = Arc::new(Counting::new(store, Secrets(None)));
        let first = OpenText::new(&counting, &of, Arc::clone(&text));
        let second = OpenText::new(&counting, &of, text);
        first.note_read(8);
        assert_eq!((second.seen(), first.seen()), (8, 8));
    }
}
