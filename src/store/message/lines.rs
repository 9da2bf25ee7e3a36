//! The log as readers see it, its lines, and a line that is written in pieces.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use crate::message::{AppendContext, BLOCK, HELD, LONGEST, MessageError};
use crate::{Artifact, Conversation, Stat, read_full_at, stat_file};
use ctxfs_core::model::{Component, Content};

/// A line of a log, without its newline. A long line is not loaded but stays in its file.
#[derive(Debug, Clone)]
pub enum LogLine {
    /// A line of at most [`HELD`] bytes.
    Bytes(Vec<u8>),
    /// A longer line, given by the log, the offset of the line in it, and the length of the line.
    Part(Log, u64, u64),
}

impl LogLine {
    /// Returns true if the line is empty or contains only white space.
    pub fn is_blank(&self) -> io::Result<bool> {
        let mut offset = 0;
        loop {
            let block = self.bytes(offset, BLOCK)?;
            if block.is_empty() || !block.iter().all(u8::is_ascii_whitespace) {
                return Ok(block.is_empty());
            }
            offset += block.len() as u64;
        }
    }

    /// Calls `take` with the bytes of the line, block by block.
    pub fn read<E: From<io::Error>>(
        &self,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Self::Bytes(bytes) = self {
            return take(bytes);
        }
        let mut offset = 0;
        while offset < self.len() {
            let block = self.bytes(offset, BLOCK)?;
            if block.is_empty() {
                return Err(E::from(io::ErrorKind::UnexpectedEof.into()));
            }
            take(&block)?;
            offset += block.len() as u64;
        }
        Ok(())
    }
}

impl Content for LogLine {
    fn len(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Part(_, _, length) => *length,
        }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Bytes(bytes) => bytes[..].read_at(offset, buffer),
            Self::Part(log, start, length) => {
                let left = usize::try_from(length.saturating_sub(offset)).unwrap_or(usize::MAX);
                let wanted = buffer.len().min(left);
                log.read_at(start + offset, &mut buffer[..wanted])
            }
        }
    }
}

/// An iterator over the lines of a log. It skips blank lines and a last line without a newline.
#[derive(Debug)]
pub struct LogLines {
    log: Log,
    offset: u64,
    block: Vec<u8>,
    used: usize,
}

impl LogLines {
    /// Returns an iterator over the lines of `log` from `offset` on. `offset` must be the start of
    /// a line.
    pub fn from(log: impl Into<Log>, offset: u64) -> Self {
        Self { log: log.into(), offset, block: Vec::new(), used: 0 }
    }

    /// Returns the offset of the end of the last returned line, after its newline.
    pub fn reached(&self) -> u64 {
        self.offset + self.used as u64
    }

    fn next_line(&mut self) -> io::Result<Option<LogLine>> {
        let start = self.reached();
        let mut bytes = Vec::new();
        loop {
            let rest = &self.block[self.used..];
            let end = memchr::memchr(b'\n', rest);
            let length = self.offset + (self.used + end.unwrap_or(rest.len())) as u64 - start;
            let fits = length <= HELD as u64;
            if fits {
                bytes.extend_from_slice(&rest[..end.unwrap_or(rest.len())]);
            } else {
                bytes = Vec::new();
            }
            if let Some(end) = end {
                self.used += end + 1;
                let part = || LogLine::Part(self.log.clone(), start, length);
                return Ok(Some(if fits { LogLine::Bytes(bytes) } else { part() }));
            }
            self.offset += self.block.len() as u64;
            self.block = self.log.bytes(self.offset, BLOCK)?;
            self.used = 0;
            if self.block.is_empty() {
                return Ok(None);
            }
        }
    }
}

impl Iterator for LogLines {
    type Item = io::Result<LogLine>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.next_line().transpose()? {
                Ok(line) => match line.is_blank() {
                    Ok(true) => {}
                    Ok(false) => return Some(Ok(line)),
                    Err(error) => return Some(Err(error)),
                },
                error @ Err(_) => return Some(error),
            }
        }
    }
}

