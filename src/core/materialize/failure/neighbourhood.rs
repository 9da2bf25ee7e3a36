//! The neighbourhood of a fragment, by which some tell nothing.
//!
//! Every line of an access log has `HTTP`, and many records in JSON have `"error":null`.

use std::ops::Range;

use memchr::{memchr, memmem, memrchr};

/// Bytes after a fragment that are looked at.
pub(super) const CONTEXT_BYTES: usize = 48;
/// Bytes before a fragment that are looked at: `exited with error status`.
const BEFORE_BYTES: usize = 24;
/// Values that say that there was no error.
const NONE: [&[u8]; 7] = [b"null", b"false", b"0", b"\"\"", b"[]", b"{}", b"none"];

/// Returns true if the fragment at `found` tells something about its line. `bytes` has whole lines,
/// or one with at least [`CONTEXT_BYTES`] after the fragment.
pub(super) fn tells(bytes: &[u8], found: &Range<usize>) -> bool {
    match &bytes[found.clone()] {
        b"HTTP" => has_server_error(after(bytes, found.end)),
        b"tatus" => {
            has_server_error(after(bytes, found.end)) || is_of_exit(before(bytes, found.start))
        }
        b"rror" => !is_none(after(bytes, found.end)),
        _ => true,
    }
}

/// Returns what follows on the line.
fn after(bytes: &[u8], end: usize) -> &[u8] {
    let near = &bytes[end..bytes.len().min(end + CONTEXT_BYTES)];
    &near[..memchr(b'\n', near).unwrap_or(near.len())]
}

/// Returns what comes before on the line.
fn before(bytes: &[u8], start: usize) -> &[u8] {
    let near = &bytes[start.saturating_sub(BEFORE_BYTES)..start];
    &near[memrchr(b'\n', near).map_or(0, |newline| newline + 1)..]
}

/// Returns true if `text` has a number from 500 to 599.
fn has_server_error(text: &[u8]) -> bool {
    let mut from = 0;
    while let Some(found) = memchr(b'5', &text[from..]) {
        let at = from + found;
        let is_start = at == 0 || !text[at - 1].is_ascii_alphanumeric();
        let digits = text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        // A number that goes on behind the text may be one.
        if is_start && (digits == 3 || (digits < 3 && at + digits == CONTEXT_BYTES)) {
            return true;
        }
        from = at + digits;
    }
    false
}

fn is_of_exit(text: &[u8]) -> bool {
    memmem::find(text, b"xit").is_some()
}

/// Returns true for `":null` and the like, which follows a key.
fn is_none(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"s").unwrap_or(text);
    let Some(value) = text.strip_prefix(b"\":") else { return false };
    let value = value.strip_prefix(b" ").unwrap_or(value);
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    NONE.iter().any(|none| {
        let rest = value.strip_prefix(*none);
        rest.is_some_and(|rest| !rest.first().is_some_and(is_word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn telling(line: &str, fragment: &str) -> bool {
        let text = format!("HTTP 500\n{line}\n 503\n");
        let start = text.find(line).unwrap() + line.find(fragment).unwrap();
        tells(text.as_bytes(), &(start..start + fragment.len()))
    }

    #[test]
    fn the_neighbours_of_a_fragment_say_if_it_tells_something() {
        for (line, fragment, tells) in [
            ("\"GET / HTTP/1.1\" 502 1 status=502", "HTTP", true),
            ("\"GET / HTTP/1.1\" 200 1502 status=200", "HTTP", false),
            ("\"GET / HTTP/1.1\" 200 1 status=200", "tatus", false),
            ("\"GET / HTTP/1.1\" 200 1 status=", "tatus", false),
            ("{\"status\": 503}", "tatus", true),
            ("{\"status\": \"x503\"}", "tatus", false),
            ("exit status 2", "tatus", true),
            ("exited with error status: 2", "tatus", true),
            ("{\"error\":null}", "rror", false),
            ("{\"errors\": [], \"a\": 1}", "rror", false),
            ("{\"errors\":0}", "rror", false),
            ("{\"errors\":\"\"}", "rror", false),
            ("{\"errors\":05}", "rror", true),
            ("{\"error\":nullable}", "rror", true),
            ("{\"error\":\"no\"}", "rror", true),
            ("error: x", "rror", true),
            ("panicked", "anic", true),
        ] {
            assert_eq!(telling(line, fragment), tells, "{line}");
        }
    }

    #[test]
    fn a_number_at_the_end_of_what_is_seen_may_be_one() {
        let line = format!("HTTP{}5031", " ".repeat(CONTEXT_BYTES - 2));
        assert!(tells(line.as_bytes(), &(0..4)));
    }
}
