//! The words in the lines around a place.

use std::cell::{OnceCell, RefCell};

use crate::find::matcher::{Finder, Hit, Matcher};
use crate::find::passage::SourceLine;

/// The words in some lines, each of which is searched when it is asked for: of hundreds of lines
/// around a place, a passage looks at a few.
pub(super) struct LineHits<'a> {
    lines: &'a [SourceLine<'a>],
    matcher: &'a Matcher,
    finder: RefCell<&'a mut Finder>,
    known: Vec<OnceCell<Vec<Hit>>>,
}

impl<'a> LineHits<'a> {
    pub(super) fn new(
        lines: &'a [SourceLine<'a>],
        matcher: &'a Matcher,
        finder: &'a mut Finder,
    ) -> Self {
        let known = vec![OnceCell::new(); lines.len()];
        Self { lines, matcher, finder: RefCell::new(finder), known }
    }

    /// Returns the words in the line of index `at`.
    pub(super) fn of(&self, at: usize) -> &[Hit] {
        self.known[at].get_or_init(|| {
            let mut finder = self.finder.borrow_mut();
            self.matcher.find(&mut finder, self.lines[at].text, false).to_vec()
        })
    }
}
