//! `.grep/<query>` of a directory: what `rg -n <query>` prints in it, newest artifact first.
//!
//! Several threads search an artifact each (`worker`, `order`); what is found in one (`part`) is put
//! behind what was found in those before (`sheet`), under the first lines that it needs (`notice`).

mod notice;
mod order;
mod part;
mod sheet;
mod worker;

use std::io;
use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use crate::model::Content;
use crate::model::RelPath;
use crate::model::view_bytes;
use crate::redact::SecretRules;
use crate::redact::MaskCounter;
use crate::view::Query;
use crate::view::RenderError;
use crate::view::Rendered;
use crate::view::grep::corpus::part::Outcome;
use crate::view::grep::corpus::sheet::Sheet;
use crate::view::grep::corpus::worker::Worker;
use crate::view::grep::pattern;
use crate::view::grep::pattern::Pattern;
use crate::view::query::Options;
use crate::view::query::Position;

/// Threads that search at once.
const MOST_THREADS: usize = 4;
/// Where an artifact begins.
const START: Position = Position { line: 1, column: 1 };

/// The artifacts below a directory, in the order in which they are to be shown. They are opened one
/// by one, from several threads.
pub trait Corpus: Sync {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The path of one from the directory on; no other one has it.
    fn path(&self, number: usize) -> &RelPath;

    /// Reads one that is shorter than `buffer` into it; opens one that is not.
    fn load(&self, number: usize, buffer: &mut [u8]) -> io::Result<Loaded>;
}

/// An artifact, ready to be searched.
pub enum Loaded {
    /// It has been removed meanwhile.
    Gone,
    /// So many bytes, all in the buffer.
    Whole(usize),
    /// Its content.
    Opened(Box<dyn Content>),
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gone => f.write_str("Gone"),
            Self::Whole(length) => f.debug_tuple("Whole").field(length).finish(),
            Self::Opened(content) => f.debug_tuple("Opened").field(&content.len()).finish(),
        }
    }
}

/// All that a search of a directory is made from.
#[derive(Clone, Copy)]
pub struct Directory<'a> {
    /// As its reader names it: `/ctx/c7/artifacts/tool`.
    pub path: &'a str,
    /// The artifacts.
    pub corpus: &'a dyn Corpus,
    /// What is masked in them; none, where secrets are shown.
    pub redacts: Option<&'a SecretRules>,
}

impl std::fmt::Debug for Directory<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Directory").field("path", &self.path).finish_non_exhaustive()
    }
}

/// A search of many artifacts.
struct Search<'a> {
    query: &'a Query,
    directory: Directory<'a>,
    corpus: &'a dyn Corpus,
    expired: &'a (dyn Fn() -> bool + Sync),
    pattern: Pattern,
    first: First,
    /// The result has all the text that it has room for: what is still found is only counted.
    full: AtomicBool,
    /// Held while a large artifact is searched: several threads work on one by themselves.
    alone: Mutex<()>,
}

/// Where a search begins.
struct First {
    artifact: usize,
    /// Where in it, unless at its start.
    at: Option<Position>,
    /// Matching lines of that artifact that were shown before.
    shown: u64,
    /// The artifact that the query names is not there.
    missing: bool,
}

/// Writes what the search of all artifacts in `directory` finds, the notice apart.
///
/// `expired` is asked now and then; once it says yes, what was found so far is all. Memory is
/// bounded whatever the artifacts; what goes to `out` is bounded but for a search with `-m0`.
///
/// Secrets that are masked in what is shown are counted, and the first line says so.
pub fn render(
    query: &Query,
    directory: &Directory<'_>,
    expired: &(dyn Fn() -> bool + Sync),
    out: &mut (dyn Write + Send),
) -> Result<Rendered, RenderError> {
    let Some(rules) = directory.redacts else {
        return search(query, directory, expired, out);
    };
    let mut shown = MaskCounter::new(out, rules.names());
    let rendered = search(query, directory, expired, &mut shown)?;
    Ok(rendered.redacted(&shown.counts()))
}

fn search(
    query: &Query,
    directory: &Directory<'_>,
    expired: &(dyn Fn() -> bool + Sync),
    out: &mut (dyn Write + Send),
) -> Result<Rendered, RenderError> {
    let (directory, corpus) = (*directory, directory.corpus);
    let pattern = pattern::build(query)?;
    let (first, full) = (First::of(query.options(), corpus), AtomicBool::new(false));
    let alone = Mutex::default();
    let search = Search { query, directory, corpus, expired, pattern, first, full, alone };
    let mut sheet = Sheet::new(&search, out);
    let first = search.first.artifact;
    order::in_order(
        corpus.len() - first,
        thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS),
        || Worker::new(&search),
        |worker, number| worker.search(first + number),
        Outcome::weight,
        |worker, number, outcome| {
            let goes_on = sheet.take(worker, first + number, outcome);
            search.full.store(sheet.is_full(), Relaxed);
            if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        },
    );
    Ok(notice::finish(sheet)?)
}

impl First {
    fn of(options: &Options, corpus: &dyn Corpus) -> Self {
        let Some(mark) = &options.mark else {
            return Self { artifact: 0, at: None, shown: 0, missing: false };
        };
        match (0..corpus.len()).find(|number| *corpus.path(*number) == mark.artifact) {
            None => Self { artifact: 0, at: None, shown: 0, missing: true },
            Some(artifact) => {
                let at = Some(mark.at).filter(|at| *at != START);
                Self { artifact, at, shown: mark.shown, missing: false }
            }
        }
    }

    /// Whether something of the artifact `number` has been shown before.
    fn begins_inside(&self, number: usize) -> bool {
        number == self.artifact && (self.at.is_some() || self.shown > 0)
    }
}

impl Search<'_> {
    fn options(&self) -> &Options {
        self.query.options()
    }

    /// Bytes of the result, its first lines included but for the one on redaction.
    fn view_bytes(&self) -> usize {
        view_bytes(self.directory.redacts.is_some())
    }

    /// Whether the result has no limit.
    fn is_endless(&self) -> bool {
        self.options().max == Some(0)
    }

    /// Whether what is found in a large artifact is written as it is found.
    fn streams(&self) -> bool {
        self.is_endless() && !self.lists_artifacts()
    }

    /// Whether the result has a line for each artifact, and not for each match.
    fn lists_artifacts(&self) -> bool {
        self.options().count || self.options().names
    }

    /// Whether `--` stands between what was found in one artifact and in the next.
    fn has_context(&self) -> bool {
        !self.lists_artifacts() && self.options().before + self.options().after > 0
    }

    /// How an artifact is searched; by its number, where it may be the first.
    fn options_of(&self, number: Option<usize>) -> Options {
        let mut options = Options { mark: None, ..self.options().clone() };
        if number == Some(self.first.artifact) {
            options.from = self.first.at;
            let left = |max: u64| max.saturating_sub(self.first.shown).max(1);
            options.max = options.max.map(|max| if max == 0 { 0 } else { left(max) });
        }
        if options.names && !options.count {
            options.max = Some(1);
            options.only_matching = false;
        }
        // Nothing is shown of what is listed.
        options.count = self.lists_artifacts();
        options
    }

    /// Waits until no other thread searches a large artifact.
    fn alone(&self) -> MutexGuard<'_, ()> {
        self.alone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As lines begin.
    fn name(&self, number: usize) -> &[u8] {
        self.corpus.path(number).as_os_str().as_bytes()
    }

    /// As first lines name it.
    fn text(&self, number: usize) -> String {
        self.corpus.path(number).to_text()
    }
}

#[cfg(test)]
mod tests;
