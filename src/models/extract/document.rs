//! The document that a model reads.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::extract::Stopped;
use ctxfs_core::model::Content;

/// An output as its reader may see it: without escape sequences and with secrets masked.
pub trait Document: Send + Sync {
    /// Returns the facts about the output.
    fn facts(&self) -> &DocumentFacts;

    /// Returns the text.
    fn content(&self) -> &dyn Content;

    /// Returns the text of a view, such as `summary`, `errors`, `lines/10-20`, `grep/-i error` or
    /// `find/why did it fail`. The part after the slash must be escaped as in a path.
    fn view(&self, name: &str) -> Result<String, DocumentError>;
}

/// Facts about a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentFacts {
    /// The tool that produced the output. Empty if unknown.
    pub tool: String,
    /// The arguments of the call: JSON as it was sent, or a command line. Empty if unknown.
    pub arguments: String,
    /// The handle of the output.
    pub handle: String,
    /// The name that models use: the last part of the handle.
    pub name: String,
    /// The BLAKE3 digest of the bytes, in hexadecimal.
    pub digest: String,
    /// Number of bytes of the text.
    pub bytes: u64,
    /// Number of lines of the text.
    pub lines: u64,
    /// Estimated number of tokens.
    pub tokens: u64,
    /// True if the output is not text. Its bytes are never shown.
    pub is_binary: bool,
}

/// The reason why a document or a view of it cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// The output is not text.
    #[error(
        "the output is binary, so there is nothing to read in it; its `meta.json` describes it"
    )]
    Binary,
    /// The question was stopped.
    #[error("stopped")]
    Stopped,
    /// The bytes cannot be read.
    #[error("cannot read the output: {0}")]
    Content(#[from] io::Error),
    /// The view has no text.
    #[error("cannot show `{view}` of the output: {why}")]
    View {
        /// The view.
        view: String,
        /// The reason that the view reports.
        why: String,
    },
}

impl DocumentFacts {
    pub(super) fn check_text(&self) -> Result<(), DocumentError> {
        if self.is_binary { Err(DocumentError::Binary) } else { Ok(()) }
    }

    /// Returns the average length of a line in bytes.
    pub fn line_bytes(&self) -> u64 {
        self.bytes / self.lines.max(1)
    }
}

/// A document that refuses views once the question is stopped. This matters because a view of a
/// long output takes time, and an answer may need twenty views.
pub(super) struct StoppableDocument<'a> {
    document: &'a dyn Document,
    stopped: &'a Stopped<'a>,
    refused: AtomicBool,
}

impl<'a> StoppableDocument<'a> {
    pub(super) fn new(document: &'a dyn Document, stopped: &'a Stopped<'a>) -> Self {
        Self { document, stopped, refused: AtomicBool::new(false) }
    }

    /// Returns true if a view was refused. The answer is incomplete in this case.
    pub(super) fn has_refused(&self) -> bool {
        self.refused.load(Relaxed)
    }
}

impl Document for StoppableDocument<'_> {
    fn facts(&self) -> &DocumentFacts {
        self.document.facts()
    }

    fn content(&self) -> &dyn Content {
        self.document.content()
    }

    fn view(&self, name: &str) -> Result<String, DocumentError> {
        if (self.stopped)() {
            self.refused.store(true, Relaxed);
            return Err(DocumentError::Stopped);
        }
        self.document.view(name)
    }
}
