//! Known binary formats, and the MIME type.

use crate::model::Encoding;
use crate::model::Json;

/// Bytes at the start that formats are recognised by: tar has its mark at 257, and no format that
/// `infer` knows by its start asks for more than this.
const HEAD_BYTES: usize = 512;
/// Formats that may begin with bytes of plain text alone.
const TEXT_LIKE: [&[u8]; 2] = [b"%PDF-", b"SQLite format 3"];

/// The first bytes of a stream.
#[derive(Debug, Clone, Default)]
pub(super) struct Magic {
    head: Vec<u8>,
}

impl Magic {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = HEAD_BYTES - self.head.len();
        self.head.extend_from_slice(&bytes[..room.min(bytes.len())]);
    }

    /// Whether the stream begins as a binary format does.
    ///
    /// Some marks are two letters (`BM`, `MZ`), which a sentence may begin with: they count only
    /// where the first bytes also hold something that no text does.
    pub(super) fn is_binary(&self) -> bool {
        self.format().is_some()
    }

    /// MIME type by content; what is neither JSON nor a known format is `text/plain` or
    /// `application/octet-stream`.
    pub(super) fn mime(&self, encoding: Encoding, json: &Json) -> &'static str {
        match (encoding, json) {
            (Encoding::Binary, _) => self.format().unwrap_or("application/octet-stream"),
            (_, Json::Document { .. }) => "application/json",
            (_, Json::Lines { .. }) => "application/x-ndjson",
            (_, Json::No | Json::Broken { .. }) => self.text_type(),
        }
    }

    fn format(&self) -> Option<&'static str> {
        let may_be = TEXT_LIKE.iter().any(|mark| self.head.starts_with(mark)) || !self.is_text();
        may_be.then(|| infer::get(&self.head)).flatten().map(|format| format.mime_type())
    }

    fn is_text(&self) -> bool {
        let cut_short = |error: std::str::Utf8Error| error.error_len().is_none();
        let utf8 = std::str::from_utf8(&self.head).map_or_else(cut_short, |_| true);
        utf8 && !self.head.iter().any(|byte| is_binary_control(*byte))
    }

    fn text_type(&self) -> &'static str {
        let text = self.head.trim_ascii_start();
        let begins = |mark: &[u8]| {
            text.get(..mark.len()).is_some_and(|start| start.eq_ignore_ascii_case(mark))
        };
        if begins(b"<!doctype html") || begins(b"<html") {
            "text/html"
        } else if begins(b"<?xml") {
            "application/xml"
        } else {
            "text/plain"
        }
    }
}

/// Control characters that no terminal log holds: bell, backspace, white space and escape do occur.
fn is_binary_control(byte: u8) -> bool {
    matches!(byte, 0..=6 | 14..=26 | 28..=31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn magic(head: &[u8]) -> Magic {
        let mut magic = Magic::default();
        magic.push(head);
        magic
    }

    #[test]
    fn binary_formats_are_known_by_their_start() {
        let cases: [(&[u8], &str); 9] = [
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
            (b"GIF89a\x01\0\x01\0", "image/gif"),
            (b"%PDF-1.7\n1 0 obj", "application/pdf"),
            (b"\x1f\x8b\x08\0\0\0\0\0", "application/gzip"),
            (b"PK\x03\x04\x14\0\0\0\x08\0", "application/zip"),
            (b"\x28\xb5\x2f\xfd\x24\x01", "application/zstd"),
            (b"SQLite format 3\0\x10\0", "application/vnd.sqlite3"),
            (&[b"\x7fELF\x02\x01\x01", &[0; 60][..]].concat(), "application/x-executable"),
        ];
        for (head, mime) in cases {
            let found = magic(head);
            assert!(found.is_binary(), "{mime}");
            assert_eq!(found.mime(Encoding::Binary, &Json::No), mime);
        }
    }

    #[test]
    fn text_that_begins_like_a_format_stays_text() {
        for head in
            ["BMW sold 3 cars", "MZ is a mark", "ID3 tags", "GIF89a is old", "\u{1b}[31mred"]
        {
            assert!(!magic(head.as_bytes()).is_binary(), "{head}");
        }
    }

    #[test]
    fn text_types() {
        let mime = |head: &[u8]| magic(head).mime(Encoding::Ascii, &Json::No);
        assert_eq!(mime(b"\n<!DOCTYPE html><p>"), "text/html");
        assert_eq!(mime(b"<?xml version='1.0'?>"), "application/xml");
        assert_eq!(mime(b"hello"), "text/plain");
    }
}
