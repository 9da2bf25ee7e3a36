//! The input of a view, and the interfaces for content, filters and redaction.

use std::io;
use std::io::Write;

use crate::model::{Analysis, Limits, Place, Record};

/// Bytes that can be read at any offset: an artifact on disk, or a slice in a test.
///
/// An implementation is a snapshot: the value of `len` and the bytes before that offset do not
/// change, as far as the implementation can detect.
pub trait Content: Send + Sync {
    /// Returns the number of bytes.
    fn len(&self) -> u64;

    /// Returns true if there are no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads into `buffer` from `offset` on. Returns fewer bytes than requested only at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Returns up to `length` bytes from `offset` on.
    fn bytes(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let left = self.len().saturating_sub(offset);
        let mut buffer = vec![0; length.min(usize::try_from(left).unwrap_or(usize::MAX))];
        let got = self.read_at(offset, &mut buffer)?;
        buffer.truncate(got);
        Ok(buffer)
    }

    /// Returns the last position at or before `offset` for which the number of preceding newlines
    /// is known without reading. The default implementation returns the beginning.
    fn lines_before(&self, _offset: u64) -> io::Result<LinesBefore> {
        Ok(LinesBefore::default())
    }

    /// Returns the offset of the last line, or `None` if it is not known without reading. The
    /// default implementation returns `None`.
    fn last_line(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Returns true once the reader's deadline has passed. From then on, reads fail with
    /// [`io::ErrorKind::TimedOut`]. Long computations on bytes in memory call this method
    /// regularly. The default implementation has no deadline.
    fn is_over(&self) -> bool {
        false
    }
}

/// A position in content: the number of bytes before it, and the number of newlines among them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct LinesBefore {
    pub offset: u64,
    pub newlines: u64,
}

/// Returns the position from which to search for the end of line number `newlines`. This is the
/// last known position that has fewer than `newlines` newlines before it. If no position is known,
/// it is the beginning.
pub fn place_before_line(content: &dyn Content, newlines: u64) -> io::Result<LinesBefore> {
    let (mut found, mut low, mut high) = (LinesBefore::default(), 0, content.len());
    if content.lines_before(high)?.offset == 0 {
        return Ok(found);
    }
    while low < high {
        let middle = low + (high - low) / 2;
        let known = content.lines_before(middle)?;
        if known.newlines < newlines {
            (found, low) = (known, middle + 1);
        } else {
            // Every later position has at least `known.newlines` newlines before it.
            high = known.offset;
        }
    }
    Ok(found)
}

impl<C: Content + ?Sized> Content for &C {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        (**self).read_at(offset, buffer)
    }

    fn lines_before(&self, offset: u64) -> io::Result<LinesBefore> {
        (**self).lines_before(offset)
    }

    fn last_line(&self) -> io::Result<Option<u64>> {
        (**self).last_line()
    }

    fn is_over(&self) -> bool {
        (**self).is_over()
    }
}

impl Content for Vec<u8> {
    fn len(&self) -> u64 {
        <[u8] as Content>::len(self)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        <[u8] as Content>::read_at(self, offset, buffer)
    }
}

impl Content for [u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(offset).map_or(self.len(), |at| at.min(self.len()));
        let count = buffer.len().min(self.len() - start);
        buffer[..count].copy_from_slice(&self[start..start + count]);
        Ok(count)
    }
}

/// Implements [`Content::read_at`] for content of `length` bytes that is produced in pieces.
///
/// `copy` gets an offset and a buffer, and writes bytes from that offset on into the buffer. It
/// returns the number of bytes written, which is at least 1. It returns 0 only if the content has
/// become shorter.
pub fn read_pieces(
    length: u64,
    offset: u64,
    buffer: &mut [u8],
    mut copy: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() && offset + (done as u64) < length {
        match copy(offset + done as u64, &mut buffer[done..])? {
            0 => break,
            count => done += count,
        }
    }
    Ok(done)
}

/// All inputs of a view. A view is a pure function of its subject and its deadline.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The bytes.
    pub content: &'a dyn Content,
    /// The analysis of `content`. If there was no time to read all of it, this is the analysis of
    /// the first `analysis.bytes` bytes.
    pub analysis: &'a Analysis,
    /// The record of the artifact in the manifest.
    pub record: &'a Record,
    /// The names by which the reader can refer to the artifact.
    pub place: &'a Place,
    /// The limits that apply to stand-ins for the artifact.
    pub limits: &'a Limits,
    /// The paths of outputs that other hosts wrote under the same name as this artifact.
    pub same_name: &'a [String],
    /// The redactor that masked the secrets in `content`. None if secrets are shown.
    pub redacts: Option<&'a dyn Redactor>,
    /// The runner of jq filters.
    pub filters: &'a dyn Filters,
    /// The output with which a view compares the artifact.
    pub earlier: Earlier<'a>,
}

/// The output with which `.since` compares an artifact.
///
/// - `None`: the view needs no such output, or there is none
/// - `Missing`: it cannot be read, for this reason
/// - `Output`: `run` is the number of the run that it belongs to, if it is a run of the same command
#[derive(Debug, Clone, Copy)]
#[expect(missing_docs, reason = "the contract of the type describes its variants")]
pub enum Earlier<'a> {
    None,
    Missing(&'a str),
    Output { run: Option<u64>, output: &'a Subject<'a> },
}

