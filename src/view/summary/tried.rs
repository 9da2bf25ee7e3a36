use std::cell::RefCell;
use std::io;

use bstr::ByteSlice as _;

use crate::{Query, RenderError, Rendered, Words, find, grep};
use ctxfs_core::model::{Subject, TriedView};

// The most bytes that a step shows.
pub(super) const STEP_BYTES: usize = 8 << 10;
// The longest outputs in which searches, and words, are tried: some 20 milliseconds of work each.
const SEARCHED: u64 = 16 << 20;
const FOUND: u64 = 512 << 10;

pub(super) fn can_be_searched(subject: &Subject<'_>) -> bool {
    subject.content.len() <= SEARCHED
}

pub(super) fn can_be_found(subject: &Subject<'_>) -> bool {
    subject.content.len() <= FOUND
}

/// The steps that were tried on a subject. A step whose result is in the shortcuts is not tried
/// again.
pub(super) struct Trials<'a> {
    pub(super) subject: &'a Subject<'a>,
    made: RefCell<Vec<TriedView>>,
}

impl<'a> Trials<'a> {
    pub(super) fn of(subject: &'a Subject<'a>) -> Self {
        Self { subject, made: RefCell::default() }
    }

    pub(super) fn into_made(self) -> Vec<TriedView> {
        self.made.into_inner()
    }

    /// Tries whether a search leads to a line.
    pub(super) fn search(&self, query: &Query, line: u64) -> io::Result<TriedView> {
        self.tried(format!(".grep/{query}"), line, |text| {
            grep::render(query, self.subject, &|| false, text)
        })
    }

    /// Tries whether some words lead to a line.
    pub(super) fn words(&self, words: &Words, line: u64) -> io::Result<TriedView> {
        self.tried(format!(".find/{words}"), line, |text| {
            find::render(words, self.subject, &|| false, text)
        })
    }

    fn tried(
        &self,
        view: String,
        line: u64,
        render: impl FnOnce(&mut Vec<u8>) -> Result<Rendered, RenderError>,
    ) -> io::Result<TriedView> {
        let shortcuts = self.subject.analysis.shortcuts.as_ref();
        if let Some(known) = shortcuts.and_then(|shortcuts| shortcuts.tried(&view, line)) {
            return Ok(known.clone());
        }
        let mut text = Vec::new();
        let outcome = match render(&mut text) {
            Ok(_) => outcome(view, line, &text),
            Err(RenderError::NotFound) => TriedView { view, line, lines: None, shows: false },
            Err(RenderError::Io(error)) => return Err(error),
        };
        self.made.borrow_mut().push(outcome.clone());
        Ok(outcome)
    }
}

fn outcome(view: String, line: u64, text: &[u8]) -> TriedView {
    let lines = (text.len() <= STEP_BYTES).then(|| text.lines().count() as u64);
    TriedView { view, line, lines, shows: shows(text, line) }
}

// Whether `text` shows a line, as searches print it.
fn shows(text: &[u8], line: u64) -> bool {
    let number = line.to_string();
    text.lines().any(|line| {
        line.strip_prefix(number.as_bytes())
            .and_then(<[u8]>::first)
            .is_some_and(|mark| b":-@".contains(mark))
    })
}
