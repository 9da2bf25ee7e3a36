use std::cell::{OnceCell, RefCell};

use crate::find::matcher::{Finder, Hit, Matcher};
use crate::find::passage::SourceLine;

/// The words in some lines. Searches a line when it is asked for: of hundreds of lines around an
/// anchor, a passage looks at a few.
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

    pub(super) fn of(&self, at: usize) -> &[Hit] {
        self.known[at].get_or_init(|| {
            let mut finder = self.finder.borrow_mut();
            self.matcher.find(&mut finder, self.lines[at].text, false).to_vec()
        })
    }
}
