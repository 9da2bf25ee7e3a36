//! `.grep/<query>`: the output of `rg -n <query>`.
//!
//! ripgrep's libraries do the searching. This module adds three things. Lines that are too long for
//! memory or for a reader are searched in overlapping pieces and shown as windows ([`fold`],
//! [`page`]). A result that is too large for a reader is cut where a later search can continue
//! ([`page`]). A query that matches nothing as it stands is read as a shell or grep would. The first
//! lines tell the reader about all of this.

pub(super) mod corpus;
mod fold;
pub(super) mod many;
mod matcher;
pub(super) mod page;
mod read_ahead;
mod report;

use std::borrow::Cow;
use std::io;
use std::io::Write;
use std::str::Utf8Chunk;

use grep_regex::{Error, RegexMatcher, RegexMatcherBuilder};

use crate::grep::fold::{LineMap, SearchStart};
use crate::grep::matcher::{Backtracking, LineMatcher};
use crate::grep::page::{CutPoint, Page};
use crate::grep::read_ahead::{ReadAheadSizes, SearchSpec};
use crate::grep::report::MatchReport;
use crate::number::{counted, grouped, portion};
use crate::query::{CaseMode, SearchOptions, Syntax, extended};
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
    let chosen = ChosenQuery::choose(query, |probe| finds(probe, subject, expired, sizes))?;
    let query = &*chosen.query;
    let pattern = build(query)?;
    let line_map = match fold::start(subject.content, query.options().from, expired)? {
        SearchStart::At(line_map) => line_map,
        SearchStart::Beyond => return Ok(Rendered::plain()),
        SearchStart::OutOfTime(offset) => return Ok(no_start(query, subject, offset)),
    };
    let page = Page::new(out, query.options().max == Some(0)).at_most(subject.view_bytes());
    let name = subject.place.name().as_bytes();
    let page = if query.options().named == Some(true) { page.of(name) } else { page };
    let mut report = MatchReport::new(&pattern.matcher, query.options(), &line_map, page);
    let spec = SearchSpec { matcher: &pattern.matcher, options: query.options(), sizes };
    let out_of_memory = report::search(subject.content, spec, expired, &mut report)?;
    let outcome = SearchOutcome {
        notes: chosen.notes(&pattern, report.lines, |query| path(subject, query)),
        hard_lines: pattern.matcher.hard_lines(),
        out_of_time: line_map.out_of_time.get(),
        out_of_memory,
    };
    Ok(finish(query, subject, &line_map, report, &outcome, expired)?)
}

// Returns true if a line matches one of the patterns of `query`, which is a probe.
fn finds(
    query: &Query,
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    sizes: ReadAheadSizes,
) -> io::Result<bool> {
    let SearchStart::At(line_map) = fold::start(subject.content, query.options().from, expired)?
    else {
        return Ok(false);
    };
    let pattern = build(query)?;
    let mut sink = io::sink();
    let page = Page::new(&mut sink, true);
    let mut report = MatchReport::new(&pattern.matcher, query.options(), &line_map, page);
    let spec = SearchSpec { matcher: &pattern.matcher, options: query.options(), sizes };
    report::search(subject.content, spec, expired, &mut report)?;
    Ok(report.lines > 0)
}

fn path(subject: &Subject<'_>, query: &Query) -> String {
    subject.place.of_view(&format!(".grep/{query}")).file()
}

/// The query that is searched for: the given query, or if it matches nothing, another reading of it
/// that does.
pub(super) struct ChosenQuery<'a> {
    pub(super) query: Cow<'a, Query>,
    like: Option<&'static str>,
}

impl<'a> ChosenQuery<'a> {
    /// Returns the first reading that matches according to `finds`, which is called with probes.
    /// Returns the query itself if none does.
    pub(super) fn choose(
        query: &'a Query,
        finds: impl Fn(&Query) -> io::Result<bool>,
    ) -> io::Result<Self> {
        let others = query.other_readings();
        if !others.is_empty() && !finds(&query.probe())? {
            for other in others {
                if finds(&other.query.probe())? {
                    let (query, like) = (Cow::Owned(other.query), Some(other.like));
                    return Ok(Self { query, like });
                }
            }
        }
        Ok(Self { query: Cow::Borrowed(query), like: None })
    }

    /// Returns the notes that a result with `lines` matching lines begins with.
    pub(super) fn notes(
        &self,
        pattern: &CompiledPattern,
        lines: u64,
        path: impl Fn(&Query) -> String,
    ) -> Vec<String> {
        let reading = self.like.map(|like| {
            format!("nothing matches as it stands; read as {like} would: {}", path(&self.query))
        });
        let odd = self.query.odd_option().filter(|_| lines == 0);
        let odd = odd.map(|word| {
            format!("nothing matches; `{word}` is no option here, so it was searched as text")
        });
        let refused = self.query.options().refused.as_slice();
        let refused = (!refused.is_empty()).then(|| {
            let verb = if refused.len() == 1 { "has" } else { "have" };
            format!("`{}` {verb} no effect here", refused.join("`, `"))
        });
        [reading, odd, refused, pattern.note.clone()].into_iter().flatten().collect()
    }
}

