//! The steps in a summary: views with which a reader can continue. A step that leads to an error is
//! offered only if trying it shows the error in few bytes.
//!
//! Four spaces end the name of a view, because searches and filters contain single spaces.

use std::cell::RefCell;
use std::io;
use std::sync::LazyLock;

use bstr::ByteSlice as _;
use regex::bytes::Regex;

use crate::errors::{Finding, Findings};
use crate::number::counted;
use crate::scan;
use crate::{PageNumber, Query, RenderError, Rendered, Words, find, grep};
use ctxfs_core::model::{ErrorLine, ErrorRank, Json, Subject, TriedView};

// Number of lines that a part shows on either side of its central line.
const PART_LINES: u64 = 10;
// Minimum number of letters in a word to search for, and maximum number of words.
const MIN_WORD_LETTERS: usize = 4;
const MAX_WORDS: usize = 3;
// The steps that are offered if the summary cannot suggest words of the output.
const ANY_WORDS: &str = "find:   .find/WORDS    (the passages that fit some words best)";
const ANY_SEARCH: &str = "search: .grep/PATTERN";
// Maximum number of lines that a search shows, and the number of lines up to which it also shows
// context.
const MAX_LINES: u64 = 40;
const FEW_LINES: u64 = 10;
// Number of context lines around each match if there are few matches.
const CONTEXT_LINES: u64 = 3;
// Maximum number of errors whose names a search contains.
const MAX_NAMES: usize = 3;
// Allowed length of a phrase in bytes.
const PHRASE_BYTES: std::ops::RangeInclusive<usize> = 8..=40;
// Maximum number of bytes that a step shows.
const STEP_BYTES: usize = 8 << 10;
// Maximum sizes in bytes of outputs in which searches are tried, and of outputs in which words are
// tried. Either takes about 20 milliseconds.
const MAX_SEARCHED_BYTES: u64 = 16 << 20;
const MAX_FOUND_BYTES: u64 = 512 << 10;

// Returns the line that names the artifact itself. The other lines have suffixes of this name.
pub(super) fn file(subject: &Subject<'_>) -> String {
    let place = subject.place;
    let added = if place.is_read_by_command() { "the path, in quotes" } else { "it" };
    format!("file:   {}    (names below that begin with a dot are added to {added})", place.file())
}

pub(super) fn to_errors(subject: &Subject<'_>, found: &Findings) -> io::Result<Vec<String>> {
    if found.shown.is_empty() {
        let search = format!("{ANY_SEARCH}    part: {}", any_part(subject));
        return Ok(vec![ANY_WORDS.to_owned(), search]);
    }
    let kinds = counted(found.shown.len() as u64, "kind");
    let next = || format!("next:   .errors    ({kinds} of error, with the lines around each)");
    let next = (!is_document(subject)).then(next);
    let trials = Trials::of(subject);
    let search = search_step(&trials, found)?.unwrap_or_else(|| ANY_SEARCH.to_owned());
    let part = part_step(subject, found)?;
    let part = part.unwrap_or_else(|| format!("part:   {}", any_part(subject)));
    let steps = [next, find_step(&trials, found)?, Some(search), Some(part)];
    Ok(steps.into_iter().flatten().collect())
}

