//! A prefilter for error lines. Every line that a rule accepts contains one of the fragments.
//!
//! Fragments may also occur in harmless text. For example, every line of an access log contains
//! `HTTP`, and many JSON records contain `"error":null`. The text around a fragment therefore
//! decides whether the fragment counts.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Input, MatchKind, Span, packed};
use memchr::{memchr, memmem, memrchr};

use crate::materialize::failure::languages;

/// The fragments. The search uses vector instructions only for at most 64 fragments. Each has at
/// least four bytes, because a shorter one would halve the speed. A first letter that may be a
/// capital is omitted.
pub(super) const FRAGMENTS: [&str; 64] = [
    "rror",
    "RROR",
    "ERR!",
    "ERR]",
    "xception",
    "EXCEPTION",
    "anic",
    "PANIC",
    "raceback",
    "FAIL",
    "ailed",
    "ailure",
    "ailing",
    "atal",
    "FATAL",
    "RITICAL",
    "ritical",
    "SEVERE",
    "ssert",
    "xpected",
    "aused by",
    "egmentation",
    "core dumped",
    "SIGSEGV",
    "SIGABRT",
    "SIGKILL",
    "terminate called",
    "xit code",
    "xited with",
    "non-zero",
    "*** [",
    "*** No rule",
    "ot found",
    "annot ",
    "an't ",
    "No such",
    "denied",
    "ermissions",
    "onnection re",
    "Killed",
    "BackOff",
    "ut of memory",
    "timeout",
    "imed out",
    "ime out",
    "undefined reference",
    ".go:",
    "E   ",
    "not ok",
    "\u{25cf} ",
    "nhandled",
    "Uncaught",
    "HTTP",
    "tatus",
    "rejected]",
    "CONFLICT",
    " = -1 E",
    "unmet dependencies",
    "but it is not",
    "Invalid ",
    "[cause]",
    "nable to",
    "ould not",
    "ehler",
];

/// Returns the offset of the first fragment at or after `at` that counts. `bytes` must be complete
/// lines, or one line with [`CONTEXT_BYTES`] after the part that is searched for fragments.
pub(super) fn find(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let near = bytes.len().min(at + WINDOW);
        let end = memchr(b'\n', &bytes[near..]).map_or(bytes.len(), |newline| near + newline + 1);
        let found = find_telling(&bytes[..end], at).map(|found| found.start);
        let found = languages::find(&bytes[..found.unwrap_or(end)], at).or(found);
        if found.is_some() || end == bytes.len() {
            return found;
        }
        at = end;
    }
}

// Number of bytes that are searched for fragments before they are searched for words of other
// languages. Otherwise each word would cost a search of all bytes for fragments.
const WINDOW: usize = 4 << 10;

/// Returns true if the first `length` bytes of `line` contain a fragment that counts. If the line
/// is longer than `length`, it must include the next [`CONTEXT_BYTES`] bytes, as far as they exist.
pub(super) fn has_telling(line: &[u8], length: usize) -> bool {
    let seen = &line[..line.len().min(length + CONTEXT_BYTES)];
    find_telling(seen, 0).is_some_and(|found| found.end <= length)
        || languages::find(&seen[..seen.len().min(length)], 0).is_some()
}

pub(super) fn has_fragment(word: &[u8]) -> bool {
    SEARCHER.find(word, 0).is_some()
}

fn find_telling(bytes: &[u8], mut at: usize) -> Option<Range<usize>> {
    loop {
        let found = SEARCHER.find(bytes, at)?;
        if is_telling(bytes, &found) {
            return Some(found);
        }
        at = found.start + 1;
    }
}

static SEARCHER: LazyLock<Fragments> = LazyLock::new(|| Fragments::new(&FRAGMENTS));

// Number of bytes that are examined after a fragment.
pub(super) const CONTEXT_BYTES: usize = 48;
// Number of bytes that are examined before a fragment, as in `exited with error status`.
const BEFORE_BYTES: usize = 24;
// Values that mean "no error".
const NO_ERROR_VALUES: [&[u8]; 7] = [b"null", b"false", b"0", b"\"\"", b"[]", b"{}", b"none"];

/// Returns true unless the text around the fragment at `found` makes the fragment harmless. `bytes`
/// must be complete lines, or one line with at least [`CONTEXT_BYTES`] after the fragment.
pub(super) fn is_telling(bytes: &[u8], found: &Range<usize>) -> bool {
    match &bytes[found.clone()] {
        b"HTTP" => has_server_error(after(bytes, found.end)),
        b"tatus" => {
            has_server_error(after(bytes, found.end)) || is_of_exit(before(bytes, found.start))
        }
        b"rror" => !is_none(after(bytes, found.end)),
        _ => true,
    }
}

fn after(bytes: &[u8], end: usize) -> &[u8] {
    let near = &bytes[end..bytes.len().min(end + CONTEXT_BYTES)];
    &near[..memchr(b'\n', near).unwrap_or(near.len())]
}

fn before(bytes: &[u8], start: usize) -> &[u8] {
    let near = &bytes[start.saturating_sub(BEFORE_BYTES)..start];
    &near[memrchr(b'\n', near).map_or(0, |newline| newline + 1)..]
}

fn has_server_error(text: &[u8]) -> bool {
    let mut from = 0;
    while let Some(found) = memchr(b'5', &text[from..]) {
        let at = from + found;
        let is_start = at == 0 || !text[at - 1].is_ascii_alphanumeric();
        let digits = text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        // A number that is cut off at the end of the examined text may be a status.
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

// Returns true if the text after a key has a value that means no error, such as `":null`.
fn is_none(text: &[u8]) -> bool {
    let text = text.strip_prefix(b"s").unwrap_or(text);
    let Some(value) = text.strip_prefix(b"\":") else { return false };
    let value = value.strip_prefix(b" ").unwrap_or(value);
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    NO_ERROR_VALUES.iter().any(|none| {
        let rest = value.strip_prefix(*none);
        rest.is_some_and(|rest| !rest.first().is_some_and(is_word))
    })
}

/// Searches for any of a few dozen short fragments, at several gigabytes per second.
///
/// Uses vector instructions, or an automaton on machines without them.
pub(super) enum Fragments {
    Packed(packed::Searcher),
    Automaton(AhoCorasick),
}

impl Fragments {
    /// Compiles at most 64 fragments of at least three bytes. If several fragments match at the
    /// same offset, the first one in the list is found.
    pub(super) fn new(fragments: &[&str]) -> Self {
        if let Some(packed) = packed::Searcher::new(fragments) {
            return Self::Packed(packed);
        }
        let automaton =
            AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(fragments);
        Self::Automaton(automaton.expect("the fragments are few and short"))
    }

    pub(super) fn find(&self, bytes: &[u8], at: usize) -> Option<Range<usize>> {
        let span = Span::from(at..bytes.len());
        let found = match self {
            Self::Packed(packed) => packed.find_in(bytes, span),
            Self::Automaton(automaton) => automaton.find(Input::new(bytes).span(span)),
        };
        found.map(|found| found.start()..found.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_fragment_is_so_short_that_it_slows_the_search() {
        assert!(FRAGMENTS.iter().all(|fragment| fragment.len() >= 4));
    }

    fn telling(line: &str, fragment: &str) -> bool {
        let text = format!("HTTP 500\n{line}\n 503\n");
        let start = text.find(line).unwrap() + line.find(fragment).unwrap();
        is_telling(text.as_bytes(), &(start..start + fragment.len()))
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
        assert!(is_telling(line.as_bytes(), &(0..4)));
    }
}
