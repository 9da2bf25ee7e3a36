//! Compiles the pattern of a query to a matcher.

use std::io;
use std::str::Utf8Chunk;

use grep_regex::{Error, RegexMatcher, RegexMatcherBuilder};

use crate::Query;
use crate::query::{CaseMode, SearchOptions};
use ctxfs_core::parallel::MAX_THREADS;

// A pattern above this size is searched as literal text.
const PATTERN_BYTES: usize = 10 << 20;
// Maximum size in bytes of the automaton that each thread of a search builds during the search.
const AUTOMATON_BYTES: usize = (64 << 20) / MAX_THREADS;

/// A compiled pattern. `fallback` is the reason why a pattern that is not a valid regular expression
/// is searched as literal text.
pub(super) struct CompiledPattern {
    pub(super) matcher: RegexMatcher,
    pub(super) fallback: Option<String>,
}

pub(super) fn build(query: &Query) -> io::Result<CompiledPattern> {
    let builder = builder(query.options());
    let (built, fallback) = match str::from_utf8(query.pattern()) {
        Ok(text) if query.options().fixed => (literals(&builder, text), None),
        Ok(text) => match builder.build(text) {
            Ok(matcher) => (Ok(matcher), None),
            Err(error) => (literals(&builder, text), Some(reason(&error))),
        },
        Err(_) => (builder.build(&escaped(query.pattern())), Some("not UTF-8".to_owned())),
    };
    built.map(|matcher| CompiledPattern { matcher, fallback }).map_err(io::Error::other)
}

// Returns a builder with the settings that ripgrep uses.
fn builder(options: &SearchOptions) -> RegexMatcherBuilder {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(options.case == CaseMode::Insensitive)
        .case_smart(options.case == CaseMode::Smart)
        .multi_line(true)
        .word(options.word)
        .line_terminator(Some(b'\n'))
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(AUTOMATON_BYTES);
    if options.line {
        builder.whole_line(true);
    }
    builder
}

// Builds a matcher for the lines of `text`, each of which is an alternative, because no match spans
// lines.
fn literals(builder: &RegexMatcherBuilder, text: &str) -> Result<RegexMatcher, Error> {
    let mut lines: Vec<&str> = text.split('\n').filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        lines.push("");
    }
    builder.clone().fixed_strings(true).build_many(&lines)
}

// Returns a regular expression for bytes that are not all UTF-8.
fn escaped(bytes: &[u8]) -> String {
    let chunk = |chunk: Utf8Chunk<'_>| {
        let invalid = chunk.invalid().iter().map(|byte| format!("(?-u:\\x{byte:02x})"));
        [regex::escape(chunk.valid())].into_iter().chain(invalid).collect::<String>()
    };
    bytes.utf8_chunks().map(chunk).collect::<String>().replace('\n', "|")
}

// Returns the last line of an error message, such as `unclosed group`. The lines before it show the
// pattern.
fn reason(error: &Error) -> String {
    let message = error.to_string();
    let last = message.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").trim().to_owned()
}
