//! Reads messages from a stream of lines in bounded memory.
//!
//! A line of up to 1 MiB is kept in memory. A longer line goes to a scratch file, while a
//! [`Skeleton`] of it is built in memory. The skeleton has the structure and the short values,
//! without white space. Long values become holes, which are spans of the file. The id, the method
//! and the position of every text are therefore known when the line ends.

use std::io;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::task::spawn_blocking;

use crate::json_rpc::{Envelope, EnvelopeError, Parsed, is_batch, messages_of_server};
use crate::message::{HOLE_BYTES, Hole, Message};
use crate::shelf::{LazyShelf, Scratch};
use ctxfs_core::materialize::json::{Events, ScanOutcome, Scanner};

const MAX_IN_MEMORY: usize = 1 << 20;
const BLOCK: usize = 64 * 1024;
const BATCH_BYTES: usize = 512 * 1024;
const SHOWN: usize = 2048;
// The byte order mark that some servers send first.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();
// Longer values become holes.
const LONG_VALUE: usize = 64 * 1024;
// Maximum length of a skeleton's text in bytes. If it would become longer, whole values are left
// out.
const MAX_SKELETON: usize = 1 << 20;

pub(crate) enum InputLine {
    Message(Message),
    Broken(BrokenLine),
}

impl InputLine {
    /// Returns the messages of a server's line: one, or those of an array.
    pub(crate) fn of_server(self) -> Vec<Result<Parsed, Box<BrokenLine>>> {
        let broken = |text: &str, error| Err(Box::new(broken(text, &error)));
        let message = match self {
            Self::Message(message) => message,
            Self::Broken(line) => return vec![Err(Box::new(line))],
        };
        let messages = if is_batch(&message) {
            match messages_of_server(&message) {
                Ok(messages) => messages,
                Err(error) => return vec![broken(message.text(), error)],
            }
        } else {
            vec![message]
        };
        let parsed = |message: Message| match Envelope::of(&message) {
            Ok(envelope) => Ok(Parsed { envelope, message }),
            Err(error) => broken(message.text(), error),
        };
        messages.into_iter().map(parsed).collect()
    }
}

/// A line that is not a message. `id` and `is_response` identify the request to fail, as far as the
/// line could be parsed. `kept` holds the bytes of a long line.
pub(crate) struct BrokenLine {
    pub(crate) kind: BrokenKind,
    pub(crate) why: String,
    pub(crate) id: Option<String>,
    pub(crate) is_response: bool,
    pub(crate) shown: String,
    pub(crate) kept: Option<Scratch>,
}

/// The fault of a broken line. `Log` is text, or JSON without `jsonrpc`. `Torn` is a message that
/// is not valid JSON. `Unused` is a message with invalid members, or one over the size limit. Only
/// torn messages count toward the restart of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BrokenKind {
    Log,
    Torn,
    Unused,
}

/// Reads lines of up to `most` bytes in bounded memory. A longer line is skipped and reported as
/// broken, so that reading continues with the next line.
pub(crate) struct LineReader<R> {
    input: R,
    shelf: Arc<LazyShelf>,
    most: u64,
    block: Box<[u8]>,
    unused: std::ops::Range<usize>,
    line: Vec<u8>,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn new(input: R, shelf: Arc<LazyShelf>, most: u64) -> Self {
        let block = vec![0; BLOCK].into_boxed_slice();
        Self { input, shelf, most, block, unused: 0..0, line: Vec::new() }
    }

