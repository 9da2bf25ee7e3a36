//! The look with which the reading agent begins: where the words of the question are.
//!
//! A model would take it itself, for one turn more. Nothing else is shown at the beginning: each
//! turn sends it again. With the summary and both ends of the output in it, a question cost three
//! times as many tokens, and no more answers were right; see docs/EXTRACTION.md.

use crate::extract::look::{LineForm, Look, LookResult};
use crate::extract::{Document, DocumentError};

/// The first look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FirstLook {
    pub(super) look: Look,
    /// What it showed.
    pub(super) seen: LookResult,
}

impl FirstLook {
    /// Looks for the words of a question.
    pub(super) fn take(
        document: &dyn Document,
        form: LineForm,
        question: &str,
    ) -> Result<Self, DocumentError> {
        let look = Look::Find { words: question.to_owned() };
        let seen = look.at(document, form)?;
        Ok(Self { look, seen })
    }
}
