//! A line as it is appended: unchanged, or with some members replaced.

use std::io;

use crate::message::LogLine;
use crate::message::span::{Span, SpanReader};
use ctxfs_core::model::Content as _;

/// A line to append.
#[derive(Debug)]
pub(super) struct EditedLine {
    line: LogLine,
    /// The replacements and the spans that they replace, in the order of the line.
    edits: Vec<(Span, String)>,
}

impl EditedLine {
    /// Returns the line as it was given.
    pub(super) fn unchanged(line: LogLine) -> Self {
        Self { line, edits: Vec::new() }
    }

    /// Returns the line with `edits`, which do not overlap.
    pub(super) fn edited(line: LogLine, mut edits: Vec<(Span, String)>) -> Self {
        edits.sort_by_key(|(span, _)| span.start);
        Self { line, edits }
    }

    /// Returns the length in bytes, with the newline.
    pub(super) fn len(&self) -> u64 {
        let replaced: u64 = self.edits.iter().map(|(span, _)| span.end - span.start).sum();
        let added: u64 = self.edits.iter().map(|(_, text)| text.len() as u64).sum();
        self.line.len() - replaced + added + 1
    }

    /// Writes the line with its newline.
    pub(super) fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut at = 0;
        for (span, text) in &self.edits {
            self.copy(at..span.start, out)?;
            out.write_all(text.as_bytes())?;
            at = span.end;
        }
        self.copy(at..self.line.len(), out)?;
        out.write_all(b"\n")
    }

    fn copy(&self, span: Span, out: &mut dyn io::Write) -> io::Result<()> {
        match &self.line {
            LogLine::Bytes(bytes) => out.write_all(&bytes[span.start as usize..span.end as usize]),
            LogLine::Part(..) => io::copy(&mut SpanReader::new(&self.line, span), out).map(|_| ()),
        }
    }
}
