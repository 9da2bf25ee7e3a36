//! Reads a reply: a stream of server-sent events, or one document.

use std::time::Duration;

use hyper::body::{Body as _, Incoming};

use crate::extract::{ModelReply, ProviderKind};
use crate::llm::fault::{AttemptFault, FaultKind, Hint};
use crate::llm::patience::WaitLimit;
use crate::llm::reply::PartialReply;
use crate::llm::wire;

/// Maximum number of bytes of a stream, which is never in memory as a whole. This is enough for
/// 200,000 tokens, each in an event of about 300 bytes. Current models reply with fewer tokens.
const MOST_STREAM: usize = 64 * 1024 * 1024;
/// Maximum number of bytes of a reply that is not streamed. It exceeds the limits for text and
/// calls.
const MOST_DOCUMENT: usize = 24 * 1024 * 1024;
const TAIL: Duration = Duration::from_secs(2);
/// Time that the response may take to end after the reply has ended. If the response ends in time,
/// the connection can be reused.
const GOODBYE: Duration = Duration::from_millis(100);

pub(super) async fn read(
    body: Incoming,
    kind: ProviderKind,
    patience: WaitLimit<'_>,
) -> Result<ModelReply, AttemptFault> {
    let mut reading = ReplyReader::new(kind);
    let done = reading.all(body, patience).await;
    let reply = reading.reply;
    match done {
        Err(fault) if fault.kind == FaultKind::Stopped || !reply.is_complete => {
            Err(fault.costing(reply.usage))
        }
        Ok(()) if !reply.is_complete => {
            Err(AttemptFault::broken("ended its reply before the end").costing(reply.usage))
        }
        // A fault after the end affects only the token counts.
        _ => Ok(reply.finish()),
    }
}

struct ReplyReader {
    kind: ProviderKind,
    reply: PartialReply,
    form: ReplyForm,
    bytes: usize,
}

/// The format of a response, judged by its first byte, because the content type that servers send
/// is unreliable.
enum ReplyForm {
    Unknown,
    Events(EventStream),
    Document(Vec<u8>),
}

impl ReplyReader {
    fn new(kind: ProviderKind) -> Self {
        Self { kind, reply: PartialReply::default(), form: ReplyForm::Unknown, bytes: 0 }
    }

