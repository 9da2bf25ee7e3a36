//! Messages from a stream of lines, in bounded memory.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::task::spawn_blocking;

use crate::envelope::EnvelopeError;
use crate::message::Message;
use crate::scratch::Scratch;
use crate::shelf::LazyShelf;
use crate::skeleton::Skeleton;
use ctxfs_core::materialize::json::{ScanOutcome, Scanner};

/// The longest line that is held in memory.
const WHOLE: usize = 1 << 20;
/// Bytes that are read at once.
const BLOCK: usize = 64 * 1024;
/// Bytes of a long line that are written at once.
const AT_ONCE: usize = 512 * 1024;
/// Bytes of a broken line that are shown.
const SHOWN: usize = 2048;
/// The byte order mark that some servers write first.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// A line.
pub(super) enum Line {
    Message(Message),
    Broken(BrokenLine),
}

/// A line that is no message.
pub(super) struct BrokenLine {
    pub(super) kind: BrokenKind,
    /// The reason.
    pub(super) why: String,
    /// The id as written, if it can be told.
    pub(super) id: Option<String>,
    /// True if it looks like the answer to a request.
    pub(super) is_response: bool,
    /// Its beginning.
    pub(super) shown: String,
    /// The bytes of a long one, as far as they were kept.
    pub(super) kept: Option<Scratch>,
}

/// The fault of a line. Only a torn message is counted against its sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BrokenKind {
    /// A log line: text, or JSON without the member `jsonrpc`.
    Log,
    /// A message that is not JSON.
    Torn,
    /// A message with the wrong members, or longer than this side keeps.
    Unused,
}

/// A reader of lines.
pub(super) struct LineReader<R> {
    input: R,
    shelf: Arc<LazyShelf>,
    /// The most bytes of a line that are kept.
    most: u64,
    block: Box<[u8]>,
    /// The part of `block` that was not used.
    unused: std::ops::Range<usize>,
    line: Vec<u8>,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(input: R, shelf: Arc<LazyShelf>, most: u64) -> Self {
        let block = vec![0; BLOCK].into_boxed_slice();
        Self { input, shelf, most, block, unused: 0..0, line: Vec::new() }
    }

    /// Returns the next line that is not empty; `None` at the end. `long` is told when a long line
    /// begins and when it is too long to be kept.
    pub(super) async fn next(&mut self, long: &dyn LongLines) -> io::Result<Option<Line>> {
        loop {
            let ended = self.fill().await?;
            if self.line.starts_with(MARK) {
                self.line.drain(..MARK.len());
            }
            let blank = self.line.iter().all(u8::is_ascii_whitespace);
            match ended {
                LineEnd::Long => return self.long_line(long).await.map(Some),
                LineEnd::Eof if blank => return Ok(None),
                LineEnd::Newline if blank => self.line.clear(),
                LineEnd::Newline | LineEnd::Eof => {
                    return Ok(Some(line(std::mem::take(&mut self.line))));
                }
            }
        }
    }

    /// Reads on until the line ends, or is too long for memory.
    async fn fill(&mut self) -> io::Result<LineEnd> {
        loop {
            if self.unused.is_empty() && !self.read().await? {
                return Ok(LineEnd::Eof);
            }
            let ended = self.take_to_newline();
            if ended {
                return Ok(LineEnd::Newline);
            }
            if self.line.len() > WHOLE {
                return Ok(LineEnd::Long);
            }
        }
    }

    async fn read(&mut self) -> io::Result<bool> {
        let count = self.input.read(&mut self.block).await?;
        self.unused = 0..count;
        Ok(count > 0)
    }

    /// Moves bytes to the line, up to a newline. Returns true if there was one.
    fn take_to_newline(&mut self) -> bool {
        let unused = &self.block[self.unused.clone()];
        let newline = memchr::memchr(b'\n', unused);
        let taken = newline.unwrap_or(unused.len());
        self.line.extend_from_slice(&unused[..taken]);
        self.unused.start += taken + usize::from(newline.is_some());
        newline.is_some()
    }

    async fn long_line(&mut self, long: &dyn LongLines) -> io::Result<Line> {
        long.begins();
        let shelf = Arc::clone(&self.shelf);
        let most = self.most;
        let mut line = blocking(move || LongLine::begin(&shelf, most)).await?;
        let (mut ended, mut is_lost) = (false, false);
        while !ended {
            let bytes = std::mem::take(&mut self.line);
            line = blocking(move || line.push(&bytes)).await?;
            if line.is_hopeless() && !is_lost {
                is_lost = true;
                long.is_lost();
            }
            while !ended && self.line.len() < AT_ONCE {
                ended = (self.unused.is_empty() && !self.read().await?) || self.take_to_newline();
            }
        }
        let bytes = std::mem::take(&mut self.line);
        let line = blocking(move || line.push(&bytes).finish()).await?;
        long.ends();
        Ok(line)
    }
}

/// A listener to the lines that are too long for memory.
pub(super) trait LongLines: Sync {
    /// A long line began.
    fn begins(&self) {}
    /// No message comes of it.
    fn is_lost(&self) {}
    /// It ended.
    fn ends(&self) {}
}

