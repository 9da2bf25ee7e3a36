//! Header names, header values and message bodies of MCP over HTTP, for both directions.

use std::borrow::Cow;
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use std::{io, mem};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf as _, Bytes};
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::HeaderName;
use memchr::memchr2;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use crate::message::Outgoing;
use crate::queue::Queued;

pub(crate) static SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) static VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) static METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(crate) static NAME: HeaderName = HeaderName::from_static("mcp-name");
pub(crate) static LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
pub(crate) const JSON: &str = "application/json";
pub(crate) const EVENTS: &str = "text/event-stream";
const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

pub(crate) fn is_type(value: &str, kind: &str) -> bool {
    value.split(';').next().is_some_and(|essence| essence.trim().eq_ignore_ascii_case(kind))
}

/// Returns the decoded text of a header value. Since 2026-07-28, a value may be encoded as
/// `=?base64?...?=`.
pub(crate) fn decoded(value: &str) -> Cow<'_, str> {
    let encoded = value.strip_prefix(PREFIX).and_then(|value| value.strip_suffix(SUFFIX));
    let Some(encoded) = encoded else { return Cow::Borrowed(value) };
    let bytes = STANDARD.decode(encoded).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
    text.map_or(Cow::Borrowed(value), Cow::Owned)
}

pub(crate) fn encoded(text: &str) -> Cow<'_, str> {
    let is_plain = text.bytes().all(|byte| matches!(byte, 0x20..=0x7e))
        && text.trim() == text
        && !(text.starts_with(PREFIX) && text.ends_with(SUFFIX));
    if is_plain {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{PREFIX}{}{SUFFIX}", STANDARD.encode(text)))
}

/// Reads the body of an HTTP message. A body from a client is limited in size and time.
pub(crate) struct BodyReader<B> {
    body: B,
    unused: Bytes,
    bounds: Option<Bounds>,
}

struct Bounds {
    left: u64,
    idle: Duration,
    next: Pin<Box<Sleep>>,
    end: Pin<Box<Sleep>>,
}

impl<B> BodyReader<B> {
    pub(crate) fn new(body: B) -> Self {
        Self { body, unused: Bytes::new(), bounds: None }
    }

    /// Limits the body to `most` bytes, each pause to `idle`, and the total time to `all`. Reading
    /// fails with [`io::ErrorKind::FileTooLarge`] or [`io::ErrorKind::TimedOut`].
    pub(crate) fn bounded(body: B, most: u64, idle: Duration, all: Duration) -> Self {
        let (next, end) = (Box::pin(sleep(idle)), Box::pin(sleep(all)));
        let bounds = Some(Bounds { left: most, idle, next, end });
        Self { body, unused: Bytes::new(), bounds }
    }
}

impl Bounds {
    fn take(&mut self, bytes: u64) -> io::Result<()> {
        self.next.as_mut().reset(Instant::now() + self.idle);
        self.left = self.left.checked_sub(bytes).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(())
    }

    fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.next.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        self.end.as_mut().poll(cx)
    }
}

impl<B> BodyReader<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    fn poll_bytes(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        while let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            let Ok(bytes) = frame.map_err(io::Error::other)?.into_data() else { continue };
            if let Some(bounds) = &mut self.bounds {
                bounds.take(bytes.len() as u64)?;
            }
            if !bytes.is_empty() {
                return Poll::Ready(Ok(bytes));
            }
        }
        Poll::Ready(Ok(Bytes::new()))
    }
}

impl<B> AsyncRead for BodyReader<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let reader = &mut *self;
        if reader.unused.is_empty() {
            match reader.poll_bytes(cx) {
                Poll::Ready(bytes) => reader.unused = bytes?,
                Poll::Pending => {
                    if let Some(bounds) = &mut reader.bounds {
                        ready!(bounds.poll_late(cx));
                        return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                    }
                    return Poll::Pending;
                }
            }
        }
        let count = reader.unused.len().min(into.remaining());
        into.put_slice(&reader.unused[..count]);
        reader.unused.advance(count);
        Poll::Ready(Ok(()))
    }
}

/// An HTTP body that contains one message. Values on disk are read while the body is sent. The
/// message takes up space in the queue until the body is dropped.
pub(crate) struct JsonBody {
    message: Outgoing,
    left: u64,
    _room: Option<Queued>,
}

impl JsonBody {
    pub(crate) fn new(message: Outgoing) -> Self {
        let left = message.length();
        Self { message, left, _room: None }
    }

    pub(crate) fn of(mut queued: Queued) -> Self {
        let message = std::mem::replace(&mut queued.message, Vec::new().into());
        Self { _room: Some(queued), ..Self::new(message) }
    }
}

impl Body for JsonBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        while let Some(bytes) = self.message.next()? {
            if !bytes.is_empty() {
                self.left = self.left.saturating_sub(bytes.len() as u64);
                return Poll::Ready(Some(Ok(Frame::data(bytes.into()))));
            }
        }
        Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Replaces newlines by spaces, so that a body becomes one line. In JSON, newlines occur only
/// between tokens, where spaces are equivalent.
pub(crate) struct OneLine<R>(pub(crate) R);

impl<R: AsyncRead + Unpin> AsyncRead for OneLine<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.0).poll_read(cx, into))?;
        flatten(&mut into.filled_mut()[before..]);
        Poll::Ready(Ok(()))
    }
}

/// Reads a sequence of JSON values and puts each value on one line. Newlines within a value become
/// spaces; newlines between values are kept.
pub(crate) struct ValueLines<R> {
    input: R,
    depth: usize,
    in_text: bool,
    is_escaped: bool,
}

impl<R> ValueLines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, depth: 0, in_text: false, is_escaped: false }
    }

    fn part(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let is_text = self.in_text && !self.is_escaped;
            let end = if is_text { memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len()) } else { 0 };
            let (text, rest) = mem::take(&mut bytes).split_at_mut(end);
            flatten(text);
            if let Some((next, rest)) = rest.split_first_mut() {
                self.step(next);
                bytes = rest;
            }
        }
    }

    fn step(&mut self, byte: &mut u8) {
        match *byte {
            b'\n' | b'\r' if self.depth > 0 => *byte = b' ',
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' => self.is_escaped = self.in_text,
            b'"' => self.in_text = self.depth > 0 && !self.in_text,
            b'{' | b'[' if !self.in_text => self.depth += 1,
            b'}' | b']' if !self.in_text => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for ValueLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.input).poll_read(cx, into))?;
        self.part(&mut into.filled_mut()[before..]);
        Poll::Ready(Ok(()))
    }
}

pub(crate) fn flatten(bytes: &mut [u8]) {
    let mut from = 0;
    while let Some(at) = memchr2(b'\n', b'\r', &bytes[from..]) {
        bytes[from + at] = b' ';
        from += at + 1;
    }
}

#[cfg(test)]
mod tests;
