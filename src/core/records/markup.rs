//! The tokens of HTML and XML, with their places.
//!
//! No library is used: a tokenizer for HTML changes names to lower case and takes `CDATA` for a
//! comment, a parser for XML refuses HTML, and records need the exact offsets of either.

use std::ops::Range;

/// Maximum length in bytes of a tag, comment or declaration. A longer one is skipped as text up to
/// this length, which makes the time for any text linear.
const TAG_BYTES: usize = 32 << 10;
/// Text is passed in pieces of at least this many bytes.
const TEXT_BYTES: usize = 4 << 10;

/// A token. Ranges are offsets in the bytes of [`token`].
///
/// - `Open`: a start tag. `is_closed` is true for `<name/>`.
/// - `Close`: an end tag
/// - `Text`: text between tags, or a part of it. `is_raw` is true if it has no character references.
/// - `Other`: a comment, declaration or processing instruction
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    Open { name: Range<usize>, attributes: Range<usize>, is_closed: bool },
    Close { name: Range<usize> },
    Text { range: Range<usize>, is_raw: bool },
    Other,
}

/// Returns the token at `at` and its end. `raw` is the name of the element whose text has no tags,
/// such as `script`. Returns `None` if the token may continue after `bytes`; never if `ends` is
/// true.
pub(super) fn token(
    bytes: &[u8],
    at: usize,
    raw: Option<&[u8]>,
    ends: bool,
) -> Option<(Token, usize)> {
    let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
    if let Some(name) = raw {
        return raw_text(rest, at, name, ends);
    }
    let text = |length: usize| {
        let range = at..at + length;
        Some((Token::Text { range, is_raw: false }, at + length))
    };
    if rest[0] != b'<' {
        return match memchr::memchr(b'<', rest) {
            Some(length) => text(length),
            None if ends => text(rest.len()),
            // Holds back a character reference that may be incomplete.
            None if rest.len() > TEXT_BYTES => text(rest.len() - TEXT_BYTES / 8),
            None => None,
        };
    }
    let tag = &rest[..rest.len().min(TAG_BYTES)];
    let is_all = ends || rest.len() >= TAG_BYTES;
    let found = match tag.get(1) {
        Some(b'!') if tag.starts_with(b"<![CDATA[") => {
            memchr::memmem::find(tag, b"]]>").map(|end| {
                let range = at + 9..at + end.max(9);
                (Token::Text { range, is_raw: true }, at + end + 3)
            })
        }
        Some(b'!') if tag.starts_with(b"<!--") => {
            let end = tag.get(4..).and_then(|tag| memchr::memmem::find(tag, b"-->"));
            end.map(|end| (Token::Other, at + 4 + end + 3))
        }
        Some(b'!' | b'?') => memchr::memchr(b'>', tag).map(|end| (Token::Other, at + end + 1)),
        Some(b'/') if tag.get(2).is_some_and(u8::is_ascii_alphabetic) => memchr::memchr(b'>', tag)
            .map(|end| {
                let name = at + 2..at + 2 + name_length(&tag[2..end]);
                (Token::Close { name }, at + end + 1)
            }),
        Some(first) if first.is_ascii_alphabetic() || *first == b'_' => {
            // A quote without an end does not hide the end of the tag.
            let any_end = || memchr::memchr(b'>', tag).filter(|_| is_all);
            tag_end(tag).or_else(any_end).map(|end| (open(tag, at, end), at + end + 1))
        }
        Some(_) => return text(1),
        None => None,
    };
    // Without an end, no other tag begins here either.
    found.or_else(|| text(tag.len()).filter(|_| is_all))
}

fn raw_text(rest: &[u8], at: usize, name: &[u8], ends: bool) -> Option<(Token, usize)> {
    let is_end = |place: &usize| {
        let tag = rest.get(place + 2..place + 2 + name.len());
        rest.get(place + 1) == Some(&b'/') && tag.is_some_and(|tag| tag.eq_ignore_ascii_case(name))
    };
    if is_end(&0) && rest[0] == b'<' {
        let end = memchr::memchr(b'>', rest).or(ends.then_some(rest.len() - 1))?;
        return Some((Token::Close { name: at + 2..at + 2 + name.len() }, at + end + 1));
    }
    let end = memchr::memchr_iter(b'<', rest).skip(usize::from(rest[0] == b'<')).find(is_end);
    let held = name.len() + 2;
    let length = match end {
        Some(end) => end,
        None if ends => rest.len(),
        None => rest.len().checked_sub(held).filter(|length| *length > 0)?,
    };
    Some((Token::Text { range: at..at + length, is_raw: true }, at + length))
}