// Returns the name of a range of lines. If the output is one line, the lines are those of the view
// that breaks it.
fn any_part(subject: &Subject<'_>) -> &'static str {
    match subject.analysis.json {
        _ if subject.analysis.lines > 1 => ".lines/A-B",
        Json::Document { .. } | Json::Lines { .. } => ".pretty.lines/A-B",
        Json::No | Json::Broken { .. } => ".wrap.lines/A-B",
    }
}

pub(super) fn tried(subject: &Subject<'_>, found: &Findings) -> io::Result<Vec<TriedView>> {
    let trials = Trials::of(subject);
    if !found.shown.is_empty() {
        find_step(&trials, found)?;
        search_step(&trials, found)?;
    }
    Ok(trials.made.into_inner())
}

// Returns true for a single JSON value. A filter shows more about its errors than lines do.
pub(super) fn is_document(subject: &Subject<'_>) -> bool {
    matches!(subject.analysis.json, Json::Document { .. })
}

pub(super) fn to_the_rest(subject: &Subject<'_>) -> Vec<String> {
    let analysis = subject.analysis;
    let end = (analysis.lines > 1).then(|| "end:    .tail    (last 200 lines)".to_owned());
    let count = PageNumber::count(subject.content.len());
    let (first, last) = (PageNumber::after(0), PageNumber::after(count - 1));
    let pages = (count > 1)
        .then(|| format!("pages:  .pages/{first} to .pages/{last}    (all of it, 6 KB each)"));
    end.into_iter().chain(pages).collect()
}

// Returns the view that finds an error by its name and the names of other errors, or by some of its
// words.
fn find_step(trials: &Trials<'_>, found: &Findings) -> io::Result<Option<String>> {
    let Some(first) = found.shown.first() else { return Ok(None) };
    let subject = trials.subject;
    let names = error_names(subject, found)?;
    let names = (names.len() > 1).then(|| names.iter().map(String::as_str).collect());
    for words in names.into_iter().chain(word_choices(&first.message)) {
        let words = Words::of(&words.join(" "));
        if !can_be_found(subject) || trials.words(&words, first.at.line)?.shows {
            return Ok(Some(format!("find:   .find/{words}")));
        }
    }
    Ok(None)
}

// Returns words of a message to try: the longest, the first, the last. Leaves out paths.
fn word_choices(message: &str) -> Vec<Vec<&str>> {
    let is_word = |word: &&str| {
        word.len() >= MIN_WORD_LETTERS && word.chars().all(|letter| letter.is_ascii_alphabetic())
    };
    let texts = message.split_whitespace().filter(|text| !text.contains(['/', '\\']));
    let mut words: Vec<&str> = Vec::new();
    for word in texts.flat_map(|text| text.split(|c: char| !c.is_alphanumeric())).filter(is_word) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    let (first, last) = (words.len().min(MAX_WORDS), words.len().saturating_sub(MAX_WORDS));
    let (first, last) = (words[..first].to_vec(), words[last..].to_vec());
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    words.truncate(MAX_WORDS);
    let mut choices = vec![words, first, last];
    choices.retain(|words| !words.is_empty());
    choices
}

/// Returns the step that shows the lines around the first error. The range extends to the last
/// exception that the error caused, if the range stays small.
fn part_step(subject: &Subject<'_>, found: &Findings) -> io::Result<Option<String>> {
    let Some(error) = found.shown.first() else { return Ok(None) };
    let at = error.at;
    let half = STEP_BYTES / 2;
    let start = at.offset.saturating_sub(half as u64);
    let before = subject.content.bytes(start, (at.offset - start) as usize)?;
    let (before, own) = before.split_at(memchr::memrchr(b'\n', &before).map_or(0, |end| end + 1));
    let lines: Vec<&[u8]> = before.split_inclusive(|byte| *byte == b'\n').collect();
    let whole = lines.len() - usize::from(start > 0).min(lines.len());
    let above = &lines[lines.len() - whole.min(PART_LINES as usize)..];
    let room = STEP_BYTES - own.len() - above.iter().map(|line| line.len()).sum::<usize>();
    let last = last_consequence(found, at.offset + room as u64).unwrap_or(at);
    let length = (last.offset - at.offset) as usize + if last == at { half } else { room };
    let after = subject.content.bytes(at.offset, length.min(room))?;
    let to_last = after.get((last.offset - at.offset) as usize..).unwrap_or_default();
    let newlines = scan::newlines(to_last);
    let is_all = at.offset + after.len() as u64 == subject.content.len();
    let (below, ends) = (newlines.saturating_sub(u64::from(!is_all)), newlines > 0 || is_all);
    let (first, last) = (at.line - above.len() as u64, last.line + below.min(PART_LINES));
    let last = last.min(subject.analysis.lines);
    Ok((first < last && ends).then(|| format!("part:   .lines/{first}-{last}")))
}

// Returns the last exception before the offset `end` that the first error caused.
fn last_consequence(found: &Findings, end: u64) -> Option<ErrorLine> {
    let first = found.shown.first()?.at;
    let caused = |at: &ErrorLine| {
        let near = first.offset < at.offset && at.offset + u64::from(at.length) < end;
        near && matches!(at.rank, ErrorRank::Cause | ErrorRank::Outer)
    };
    let is_cause = first.rank == ErrorRank::Cause;
    found
        .shown
        .iter()
        .map(|finding| finding.at)
        .filter(caused)
        .max_by_key(|at| at.line)
        .filter(|_| is_cause)
}

/// Returns the first candidate search that shows the most informative error and little else, as
/// `search: .grep/JSONDecodeError|SyncError    (12 lines)`. Returns `None` if there is no such
/// search or if the output is too long to try.
fn search_step(trials: &Trials<'_>, found: &Findings) -> io::Result<Option<String>> {
    let subject = trials.subject;
    let Some(first) = found.shown.first().filter(|_| can_be_searched(subject)) else {
        return Ok(None);
    };
    for query in queries(subject, found)? {
        let Some(lines) = hits(trials, &query, first)? else { continue };
        let around = query.around(CONTEXT_LINES);
        let helps = lines <= FEW_LINES && trials.search(&around, first.at.line)?.lines.is_some();
        let (query, lines) = (if helps { around } else { query }, counted(lines, "line"));
        return Ok(Some(format!("search: .grep/{query}    ({lines})")));
    }
    Ok(None)
}

// Returns candidate searches: for the names of the first errors, for the words of all errors, for
// the name of the first error, and for a phrase of it.
fn queries(subject: &Subject<'_>, found: &Findings) -> io::Result<Vec<Query>> {
    let names: Vec<String> =
        error_names(subject, found)?.iter().map(|name| regex::escape(name)).collect();
    let all = |names: &[String]| (names.len() > 1).then(|| Query::of(&names.join("|")));
    let words = &subject.analysis.errors.words;
    let first = |names: &[String]| names.first().map(|name| Query::of(name));
    let phrase = match found.shown.first() {
        Some(finding) => {
            phrase(&subject.content.bytes(finding.at.offset, finding.at.length as usize)?)
                .map(|phrase| Query::of(&phrase))
        }
        None => None,
    };
    let queries = [all(&names), all(words), first(words), first(&names), phrase];
    Ok(queries.into_iter().flatten().collect())
}

// Returns the names of the first errors: exceptions, codes, signals.
fn error_names(subject: &Subject<'_>, found: &Findings) -> io::Result<Vec<String>> {
    let telling = |finding: &&Finding| {
        matches!(finding.at.rank, ErrorRank::Cause | ErrorRank::Error | ErrorRank::Outer)
    };
    let mut names: Vec<String> = Vec::new();
    for finding in found.shown.iter().filter(telling).take(MAX_NAMES) {
        let own = subject.content.bytes(finding.at.offset, finding.at.length as usize)?;
        let name = NAME.find(&own).map(|name| name.as_bytes().to_str_lossy().into_owned());
        names.extend(name.filter(|name| !names.contains(name)));
    }
    Ok(names)
}

// Returns the longest piece of a line without numbers, quotes, brackets or gaps, as a pattern.
fn phrase(line: &[u8]) -> Option<String> {
    let pieces = line.split(|byte| !(byte.is_ascii_alphabetic() || b" :_-'.,/".contains(byte)));
    let pieces = pieces.flat_map(|piece| piece.split_str(b"  "));
    let piece = pieces.map(<[u8]>::trim_ascii).max_by_key(|piece| piece.len())?;
    let end = piece.len().min(*PHRASE_BYTES.end());
    let end = if end < piece.len() { piece[..end].rfind_byte(b' ').unwrap_or(end) } else { end };
    let piece = piece[..end].trim_ascii().to_str().ok()?;
    (piece.len() >= *PHRASE_BYTES.start()).then(|| regex::escape(piece))
}

/// Returns the number of lines that a search shows. Returns `None` if these do not include the
/// error `first`, or if they are many or long.
fn hits(trials: &Trials<'_>, query: &Query, first: &Finding) -> io::Result<Option<u64>> {
    let tried = trials.search(query, first.at.line)?;
    Ok(tried.lines.filter(|lines| *lines <= MAX_LINES && tried.shows))
}

// Matches the name of an error: an exception, a code or a signal.
static NAME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?-u)\b[A-Za-z_]\w*(Error|Exception|Failure|Fault|Panic|Interrupt)\b|\b[A-Z]{1,4}-?\d{3,5}\b|\bE[A-Z]{4,}\b|\bSIG[A-Z]{3,}\b",
    )
    .expect("a pattern of this file")
});