/// Nobody listens.
impl LongLines for () {}

enum LineEnd {
    Newline,
    Long,
    Eof,
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)
}

/// Returns the message in a line that is held in memory.
fn line(bytes: Vec<u8>) -> Line {
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // As most clients do.
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    };
    Line::Message(Message::whole(text))
}

/// Returns what can be told of a line that is no message.
pub(super) fn broken(text: &str, error: &EnvelopeError) -> BrokenLine {
    let mut skeleton = Skeleton::default();
    Scanner::default().push(text.as_bytes(), &mut skeleton);
    let kind = match error {
        _ if !skeleton.has_version => BrokenKind::Log,
        EnvelopeError::Json(_) => BrokenKind::Torn,
        EnvelopeError::Shape(_) => BrokenKind::Unused,
    };
    let (why, shown) = (error.to_string(), text.chars().take(SHOWN).collect());
    let id = skeleton.id.and_then(|id| String::from_utf8(id).ok());
    BrokenLine { kind, why, id, is_response: skeleton.is_response, shown, kept: None }
}

/// A line that is too long for memory: its bytes are in a file, its skeleton is in memory.
struct LongLine {
    scratch: Option<Scratch>,
    most: u64,
    /// The reason why no more bytes are kept.
    lost: Option<String>,
    scanner: Scanner,
    skeleton: Skeleton,
    offset: u64,
    start: Vec<u8>,
    ended: bool,
    /// The byte at which it is not JSON.
    wrong: Option<u64>,
}

impl LongLine {
    fn begin(shelf: &LazyShelf, most: u64) -> Self {
        let (scratch, lost) = match shelf.scratch() {
            Ok(scratch) => (Some(scratch), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let (scanner, skeleton) = (Scanner::default(), Skeleton::default());
        let (start, offset, ended, wrong) = (Vec::new(), 0, false, None);
        Self { scratch, most, lost, scanner, skeleton, offset, start, ended, wrong }
    }

    fn push(mut self, bytes: &[u8]) -> Self {
        if self.start.is_empty() {
            self.start = bytes[..bytes.len().min(SHOWN)].to_vec();
        }
        self.scan(bytes);
        self.keep(bytes);
        self.offset += bytes.len() as u64;
        self
    }

    /// Returns true if it is no message, whatever comes.
    fn is_hopeless(&self) -> bool {
        self.lost.is_some() || self.wrong.is_some()
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.wrong.is_some() && !self.skeleton.has_version {
            self.scratch = None;
        }
        if self.lost.is_some() {
            return;
        }
        if self.offset + bytes.len() as u64 > self.most {
            self.lost = Some(format!("it is longer than {} bytes", self.most));
        } else if let Some(scratch) = &mut self.scratch
            && let Err(error) = scratch.add(bytes)
        {
            self.lost = Some(format!("there is no room for it: {error}"));
        }
    }

    fn scan(&mut self, bytes: &[u8]) {
        if self.wrong.is_some() {
            return;
        }
        let mut from = 0;
        if !self.ended {
            self.skeleton.at(self.offset);
            match self.scanner.push(bytes, &mut self.skeleton) {
                ScanOutcome::More => return,
                ScanOutcome::Wrong(at) => {
                    self.wrong = Some(self.offset + at as u64);
                    return;
                }
                ScanOutcome::Done(at) => from = at,
            }
            self.ended = true;
        }
        let rest = &bytes[from..];
        if let Some(at) = rest.iter().position(|byte| !byte.is_ascii_whitespace()) {
            self.wrong = Some(self.offset + (from + at) as u64);
        }
    }

    fn finish(self) -> Line {
        let why = match (&self.lost, self.wrong) {
            (Some(lost), _) => Some(lost.clone()),
            (None, Some(at)) => Some(format!("it is not JSON from byte {at} on")),
            (None, None) if !self.ended => Some("it ends inside its JSON".to_owned()),
            (None, None) if self.skeleton.is_too_long => Some("its names are too long".to_owned()),
            (None, None) => None,
        };
        match (why, self.scratch) {
            (None, Some(scratch)) => {
                let text = readable(self.skeleton.text);
                Line::Message(Message::with_holes(text, self.skeleton.holes, scratch))
            }
            (why, kept) => Line::Broken(BrokenLine {
                kind: match &self.lost {
                    _ if !self.skeleton.has_version => BrokenKind::Log,
                    None if self.wrong.is_some() || !self.ended => BrokenKind::Torn,
                    _ => BrokenKind::Unused,
                },
                why: why.unwrap_or_default(),
                id: self.skeleton.id.and_then(|id| String::from_utf8(id).ok()),
                is_response: self.skeleton.is_response,
                shown: String::from_utf8_lossy(&self.start).into_owned(),
                kept,
            }),
        }
    }
}

/// Replaces bytes that are not UTF-8 one by one, so that positions stay.
fn readable(text: Vec<u8>) -> String {
    String::from_utf8(text).unwrap_or_else(|error| {
        let mut text = error.into_bytes();
        while let Err(error) = str::from_utf8(&text) {
            let at = error.valid_up_to();
            text[at] = b'?';
        }
        String::from_utf8_lossy(&text).into_owned()
    })
}
