//! Patterns for lines, compiled on first use.

use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use memchr::memmem;
use regex::bytes::{Captures, Regex, RegexBuilder};

/// A regular expression for lines. It is compiled when a line is seen that may match.
///
/// Character classes are ASCII only: a byte of any other character is neither a letter nor a space.
/// This makes compiling several times as fast. Most patterns have a literal that occurs in every
/// match. For a line without the literal, one substring search is enough.
pub struct Pattern {
    text: &'static str,
    literal: &'static str,
    finder: OnceLock<memmem::Finder<'static>>,
    compiled: OnceLock<Regex>,
}

impl Pattern {
    /// Returns a pattern without a literal.
    pub const fn new(text: &'static str) -> Self {
        Self { text, literal: "", finder: OnceLock::new(), compiled: OnceLock::new() }
    }

    /// Returns a pattern with a `literal` that must occur in every match.
    pub const fn with(literal: &'static str, text: &'static str) -> Self {
        Self { text, literal, finder: OnceLock::new(), compiled: OnceLock::new() }
    }

    /// Returns false if `line` does not contain the literal.
    pub fn may_match(&self, line: impl AsRef<[u8]>) -> bool {
        let finder = || self.finder.get_or_init(|| memmem::Finder::new(self.literal));
        self.literal.is_empty() || finder().find(line.as_ref()).is_some()
    }

    /// Returns true if `line` contains a match.
    pub fn is_match(&self, line: impl AsRef<[u8]>) -> bool {
        let line = line.as_ref();
        self.may_match(line) && self.regex().is_match(line)
    }

    /// Returns the start offset of the first match.
    pub fn start(&self, line: impl AsRef<[u8]>) -> Option<usize> {
        self.range(line.as_ref()).map(|found| found.start)
    }

    /// Returns the end offset of the first match.
    pub fn end(&self, line: impl AsRef<[u8]>) -> Option<usize> {
        self.range(line.as_ref()).map(|found| found.end)
    }

    fn range(&self, line: &[u8]) -> Option<Range<usize>> {
        let found = self.may_match(line).then(|| self.regex().find(line)).flatten();
        found.map(|found| found.range())
    }

    /// Returns the text of a group of the first match. Both ends are moved left to a character
    /// boundary.
    pub fn group<'l>(&self, line: &'l str, number: usize) -> Option<&'l str> {
        let groups = self.groups(line.as_bytes())?;
        let range = groups.get(number)?.range();
        line.get(line.floor_char_boundary(range.start)..line.floor_char_boundary(range.end))
    }

    fn groups<'l>(&self, line: &'l [u8]) -> Option<Captures<'l>> {
        // Groups take several times as long to find as a match.
        if self.is_match(line) { self.regex().captures(line) } else { None }
    }

    fn regex(&self) -> &Regex {
        self.compiled.get_or_init(|| {
            let built = RegexBuilder::new(self.text).unicode(false).build();
            built.expect("a pattern of the source")
        })
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pattern").field(&self.text).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_whole_characters() {
        let frame = Pattern::with("\u{276f}", r"\u{276f} (.*?)(\S)$");
        assert_eq!(frame.group("\u{276f} gr\u{fc}\u{df}e: \u{e4}", 1), Some("gr\u{fc}\u{df}e: "));
        assert_eq!(frame.group("> x", 1), None);
        assert_eq!(frame.start("ab \u{276f} x"), Some(3));
    }

    #[test]
    fn lines_without_the_literal_do_not_compile_it() {
        let pattern = Pattern::with("-->", r"^\s*--> (\S+)");
        assert!(!pattern.is_match("error: x") && pattern.compiled.get().is_none());
        assert!(pattern.is_match("  --> src/a.rs:1:2") && pattern.compiled.get().is_some());
    }
}
