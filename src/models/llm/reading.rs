//! A reply as it comes: a stream of events, or one document.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body as _, Incoming};

use crate::extract::{ModelReply, ProviderKind};
use crate::llm::events::Events;
use crate::llm::fault::{Fault, FaultKind};
use crate::llm::patience::Patience;
use crate::llm::reply::Reply;
use crate::llm::wire;

/// The most bytes of a stream, which are never held at once: 200,000 tokens, more than a model of
/// today says at once, where each is an event of some 300 bytes.
const MOST_STREAM: usize = 64 * 1024 * 1024;
/// The most bytes of a reply that is not streamed: more than its text and its calls may have.
const MOST_DOCUMENT: usize = 24 * 1024 * 1024;
/// The time for the cost of a reply after its last word.
const TAIL: Duration = Duration::from_secs(2);
/// The time for the end of an answer after the end of the reply. With it, the connection can be used
/// again.
const GOODBYE: Duration = Duration::from_millis(100);

/// Reads a reply.
pub(super) async fn read(
    body: Incoming,
    kind: ProviderKind,
    patience: Patience<'_>,
) -> Result<ModelReply, Fault> {
    let mut reading = Reading::new(kind);
    let done = reading.all(body, patience).await;
    let reply = reading.reply;
    match done {
        Err(fault) if fault.kind == FaultKind::Stopped || !reply.is_complete => {
            Err(fault.costing(reply.usage))
        }
        Ok(()) if !reply.is_complete => {
            Err(Fault::broken("ended its reply before the end").costing(reply.usage))
        }
        // What fails after the end is the cost of the reply alone.
        _ => Ok(reply.finish()),
    }
}

/// A reply that is being read.
struct Reading {
    kind: ProviderKind,
    reply: Reply,
    form: Form,
    bytes: usize,
}

/// The form of an answer, which its first byte shows: servers name any type of content.
enum Form {
    Unknown,
    Events(Events),
    /// The whole reply as JSON.
    Document(Vec<u8>),
}

impl Reading {
    fn new(kind: ProviderKind) -> Self {
        Self { kind, reply: Reply::default(), form: Form::Unknown, bytes: 0 }
    }

    async fn all(&mut self, mut body: Incoming, mut patience: Patience<'_>) -> Result<(), Fault> {
        while let Some(bytes) = patience.wait_for(next(&mut body)).await? {
            let bytes = bytes.map_err(|error| {
                Fault::broken("broke the connection off in its reply").caused_by(&error)
            })?;
            if !self.reply.is_over {
                self.push(&bytes)?;
            }
            if self.reply.is_over {
                patience = patience.at_most(GOODBYE);
            } else if self.reply.is_complete {
                patience = patience.at_most(TAIL);
            }
        }
        self.finish()
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        self.bytes += bytes.len();
        let most = if let Form::Document(_) = self.form { MOST_DOCUMENT } else { MOST_STREAM };
        if self.bytes > most {
            return Err(Fault::beyond(format!("sent a reply of more than {most} bytes")));
        }
        let bytes = match self.form {
            Form::Unknown => self.begin(bytes)?,
            _ => bytes,
        };
        let (kind, reply) = (self.kind, &mut self.reply);
        match &mut self.form {
            Form::Unknown => Ok(()),
            Form::Events(events) => events.push(bytes, |data| wire::event(kind, data, reply)),
            Form::Document(text) => {
                text.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Notes the form of the answer. Returns its bytes without the white space before them.
    fn begin<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], Fault> {
        let bytes = bytes.trim_ascii_start();
        self.form = match bytes.first() {
            None => Form::Unknown,
            Some(b'<') => return Err(Fault::no_reply("answered with a page of HTML")),
            Some(b'{' | b'[') => Form::Document(Vec::new()),
            Some(_) => Form::Events(Events::default()),
        };
        Ok(bytes)
    }

    fn finish(&mut self) -> Result<(), Fault> {
        let (kind, reply) = (self.kind, &mut self.reply);
        match std::mem::replace(&mut self.form, Form::Unknown) {
            Form::Unknown => Ok(()),
            Form::Events(events) => events.finish(|data| wire::event(kind, data, reply)),
            Form::Document(text) => wire::document(kind, &String::from_utf8_lossy(&text), reply),
        }
    }
}

/// Waits for the next bytes of a body; `None` at its end.
pub(super) async fn next(body: &mut Incoming) -> Option<Result<Bytes, hyper::Error>> {
    loop {
        match poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await? {
            Ok(frame) => {
                if let Ok(bytes) = frame.into_data() {
                    return Some(Ok(bytes));
                }
            }
            Err(error) => return Some(Err(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// Parts of replies of both forms, whole and broken.
    const PARTS: &[&str] = &[
        "data: ",
        "\n\n",
        "\r\n",
        ": comment\n",
        "event: x\n",
        "[DONE]",
        "{",
        "}",
        "\"\u{e9}\"",
        "<",
        " ",
        "data: {\"choices\":[{\"delta\":{\"content\":\"\u{1f600}\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\"}]}}]}\n\n",
        "data: {\"choices\":[{\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":-1}}\n\n",
        "data: {\"error\":{\"code\":529}}\n\n",
        "{\"choices\":[{\"message\":{\"content\":\"x\"}}]}",
        "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":5}}}\n\n",
        "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\"}}\n\n",
        "data: {\"type\":\"content_block_delta\",\"index\":1,\"delta\":{\"type\":\"text_delta\",\"text\":\"x\"}}\n\n",
        "data: {\"type\":\"message_stop\"}\n\n",
        "{\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}",
    ];

    /// Returns what is read of `stream` in pieces of `step` bytes.
    fn read(kind: ProviderKind, stream: &[u8], step: usize) -> (Option<String>, ModelReply) {
        let mut reading = Reading::new(kind);
        let pushed = stream.chunks(step).try_for_each(|piece| reading.push(piece));
        let done = pushed.and_then(|()| reading.finish());
        (done.err().map(|fault| fault.what), reading.reply.finish())
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(parts in vec(select(PARTS), 0..12), step in 1..9_usize) {
            let stream = parts.concat();
            for kind in [ProviderKind::OpenAi, ProviderKind::Anthropic] {
                let whole = read(kind, stream.as_bytes(), usize::MAX);
                prop_assert_eq!(read(kind, stream.as_bytes(), step), whole);
            }
        }
    }
}
