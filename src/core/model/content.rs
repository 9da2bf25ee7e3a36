//! The subject of a view, and the interfaces to content, filters and redaction.

use std::io;
use std::io::Write;

use crate::model::{Analysis, Limits, Place, Record};

/// Bytes that can be read at any offset: an artifact on disk, or a slice in a test.
///
/// An implementation is a snapshot: as far as it can know, neither `len` nor the bytes below it
/// change.
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

    /// Returns the last position at or before `offset` whose number of preceding newlines is known
    /// without reading. Most contents know it only of their beginning.
    fn lines_before(&self, _offset: u64) -> io::Result<LinesBefore> {
        Ok(LinesBefore::default())
    }

    /// Returns the offset of the last line, if it is known without reading.
    fn last_line(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Returns true once the deadline of the reader has passed. From then on, reading fails with
    /// [`io::ErrorKind::TimedOut`]. Long computations on bytes already read check it now and then.
    fn is_over(&self) -> bool {
        false
    }
}

/// A position in a content, as the number of bytes before it, and the number of newlines in them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct LinesBefore {
    pub offset: u64,
    pub newlines: u64,
}

/// Returns the last known position in `content` with fewer than `newlines` newlines before it, or
/// the beginning. A search for the end of line number `newlines` can start there.
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
            // Every position after the known one has at least this number.
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
/// `copy` fills a buffer with bytes from an offset on: at least one byte, or none if the content
/// has become shorter.
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

/// Everything that a view is made from. A view is a pure function of it, and of its deadline.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The bytes.
    pub content: &'a dyn Content,
    /// The analysis of `content`, or of its first `analysis.bytes` bytes if there was no time to
    /// read all of it.
    pub analysis: &'a Analysis,
    /// The record of the artifact in the manifest.
    pub record: &'a Record,
    /// The names of the artifact for its reader.
    pub place: &'a Place,
    /// The limits of its stand-ins.
    pub limits: &'a Limits,
    /// The names of other outputs with the same name, written on other hosts.
    pub same_name: &'a [String],
    /// The redactor that masked the secrets in `content`. None if secrets are shown.
    pub redacts: Option<&'a dyn Redactor>,
    /// The runner of jq filters.
    pub filters: &'a dyn Filters,
}

/// Bytes of a view that are reserved for the notice that secrets are redacted.
pub const REDACTION_BYTES: usize = 256;

impl<'a> Subject<'a> {
    /// Returns the names of masks that `content` can have; none if secrets are shown.
    pub fn mask_names(&self) -> &'a [String] {
        self.redacts.map_or(&[], |redactor| redactor.names())
    }

    /// Returns the number of stored bytes. The log of a terminal has more of them than `content`.
    pub fn size(&self) -> u64 {
        if self.analysis.plain.is_some() { self.record.size } else { self.content.len() }
    }

    /// Returns the most bytes of a view, including all notices but the one on redaction.
    pub fn view_bytes(&self) -> usize {
        view_bytes(self.redacts.is_some())
    }
}

/// Returns the most bytes of a view as [`Subject::view_bytes`] does, given whether secrets are
/// masked.
pub fn view_bytes(masked: bool) -> usize {
    Limits::VIEW_BYTES - if masked { REDACTION_BYTES } else { 0 }
}

impl std::fmt::Debug for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject").field("place", self.place).finish_non_exhaustive()
    }
}

/// Writes the input of a filter. Ends when all is written, when writing fails because the filter
/// has stopped reading, or when its second argument returns true.
pub type Feed<'a> = dyn Fn(&mut dyn Write, &dyn Fn() -> bool) -> io::Result<()> + Sync + 'a;

/// A runner of jq filters that contains their faults.
///
/// One line of jq can run for ever, use up all memory, or recurse until the stack overflows, and
/// the last of these ends its process. So an implementation runs a filter in a process of its own,
/// with limits.
pub trait Filters: Send + Sync {
    /// Runs one filter: passes it the output of `feed`, and its own output to `take`. Stops it when
    /// `take` returns false or `expired` returns true. Returns the errors of `feed` and `take`, and
    /// of starting the process.
    fn run(
        &self,
        feed: &Feed<'_>,
        expired: &dyn Fn() -> bool,
        take: &mut dyn FnMut(&[u8]) -> io::Result<bool>,
    ) -> io::Result<FilterOutcome>;
}

/// The end of a filter. Faults of the filter are outcomes; [`Filters::run`] returns errors of its
/// surroundings.
///
/// A filter is `Done` when it ended by itself, and `Enough` when its output sufficed. It is
/// `TooDeep` when it recursed until its stack overflowed. `Failed` has its message. It is
/// `Unavailable` when there is no runner.
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

/// A runner for subjects that run no filter.
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

/// Masks secrets in text that a view makes itself, such as the output of a filter. The content of
/// its subject is masked already.
pub trait Redactor: Send + Sync {
    /// Returns the names of masks.
    fn names(&self) -> &[String];

    /// Returns `text` with its secrets masked, of the same length.
    fn text(&self, text: &str) -> String;

    /// Returns a writer to `out` that masks the secrets in its input. It may hold bytes back until
    /// it is finished.
    fn writer<'a>(&'a self, out: &'a mut dyn Write) -> Box<dyn RedactingWriter + 'a>;
}

/// A writer that masks secrets.
pub trait RedactingWriter: Write {
    /// Writes the bytes that were held back. No byte may follow.
    fn finish(&mut self) -> io::Result<()>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Knows the lines before each tenth byte.
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