    async fn all(
        &mut self,
        mut body: Incoming,
        mut patience: WaitLimit<'_>,
    ) -> Result<(), AttemptFault> {
        while let Some(bytes) = patience.wait_for(next(&mut body)).await? {
            let bytes = bytes.map_err(|error| {
                AttemptFault::broken("broke the connection off in its reply").caused_by(&error)
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

    fn push(&mut self, bytes: &[u8]) -> Result<(), AttemptFault> {
        self.bytes += bytes.len();
        let most = if let ReplyForm::Document(_) = self.form { MOST_DOCUMENT } else { MOST_STREAM };
        if self.bytes > most {
            return Err(AttemptFault::beyond(format!("sent a reply of more than {most} bytes")));
        }
        let bytes = match self.form {
            ReplyForm::Unknown => self.begin(bytes)?,
            _ => bytes,
        };
        let (kind, reply) = (self.kind, &mut self.reply);
        match &mut self.form {
            ReplyForm::Unknown => Ok(()),
            ReplyForm::Events(events) => events.push(bytes, |data| wire::event(kind, data, reply)),
            ReplyForm::Document(text) => {
                text.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Determines the format of the response. Returns `bytes` without leading white space.
    fn begin<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], AttemptFault> {
        let bytes = bytes.trim_ascii_start();
        self.form = match bytes.first() {
            None => ReplyForm::Unknown,
            Some(b'<') => {
                let what = "answered with a page of HTML";
                return Err(AttemptFault::new(FaultKind::Rejected, what, Hint::Address));
            }
            Some(b'{' | b'[') => ReplyForm::Document(Vec::new()),
            Some(_) => ReplyForm::Events(EventStream::default()),
        };
        Ok(bytes)
    }

    fn finish(&mut self) -> Result<(), AttemptFault> {
        let (kind, reply) = (self.kind, &mut self.reply);
        match std::mem::replace(&mut self.form, ReplyForm::Unknown) {
            ReplyForm::Unknown => Ok(()),
            ReplyForm::Events(events) => events.finish(|data| wire::event(kind, data, reply)),
            ReplyForm::Document(text) => {
                wire::document(kind, &String::from_utf8_lossy(&text), reply)
            }
        }
    }
}

/// Waits for the next bytes of a body. Returns `None` at its end.
pub(super) async fn next(body: &mut Incoming) -> Option<Result<bytes::Bytes, hyper::Error>> {
    loop {
        match std::future::poll_fn(|cx| std::pin::Pin::new(&mut *body).poll_frame(cx)).await? {
            Ok(frame) => {
                if let Ok(bytes) = frame.into_data() {
                    return Some(Ok(bytes));
                }
            }
            Err(error) => return Some(Err(error)),
        }
    }
}

const MOST_LINE: usize = 4 * 1024 * 1024;

#[derive(Default)]
struct EventStream {
    line: Vec<u8>,
    data: Vec<u8>,
    ends: crate::http_client::LineEnds,
}

impl EventStream {
    fn push(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(&str) -> Result<(), AttemptFault>,
    ) -> Result<(), AttemptFault> {
        let mut rest = bytes;
        while let Some((part, is_end)) = self.ends.next_part(&mut rest) {
            fits(self.line.len() + part.len())?;
            self.line.extend_from_slice(part);
            if is_end {
                self.end_line(&mut take)?;
            }
        }
        Ok(())
    }

    /// Calls `take` with the last event, even if the empty line after it is missing.
    fn finish(
        mut self,
        mut take: impl FnMut(&str) -> Result<(), AttemptFault>,
    ) -> Result<(), AttemptFault> {
        if !self.line.is_empty() {
            self.end_line(&mut take)?;
        }
        self.end_event(&mut take)
    }

    fn end_line(
        &mut self,
        take: &mut impl FnMut(&str) -> Result<(), AttemptFault>,
    ) -> Result<(), AttemptFault> {
        if self.line.is_empty() {
            return self.end_event(take);
        }
        // All other fields only repeat what the data contains.
        if let Some(value) = self.line.strip_prefix(b"data:") {
            fits(self.data.len() + value.len())?;
            self.data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
            self.data.push(b'\n');
        }
        self.line.clear();
        Ok(())
    }

    fn end_event(
        &mut self,
        take: &mut impl FnMut(&str) -> Result<(), AttemptFault>,
    ) -> Result<(), AttemptFault> {
        let taken = match self.data.strip_suffix(b"\n") {
            None | Some(b"") => Ok(()),
            Some(data) => take(&String::from_utf8_lossy(data)),
        };
        self.data.clear();
        taken
    }
}

fn fits(bytes: usize) -> Result<(), AttemptFault> {
    if bytes > MOST_LINE {
        return Err(AttemptFault::beyond(format!("sent an event of more than {MOST_LINE} bytes")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    /// Parts of replies in both formats, complete and broken.
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

    /// Returns the result of reading `stream` in pieces of `step` bytes.
    fn read(kind: ProviderKind, stream: &[u8], step: usize) -> (Option<String>, ModelReply) {
        let mut reading = ReplyReader::new(kind);
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

    fn read_events(stream: &[u8], step: usize) -> Vec<String> {
        let (mut events, mut found) = (EventStream::default(), Vec::new());
        for part in stream.chunks(step.max(1)) {
            let pushed = events.push(part, |data| {
                found.push(data.to_owned());
                Ok(())
            });
            assert!(pushed.is_ok());
        }
        let finished = events.finish(|data| {
            found.push(data.to_owned());
            Ok(())
        });
        assert!(finished.is_ok());
        found
    }

    #[test]
    fn events_are_read_in_any_pieces() {
        let table: &[(&str, &[&str])] = &[
            ("data: a\n\ndata: b\n\n", &["a", "b"]),
            ("data:a\r\n\r\ndata: b\r\rdata:  c\n\n", &["a", "b", " c"]),
            ("id: 7\nevent: x\ndata: {\ndata: }\n\n", &["{\n}"]),
            (": a comment\n\n:\n\ndata: a\n\n", &["a"]),
            ("data: the end lacks its empty line", &["the end lacks its empty line"]),
            ("data\ndatas: x\nunknown\n\ndata:\n\n", &[]),
            ("data: \u{e9}\u{1f600}\n\n", &["\u{e9}\u{1f600}"]),
        ];
        for (stream, found) in table {
            for step in [1, 2, 3, 7, 1000] {
                assert_eq!(read_events(stream.as_bytes(), step), *found, "{stream:?} by {step}");
            }
        }
        assert_eq!(read_events(b"data: \xff\n\n", 9), ["\u{fffd}"]);
    }

    #[test]
    fn memory_is_bounded() {
        for start in ["data: ", ": ", "name without end "] {
            let mut events = EventStream::default();
            let first = events.push(start.as_bytes(), |_| Ok(()));
            assert!(first.is_ok());
            let ended = (0..2000).find(|_| events.push(&[b'x'; 4096], |_| Ok(())).is_err());
            assert_eq!(ended, Some(1023), "{start}");
        }
        let mut events = EventStream::default();
        let line = format!("data: {}\n", "x".repeat(1024 * 1024));
        let ended = (0..9).find(|_| events.push(line.as_bytes(), |_| Ok(())).is_err());
        assert_eq!(ended, Some(3));
    }

    proptest! {
        #[test]
        fn pieces_of_events_do_not_matter(stream in "[a-e:\n\r dit]{0,60}|(data: [a-z\n\r]{0,9}\n){0,9}", step in 1..9_usize) {
            prop_assert_eq!(read_events(stream.as_bytes(), step), read_events(stream.as_bytes(), 1000));
        }
    }
}