fn name_length(tag: &[u8]) -> usize {
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'>' | b'/');
    tag.iter().position(is_end).unwrap_or(tag.len())
}

/// Returns the offset of the `>` that ends a start tag. A `>` in a quoted value does not.
fn tag_end(tag: &[u8]) -> Option<usize> {
    let mut at = 1;
    let mut quote = None;
    loop {
        let found = at + memchr::memchr3(b'>', b'"', b'\'', tag.get(at..)?)?;
        match (quote, tag[found]) {
            (None, b'>') => return Some(found),
            (None, mark) if tag[..found].trim_ascii_end().ends_with(b"=") => quote = Some(mark),
            (Some(open), mark) if open == mark => quote = None,
            _ => {}
        }
        at = found + 1;
    }
}

fn open(tag: &[u8], at: usize, end: usize) -> Token {
    let name = 1 + name_length(&tag[1..end]);
    let is_closed = tag[..end].ends_with(b"/");
    let attributes = at + name..at + (end - usize::from(is_closed)).max(name);
    Token::Open { name: at + 1..at + name, attributes, is_closed }
}

/// Returns the attributes of a start tag, each with its name and value.
pub(super) fn attributes(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_ascii_start();
        let is_end = |byte: &u8| byte.is_ascii_whitespace() || *byte == b'=';
        let length = rest.iter().position(is_end).unwrap_or(rest.len());
        if rest.is_empty() {
            return None;
        }
        let (name, after) = rest.split_at(length);
        let Some(value) = after.trim_ascii_start().strip_prefix(b"=") else {
            rest = if length == 0 { &rest[1..] } else { after };
            return Some((name, &b""[..]));
        };
        let value = value.trim_ascii_start();
        let (value, after) = if let Some(quote @ (b'"' | b'\'')) = value.first() {
            let end = memchr::memchr(*quote, &value[1..]);
            let end = end.map_or(value.len(), |end| end + 1);
            (&value[1..end], value.get(end + 1..).unwrap_or_default())
        } else {
            let end = value.iter().position(u8::is_ascii_whitespace);
            value.split_at(end.unwrap_or(value.len()))
        };
        rest = after;
        Some((name, value))
    })
}

/// Returns true if an attribute tells a fact. In HTML, most attributes only describe how an element
/// looks or behaves.
pub(super) fn tells(name: &[u8], value: &[u8], is_html: bool) -> bool {
    let named: [&[u8]; 8] =
        [b"href", b"title", b"alt", b"content", b"datetime", b"value", b"aria-label", b"id"];
    let is_name = named.iter().any(|known| name.eq_ignore_ascii_case(known));
    let has_data = || name.get(..5).is_some_and(|it| it.eq_ignore_ascii_case(b"data-"));
    !value.is_empty() && (!is_html && !name.starts_with(b"xmlns") || is_name || has_data())
}

/// Appends `text` to `into` with its character references decoded, and each run of white space as
/// one blank. Unknown references stay as they are.
pub(super) fn push_text(text: &[u8], is_raw: bool, into: &mut String) {
    let text = String::from_utf8_lossy(text);
    let mut rest = &*text;
    while let Some(c) = rest.chars().next() {
        let (decoded, length) = match c {
            '&' if !is_raw => reference(rest).unwrap_or((c, 1)),
            _ => (c, c.len_utf8()),
        };
        rest = &rest[length..];
        if !decoded.is_whitespace() {
            into.push(decoded);
        } else if !into.is_empty() && !into.ends_with(' ') {
            into.push(' ');
        }
    }
}

/// Returns the character that a reference at the start of `text` stands for, and the length of the
/// reference.
fn reference(text: &str) -> Option<(char, usize)> {
    let end = text.bytes().take(12).position(|byte| byte == b';')?;
    let name = &text[1..end];
    let c = match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => ' ',
        _ => {
            let digits = name.strip_prefix('#')?;
            let code = match digits.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16).ok()?,
                None => digits.parse().ok()?,
            };
            char::from_u32(code)?
        }
    };
    Some((c, end + 1))
}
