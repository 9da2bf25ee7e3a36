//! Detection of binary formats and the MIME type.

use crate::materialize::json::BOM;
use crate::model::{Encoding, Json};

/// Number of bytes at the start of a stream that are examined to recognize its format. Office
/// documents differ from other archives within these bytes. All other formats that `infer` knows
/// differ in the first 512 bytes.
const HEAD_BYTES: usize = 16 << 10;
// Number of bytes that must be text if the content is text. The magic bytes of tar, at offset 257,
// are among them.
const MARK_BYTES: usize = 512;
// Formats whose first bytes may all be plain text.
const TEXT_LIKE: [&[u8]; 2] = [b"%PDF-", b"SQLite format 3"];
/// The magic bytes of older office documents and other OLE files. `infer` reports all of these
/// files as text documents.
const COMPOUND: &[u8] = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1";
// Beginnings of text formats and their MIME types. Case and leading white space are ignored.
const TEXT_TYPES: [(&str, &str); 5] = [
    ("<!doctype html", "text/html"),
    ("<html", "text/html"),
    ("<svg", "image/svg+xml"),
    ("<?xml", "application/xml"),
    ("diff --git ", "text/x-diff"),
];

#[derive(Debug, Clone, Default)]
pub(super) struct Magic {
    head: Vec<u8>,
}

impl Magic {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = HEAD_BYTES - self.head.len();
        self.head.extend_from_slice(&bytes[..room.min(bytes.len())]);
    }

    /// Returns the MIME type, detected from the content. It is `text/plain` or
    /// `application/octet-stream` if the content is neither JSON nor in a known format.
    pub(super) fn mime(&self, encoding: Encoding, json: &Json) -> &'static str {
        match (encoding, json) {
            (Encoding::Binary, _) => format(&self.head).unwrap_or("application/octet-stream"),
            (_, Json::Document { .. }) => "application/json",
            (_, Json::Lines { .. }) => "application/x-ndjson",
            (_, Json::No | Json::Broken { .. }) => self.text_type(),
        }
    }

    /// Returns the name of the character set that the stream names itself: by the byte order mark
    /// of UTF-8, or by an escape sequence of ISO 2022.
    pub(super) fn charset(&self) -> Option<&'static str> {
        if self.head.starts_with(BOM) {
            return Some("UTF-8 with byte order mark");
        }
        let at = iso_2022(&self.head)?;
        Some(if self.head[at..].starts_with(b"\x1b$)") { "ISO-2022-KR" } else { "ISO-2022-JP" })
    }

    fn text_type(&self) -> &'static str {
        let text = self.head.strip_prefix(BOM).unwrap_or(&self.head).trim_ascii_start();
        let begins = |mark: &str| {
            let start = text.get(..mark.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(mark.as_bytes()))
        };
        let known = TEXT_TYPES.iter().find(|(mark, _)| begins(mark));
        known.map_or("text/plain", |(_, mime)| mime)
    }
}

/// Returns true if content that begins with `bytes` is in a known binary format.
///
/// The magic bytes of some formats are two letters (`BM`, `MZ`) with which a sentence may also
/// begin. Such letters count only if the first bytes are not text.
pub(super) fn begins_binary(bytes: &[u8]) -> bool {
    format(&bytes[..bytes.len().min(HEAD_BYTES)]).is_some()
}

/// Returns the place of the first escape sequence by which a text in ISO-2022-JP or ISO-2022-KR
/// switches to characters of two bytes. Terminals do not use it.
pub(super) fn iso_2022(text: &[u8]) -> Option<usize> {
    let switch = memchr::memmem::find(text, b"\x1b$")?;
    text[switch + 2..].first().filter(|next| b"@AB()".contains(next)).map(|_| switch)
}

fn format(head: &[u8]) -> Option<&'static str> {
    let may_be = TEXT_LIKE.iter().any(|mark| head.starts_with(mark)) || !is_text(head);
    match may_be.then(|| infer::get(head)).flatten()?.mime_type() {
        _ if head.starts_with(COMPOUND) => Some("application/x-ole-storage"),
        // Markup in a code page.
        mime if mime.starts_with("text/") => None,
        mime => Some(mime),
    }
}

fn is_text(head: &[u8]) -> bool {
    let mark = &head[..head.len().min(MARK_BYTES)];
    let cut_short = |error: std::str::Utf8Error| error.error_len().is_none();
    let utf8 = std::str::from_utf8(mark).map_or_else(cut_short, |_| true);
    // A fold without an early exit compiles to vector instructions.
    utf8 && !mark.iter().fold(false, |found, byte| found | is_binary_control(*byte))
}

/// Returns true for control characters that do not occur in terminal logs. Bell, backspace, white
/// space and escape do occur in terminal logs.
pub(super) fn is_binary_control(byte: u8) -> bool {
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
        let office = |name: &str| {
            let entry = |name: &str, pad| {
                [b"PK\x03\x04", &[0; 26][..], name.as_bytes(), &vec![7; pad]].concat()
            };
            let names =
                [("[Content_Types].xml", 5000), ("_rels/.rels", 3000), (name, 900), (name, 10)];
            names.iter().flat_map(|(name, pad)| entry(name, *pad)).collect::<Vec<u8>>()
        };
        let cases: [(&[u8], &str); 12] = [
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "image/png"),
            (b"\xff\xd8\xff\xe0\0\x10JFIF", "image/jpeg"),
            (b"GIF89a\x01\0\x01\0", "image/gif"),
            (b"%PDF-1.7\n1 0 obj", "application/pdf"),
            (b"\x1f\x8b\x08\0\0\0\0\0", "application/gzip"),
            (b"PK\x03\x04\x14\0\0\0\x08\0", "application/zip"),
            (b"\x28\xb5\x2f\xfd\x24\x01", "application/zstd"),
            (b"SQLite format 3\0\x10\0", "application/vnd.sqlite3"),
            (
                &office("word/document.xml"),
                "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
            ),
            (
                &office("xl/workbook.xml"),
                "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            ),
            (&[COMPOUND, &[0; 504]].concat(), "application/x-ole-storage"),
            (&[b"\x7fELF\x02\x01\x01", &[0; 60][..]].concat(), "application/x-executable"),
        ];
        for (head, mime) in cases {
            let found = magic(head);
            assert!(begins_binary(head), "{mime}");
            assert_eq!(found.mime(Encoding::Binary, &Json::No), mime);
        }
    }

    #[test]
    fn text_that_begins_like_a_format_stays_text() {
        assert!(!begins_binary(b"<?xml version='1.0' encoding='koi8-r'?>\n<a>\xf0\xd2</a>"));
        for head in
            ["BMW sold 3 cars", "MZ is a mark", "ID3 tags", "GIF89a is old", "\u{1b}[31mred"]
        {
            assert!(!begins_binary(head.as_bytes()), "{head}");
        }
    }

    #[test]
    fn text_types() {
        let mime = |head: &[u8]| magic(head).mime(Encoding::Ascii, &Json::No);
        assert_eq!(mime(b"\n<!DOCTYPE html><p>"), "text/html");
        assert_eq!(mime(b"<?xml version='1.0'?>"), "application/xml");
        assert_eq!(mime(b"<svg width='3'/>"), "image/svg+xml");
        assert_eq!(mime(b"diff --git a/x b/x\n"), "text/x-diff");
        assert_eq!(mime(b"diff --gits"), "text/plain");
        assert_eq!(mime(b"hello"), "text/plain");
    }
}
