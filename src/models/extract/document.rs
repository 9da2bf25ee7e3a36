//! The document that a model reads.

use std::sync::atomic::AtomicBool;

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

/// Facts about a document. `tool` and `arguments` are empty if unknown. `arguments` is JSON as it
/// was sent, or a command line. `name` is the name that models use: the last part of the handle.
/// `digest` is the BLAKE3 digest of the bytes, in hexadecimal. `bytes` and `lines` count the text,
/// and `tokens` is an estimate for it. If `is_binary` is true, the output is not text, and its
/// bytes are never shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct DocumentFacts {
    pub tool: String,
    pub arguments: String,
    pub handle: String,
    pub name: String,
    pub digest: String,
    pub bytes: u64,
    pub lines: u64,
    pub tokens: u64,
    pub is_binary: bool,
}

/// Reason why a document or a view of it cannot be read. `View` has the reason that the view
/// reports.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe variants and fields")]
pub enum DocumentError {
    #[error(
        "the output is binary, so there is nothing to read in it; its `meta.json` describes it"
    )]
    Binary,
    #[error("stopped")]
    Stopped,
    #[error("cannot read the output: {0}")]
    Content(#[from] std::io::Error),
    #[error("cannot show `{view}` of the output: {why}")]
    View { view: String, why: String },
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

/// A document that refuses views once the question is stopped. Without this, a stopped question
/// could go on for long: a view of a long output takes time, and an answer may need twenty views.
pub(super) struct StoppableDocument<'a> {
    document: &'a dyn Document,
    stopped: &'a Stopped<'a>,
    /// True if a view was refused. The answer is incomplete in this case.
    pub(super) has_refused: AtomicBool,
}

impl<'a> StoppableDocument<'a> {
    pub(super) fn new(document: &'a dyn Document, stopped: &'a Stopped<'a>) -> Self {
        Self { document, stopped, has_refused: AtomicBool::new(false) }
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
            self.has_refused.store(true, std::sync::atomic::Ordering::Relaxed);
            return Err(DocumentError::Stopped);
        }
        self.document.view(name)
    }
}
