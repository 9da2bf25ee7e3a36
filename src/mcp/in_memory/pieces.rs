//! A stream that comes in given pieces.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, ReadBuf};

/// A reader of pieces. No read goes beyond the end of one.
pub(super) struct PieceReader<'a> {
    piece: &'a [u8],
    next: std::slice::Iter<'a, &'a [u8]>,
}

impl<'a> PieceReader<'a> {
    pub(super) fn new(pieces: &'a [&'a [u8]]) -> Self {
        Self { piece: &[], next: pieces.iter() }
    }
}

impl AsyncRead for PieceReader<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.piece.is_empty() {
            let Some(piece) = self.next.next() else { return Poll::Ready(Ok(())) };
            self.piece = piece;
        }
        let (now, later) = self.piece.split_at(self.piece.len().min(into.remaining()));
        into.put_slice(now);
        self.piece = later;
        Poll::Ready(Ok(()))
    }
}
