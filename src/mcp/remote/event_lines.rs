//! Converts a stream of server-sent events to lines of data.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, ReadBuf};

use ctxfs_models::http_client::LineEnds;

const BLOCK: usize = 16 * 1024;
const MAX_NAME: usize = 5;
const MAX_VALUE: usize = 1024;

/// The position at which a broken stream can be resumed: the id of the last event, and the pause
/// that the server requests before a reconnection.
#[derive(Default)]
pub(crate) struct StreamPosition {
    pub(crate) last_id: Option<String>,
    pub(crate) retry: Option<Duration>,
}

/// Reads the data of server-sent events as lines. Newlines in the data become spaces. Events of
/// other types are skipped.
pub(crate) struct EventLines<R> {
    input: R,
    block: Box<[u8]>,
    parser: EventParser,
    marks: Arc<Mutex<StreamPosition>>,
    lines: Vec<u8>,
    taken: usize,
    has_ended: bool,
}

impl<R> EventLines<R> {
    pub(crate) fn new(input: R, marks: Arc<Mutex<StreamPosition>>) -> Self {
        Self {
            input,
            block: vec![0; BLOCK].into_boxed_slice(),
            parser: EventParser::default(),
            marks,
            lines: Vec::new(),
            taken: 0,
            has_ended: false,
        }
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for EventLines<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let reader = &mut *self;
        while reader.taken == reader.lines.len() && !reader.has_ended {
            let mut block = ReadBuf::new(&mut reader.block);
            ready!(Pin::new(&mut reader.input).poll_read(cx, &mut block))?;
            reader.lines.clear();
            reader.taken = 0;
            let read = block.filled();
            let mut marks = reader.marks.lock();
            if read.is_empty() {
                reader.has_ended = true;
                reader.parser.finish(&mut reader.lines, &mut marks);
            } else {
                reader.parser.push(read, &mut reader.lines, &mut marks);
            }
        }
        let left = &reader.lines[reader.taken..];
        let count = left.len().min(into.remaining());
        into.put_slice(&left[..count]);
        reader.taken += count;
        Poll::Ready(Ok(()))
    }
}

#[derive(Default)]
struct EventParser {
    place: FieldState,
    name: Vec<u8>,
    value: Vec<u8>,
    ends: LineEnds,
    has_data: bool,
    is_other: bool,
    id: Option<String>,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum FieldState {
    #[default]
    Name,
    Colon,
    Value,
    Data,
    Unknown,
}

impl EventParser {
    fn push(&mut self, bytes: &[u8], lines: &mut Vec<u8>, marks: &mut StreamPosition) {
        let mut rest = bytes;
        while let Some((part, is_end)) = self.ends.next_part(&mut rest) {
            self.part(part, lines);
            if is_end {
                self.end_line(lines, marks);
            }
        }
    }

    fn finish(&mut self, lines: &mut Vec<u8>, marks: &mut StreamPosition) {
        if self.place != FieldState::Name || !self.name.is_empty() {
            self.end_line(lines, marks);
        }
        self.end_event(lines, marks);
    }

    fn part(&mut self, mut part: &[u8], lines: &mut Vec<u8>) {
        if self.place == FieldState::Name && !part.is_empty() {
            let colon = memchr::memchr(b':', part);
            let name = &part[..colon.unwrap_or(part.len())];
            let room = (MAX_NAME + 1).saturating_sub(self.name.len());
            self.name.extend_from_slice(&name[..name.len().min(room)]);
            let Some(colon) = colon else { return };
            self.begin_value(lines);
            part = &part[colon + 1..];
        }
        if self.place == FieldState::Colon && !part.is_empty() {
            part = part.strip_prefix(b" ").unwrap_or(part);
            self.place = if self.name == b"data" { FieldState::Data } else { FieldState::Value };
        }
        match self.place {
            FieldState::Data if !self.is_other => lines.extend_from_slice(part),
            FieldState::Value => {
                let room = (MAX_VALUE + 1).saturating_sub(self.value.len());
                self.value.extend_from_slice(&part[..part.len().min(room)]);
            }
            _ => {}
        }
    }

    fn begin_value(&mut self, lines: &mut Vec<u8>) {
        self.place = match &*self.name {
            b"data" => {
                if self.has_data {
                    lines.push(b' ');
                }
                self.has_data = !self.is_other;
                FieldState::Colon
            }
            b"id" | b"event" | b"retry" => FieldState::Colon,
            _ => FieldState::Unknown,
        };
    }

