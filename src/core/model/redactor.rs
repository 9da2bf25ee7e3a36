//! The interface to the masking of secrets.

use std::io;
use std::io::Write;

/// Masks the secrets in text that a view makes itself, such as what a filter prints. The content of
/// its subject is masked already.
pub trait Redactor: Send + Sync {
    /// Returns the names that masks can have.
    fn names(&self) -> &[String];

    /// Returns `text` with its secrets masked, of the same length.
    fn text(&self, text: &str) -> String;

    /// Returns a writer to `out` that masks the secrets in what it is given. It may hold bytes back
    /// until it is finished.
    fn writer<'a>(&'a self, out: &'a mut dyn Write) -> Box<dyn RedactingWriter + 'a>;
}

/// A writer that masks secrets.
pub trait RedactingWriter: Write {
    /// Writes what is held back. No byte may follow.
    fn finish(&mut self) -> io::Result<()>;
}
