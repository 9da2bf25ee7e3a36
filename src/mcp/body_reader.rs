//! The bytes of the body of an HTTP message.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use hyper::body::Body;
use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A reader of a body.
pub(super) struct BodyReader<B> {
    body: B,
    unused: Bytes,
    bounds: Option<Bounds>,
}

/// The bounds of a body that a client sends.
struct Bounds {
    /// Bytes that may still come.
    left: u64,
    /// The time for the next bytes.
    idle: Duration,
    next: Pin<Box<Sleep>>,
    end: Pin<Box<Sleep>>,
}

impl<B> BodyReader<B> {
    pub(super) fn new(body: B) -> Self {
        Self { body, unused: Bytes::new(), bounds: None }
    }

    /// Reads at most `most` bytes, which may come with pauses of `idle` and in the time `all`. Fails
    /// with [`io::ErrorKind::FileTooLarge`] and [`io::ErrorKind::TimedOut`].
    pub(super) fn bounded(body: B, most: u64, idle: Duration, all: Duration) -> Self {
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
    /// Waits for bytes; none at the end.
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