    /// Returns the next line that is not blank, or `None` at the end of the input. `long` is
    /// notified when a line that does not fit in memory starts and ends.
    pub(crate) async fn next(&mut self, long: &dyn LongLines) -> io::Result<Option<InputLine>> {
        loop {
            let ended = self.fill().await?;
            if self.line.starts_with(BYTE_ORDER_MARK) {
                self.line.drain(..BYTE_ORDER_MARK.len());
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

    async fn fill(&mut self) -> io::Result<LineEnd> {
        loop {
            if self.unused.is_empty() && !self.read().await? {
                return Ok(LineEnd::Eof);
            }
            let ended = self.take_to_newline();
            if ended {
                return Ok(LineEnd::Newline);
            }
            if self.line.len() > MAX_IN_MEMORY {
                return Ok(LineEnd::Long);
            }
        }
    }

    async fn read(&mut self) -> io::Result<bool> {
        let count = self.input.read(&mut self.block).await?;
        self.unused = 0..count;
        Ok(count > 0)
    }

    fn take_to_newline(&mut self) -> bool {
        let unused = &self.block[self.unused.clone()];
        let newline = memchr::memchr(b'\n', unused);
        let taken = newline.unwrap_or(unused.len());
        self.line.extend_from_slice(&unused[..taken]);
        self.unused.start += taken + usize::from(newline.is_some());
        newline.is_some()
    }

    async fn long_line(&mut self, long: &dyn LongLines) -> io::Result<InputLine> {
        long.arriving(true);
        let shelf = Arc::clone(&self.shelf);
        let most = self.most;
        let mut line = blocking(move || LongLine::begin(&shelf, most)).await?;
        let (mut ended, mut is_lost) = (false, false);
        while !ended {
            let bytes = std::mem::take(&mut self.line);
            line = blocking(move || line.push(&bytes)).await?;
            if line.is_hopeless() && !is_lost {
                is_lost = true;
                long.arriving(false);
            }
            while !ended && self.line.len() < BATCH_BYTES {
                ended = (self.unused.is_empty() && !self.read().await?) || self.take_to_newline();
            }
        }
        let bytes = std::mem::take(&mut self.line);
        let line = blocking(move || line.push(&bytes).finish()).await?;
        long.arriving(false);
        Ok(line)
    }
}

/// Observes lines that do not fit in memory, so that deadlines can wait for a message that is still
/// arriving.
pub(crate) trait LongLines: Sync {
    fn arriving(&self, _is_arriving: bool) {}
}

impl LongLines for () {}

enum LineEnd {
    Newline,
    Long,
    Eof,
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)
}

fn line(bytes: Vec<u8>) -> InputLine {
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // Most clients decode invalid UTF-8 lossily.
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    };
    InputLine::Message(Message::whole(text))
}

pub(crate) fn broken(text: &str, error: &EnvelopeError) -> BrokenLine {
    let mut skeleton = Skeleton::default();
    Scanner::strict().push(text.as_bytes(), &mut skeleton);
    let kind = match error {
        _ if !skeleton.has_version => BrokenKind::Log,
        EnvelopeError::Json(_) => BrokenKind::Torn,
        EnvelopeError::Shape(_) => BrokenKind::Unused,
    };
    let (why, shown) = (error.to_string(), text.chars().take(SHOWN).collect());
    let id = skeleton.id.and_then(|id| String::from_utf8(id).ok());
    BrokenLine { kind, why, id, is_response: skeleton.is_response, shown, kept: None }
}

/// A line that is too long for memory. The bytes of the line go to a scratch file, and a skeleton
/// of it is built in memory. `lost` says why bytes are no longer stored. `wrong` is the offset of
/// the first byte that is not valid JSON.
struct LongLine {
    scratch: Option<Scratch>,
    most: u64,
    lost: Option<String>,
    scanner: Scanner,
    skeleton: Skeleton,
    offset: u64,
    start: Vec<u8>,
    ended: bool,
    wrong: Option<u64>,
}

impl LongLine {
    fn begin(shelf: &LazyShelf, most: u64) -> Self {
        let (scratch, lost) = match shelf.scratch() {
            Ok(scratch) => (Some(scratch), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let (scanner, skeleton) = (Scanner::strict(), Skeleton::default());
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

    fn finish(self) -> InputLine {
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
                InputLine::Message(Message::with_holes(text, self.skeleton.holes, scratch))
            }
            (why, kept) => InputLine::Broken(BrokenLine {
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

/// The structure and short values of a message, built while the message is scanned. `open` lists
/// the open values that can be left out as a whole, outermost first. `skipped` is the depth of the
/// value being left out.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "what was seen of a message, each by itself")]
struct Skeleton {
    pub(crate) text: Vec<u8>,
    pub(crate) holes: Vec<Hole>,
    pub(crate) id: Option<Vec<u8>>,
    has_version: bool,
    pub(crate) is_response: bool,
    is_too_long: bool,
    base: u64,
    depth: usize,
    keys: [Vec<u8>; 2],
    scalar: Option<Start>,
    is_long: bool,
    open: Vec<Start>,
    skipped: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Start {
    depth: usize,
    at: usize,
    from: u64,
}

impl Skeleton {
    pub(crate) fn at(&mut self, offset: u64) {
        self.base = offset;
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.skipped.is_some() || self.is_too_long {
            return;
        }
        self.text.extend_from_slice(bytes);
        if self.text.len() > MAX_SKELETON {
            self.leave_out();
        }
    }

    fn leave_out(&mut self) {
        match self.open.last() {
            Some(start) => {
                let start = *start;
                self.cut(start.at);
                self.scalar = None;
                self.is_long = false;
                self.skipped = Some(start.depth);
            }
            None => self.is_too_long = true,
        }
    }

    fn cut(&mut self, at: usize) {
        self.text.truncate(at);
        self.holes.retain(|hole| hole.at < at);
    }

    fn hole(&mut self, start: Start, to: u64, stands: [u8; HOLE_BYTES]) {
        self.cut(start.at);
        self.holes.push(Hole { at: start.at, span: start.from..to });
        self.text.extend_from_slice(&stands);
    }

    fn is_under(&self, path: &[&[u8]]) -> bool {
        path.iter().zip(&self.keys).all(|(name, key)| *name == key.as_slice())
    }
}

impl Events for Skeleton {
    const KEY_BYTES: usize = 32;

    fn begins(&mut self, at: usize) {
        if self.skipped.is_some() {
            return;
        }
        let start = Start { depth: self.depth, at: self.text.len(), from: self.base + at as u64 };
        self.scalar = Some(start);
        let may_go = match self.depth {
            1 => true,
            2 => self.is_under(&[b"result", b"structuredContent"]) || self.is_under(&[b"params"]),
            _ => false,
        };
        if may_go {
            self.open.push(start);
        }
    }

    fn piece(&mut self, bytes: &[u8]) {
        if self.is_long || self.skipped.is_some() {
            return;
        }
        match self.scalar {
            Some(start) if self.text.len() - start.at + bytes.len() > LONG_VALUE => {
                self.cut(start.at);
                self.is_long = true;
            }
            _ => self.add(bytes),
        }
    }

    fn bracket(&mut self, byte: u8) {
        self.scalar = None;
        self.add(&[byte]);
        match byte {
            b'{' | b'[' => self.depth += 1,
            _ => self.depth -= 1,
        }
    }

    fn comma(&mut self) {
        self.add(b",");
    }

    fn colon(&mut self) {
        self.add(b":");
    }

    fn key(&mut self, key: &[u8]) {
        self.has_version |= self.depth == 1 && key == b"jsonrpc";
        if let Some(kept) = self.depth.checked_sub(1).and_then(|depth| self.keys.get_mut(depth)) {
            key.clone_into(kept);
        }
    }

    fn ends(&mut self, at: usize) {
        let to = self.base + at as u64;
        let scalar = self.scalar.take();
        if self.skipped == Some(self.depth) {
            self.skipped = None;
            if let Some(start) = self.open.pop() {
                self.hole(start, to, *b"{}");
            }
        } else if self.skipped.is_none() {
            if std::mem::take(&mut self.is_long)
                && let Some(start) = scalar
            {
                self.hole(start, to, *b"\"\"");
            }
            if let Some(start) = self.open.pop_if(|start| start.depth == self.depth)
                && start.depth == 2
                && self.text.len() - start.at > LONG_VALUE
            {
                self.hole(start, to, *b"{}");
            }
        }
        if self.depth == 1 {
            self.is_response |= matches!(&*self.keys[0], b"result" | b"error");
            if self.is_under(&[b"id"])
                && let Some(start) = scalar
                && self.id.is_none()
            {
                self.id = self.text.get(start.at..).map(<[u8]>::to_vec);
            }
        }
    }
}

#[cfg(test)]
mod tests;