    fn end_line(&mut self, lines: &mut Vec<u8>, marks: &mut StreamPosition) {
        let is_empty = self.place == FieldState::Name && self.name.is_empty();
        if is_empty {
            self.end_event(lines, marks);
            return;
        }
        let value = String::from_utf8_lossy(&self.value);
        let is_whole = self.value.len() <= MAX_VALUE;
        match &*self.name {
            b"id" if is_whole && !value.contains('\0') => self.id = Some(value.into_owned()),
            b"event" => {
                self.is_other = !matches!(&*value, "" | "message");
                // Data that came before the type is already given out.
                if self.is_other && std::mem::take(&mut self.has_data) {
                    lines.push(b'\n');
                }
            }
            b"retry" => {
                if let Ok(time) = value.parse() {
                    marks.retry = Some(Duration::from_millis(time));
                }
            }
            _ => {}
        }
        self.place = FieldState::Name;
        self.name.clear();
        self.value.clear();
    }

    fn end_event(&mut self, lines: &mut Vec<u8>, marks: &mut StreamPosition) {
        if std::mem::take(&mut self.has_data) {
            lines.push(b'\n');
        }
        self.is_other = false;
        if let Some(id) = self.id.take() {
            marks.last_id = Some(id).filter(|id| !id.is_empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt as _;

    fn read(stream: &[u8], step: usize) -> (String, Option<String>, Option<Duration>) {
        let (mut parser, mut lines, mut marks) =
            (EventParser::default(), Vec::new(), StreamPosition::default());
        for part in stream.chunks(step.max(1)) {
            parser.push(part, &mut lines, &mut marks);
        }
        parser.finish(&mut lines, &mut marks);
        (String::from_utf8(lines).unwrap(), marks.last_id, marks.retry)
    }

    #[test]
    fn events_are_lines() {
        let table: &[(&str, &str, Option<&str>)] = &[
            ("data: a\n\ndata: b\n\n", "a\nb\n", None),
            ("data:a\r\n\r\ndata: b\r\rdata:  c\n\n", "a\nb\n c\n", None),
            ("id: 7\ndata: {\ndata: }\n\n", "{ }\n", Some("7")),
            (": a comment\n\n:\n\ndata: a\n\n", "a\n", None),
            ("event: message\ndata: a\n\nevent: ping\ndata: x\n\ndata: b\n\n", "a\nb\n", None),
            ("data: a\nevent: ping\n\ndata: b\n\n", "a\nb\n", None),
            ("event: ping\ndata: x\nevent: ping\n\ndata: b\n\n", "b\n", None),
            ("id: 1\ndata:\n\nid: 2\nretry: 1500\n\n", "\n", Some("2")),
            ("id: 1\ndata: a\n\nid\ndata: b\n\n", "a\nb\n", None),
            ("data: the end lacks its empty line", "the end lacks its empty line\n", None),
            ("dat: x\ndatas: y\nunknown\ndata\n\n", "", None),
            ("data: a: b\n\n", "a: b\n", None),
        ];
        for (stream, lines, id) in table {
            for step in [1, 2, 3, 7, 1000] {
                let (found, last, _) = read(stream.as_bytes(), step);
                assert_eq!((&*found, last.as_deref()), (*lines, *id), "{stream:?} by {step}");
            }
        }
        assert_eq!(read(b"retry: 1500\n\n", 4).2, Some(Duration::from_millis(1500)));
        assert_eq!(read(b"retry: soon\n\n", 4).2, None);
    }

    #[test]
    fn fields_without_end_take_no_memory() {
        let mut parser = EventParser::default();
        let (mut lines, mut marks) = (Vec::new(), StreamPosition::default());
        for start in ["id: ", "event: ", ": ", "name without end "] {
            parser.push(format!("\n\n{start}").as_bytes(), &mut lines, &mut marks);
            for _ in 0..100 {
                parser.push(&[b'x'; 4096], &mut lines, &mut marks);
            }
            assert!(parser.value.len() <= MAX_VALUE + 1 && parser.name.len() <= 6);
        }
        assert!(lines.is_empty() && marks.last_id.is_none());
    }

    #[tokio::test]
    async fn a_stream_is_read_in_pieces() {
        let stream = "data: one\n\nid: 3\ndata: two\n\n".repeat(5000);
        let marks = Arc::new(Mutex::new(StreamPosition::default()));
        let mut reader = EventLines::new(stream.as_bytes(), Arc::clone(&marks));
        let mut all = String::new();
        reader.read_to_string(&mut all).await.unwrap();
        assert_eq!(all, "one\ntwo\n".repeat(5000));
        assert_eq!(marks.lock().last_id.as_deref(), Some("3"));
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(stream in "[a-e:\n\r dit]{0,60}|(data: [a-z\n\r]{0,9}\n){0,9}", step in 1..9_usize) {
            prop_assert_eq!(read(stream.as_bytes(), step), read(stream.as_bytes(), 1000));
        }
    }
}