/// Returns the total length of the complete lines in the first `size` bytes of `file`.
///
/// If the last byte is a newline, which is nearly always the case, reads only that byte.
pub fn whole(file: &File, size: u64) -> io::Result<u64> {
    let mut last = [b'\n'];
    read_full_at(file, size.saturating_sub(1), &mut last)?;
    if last == [b'\n'] {
        return Ok(size);
    }
    let mut end = size;
    let mut block = vec![0; BLOCK];
    while end > 0 {
        let start = end.saturating_sub(BLOCK as u64);
        let count = read_full_at(file, start, &mut block[..(end - start) as usize])?;
        if let Some(at) = memchr::memrchr(b'\n', &block[..count]) {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

/// Opens the log of `conversation` in its current state: first the messages in `others`, which
/// hosts have published, and then the other complete lines of the local file. Returns `None` if
/// there is no local log.
pub fn log_of(
    conversation: &Conversation,
    others: Option<&dyn OtherMessages>,
) -> Result<Option<Log>, MessageError> {
    let Some(file) = conversation.log_file()? else { return Ok(None) };
    let stat = stat_file(&file)?;
    let end = whole(&file, stat.size)?;
    let published = match others {
        Some(others) => others.published(conversation.id(), &stat)?,
        None => None,
    };
    Ok(Some(Log::new(Artifact::new(file, end), published)))
}

pub(super) fn whole_of(file: Arc<File>) -> io::Result<Artifact> {
    let size = file.metadata()?.len();
    let size = whole(&file, size)?;
    Ok(Artifact::new(file, size))
}

/// Access to the messages that hosts have published in a conversation. `sync` implements this
/// trait. Other crates therefore need not depend on `sync`.
pub trait OtherMessages: fmt::Debug + Send + Sync {
    /// Returns the messages to show before the local log of `conversation`. `own` are the
    /// attributes of the local log file. Returns `None` if only the local file is to be shown; this
    /// case costs one system call.
    fn published(&self, conversation: &Component, own: &Stat)
    -> io::Result<Option<Arc<Published>>>;
}

/// The messages that hosts have published, as complete lines, in an order that is the same on all
/// hosts. The beginning of the local log is among them.
#[derive(Debug)]
pub struct Published {
    file: Arc<File>,
    range: Range<u64>,
    /// A number that changes when a message is inserted before existing ones. While it stays the
    /// same, the shown log only grows.
    edition: u64,
    /// Number of bytes at the start of the local log that are included in these messages.
    covers: u64,
}

impl Published {
    /// Returns the messages in `range` of `file`. The first `covers` bytes of the local log are
    /// among them.
    pub fn new(file: Arc<File>, range: Range<u64>, edition: u64, covers: u64) -> Self {
        Self { file, range, edition, covers }
    }

    /// Returns a number that changes when a message is inserted before existing ones. While it
    /// stays the same, the shown log only grows.
    pub fn edition(&self) -> u64 {
        self.edition
    }

    /// Returns the length of the shown log in bytes if the local log has `own` bytes.
    pub fn shown_length(&self, own: u64) -> u64 {
        self.len() + own.saturating_sub(self.covers)
    }
}

impl Content for Published {
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.len().saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        read_full_at(&self.file, self.range.start + offset, &mut buffer[..wanted])
    }
}

/// The log as readers see it: the published messages of all hosts, followed by the local messages
/// that are not published yet.
#[derive(Debug, Clone)]
pub struct Log {
    published: Option<Arc<Published>>,
    own: Artifact,
    length: u64,
}

impl Log {
    /// Returns the log that consists of the published messages and the rest of `own`. `own` must
    /// contain only complete lines.
    pub fn new(own: Artifact, published: Option<Arc<Published>>) -> Self {
        let length =
            published.as_ref().map_or(own.len(), |published| published.shown_length(own.len()));
        Self { published, own, length }
    }

    /// Returns the first `length` bytes of the log, or all of it if it is shorter.
    #[must_use]
    pub fn up_to(self, length: u64) -> Self {
        Self { length: self.length.min(length), ..self }
    }

    /// Returns true if there are published messages. The log then differs from the local file.
    pub fn is_shared(&self) -> bool {
        self.published.is_some()
    }

    /// Writes the log to the start of `file`.
    pub fn copy_to(&self, file: &File) -> io::Result<()> {
        let mut offset = 0;
        while offset < self.length {
            let block = self.bytes(offset, BLOCK)?;
            if block.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            file.write_all_at(&block, offset)?;
            offset += block.len() as u64;
        }
        Ok(())
    }

    fn read_parts(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(published) = &self.published else { return self.own.read_at(offset, buffer) };
        let done = published.read_at(offset, buffer)?;
        let next = offset + done as u64;
        if done == buffer.len() || next < published.len() {
            return Ok(done);
        }
        let own = published.covers + (next - published.len());
        Ok(done + self.own.read_at(own, &mut buffer[done..])?)
    }
}

impl From<Artifact> for Log {
    fn from(own: Artifact) -> Self {
        Self::new(own, None)
    }
}

impl Content for Log {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        self.read_parts(offset, &mut buffer[..wanted])
    }
}

/// The beginning of a line. The last part is in memory. If the line is long, the first part is in a
/// file without a name.
///
/// A clone is independent of the original. The two share the file, but bytes in the file are never
/// changed.
#[derive(Debug, Clone)]
pub struct UnfinishedLine {
    held: Vec<u8>,
    most: usize,
    spilled: Option<(Arc<File>, u64)>,
}

impl UnfinishedLine {
    /// Returns the total length in bytes, in memory and in the file.
    pub fn len(&self) -> u64 {
        self.spilled.as_ref().map_or(0, |(_, length)| *length) + self.held.len() as u64
    }

    /// Returns true if there are no bytes of an unfinished line.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets the maximum number of bytes that stay in memory after a write. The maximum applies from
    /// the next write on, and is never more than [`HELD`].
    pub fn hold_at_most(&mut self, bytes: usize) {
        self.most = bytes.min(HELD);
    }

    /// Appends bytes without a newline. If more bytes would then be in memory than
    /// [`Self::hold_at_most`] allows, moves all of them to the file. If `is_end` is true, [`HELD`]
    /// bytes are allowed, because the caller takes the line immediately.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        is_end: bool,
        conversation: &Conversation,
    ) -> Result<(), MessageError> {
        if self.len() + bytes.len() as u64 > LONGEST {
            return Err(MessageError::TooLong);
        }
        let length = self.held.len() + bytes.len();
        if length <= if is_end { HELD } else { self.most } {
            self.held.reserve_exact(capacity(length) - self.held.len());
            self.held.extend_from_slice(bytes);
            return Ok(());
        }
        let (file, length) = match &mut self.spilled {
            Some(spilled) => spilled,
            None => self.spilled.insert((Arc::new(conversation.nameless_file()?), 0)),
        };
        for bytes in [&self.held[..], bytes] {
            file.write_all_at(bytes, *length)?;
            *length += bytes.len() as u64;
        }
        self.held = Vec::new();
        Ok(())
    }

    /// Returns the complete line. Bytes that are added afterwards begin a new line.
    pub fn take(&mut self) -> io::Result<LogLine> {
        let held = std::mem::take(&mut self.held);
        let Some((file, length)) = self.spilled.take() else { return Ok(LogLine::Bytes(held)) };
        file.write_all_at(&held, length)?;
        let length = length + held.len() as u64;
        Ok(LogLine::Part(Artifact::new(file, length).into(), 0, length))
    }

    /// Returns the number of bytes of memory that the line uses.
    pub fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// Returns the number of bytes of memory that the unfinished line will use after `bytes` are
    /// written.
    pub fn needs(&self, bytes: &[u8]) -> usize {
        match memchr::memrchr(b'\n', bytes) {
            Some(last) => capacity(bytes.len() - last - 1),
            None => capacity(self.held.len() + bytes.len()),
        }
    }

    pub(super) fn line(&self) -> io::Result<LogLine> {
        self.clone().take()
    }
}

