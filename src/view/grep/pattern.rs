//! The pattern of a query as a matcher, with a faster finder for literals in any case.

use std::io;
use std::str::Utf8Chunk;

use grep_regex::{Error, RegexMatcher, RegexMatcherBuilder};

use crate::Query;
use crate::grep::caseless::CaselessFinder;
use crate::grep::read_ahead;
use crate::grep::read_ahead::{ReadAheadSizes, SearchSpec};
use crate::query::{Case, Options};

// A larger pattern is searched as text.
const PATTERN_BYTES: usize = 10 << 20;
// Of the automaton that each thread of a search builds as it goes.
const AUTOMATON_BYTES: usize = (64 << 20) / read_ahead::MOST_THREADS;

/// A pattern that is ready to be searched. `caseless` finds the same lines faster, if there is one;
/// `fallback` is the reason why a pattern that is not a regular expression is searched as text.
pub(super) struct CompiledPattern {
    pub(super) matcher: RegexMatcher,
    caseless: Option<CaselessFinder>,
    pub(super) fallback: Option<String>,
}

impl CompiledPattern {
    /// Returns a search for the pattern.
    pub(super) fn spec<'a>(
        &'a self,
        options: &'a Options,
        sizes: ReadAheadSizes,
    ) -> SearchSpec<'a> {
        SearchSpec { matcher: &self.matcher, caseless: self.caseless.as_ref(), options, sizes }
    }
}

/// Compiles the pattern of `query`. One that is not a regular expression is searched as text.
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
    let caseless = CaselessFinder::new(query.pattern(), query.options());
    built.map(|matcher| CompiledPattern { matcher, caseless, fallback }).map_err(io::Error::other)
}

// The settings that ripgrep uses.
fn builder(options: &Options) -> RegexMatcherBuilder {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(options.case == Case::Insensitive)
        .case_smart(options.case == Case::Smart)
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

// No match spans lines, so each line of `text` is searched for.
fn literals(builder: &RegexMatcherBuilder, text: &str) -> Result<RegexMatcher, Error> {
    let mut lines: Vec<&str> = text.split('\n').filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        lines.push("");
    }
    builder.clone().fixed_strings(true).build_many(&lines)
}

// A regular expression for bytes that are not all UTF-8.
fn escaped(bytes: &[u8]) -> String {
    let chunk = |chunk: Utf8Chunk<'_>| {
        let invalid = chunk.invalid().iter().map(|byte| format!("(?-u:\\x{byte:02x})"));
        [regex::escape(chunk.valid())].into_iter().chain(invalid).collect::<String>()
    };
    bytes.utf8_chunks().map(chunk).collect::<String>().replace('\n', "|")
}

// `unclosed group`: the last line of a message that shows the pattern first.
fn reason(error: &Error) -> String {
    let message = error.to_string();
    let last = message.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").trim().to_owned()
}
