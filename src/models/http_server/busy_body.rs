//! The body of an answer, which tells what its connection waits for.

use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Frame, SizeHint};

use crate::http_server::{Connection, Pace};

pub(super) struct BusyBody<B> {
    body: B,
    connection: Connection,
}

impl<B> BusyBody<B> {
    pub(super) fn new(body: B, connection: Connection) -> Self {
        Self { body, connection }
    }
}

impl<B: Body + Unpin> Body for BusyBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        // The next part is asked for once the client has taken enough of this one.
        self.connection.set(if polled.is_ready() { Pace::Sending } else { Pace::Answering });
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for BusyBody<B> {
    fn drop(&mut self) {
        self.connection.set(Pace::Idle);
    }
}
