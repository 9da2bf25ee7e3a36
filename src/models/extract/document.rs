//! A document that can be read.

use std::io;

use ctxfs_core::model::Content;

/// An output, as its reader may see it: without escape sequences, with masks for secrets.
pub trait Document: Send + Sync {
    /// Returns what is known about it.
    fn facts(&self) -> &DocumentFacts;

    /// Returns its text.
    fn content(&self) -> &dyn Content;

    /// Returns the text of one of its views: `summary`, `errors`, `lines/10-20`, `grep/-i error`,
    /// `find/why did it fail`. The part after a slash is spelt as in a path.
    fn view(&self, name: &str) -> Result<String, DocumentError>;
}

/// What is known about a document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DocumentFacts {
    /// The tool whose output it is. Empty if that is not known.
    pub tool: String,
    /// The arguments of the call: JSON as it was sent, or a command line. Empty if not known.
    pub arguments: String,
    /// The handle that names it.
    pub handle: String,
    /// The name by which a model knows it: the handle's last part.
    pub name: String,
    /// The BLAKE3 of its bytes, in hexadecimal digits.
    pub digest: String,
    /// Bytes of its text.
    pub bytes: u64,
    /// Its lines.
    pub lines: u64,
    /// Estimated tokens.
    pub tokens: u64,
    /// True if it is not text. Nobody is shown its bytes.
    pub is_binary: bool,
}

/// A document, or a view of it, that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It is not text.
    #[error(
        "the output is binary, so there is nothing to read in it; its `meta.json` describes it"
    )]
    Binary,
    /// Nobody waits for an answer any more.
    #[error("stopped")]
    Stopped,
    /// The bytes cannot be read.
    #[error("cannot read the output: {0}")]
    Content(#[from] io::Error),
    /// There is no text of this view.
    #[error("cannot show `{view}` of the output: {why}")]
    View {
        /// The view.
        view: String,
        /// The reason, in the words of the view.
        why: String,
    },
}

impl DocumentFacts {
    /// Fails for a document that is not text.
    pub(super) fn check_text(&self) -> Result<(), DocumentError> {
        if self.is_binary { Err(DocumentError::Binary) } else { Ok(()) }
    }

    /// Returns the average bytes of a line.
    pub fn line_bytes(&self) -> u64 {
        self.bytes / self.lines.max(1)
    }
}
