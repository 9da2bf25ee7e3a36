//! `.grep/<query>`: the output of `rg -n <query>`.
//!
//! ripgrep's libraries do the searching. This module adds three things. Lines that are too long for
//! memory or for a reader are searched in overlapping pieces and shown as windows ([`fold`],
//! [`page`]). A result that is too large for a reader is cut where a later search can continue
//! ([`page`]). The first lines tell the reader about both.

pub(super) mod corpus;
mod fold;
pub(super) mod many;
pub(super) mod page;
mod read_ahead;
mod report;

use std::io;
use std::io::Write;
use std::str::Utf8Chunk;

use grep_regex::{Error, RegexMatcher, RegexMatcherBuilder};

use crate::grep::fold::{LineMap, SearchStart};
use crate::grep::page::{CutPoint, Page};
use crate::grep::read_ahead::{ReadAheadSizes, SearchSpec};
use crate::grep::report::MatchReport;
use crate::number::{counted, grouped, portion};
use crate::query::{CaseMode, SearchOptions};
use crate::range::TextPosition;
use crate::rendered::{RenderError, Rendered, notice};
use crate::{Query, scan};
use ctxfs_core::model::Subject;
use ctxfs_core::parallel::MAX_THREADS;

// A pattern above this size is searched as literal text.
const PATTERN_BYTES: usize = 10 << 20;
// Maximum size in bytes of the automaton that each thread of a search builds during the search.
const AUTOMATON_BYTES: usize = (64 << 20) / MAX_THREADS;

pub(super) fn render(
    query: &Query,
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    search(query, subject, expired, out, ReadAheadSizes::default())
}

fn search(
    query: &Query,
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
    sizes: ReadAheadSizes,
) -> Result<Rendered, RenderError> {
    let pattern = build(query)?;
    let line_map = match fold::start(subject.content, query.options().from, expired)? {
        SearchStart::At(line_map) => line_map,
        SearchStart::Beyond => return Ok(Rendered::plain()),
        SearchStart::OutOfTime(offset) => return Ok(no_start(query, subject, offset)),
    };
    let page = Page::new(out, query.options().max == Some(0)).at_most(subject.view_bytes());
    let mut report = MatchReport::new(&pattern.matcher, query.options(), &line_map, page);
    let spec = SearchSpec { matcher: &pattern.matcher, options: query.options(), sizes };
    let out_of_memory = report::search(subject.content, spec, expired, &mut report)?;
    let outcome = SearchOutcome {
        fallback: pattern.fallback,
        out_of_time: line_map.out_of_time.get(),
        out_of_memory,
    };
    Ok(finish(query, subject, &line_map, report, &outcome, expired)?)
}

/// The end of a search. `fallback` is the reason why the pattern was searched as literal text, if
/// it was. `out_of_memory` is true if lines and their context did not fit into memory.
struct SearchOutcome {
    fallback: Option<String>,
    out_of_time: bool,
    out_of_memory: bool,
}

// `all_lines` is the number of lines of the content, if it is needed and could be counted.
struct SearchNotices<'a> {
    query: &'a Query,
    subject: &'a Subject<'a>,
    line_map: &'a LineMap,
    outcome: &'a SearchOutcome,
    lines: u64,
    all_lines: Option<u64>,
    windowed: Option<TextPosition>,
}

fn finish(
    query: &Query,
    subject: &Subject<'_>,
    line_map: &LineMap,
    mut report: MatchReport<'_>,
    outcome: &SearchOutcome,
    expired: &dyn Fn() -> bool,
) -> io::Result<Rendered> {
    if query.options().count && report.count() > 0 {
        report.page.push(format!("{}\n", report.count()).as_bytes())?;
    }
    let (lines, windowed) = (report.lines, report.windowed);
    let count = || scan::count_lines_from(subject, line_map.counted(), expired);
    let all_lines = if report.page.full { count()? } else { None };
    let notices = SearchNotices { query, subject, line_map, outcome, lines, all_lines, windowed };
    let cut = report.page.shorten(subject.view_bytes().saturating_sub(notices.longest()));
    report.page.flush()?;
    let text = notices.text(cut);
    Ok(Rendered { notice: (!text.is_empty()).then_some(text), whole: !outcome.out_of_time })
}

