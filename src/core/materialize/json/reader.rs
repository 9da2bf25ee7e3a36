//! Detection of JSON without the rest of the analysis.

use crate::materialize::json::{Events, JsonDetector, JsonKind};
use crate::materialize::text::EncodingDetector;

/// Scans a stream as long as it is JSON, and passes on the events.
#[derive(Debug, Default)]
pub struct JsonReader<E> {
    seen: u64,
    newlines: u64,
    ends_line: bool,
    text: EncodingDetector,
    detector: JsonDetector<E>,
}

impl<E: Events> JsonReader<E> {
    /// Takes the next bytes of the stream.
    pub fn push(&mut self, bytes: &[u8]) {
        self.text.push(bytes);
        self.detector.push(bytes, self.seen, self.newlines, self.text.first_invalid());
        self.seen += bytes.len() as u64;
        self.newlines += memchr::memchr_iter(b'\n', bytes).count() as u64;
        self.ends_line = bytes.last().map_or(self.ends_line, |byte| *byte == b'\n');
    }

    /// Returns true if the stream is not JSON, whatever follows.
    pub fn is_off(&self) -> bool {
        self.detector.is_off()
    }

    /// Returns the kind of JSON that the bytes so far are, and the receiver of the events.
    pub fn finish(self) -> (JsonKind, E) {
        let lines = self.newlines + u64::from(self.seen > 0 && !self.ends_line);
        (self.detector.kind(self.seen, lines), self.detector.events)
    }
}