/// Returns the capacity to reserve for `length` bytes. The capacity is a power of two, so that a
/// line that grows byte by byte is rarely moved.
fn capacity(length: usize) -> usize {
    if length == 0 { 0 } else { length.next_power_of_two() }
}

impl Default for UnfinishedLine {
    fn default() -> Self {
        Self { held: Vec::new(), most: HELD, spilled: None }
    }
}

/// Returns `line` in the form in which the host stores it. The length does not change. Memory is
/// bounded for a line of any length.
pub fn stored(line: LogLine, context: &AppendContext<'_>) -> Result<LogLine, MessageError> {
    if !context.host.masks_stored() {
        return Ok(line);
    }
    let mut collected = CollectingWriter::new(context);
    context.host.write_stored(
        &mut crate::message::layout::SpanReader::new(&line, 0..line.len()),
        &mut collected,
    )?;
    Ok(collected.line.take()?)
}

pub(super) struct CollectingWriter<'a> {
    pub(super) line: UnfinishedLine,
    context: &'a AppendContext<'a>,
}

impl<'a> CollectingWriter<'a> {
    pub(super) fn new(context: &'a AppendContext<'a>) -> Self {
        Self { line: UnfinishedLine::default(), context }
    }
}

impl Write for CollectingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.line.push(bytes, false, self.context.conversation) {
            Ok(()) => Ok(bytes.len()),
            Err(MessageError::Io(error)) => Err(error),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn lines(text: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        let log = Artifact::new(Arc::new(file), text.len() as u64);
        let line = |line: io::Result<LogLine>| {
            let line = line.unwrap();
            (line.len(), line.bytes(0, 3).unwrap())
        };
        LogLines::from(log, 0).map(line).collect()
    }

