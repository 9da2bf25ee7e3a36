//! The brief with which the reading agent begins: what the output is, and where the words of the
//! question are.
//!
//! Each turn sends it again, so it is short. With errors and both ends of the output in it, a
//! question cost three times as many tokens, and no more answers were right; see docs/EXTRACTION.md.

use crate::extract::Document;
use crate::extract::DocumentError;
use crate::extract::look::LineForm;
use crate::extract::look::Look;
use crate::extract::look::LookResult;

/// The most bytes of the facts.
const FACTS: usize = 300;
/// The labels of a summary's lines that name views.
const PATHS: [&str; 10] =
    ["[ctxfs]", "tool:", "file:", "next:", "find:", "search:", "part:", "end:", "pages:", "read:"];

/// A brief.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Brief {
    /// What the output is.
    pub(super) facts: String,
    /// The first look.
    pub(super) look: Look,
    /// What it showed.
    pub(super) seen: LookResult,
}

impl Brief {
    /// Returns the brief of a document for a question.
    pub(super) fn of(
        document: &dyn Document,
        form: LineForm,
        question: &str,
    ) -> Result<Self, DocumentError> {
        let facts = facts(&document.view("summary")?, FACTS);
        let look = Look::Find { words: question.to_owned() };
        let seen = look.at(document, form)?;
        Ok(Self { facts, look, seen })
    }

    /// Returns the text that a model sees.
    pub(super) fn text(&self) -> String {
        format!("{}\n\n{}", self.facts, self.seen.text())
    }
}

/// Returns the lines of a summary that say what the output is, up to `most` bytes.
fn facts(summary: &str, most: usize) -> String {
    let lines = summary.lines().take_while(|line| !line.starts_with("--- "));
    let lines: Vec<&str> = lines
        .filter(|line| !PATHS.iter().any(|label| line.starts_with(label)))
        .filter(|line| !line.starts_with("shown:"))
        .collect();
    let text = lines.join("\n");
    let kept = text.floor_char_boundary(most);
    if kept == text.len() { text } else { format!("{}... (cut)", &text[..kept]) }
}
