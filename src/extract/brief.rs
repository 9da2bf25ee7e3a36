//! The brief with which the reading agent begins: what the output is, its ends and its errors.

use crate::extract::Document;
use crate::extract::DocumentError;
use crate::extract::look::LineForm;
use crate::extract::look::Look;
use crate::extract::look::LookResult;

/// The most bytes of the facts, for a model whose context is small and for any other.
const FACTS: [usize; 2] = [600, 4000];
/// A context of fewer tokens is small.
const SMALL: u64 = 16_384;
/// The labels of a summary's lines that name views.
const PATHS: [&str; 10] =
    ["[ctxfs]", "tool:", "file:", "next:", "find:", "search:", "part:", "end:", "pages:", "read:"];

/// A brief.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Brief {
    /// What the output is.
    pub(super) facts: String,
    /// Some of its lines.
    pub(super) seen: LookResult,
}

impl Brief {
    /// Returns the brief of a document for a model with a context of `tokens`.
    pub(super) fn of(
        document: &dyn Document,
        form: LineForm,
        tokens: u64,
    ) -> Result<Self, DocumentError> {
        let summary = document.view("summary")?;
        let facts = facts(&summary, FACTS[usize::from(tokens >= SMALL)]);
        let mut seen = Look::Read { from: 1, to: 2 }.at(document, form)?;
        seen.lines.extend(LookResult::errors(&summary));
        // The lines of other forms are not counted.
        let last = if form == LineForm::Plain { document.facts().lines } else { 0 };
        if last > 2 {
            seen.lines
                .extend(Look::Read { from: (last - 1).max(3), to: last }.at(document, form)?.lines);
        }
        seen.notes.clear();
        seen.lines.sort_by_key(|line| line.number);
        seen.lines.dedup_by_key(|line| line.number);
        Ok(Self { facts, seen })
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
