//! The first lines of a view that does not show every error line.

use crate::model::Subject;
use crate::view::Query;
use crate::view::errors::index::ErrorIndex;
use crate::view::grep::notice::long_lines;
use crate::view::grep::page::CutPoint;
use crate::view::number::counted;
use crate::view::number::grouped;
use crate::view::number::portion;
use crate::view::position::TextPosition;

/// Lines to go on with if there is no word to search for.
const ON_LINES: u64 = 200;

/// The part of the error lines that is shown.
#[derive(Clone, Copy)]
pub(super) enum Coverage {
    /// Every error line that was found.
    All,
    /// The first of each kind.
    Kinds,
    /// The first kinds, up to a cut.
    Part(CutPoint),
}

/// The notices of one view.
pub(super) struct ErrorNotices<'a> {
    pub(super) subject: &'a Subject<'a>,
    pub(super) index: &'a ErrorIndex,
}

impl ErrorNotices<'_> {
    /// Returns the notices. `windowed` is the first line that is shown only in a window.
    pub(super) fn text(&self, shown: Coverage, windowed: Option<TextPosition>) -> String {
        let (first, windowed) = match shown {
            Coverage::All => (None, windowed),
            Coverage::Kinds => (Some(self.kinds()), windowed),
            Coverage::Part(cut) => {
                (Some(self.part(cut.from.line, cut.shown)), windowed.filter(|at| *at < cut.from))
            }
        };
        let out_of_time = self.index.stopped.map(|(offset, line)| self.out_of_time(offset, line));
        let lines = [first, out_of_time, windowed.map(long_lines)];
        lines.iter().flatten().flat_map(|line| ["# ", line, "\n"]).collect()
    }

    /// Returns the most bytes that the notices can have if not every error line is shown.
    pub(super) fn longest(&self, windowed: Option<TextPosition>) -> usize {
        let part = self.part(u64::MAX, self.index.count).len();
        part + self.text(Coverage::Kinds, windowed).len()
    }

    fn kinds(&self) -> String {
        format!("{}; the first of each follows. All: {}", self.found(), self.path(None))
    }

    fn part(&self, from: u64, shown: u64) -> String {
        let (verb, kinds) = if shown == 1 {
            ("follows", String::new())
        } else {
            ("follow", format!(" {}", grouped(shown)))
        };
        let on = self.path(Some(from));
        format!("{}; the first{kinds} {verb}. Go on: {on}", self.found())
    }

    /// Returns `10,412 lines look like errors, of 12 kinds`. Kinds differ in more than numbers.
    fn found(&self) -> String {
        let lines = counted(self.index.count, "line");
        let so_far = if self.index.stopped.is_some() { " so far" } else { "" };
        let kinds = self.index.kinds() as u64;
        if kinds == self.index.count {
            return format!("{lines} look like errors{so_far}");
        }
        let least = if self.index.is_capped() { "at least " } else { "" };
        format!("{lines} look like errors{so_far}, of {least}{}", counted(kinds, "kind"))
    }

    /// Returns the path that finds the error lines from a line on, or all of them.
    fn path(&self, from: Option<u64>) -> String {
        let file = self.subject.place.file();
        if self.index.words.is_empty() {
            return format!("{file}.lines/{}+{ON_LINES}", from.unwrap_or(1));
        }
        let query = Query::of(&self.index.words.join("|"));
        let query = match from {
            Some(line) => query.from(TextPosition { line, column: 1 }),
            None => query.at_most(0),
        };
        format!("{file}.grep/{query}")
    }

    fn out_of_time(&self, offset: u64, line: u64) -> String {
        let portion = portion(offset, self.subject.content.len());
        let on = self.path(Some(line));
        format!("out of time after {portion}; what was found follows. Go on: {on}")
    }
}
