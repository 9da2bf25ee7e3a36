//! A message that may have newlines, as one line.

use std::io;
use std::pin::Pin;
use std::task::Context;
use std::task::Poll;
use std::task::ready;

use tokio::io::AsyncRead;
use tokio::io::ReadBuf;

/// A reader with spaces in place of newlines, which in JSON stand only where white space does.
pub(super) struct OneLine<R>(pub(super) R);

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

/// Replaces newlines by spaces.
pub(super) fn flatten(bytes: &mut [u8]) {
    let mut from = 0;
    while let Some(at) = memchr::memchr2(b'\n', b'\r', &bytes[from..]) {
        bytes[from + at] = b' ';
        from += at + 1;
    }
}