/// The end of a search. `notes` tell how the query was read, and `hard_lines` is the number of lines
/// that took too many steps. `out_of_memory` is true if lines and their context did not fit into
/// memory, or if there were too many hard lines.
struct SearchOutcome {
    notes: Vec<String>,
    hard_lines: u64,
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
    let options = query.options();
    if options.names && !options.count {
        if (report.lines > 0) != options.without {
            report.page.push(format!("{}\n", subject.place.name()).as_bytes())?;
        }
    } else if options.count && report.count() > 0 {
        let name = if options.named == Some(true) { subject.place.name() } else { "" };
        let colon = if name.is_empty() { "" } else { ":" };
        report.page.push(format!("{name}{colon}{}\n", report.count()).as_bytes())?;
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
            self.outcome.out_of_time.then(|| self.out_of_time(cut.is_some())),
            self.outcome.out_of_memory.then(|| self.out_of_memory()),
            hard_lines(self.outcome.hard_lines),
            windowed.map(|at| page::long_lines("", at)),
        ];
        let notes = self.outcome.notes.iter().cloned();
        notice(notes.chain(lines.into_iter().flatten())).unwrap_or_default()
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
            path(self.subject, &on),
            path(self.subject, &self.query.at_most(0)),
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
        format!(
            "out of time after {portion}; what was found follows. Go on: {}",
            path(self.subject, &on)
        )
    }

    fn out_of_memory(&self) -> String {
        let line = grouped(self.line_map.position().line);
        if self.outcome.hard_lines > 0 {
            return format!("the pattern takes too long: stopped before line {line}");
        }
        format!("lines too long for so much context: stopped before line {line}")
    }
}

pub(super) fn hard_lines(lines: u64) -> Option<String> {
    (lines > 0).then(|| "some lines take too many steps to match; they are left out".to_owned())
}

/// A compiled pattern. `note` tells of a pattern that is not searched as it was written: as literal
/// text, or by another matcher.
pub(super) struct CompiledPattern {
    matcher: LineMatcher,
    note: Option<String>,
}

pub(super) fn build(query: &Query) -> io::Result<CompiledPattern> {
    let options = query.options();
    let builder = builder(options);
    let texts: Option<Vec<&str>> =
        query.patterns().iter().map(|pattern| str::from_utf8(pattern).ok()).collect();
    let as_text = |why: &str| Some(format!("not a regex ({why}): searched as text"));
    let linear = |(built, note): (Result<RegexMatcher, Error>, _)| {
        let matcher = LineMatcher::Linear(built.map_err(io::Error::other)?);
        Ok(CompiledPattern { matcher, note })
    };
    let backtracking =
        |texts: &[&str]| Backtracking::new(texts, options, [PATTERN_BYTES, AUTOMATON_BYTES]);
    let Some(texts) = texts else {
        let bytes = query.patterns().join(&b'\n');
        return linear((builder.build(&escaped(&bytes)), as_text("not UTF-8")));
    };
    if options.fixed {
        return linear((literals(&builder, &texts), None));
    }
    if options.syntax == Syntax::Perl {
        return match backtracking(&texts) {
            Ok(matcher) => {
                Ok(CompiledPattern { matcher: LineMatcher::Backtracking(matcher), note: None })
            }
            Err(why) => linear((literals(&builder, &texts), as_text(&why))),
        };
    }
    let basic: Vec<String>;
    let patterns: Vec<&str> = if options.syntax == Syntax::Basic {
        let converted = texts.iter().map(|text| extended(text.as_bytes()));
        basic = converted.map(|text| String::from_utf8_lossy(&text).into_owned()).collect();
        basic.iter().map(String::as_str).collect()
    } else {
        texts.clone()
    };
    let why = match builder.build_many(&patterns) {
        Ok(matcher) => return linear((Ok(matcher), None)),
        Err(error) => reason(&error),
    };
    if why.contains("not supported")
        && let Ok(matcher) = backtracking(&patterns)
    {
        let note = Some(format!("{why} without -P: searched with -P"));
        return Ok(CompiledPattern { matcher: LineMatcher::Backtracking(matcher), note });
    }
    linear((literals(&builder, &texts), as_text(&why)))
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

// Builds a matcher for the lines of `texts`, each of which is an alternative, because no match spans
// lines.
fn literals(builder: &RegexMatcherBuilder, texts: &[&str]) -> Result<RegexMatcher, Error> {
    let lines = texts.iter().flat_map(|text| text.split('\n'));
    let mut lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
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
