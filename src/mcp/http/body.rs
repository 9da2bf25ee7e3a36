//! Response bodies: a text, a message, or a stream of events.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::http::clients::OpenStream;
use crate::http::streams::StreamEvent;
use crate::http_message::{JsonBody, flatten};
use crate::queue::Queued;

// Time without an event after which a comment is sent to keep the connection alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const CHUNK_BYTES: usize = 64 * 1024;

pub(crate) enum AnswerBody {
    Text(Option<Bytes>),
    Json(JsonBody),
    Events(Box<EventBody>),
}

impl AnswerBody {
    pub(crate) fn text(text: String) -> Self {
        Self::Text(Some(text.into()))
    }

    pub(crate) fn json(queued: Queued) -> Self {
        Self::Json(JsonBody::of(queued))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Self::Text(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
            Self::Json(body) => Pin::new(body).poll_frame(cx),
            Self::Events(body) => {
                body.poll_next(cx).map(|bytes| bytes.map(|bytes| bytes.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Text(text) => text.is_none(),
            Self::Json(body) => body.is_end_stream(),
            Self::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
            Self::Json(body) => body.size_hint(),
            Self::Events(_) => SizeHint::default(),
        }
    }
}

/// A response body that is a stream of events. Long messages are read from the disk as the client
/// reads the body. If nothing was sent for a while, a comment is sent.
pub(crate) struct EventBody {
    stream: OpenStream,
    current: Option<StreamEvent>,
    quiet: Interval,
}

impl EventBody {
    pub(crate) fn new(stream: OpenStream, first: Option<StreamEvent>) -> Self {
        let mut quiet = interval(KEEP_ALIVE);
        quiet.set_missed_tick_behavior(MissedTickBehavior::Delay);
        quiet.reset();
        Self { stream, current: first, quiet }
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            if let Some(event) = &mut self.current {
                let bytes = piece(event)?;
                self.stream.progressed();
                self.quiet.reset();
                if event.is_sent() {
                    self.current = None;
                    self.stream.sent();
                }
                return Poll::Ready(Some(Ok(bytes.into())));
            }
            match self.stream.events.receiver.poll_recv(cx) {
                Poll::Ready(Some(event)) => self.current = Some(event),
                Poll::Ready(None) => return Poll::Ready(None),
                Poll::Pending if self.quiet.poll_tick(cx).is_ready() => {
                    return Poll::Ready(Some(Ok(Bytes::from_static(b":\n\n"))));
                }
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

fn piece(event: &mut StreamEvent) -> io::Result<Vec<u8>> {
    let mut bytes = event.prefix();
    while bytes.len() < CHUNK_BYTES {
        let Some(mut more) = event.queued.message.next()? else {
            event.finish();
            bytes.extend_from_slice(b"\n\n");
            break;
        };
        flatten(&mut more);
        bytes.extend_from_slice(&more);
    }
    Ok(bytes)
}
