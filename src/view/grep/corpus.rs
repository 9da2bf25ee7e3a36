pub(crate) mod left_out;
mod matches;
mod notice;
pub(crate) mod order;
mod report;
mod worker;

use std::io::Write;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::{io, thread};

use parking_lot::{Mutex, MutexGuard};

use crate::grep::corpus::matches::ArtifactOutcome;
use crate::grep::corpus::report::CorpusReport;
use crate::grep::corpus::worker::Worker;
use crate::grep::pattern;
use crate::grep::pattern::CompiledPattern;
use crate::position::TextPosition;
use crate::query::Options;
use crate::{Query, RenderError, Rendered};
use ctxfs_core::model::{Content, RelPath, view_bytes};
use ctxfs_core::redact::{MaskCounter, SecretRules};

// Threads that search at once.
pub(crate) const MOST_THREADS: usize = 4;
// The start of an artifact.
const START: TextPosition = TextPosition { line: 1, column: 1 };

/// The artifacts below a directory, in the order in which they are shown. They are opened one by
/// one, from several threads.
pub trait Corpus: Sync {
    /// Returns the number of artifacts.
    fn len(&self) -> usize;

    /// Returns true if there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of directories that are left out because the reader may not read them.
    fn closed_directories(&self) -> u64 {
        0
    }

    /// Returns the path of an artifact relative to the directory. No two paths are equal.
    fn path(&self, number: usize) -> &RelPath;

    /// Returns the number of places below the directory that could not be listed, and the first of
    /// them with the reasons.
    fn unlisted(&self) -> (u64, Vec<String>) {
        (0, Vec::new())
    }

    /// Reads an artifact into `buffer` if it is shorter than that, else opens it.
    fn load(&self, number: usize, buffer: &mut [u8]) -> io::Result<Loaded>;
}

/// An artifact that is ready to be searched, or the reason why it is not.
pub enum Loaded {
    /// The artifact was removed after it was listed.
    Gone,
    /// The reader may not read the artifact.
    Closed,
    /// All of the artifact is in the buffer: this many bytes.
    Whole(usize),
    /// The content of an artifact that did not fit.
    Opened(Box<dyn Content>),
}

impl std::fmt::Debug for Loaded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Gone => f.write_str("Gone"),
            Self::Closed => f.write_str("Closed"),
            Self::Whole(length) => f.debug_tuple("Whole").field(length).finish(),
            Self::Opened(content) => f.debug_tuple("Opened").field(&content.len()).finish(),
        }
    }
}

/// A directory that is searched: its path as a reader names it (`/ctx/c7/artifacts/tool`), the
/// artifacts below it, and the secrets to mask in them.
#[derive(Clone, Copy)]
pub struct Directory<'a> {
    /// The path of the directory as a reader names it.
    pub path: &'a str,
    /// The artifacts below the directory.
    pub corpus: &'a dyn Corpus,
    /// The secrets to mask. `None` if secrets are shown.
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
    pattern: CompiledPattern,
    first: SearchFrom,
    // True once the result is full: further matches are only counted.
    full: AtomicBool,
    // Held while a large artifact is searched, on which several threads work.
    alone: Mutex<()>,
}

/// The place where a search begins. `shown` counts the matching lines of the artifact that were
/// shown before; `missing` is true if the artifact that the query names does not exist.
struct SearchFrom {
    artifact: usize,
    at: Option<TextPosition>,
    shown: u64,
    missing: bool,
}

/// Searches all artifacts in `directory` and writes the matches to `out`, without the notice. See
/// [`CorpusQuery::render`](crate::CorpusQuery::render).
pub(crate) fn render(
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
    let (first, full) = (SearchFrom::of(query.options(), corpus), AtomicBool::new(false));
    let alone = Mutex::default();
    let search = Search { query, directory, corpus, expired, pattern, first, full, alone };
    let mut report = CorpusReport::new(&search, out);
    let first = search.first.artifact;
    order::in_order(
        corpus.len() - first,
        thread::available_parallelism().map_or(1, usize::from).min(MOST_THREADS),
        || Worker::new(&search),
        |worker, number| worker.search(first + number),
        ArtifactOutcome::weight,
        |worker, number, outcome| {
            let goes_on = report.take(worker, first + number, outcome);
            search.full.store(report.is_full(), Relaxed);
            if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        },
    );
    Ok(notice::finish(report)?)
}

impl SearchFrom {
    fn of(options: &Options, corpus: &dyn Corpus) -> Self {
        let Some(mark) = &options.resume else {
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

    /// Returns true if a part of the artifact `number` was shown before.
    fn begins_inside(&self, number: usize) -> bool {
        number == self.artifact && (self.at.is_some() || self.shown > 0)
    }
}

impl Search<'_> {
    fn options(&self) -> &Options {
        self.query.options()
    }

    /// Returns the most bytes of the result and its notices, without the notice on redaction.
    fn view_bytes(&self) -> usize {
        view_bytes(self.directory.redacts.is_some())
    }

    /// Returns true if the size of the result has no limit.
    fn is_endless(&self) -> bool {
        self.options().max == Some(0)
    }

    /// Returns true if matches in a large artifact are written as they are found.
    fn streams(&self) -> bool {
        self.is_endless() && !self.lists_artifacts()
    }

    /// Returns true if the result has one line for each artifact instead of one for each match.
    fn lists_artifacts(&self) -> bool {
        self.options().count || self.options().names
    }

    /// Returns true if `--` separates the matches in two artifacts.
    fn has_context(&self) -> bool {
        !self.lists_artifacts() && self.options().before + self.options().after > 0
    }

    /// Returns the options to search an artifact with. With `number`, they may begin inside it.
    fn options_of(&self, number: Option<usize>) -> Options {
        let mut options = Options { resume: None, ..self.options().clone() };
        if number == Some(self.first.artifact) {
            options.from = self.first.at;
            let left = |max: u64| max.saturating_sub(self.first.shown).max(1);
            options.max = options.max.map(|max| if max == 0 { 0 } else { left(max) });
        }
        if options.names && !options.count {
            options.max = Some(1);
            options.only_matching = false;
        }
        // Artifacts in a list show no lines.
        options.count = self.lists_artifacts();
        options
    }

    /// Waits until no other thread searches a large artifact.
    fn alone(&self) -> MutexGuard<'_, ()> {
        self.alone.lock()
    }

    /// Returns the name of an artifact as matching lines begin with it.
    fn name(&self, number: usize) -> &[u8] {
        self.corpus.path(number).as_os_str().as_bytes()
    }

    /// Returns the name of an artifact as notices show it.
    fn text(&self, number: usize) -> String {
        self.corpus.path(number).to_text()
    }
}

#[cfg(test)]
mod tests;
