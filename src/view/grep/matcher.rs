//! The matcher of a search: ripgrep's, or one for `-P`.
//!
//! `-P` is for what ripgrep's regular expressions lack: look-around and backreferences. PCRE2 would be
//! a C library that runs patterns of any reader in the process of the mount, so the matcher is
//! `fancy_regex`. It backtracks, but a line takes a bounded number of steps, and a search gives up
//! after a bounded number of lines that take too many.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use fancy_regex::{BytesMode, Regex, RegexBuilder};
use grep_matcher::{ByteSet, Captures, LineMatchKind, LineTerminator, Match, Matcher, NoCaptures};
use grep_regex::RegexMatcher;

use crate::query::{CaseMode, SearchOptions};

// Maximum number of steps for a line. A line of the maximum length of a piece takes about as many
// steps as it has bytes.
const MAX_STEPS: usize = 1 << 20;
// Number of lines that may take more steps before the search gives up.
const MAX_HARD_LINES: u64 = 20;
// Maximum number of instructions of a compiled pattern.
const MAX_PROGRAM: usize = 1 << 20;

#[derive(Debug, Clone)]
pub(super) enum LineMatcher {
    Linear(RegexMatcher),
    Backtracking(Backtracking),
}

/// A matcher for one line at a time. `hard` counts the lines that took too many steps. They do not
/// match.
#[derive(Debug, Clone)]
pub(super) struct Backtracking {
    regex: Regex,
    hard: Arc<AtomicU64>,
}

/// Too many lines take too many steps.
#[derive(Debug, thiserror::Error)]
#[error("the pattern takes too many steps")]
pub(super) struct TooHard;

impl Backtracking {
    /// Compiles alternative patterns, or returns the reason why they are not valid.
    pub(super) fn new(
        patterns: &[&str],
        options: &SearchOptions,
        memory: [usize; 2],
    ) -> Result<Self, String> {
        let mut pattern = match patterns {
            [pattern] => (*pattern).to_owned(),
            patterns => format!("(?:{})", patterns.join(")|(?:")),
        };
        if options.line {
            pattern = format!("^(?:{pattern})$");
        } else if options.word {
            pattern = format!("(?<!\\w)(?:{pattern})(?!\\w)");
        }
        let ignores_case = match options.case {
            CaseMode::Sensitive => false,
            CaseMode::Insensitive => true,
            CaseMode::Smart => !has_upper_case(&pattern),
        };
        let built = RegexBuilder::new(&pattern)
            .bytes_mode(BytesMode::UnicodeBytes)
            .case_insensitive(ignores_case)
            .multi_line(true)
            .backtrack_limit(MAX_STEPS)
            .delegate_size_limit(memory[0])
            .delegate_dfa_size_limit(memory[1])
            .delegate_dfa_skip_cache_capacity_check(false)
            .max_prog_size(MAX_PROGRAM)
            .build();
        let regex = built.map_err(|error| reason(&error))?;
        Ok(Self { regex, hard: Arc::default() })
    }
}

// Returns the innermost message of an error, beginning in lower case.
fn reason(error: &fancy_regex::Error) -> String {
    let message = error.to_string();
    let last = message.rsplit(": ").next().unwrap_or_default().trim();
    let mut chars = last.chars();
    chars.next().map(|first| first.to_lowercase().chain(chars).collect()).unwrap_or_default()
}

fn has_upper_case(pattern: &str) -> bool {
    let mut chars = pattern.chars();
    while let Some(char) = chars.next() {
        if char == '\\' {
            chars.next();
        } else if char.is_uppercase() {
            return true;
        }
    }
    false
}

impl LineMatcher {
    pub(super) fn hard_lines(&self) -> u64 {
        match self {
            Self::Linear(_) => 0,
            Self::Backtracking(matcher) => matcher.hard.load(Relaxed),
        }
    }

    /// Appends what replaces the match that begins at `at`. In `template`, `$1` and `$name` are the
    /// groups of the match.
    pub(super) fn replace(&self, text: &[u8], at: usize, template: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Linear(matcher) => {
                let Ok(mut groups) = matcher.new_captures() else { return };
                if matcher.captures_at(text, at, &mut groups).unwrap_or(false) {
                    groups.interpolate(|name| matcher.capture_index(name), text, template, out);
                }
            }
            Self::Backtracking(Backtracking { regex, .. }) => {
                let text = text.strip_suffix(b"\n").unwrap_or(text);
                let Ok(Some(groups)) = regex.captures_from_pos(text, at) else { return };
                let index = |name: &str| regex.capture_names().position(|own| own == Some(name));
                Groups(groups).interpolate(index, text, template, out);
            }
        }
    }

    /// Returns true if a line may take so long that time has to be checked after a few lines.
    pub(super) fn is_slow(&self) -> bool {
        matches!(self, Self::Backtracking(_))
    }
}

