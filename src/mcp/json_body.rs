//! A message as the body of an HTTP message, read from the disk as it is sent.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::message::Outgoing;
use crate::queue::Queued;

pub(super) struct JsonBody {
    message: Outgoing,
    left: u64,
    /// The room of the message in its queue, until it is sent.
    _room: Option<Queued>,
}

impl JsonBody {
    pub(super) fn new(message: Outgoing) -> Self {
        let left = message.length();
        Self { message, left, _room: None }
    }

    pub(super) fn of(mut queued: Queued) -> Self {
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
