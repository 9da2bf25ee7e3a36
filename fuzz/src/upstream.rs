//! Bytes from an MCP server. The requests 1 to 5 are waiting for an answer: two calls, a list of
//! tools, `initialize`, and another request.
//!
//! The first byte determines the length of the pieces that are read at once. The second is the
//! position at which a long line is divided. A part between `@[` and `]@` is repeated until it is
//! long.

mod result;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::gateway::{FuzzShelf, Head, is_same_but_for, messages, one_line, pieces};
use ctxfs_core::model::Limits;
use ctxfs_mcp::OfferMode;
use ctxfs_mcp::in_memory::{InMemoryGateway, Sent, Waiting, event_lines};

/// Maximum bytes and characters of a short result.
const SHORT: u64 = 40;
/// Minimum bytes of a repeated part. A value of this length is not held in memory if its message is
/// streamed.
const LONG: usize = 66_000;
/// Maximum number of repeated parts.
const MOST_REPEATED: usize = 3;
/// Number of bytes from which a line is not held in memory.
const WHOLE: usize = (1 << 20) + 1;
/// Waiting requests, with the ids that the client gave them.
const WAITING: [(Waiting<'_>, &str); 5] = [
    (Waiting::Call("one"), "\"k1\""),
    (Waiting::Call("two"), "\"k2\""),
    (Waiting::Tools, "\"k3\""),
    (Waiting::Handshake, "\"k4\""),
    (Waiting::Other, "\"k5\""),
];
/// Ids of requests to whose answers the gateway adds content.
const LISTS: [&str; 2] = ["3", "4"];

/// Asserts these properties: A forwarded message differs only in its id. Each text of a result
/// reaches the client or the store unchanged, and nothing else is stored. The result does not
/// depend on the lengths of the pieces, nor on whether a line is short enough to be held in memory.
pub fn upstream(data: &[u8]) {
    let [length, cut, stream @ ..] = data else { return };
    let stream = repeated(stream);
    events(&stream, *length);
    let run = Run::of(&pieces(&stream, *length));
    run.check(&messages(&stream));
    if let Some(line) = comparable(&stream) {
        let (before, after) = line.split_at(usize::from(*cut).min(line.len()));
        let first = [&vec![b' '; WHOLE - before.len()][..], before].concat();
        Run::of(&[&first, after, b"\n"]).compare(&Run::of(&[line, b"\n"]));
    }
}

/// Asserts that the data of server-sent events is read as lines, regardless of how the stream is
/// divided.
fn events(stream: &[u8], length: u8) {
    assert_eq!(event_lines(&pieces(stream, length)), event_lines(&[stream]));
    let mut wrapped = Vec::new();
    let mut lines = Vec::new();
    for line in stream.split(|byte| *byte == b'\n').filter(|line| !line.contains(&b'\r')) {
        wrapped.extend([b"id: 7\r\ndata: ", line, b"\n\n"].concat());
        lines.extend([line, b"\n"].concat());
    }
    assert_eq!(event_lines(&pieces(&wrapped, length)), lines);
}

/// Returns the first line if reading it in memory and streaming it must have the same outcome. The
/// outcomes may differ for a line that is not a message, for a structure with white space, for a
/// long id, and for a list with a value that is too long for memory.
fn comparable(stream: &[u8]) -> Option<&[u8]> {
    let line = stream.split(|byte| *byte == b'\n').next()?;
    let text = str::from_utf8(line).ok()?;
    let head = Head::of(text)?;
    let is_short = |text: &str| text.len() < 1000;
    let names =
        head.id.is_none_or(|id| is_short(id.get())) && head.method.as_deref().is_none_or(is_short);
    let is_plain = !text.contains("structuredContent") && is_compact(text);
    let is_list = LISTS.contains(&head.id().unwrap_or_default());
    (is_plain && names && !is_list).then_some(line)
}

/// Returns true if there is no white space between the tokens of JSON.
fn is_compact(json: &str) -> bool {
    let (mut inside, mut escaped) = (false, false);
    json.bytes().all(|byte| {
        let good = inside || !byte.is_ascii_whitespace();
        if inside && (escaped || byte == b'\\') {
            escaped = !escaped;
        } else if byte == b'"' {
            inside = !inside;
        }
        good
    })
}

/// Returns a stream with its marked parts repeated.
fn repeated(stream: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    let mut rest = stream;
    for _ in 0..MOST_REPEATED {
        let Some(from) = memchr::memmem::find(rest, b"@[") else { break };
        let Some(length) = memchr::memmem::find(&rest[from + 2..], b"]@") else { break };
        let part = &rest[from + 2..from + 2 + length];
        all.extend(&rest[..from]);
        all.extend(part.repeat(LONG.div_ceil(part.len().max(1))));
        rest = &rest[from + 4 + length..];
    }
    all.extend(rest);
    all
}

/// Outcome of a gateway that has read a stream.
struct Run {
    sent: Sent,
    outputs: BTreeMap<PathBuf, Vec<u8>>,
}

impl Run {
    fn of(pieces: &[&[u8]]) -> Self {
        let limits =
            Limits { max_inline_chars: SHORT, max_inline_bytes: SHORT, ..Limits::default() };
        let shelf = FuzzShelf::new(limits);
        let mut gateway = InMemoryGateway::new(Arc::clone(&shelf) as _, OfferMode::Through);
        for (number, (waiting, client_id)) in (1..).zip(WAITING) {
            assert_eq!(gateway.expect(waiting, client_id), number);
        }
        let sent = gateway.server_says(pieces);
        drop(gateway);
        let named =
            |(path, bytes): (PathBuf, _)| (PathBuf::from(path.file_name().expect("a name")), bytes);
        let outputs = shelf.outputs().into_iter().map(named).collect();
        Self { sent, outputs }
    }

    fn check(&self, messages: &[String]) {
        for sent in &self.sent.to_client {
            let sent = one_line(sent);
            let head = Head::of(sent).unwrap_or_else(|| panic!("{sent}"));
            if !head.is_response() {
                has_passed(sent, &head, messages);
            }
        }
        for (number, (waiting, client_id)) in (1..).zip(WAITING) {
            self.is_answered(waiting, number, client_id, messages);
        }
        result::are_texts(&self.outputs, messages);
    }

    /// Asserts that the first answer to a request reached the client.
    fn is_answered(&self, waiting: Waiting<'_>, number: u64, client_id: &str, messages: &[String]) {
        let number = number.to_string();
        let is_its = |message: &&String| {
            Head::of(message).is_some_and(|head| head.is_response() && head.id() == Some(&*number))
        };
        let Some(came) = messages.iter().find(is_its) else { return };
        let answer = self.answer(client_id).unwrap_or_else(|| panic!("no answer for {came}"));
        // The gateway took an earlier, unreadable line for the answer.
        if answer.contains("cannot be read: ") {
            return;
        }
        match waiting {
            Waiting::Call(_) => result::is_kept(came, answer, &self.outputs),
            Waiting::Other => {
                assert!(is_same_but_for(came, answer, client_id), "{came}\n{answer}");
            }
            Waiting::Tools | Waiting::Handshake => {}
        }
    }

    /// Returns the answer with the id `client_id`. Asserts that there is at most one.
    fn answer(&self, client_id: &str) -> Option<&str> {
        let sent = self.sent.to_client.iter().map(|sent| one_line(sent));
        let is_it = |sent: &&str| {
            Head::of(sent).is_some_and(|head| head.is_response() && head.id() == Some(client_id))
        };
        let found: Vec<&str> = sent.filter(is_it).collect();
        assert!(found.len() < 2, "{found:?}");
        found.first().copied()
    }

    fn compare(&self, other: &Self) {
        assert_eq!(self.outputs, other.outputs);
        let texts = |run: &Self| -> Vec<String> {
            run.sent.to_client.iter().map(|sent| one_line(sent).to_owned()).collect()
        };
        assert_eq!(texts(self), texts(other));
        assert_eq!(self.sent.to_server, other.sent.to_server);
    }
}

/// Asserts that a forwarded request or notification is one from the server, with another id.
fn has_passed(sent: &str, head: &Head<'_>, messages: &[String]) {
    let id = head.id();
    let is_cancel = head.method.as_deref() == Some("notifications/cancelled");
    let is_it = |message: &&String| match id {
        Some(id) => is_same_but_for(message, sent, id),
        None => **message == sent || is_cancel || message.contains("subscriptionId"),
    };
    assert!(messages.iter().any(|message| is_it(&message)), "{sent}");
}