/// Number of bytes of a view that are reserved for the notice about redacted secrets.
pub const REDACTION_BYTES: usize = 256;

impl<'a> Subject<'a> {
    /// Returns the names of the masks that can occur in `content`; empty if secrets are shown.
    pub fn mask_names(&self) -> &'a [String] {
        self.redacts.map_or(&[], |redactor| redactor.names())
    }

    /// Returns the number of stored bytes. For a terminal log, `content` has fewer bytes, because
    /// it lacks the escape sequences.
    pub fn size(&self) -> u64 {
        if self.analysis.plain.is_some() { self.record.size } else { self.content.len() }
    }

    /// Returns the maximum number of bytes of a view with all its notices except the redaction
    /// notice.
    pub fn view_bytes(&self) -> usize {
        view_bytes(self.redacts.is_some())
    }
}

/// Returns the maximum number of bytes of a view; see [`Subject::view_bytes`]. `masked` is true if
/// secrets are masked.
pub fn view_bytes(masked: bool) -> usize {
    Limits::VIEW_BYTES - if masked { REDACTION_BYTES } else { 0 }
}

impl std::fmt::Debug for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject").field("place", self.place).finish_non_exhaustive()
    }
}

/// A function that writes the input of a filter to its first argument. It returns in three cases:
/// everything is written; writing fails because the filter has stopped reading; the second argument
/// returns true.
pub type Feed<'a> = dyn Fn(&mut dyn Write, &dyn Fn() -> bool) -> io::Result<()> + Sync + 'a;

/// Runs jq filters in such a way that a faulty filter does no harm.
///
/// A single line of jq can run forever, use up all memory, or recurse until the stack overflows. A
/// stack overflow kills the process. An implementation therefore runs each filter in a separate
/// process with limits.
pub trait Filters: Send + Sync {
    /// Runs one filter. The filter reads the output of `feed`, and `take` gets the output of the
    /// filter. Stops the filter when `take` returns false or `expired` returns true. Fails if
    /// `feed` or `take` fails, or if the process cannot be started.
    fn run(
        &self,
        feed: &Feed<'_>,
        expired: &dyn Fn() -> bool,
        take: &mut dyn FnMut(&[u8]) -> io::Result<bool>,
    ) -> io::Result<FilterOutcome>;
}

/// The result of running a filter. If the filter itself fails, the result is one of these outcomes.
/// For any other failure, [`Filters::run`] returns an error.
///
/// - `Done`: the filter ended by itself.
/// - `Enough`: the filter was stopped because `take` needed no more output.
/// - `TooDeep`: recursion of the filter overflowed the stack.
/// - `Failed`: the filter ended with this error message.
/// - `Unavailable`: there is no runner.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "the contract of the type describes its variants")]
pub enum FilterOutcome {
    Done,
    Enough,
    OutOfTime,
    OutOfMemory,
    TooDeep,
    Failed(String),
    Unavailable,
}

/// A runner for subjects whose views run no filter. The outcome is always `Unavailable`.
#[derive(Debug, Clone, Copy)]
pub struct NoFilters;

impl Filters for NoFilters {
    fn run(
        &self,
        _: &Feed<'_>,
        _: &dyn Fn() -> bool,
        _: &mut dyn FnMut(&[u8]) -> io::Result<bool>,
    ) -> io::Result<FilterOutcome> {
        Ok(FilterOutcome::Unavailable)
    }
}

/// Masks secrets in text that a view produces itself, such as the output of a filter. Secrets in
/// the content of the subject are already masked.
pub trait Redactor: Send + Sync {
    /// Returns the names of the masks.
    fn names(&self) -> &[String];

    /// Returns `text` with its secrets masked. The length does not change.
    fn text(&self, text: &str) -> String;

    /// Returns a writer that masks the secrets in its input and writes the result to `out`. The
    /// writer may hold bytes back until [`RedactingWriter::finish`] is called.
    fn writer<'a>(&'a self, out: &'a mut dyn Write) -> Box<dyn RedactingWriter + 'a>;
}

/// A writer that masks secrets.
pub trait RedactingWriter: Write {
    /// Writes the bytes that were held back. Nothing may be written afterwards.
    fn finish(&mut self) -> io::Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Content whose line count is known at every tenth byte.
    struct Marked(Vec<u8>);

    impl Content for Marked {
        fn len(&self) -> u64 {
            self.0.len() as u64
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read_at(offset, buffer)
        }

        fn lines_before(&self, offset: u64) -> io::Result<LinesBefore> {
            let offset = offset.min(self.len()) / 10 * 10;
            let before = &self.0[..offset as usize];
            let newlines = memchr::memchr_iter(b'\n', before).count() as u64;
            Ok(LinesBefore { offset, newlines })
        }
    }

    #[test]
    fn the_place_of_a_line_is_the_last_one_before_it() {
        let content = Marked(b"a\nb\n".repeat(25));
        for newlines in 1..=50 {
            let place = place_before_line(&content, newlines).unwrap();
            assert!(place.newlines < newlines, "{newlines}: {place:?}");
            let next = content.lines_before(place.offset + 10).unwrap();
            assert!(next.newlines >= newlines || next == place, "{newlines}: {place:?}");
        }
        let plain = content.0;
        assert_eq!(place_before_line(&plain, 7).unwrap(), LinesBefore::default());
    }
}