struct Groups<'t>(fancy_regex::Captures<'t, [u8]>);

impl Captures for Groups<'_> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, index: usize) -> Option<Match> {
        self.0.get(index).map(|group| Match::new(group.start(), group.end()))
    }
}

impl Matcher for LineMatcher {
    type Captures = NoCaptures;
    type Error = TooHard;

    #[inline]
    fn find_at(&self, text: &[u8], at: usize) -> Result<Option<Match>, TooHard> {
        match self {
            Self::Linear(matcher) => Ok(matcher.find_at(text, at).unwrap_or_else(never)),
            Self::Backtracking(matcher) => matcher.find_at(text, at),
        }
    }

    fn new_captures(&self) -> Result<NoCaptures, TooHard> {
        Ok(NoCaptures::new())
    }

    #[inline]
    fn shortest_match_at(&self, text: &[u8], at: usize) -> Result<Option<usize>, TooHard> {
        match self {
            Self::Linear(matcher) => Ok(matcher.shortest_match_at(text, at).unwrap_or_else(never)),
            Self::Backtracking(matcher) => Ok(matcher.find_at(text, at)?.map(|found| found.end())),
        }
    }

    fn non_matching_bytes(&self) -> Option<&ByteSet> {
        match self {
            Self::Linear(matcher) => matcher.non_matching_bytes(),
            Self::Backtracking(_) => None,
        }
    }

    // Without one, the searcher passes single lines.
    fn line_terminator(&self) -> Option<LineTerminator> {
        match self {
            Self::Linear(matcher) => matcher.line_terminator(),
            Self::Backtracking(_) => None,
        }
    }

    #[inline]
    fn find_candidate_line(&self, text: &[u8]) -> Result<Option<LineMatchKind>, TooHard> {
        match self {
            Self::Linear(matcher) => Ok(matcher.find_candidate_line(text).unwrap_or_else(never)),
            Self::Backtracking(_) => Ok(self.shortest_match(text)?.map(LineMatchKind::Confirmed)),
        }
    }
}

fn never<T>(_: grep_matcher::NoError) -> Option<T> {
    None
}

impl Backtracking {
    // The newline of a line is no part of it.
    fn find_at(&self, text: &[u8], at: usize) -> Result<Option<Match>, TooHard> {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        if at > text.len() {
            return Ok(None);
        }
        match self.regex.find_from_pos(text, at) {
            Ok(found) => Ok(found.map(|found| Match::new(found.start(), found.end()))),
            Err(_) if self.hard.fetch_add(1, Relaxed) < MAX_HARD_LINES => Ok(None),
            Err(_) => Err(TooHard),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pattern: &str, options: &SearchOptions, text: &[u8]) -> Option<(usize, usize)> {
        let matcher = Backtracking::new(&[pattern], options, [10 << 20, 8 << 20]).unwrap();
        let matcher = LineMatcher::Backtracking(matcher);
        matcher.find(text).unwrap().map(|found| (found.start(), found.end()))
    }

    #[test]
    fn look_around_and_backreferences() {
        let plain = SearchOptions::default();
        assert_eq!(found("foo(?=bar)", &plain, b"foo foobar"), Some((4, 7)));
        assert_eq!(found("(?<!un)known", &plain, b"unknown known"), Some((8, 13)));
        assert_eq!(found(r"(\w+) \1", &plain, b"so it it is"), Some((3, 8)));
        assert_eq!(found("(?<=\u{e9})x", &plain, "a \u{e9}x".as_bytes()), Some((4, 5)));
        assert_eq!(found("b(?!c)", &plain, b"\xff bc b"), Some((5, 6)));
        let word = SearchOptions { word: true, ..SearchOptions::default() };
        assert_eq!(found("foo(?!x)", &word, b"foos foo"), Some((5, 8)));
        let line = SearchOptions { line: true, ..SearchOptions::default() };
        assert_eq!(found("a(?=b).*", &line, b"xab\n"), None);
        let smart = SearchOptions { case: CaseMode::Smart, ..SearchOptions::default() };
        assert_eq!(found(r"error\S(?=x)", &smart, b"ERROR:x"), Some((0, 6)));
        assert_eq!(found("Error(?=x)", &smart, b"ERRORx"), None);
    }

    #[test]
    fn a_pattern_that_never_ends_is_given_up() {
        let options = SearchOptions::default();
        let matcher =
            Backtracking::new(&[r"(?=(a+)+$)\1b"], &options, [10 << 20, 8 << 20]).unwrap();
        let matcher = LineMatcher::Backtracking(matcher);
        let line = [vec![b'a'; 60], vec![b'c']].concat();
        let tries = (0..=MAX_HARD_LINES).filter(|_| matcher.is_match(&line).is_ok()).count();
        assert!(tries as u64 <= MAX_HARD_LINES + 1);
        assert!(matcher.hard_lines() <= MAX_HARD_LINES + 1);
    }
}
