//! The bodies of answers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

use crate::http::event_body::EventBody;
use crate::json_body::JsonBody;
use crate::queue::Queued;

pub(super) enum AnswerBody {
    Text(Option<Bytes>),
    Json(JsonBody),
    Events(Box<EventBody>),
}

impl AnswerBody {
    pub(super) fn empty() -> Self {
        Self::Text(None)
    }

    pub(super) fn text(text: String) -> Self {
        Self::Text(Some(text.into()))
    }

    pub(super) fn json(queued: Queued) -> Self {
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