fn can_be_searched(subject: &Subject<'_>) -> bool {
    subject.content.len() <= MAX_SEARCHED_BYTES
}

fn can_be_found(subject: &Subject<'_>) -> bool {
    subject.content.len() <= MAX_FOUND_BYTES
}

/// The steps that were tried on a subject. A step whose result is in the shortcuts is not tried
/// again.
struct Trials<'a> {
    subject: &'a Subject<'a>,
    made: RefCell<Vec<TriedView>>,
}

impl<'a> Trials<'a> {
    fn of(subject: &'a Subject<'a>) -> Self {
        Self { subject, made: RefCell::default() }
    }

    fn search(&self, query: &Query, line: u64) -> io::Result<TriedView> {
        self.tried(format!(".grep/{query}"), line, |text| {
            grep::render(query, self.subject, &|| false, text)
        })
    }

    fn words(&self, words: &Words, line: u64) -> io::Result<TriedView> {
        self.tried(format!(".find/{words}"), line, |text| {
            find::render(words, self.subject, &|| false, text)
        })
    }

    fn tried(
        &self,
        view: String,
        line: u64,
        render: impl FnOnce(&mut Vec<u8>) -> Result<Rendered, RenderError>,
    ) -> io::Result<TriedView> {
        let shortcuts = self.subject.analysis.shortcuts.as_ref();
        if let Some(known) = shortcuts.and_then(|shortcuts| shortcuts.tried(&view, line)) {
            return Ok(known.clone());
        }
        let mut text = Vec::new();
        let outcome = match render(&mut text) {
            Ok(_) => outcome(view, line, &text),
            Err(RenderError::NotFound) => TriedView { view, line, lines: None, shows: false },
            Err(RenderError::Io(error)) => return Err(error),
        };
        self.made.borrow_mut().push(outcome.clone());
        Ok(outcome)
    }
}

