//! A stream of events, as the body of an answer.

use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::http::client::OpenStream;
use crate::http::streams::Event;
use crate::one_line::flatten;

/// The time after which a comment shows that the connection lives.
const QUIET: Duration = Duration::from_secs(15);
/// Bytes that are sent at once.
const AT_ONCE: usize = 64 * 1024;

pub(super) struct EventBody {
    stream: OpenStream,
    /// The event that is being sent.
    current: Option<Event>,
    quiet: Interval,
}

impl EventBody {
    /// Sends `first`, and what comes after it on `stream`.
    pub(super) fn new(stream: OpenStream, first: Option<Event>) -> Self {
        let mut quiet = interval(QUIET);
        quiet.set_missed_tick_behavior(MissedTickBehavior::Delay);
        quiet.reset();
        Self { stream, current: first, quiet }
    }

    /// Returns the next bytes; none at the end.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
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
            match self.stream.poll_event(cx) {
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

/// Returns the next bytes of an event.
fn piece(event: &mut Event) -> io::Result<Vec<u8>> {
    let mut bytes = event.prefix();
    while bytes.len() < AT_ONCE {
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