fn no_start(query: &Query, subject: &Subject<'_>, offset: u64) -> Rendered {
    let notice = format!(
        "# out of time after {}, before the search began. Again: {}\n",
        portion(offset, subject.content.len()),
        subject.place.of_view(&format!(".grep/{query}")).file(),
    );
    Rendered { notice: Some(notice), whole: false }
}

impl SearchNotices<'_> {
    fn text(&self, cut: Option<CutPoint>) -> String {
        let windowed = self.windowed.filter(|at| cut.is_none_or(|cut| *at < cut.from));
        let lines = [
            cut.map(|cut| self.cut(cut.from, cut.shown)),
            self.outcome
                .fallback
                .as_ref()
                .map(|why| format!("not a regex ({why}): searched as text")),
            self.outcome.out_of_time.then(|| self.out_of_time(cut.is_some())),
            self.outcome.out_of_memory.then(|| self.out_of_memory()),
            windowed.map(|at| page::long_lines("", at)),
        ];
        notice(lines.into_iter().flatten()).unwrap_or_default()
    }

    // Returns the maximum size in bytes of the notices of a cut result.
    fn longest(&self) -> usize {
        let far = TextPosition { line: u64::MAX, column: u64::MAX };
        let cut = self.cut(far, self.lines).len() + 64;
        cut + self.text(None).len()
    }

    fn cut(&self, from: TextPosition, shown: u64) -> String {
        let left = self.query.options().max.map(|max| max.saturating_sub(shown).max(1));
        let on =
            left.map_or_else(|| self.query.clone(), |left| self.query.at_most(left)).from(from);
        let verb = if self.lines == 1 { "matches" } else { "match" };
        let inside = if from.column > 1 {
            format!(", line {} up to byte column {}", grouped(from.line), grouped(from.column - 1))
        } else {
            String::new()
        };
        let follow = match shown {
            1 => "the first follows".to_owned(),
            more => format!("the first {} follow", grouped(more)),
        };
        format!(
            "{}{} {verb}; {follow}{inside}. Go on: {}    All at once: {}",
            grouped(self.lines),
            self.among(),
            self.path(&on),
            self.path(&self.query.at_most(0)),
        )
    }

    // Formats the total: ` of 8,112 lines`.
    fn among(&self) -> String {
        let from = self.query.options().from.map_or(1, |from| from.line);
        match self.all_lines {
            _ if self.outcome.out_of_time => " lines so far".to_owned(),
            None => format!(" line{}", if self.lines == 1 { "" } else { "s" }),
            Some(lines) if from == 1 => format!(" of {}", counted(lines, "line")),
            Some(lines) => {
                let rest = (lines + 1).saturating_sub(from);
                format!(" of the {} from line {} on", counted(rest, "line"), grouped(from))
            }
        }
    }

    fn out_of_time(&self, cut: bool) -> String {
        let portion = portion(self.line_map.offset(), self.subject.content.len());
        if cut {
            return format!("out of time after {portion}");
        }
        let on = self.query.from(self.line_map.position());
        format!("out of time after {portion}; what was found follows. Go on: {}", self.path(&on))
    }

    fn out_of_memory(&self) -> String {
        let at = self.line_map.position();
        format!("lines too long for so much context: stopped before line {}", grouped(at.line))
    }

    fn path(&self, query: &Query) -> String {
        self.subject.place.of_view(&format!(".grep/{query}")).file()
    }
}

/// A compiled pattern. `fallback` is the reason why a pattern that is not a valid regular expression
/// is searched as literal text.
pub(super) struct CompiledPattern {
    matcher: RegexMatcher,
    fallback: Option<String>,
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

#[cfg(test)]
mod tests;