fn outcome(view: String, line: u64, text: &[u8]) -> TriedView {
    let lines = (text.len() <= STEP_BYTES).then(|| text.lines().count() as u64);
    TriedView { view, line, lines, shows: shows(text, line) }
}

// Returns true if `text` shows the line number `line` in the format of a search.
fn shows(text: &[u8], line: u64) -> bool {
    let number = line.to_string();
    text.lines().any(|line| {
        line.strip_prefix(number.as_bytes())
            .and_then(<[u8]>::first)
            .is_some_and(|mark| b":-@".contains(mark))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phrase_has_no_numbers_and_ends_with_a_word() {
        let cases: [(&str, Option<&str>); 5] = [
            ("error: request 17 timed out", Some("error: request")),
            ("2026-11-22 10:00:00 [worker] cannot reach the host", Some("cannot reach the host")),
            ("E: 1", None),
            (
                "fatal: the remote end hung up unexpectedly while it was reading the header",
                Some("fatal: the remote end hung up"),
            ),
            ("a.b.c(d) failed to start", Some("failed to start")),
        ];
        for (line, wanted) in cases {
            assert_eq!(phrase(line.as_bytes()).as_deref(), wanted, "{line}");
        }
    }

    #[test]
    fn names_of_errors() {
        for (line, name) in [
            ("json.decoder.JSONDecodeError: Expecting", "JSONDecodeError"),
            ("error[E0308]: mismatched types", "E0308"),
            ("src/a.ts(1,2): error TS2322: Type", "TS2322"),
            ("npm error code ERESOLVE", "ERESOLVE"),
            ("killed by SIGSEGV", "SIGSEGV"),
        ] {
            let found = NAME.find(line.as_bytes()).map(|found| found.as_bytes());
            assert_eq!(found, Some(name.as_bytes()), "{line}");
        }
    }
}