    #[test]
    fn lines_of_any_length_are_found() {
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"torn"), []);
        let few = lines(b"a\n\n \t\r\nbc\ntorn");
        assert_eq!(few, [(1, b"a".to_vec()), (2, b"bc".to_vec())]);
        for length in [BLOCK - 1, BLOCK, BLOCK + 1, HELD, HELD + 1, 3 * HELD] {
            let text = [&b"x".repeat(length)[..], b"\nend\n"].concat();
            let found = lines(&text);
            assert_eq!(found, [(length as u64, b"xxx".to_vec()), (3, b"end".to_vec())], "{length}");
        }
    }

    #[test]
    fn whole_lines_end_at_the_last_newline() {
        for (text, expected) in [(&b""[..], 0), (b"a", 0), (b"a\n", 2), (b"a\nb", 2), (b"\n\n", 2)]
        {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text).unwrap();
            assert_eq!(whole(&file, text.len() as u64).unwrap(), expected);
            let long = [text, &b"x".repeat(3 * BLOCK)[..]].concat();
            file.write_all(&b"x".repeat(3 * BLOCK)).unwrap();
            let end = memchr::memrchr(b'\n', &long).map_or(0, |at| at as u64 + 1);
            assert_eq!(whole(&file, long.len() as u64).unwrap(), end);
        }
    }

    fn file(text: &[u8]) -> Arc<File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        Arc::new(file)
    }

    fn log(published: &[u8], covers: u64, own: &[u8]) -> Log {
        let range = 4..4 + published.len() as u64;
        let front = Published::new(file(&[b"head", published].concat()), range, 1, covers);
        Log::new(Artifact::new(file(own), own.len() as u64), Some(Arc::new(front)))
    }

    #[test]
    fn what_was_published_comes_first_and_what_is_only_here_follows() {
        let log = log(b"others\nmine\n", 5, b"mine\nnew\n");
        let whole = b"others\nmine\nnew\n";
        assert_eq!(log.len(), whole.len() as u64);
        for start in 0..=whole.len() {
            for length in 0..=whole.len() + 1 {
                let end = whole.len().min(start + length);
                let read = log.bytes(start as u64, length).unwrap();
                assert_eq!(read, &whole[start..end], "{start}, {length}");
            }
        }
        assert_eq!(log.clone().up_to(9).bytes(0, 99).unwrap(), b"others\nmi");
        assert_eq!(log.up_to(99).bytes(0, 99).unwrap(), whole);
    }

    #[test]
    fn what_others_cut_off_is_not_read_twice() {
        let log = log(b"a\nb\n", 9, b"b\n");
        assert_eq!(log.bytes(0, 99).unwrap(), b"a\nb\n");
    }
}
