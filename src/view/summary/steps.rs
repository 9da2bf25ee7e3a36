//! The steps in a summary: views with which a reader can continue. A search that leads to an error
//! is offered only if it shows the error in few bytes.
//!
//! Four spaces end the name of a view, because searches and filters contain single spaces.

use std::cmp::Reverse;
use std::io;
use std::sync::LazyLock;

use bstr::ByteSlice as _;
use regex::bytes::Regex;

use crate::errors::{Finding, Findings};
use crate::number::counted;
use crate::scan;
use crate::summary::trials::{
    CONTEXT_LINES, FEW_LINES, FoundLines, MAX_TEXTS, SearchText, find_lines,
};
use crate::{PageNumber, Query, Words};
use ctxfs_core::model::{ErrorLine, ErrorRank, Json, Limits, Subject, TriedView};

// Number of lines that a part shows on either side of its central line.
const PART_LINES: u64 = 10;
// Minimum number of letters in a word to search for, and maximum number of words.
const MIN_WORD_LETTERS: usize = 4;
const MAX_WORDS: usize = 3;
// The steps that are offered if the summary cannot suggest words of the output.
const ANY_WORDS: &str = "find:   .find/WORDS    (the passages that fit some words best)";
const ANY_SEARCH: &str = "search: .grep/PATTERN";
// Maximum number of lines that a search shows.
const MAX_LINES: u64 = 40;
// A word that occurs in so few lines leads to each of them.
const RARE_LINES: u64 = 8;
// Maximum number of words of an error that are counted.
const MAX_COUNTED_WORDS: usize = 24;
// Maximum number of errors whose names a search contains.
const MAX_NAMES: usize = 3;
// Allowed length of a phrase in bytes.
const PHRASE_BYTES: std::ops::RangeInclusive<usize> = 8..=40;
// Maximum number of bytes that a step shows.
const STEP_BYTES: usize = 8 << 10;
// Maximum size in bytes of outputs in which searches are tried. That takes about 20 milliseconds.
const MAX_TRIED_BYTES: u64 = 16 << 20;
const FIND: &str = ".find/";

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
    let next =
        || format!("next:   .errors    ({} of error, with the lines around each)", found.kinds());
    let next = (!is_document(subject)).then(next);
    let tried = tried(subject, found)?;
    let leads = |tried: &&TriedView| tried.shows && tried.lines.is_none_or(|it| it <= MAX_LINES);
    let (words, searches): (Vec<_>, Vec<_>) =
        tried.iter().filter(leads).partition(|tried| tried.view.starts_with(FIND));
    let find = words.first().map(|tried| format!("find:   {}", tried.view));
    let search = searches.iter().find_map(|tried| {
        let lines = counted(tried.lines?, "line");
        Some(format!("search: {}    ({lines})", tried.view))
    });
    let part = part_step(subject, found)?;
    let part = part.unwrap_or_else(|| format!("part:   {}", any_part(subject)));
    let search = search.unwrap_or_else(|| ANY_SEARCH.to_owned());
    Ok([next, find, Some(search), Some(part)].into_iter().flatten().collect())
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

// Returns true for a single JSON value. A filter shows more about its errors than lines do.
pub(super) fn is_document(subject: &Subject<'_>) -> bool {
    matches!(subject.analysis.json, Json::Document { .. })
}

pub(super) fn to_the_rest(subject: &Subject<'_>) -> Vec<String> {
    let analysis = subject.analysis;
    let length = subject.content.len();
    let is_counted = analysis.bytes == length;
    let is_short = (2..=Limits::TAIL_LINES).contains(&analysis.lines);
    if is_counted && is_short && length <= Limits::VIEW_BYTES as u64 {
        return vec!["end:    .tail    (all of it)".to_owned()];
    }
    let end = (analysis.lines > 1).then(|| "end:    .tail    (last 200 lines)".to_owned());
    let count = PageNumber::count(length);
    let (first, last) = (PageNumber::after(0), PageNumber::after(count - 1));
    let pages = (count > 1)
        .then(|| format!("pages:  .pages/{first} to .pages/{last}    (all of it, 6 KB each)"));
    [end, pages].into_iter().flatten().collect()
}

/// Returns the searches that may lead to the most informative error, best first, and the words of
/// it. Takes the results from the shortcuts if all of them are known there. Otherwise counts the
/// lines of all searches in one pass over the output. If the output is too long for that, returns
/// words that were not tried.
pub(super) fn tried(subject: &Subject<'_>, found: &Findings) -> io::Result<Vec<TriedView>> {
    let Some(first) = found.shown.first() else { return Ok(Vec::new()) };
    let line = first.at.line;
    // Of several errors, the names lead to all of them.
    let names = error_names(subject, found)?;
    let names: Vec<&str> = names.iter().map(String::as_str).filter(|_| names.len() > 1).collect();
    let mut words = names.clone();
    words.extend(words_of(&first.message).into_iter().filter(|word| !names.contains(word)));
    if subject.content.len() > MAX_TRIED_BYTES {
        let mut longest: Vec<(usize, &str)> = words.into_iter().enumerate().collect();
        longest.sort_by_key(|(_, word)| Reverse(word.len()));
        return Ok(step_of_words(longest, line).into_iter().collect());
    }
    let own = subject.content.bytes(first.at.offset, first.at.length as usize)?;
    let searches = searches(subject, found, &own)?;
    let known = subject.analysis.shortcuts.as_ref().map(|shortcuts| shortcuts.tried.iter());
    let known = known.into_iter().flatten().filter(|tried| tried.line == line);
    let known: Vec<TriedView> = known.cloned().collect();
    let count = |view: &str| known.iter().filter(|tried| tried.view.starts_with(view)).count();
    let is_known = |search: &StepSearch| {
        let (query, around) = search.names();
        known.iter().any(|tried| tried.view == query || tried.view == around)
    };
    if count(FIND) == 1 && searches.iter().all(is_known) {
        return Ok(known);
    }
    try_all(subject, first, (&names, &words, &searches), &own)
}

/// A search for any of `texts`.
struct StepSearch {
    query: Query,
    texts: Vec<String>,
}

impl StepSearch {
    fn of(texts: &[String]) -> Option<Self> {
        let escaped = |text: &String| regex::escape(text).replace(r"\-", "-");
        let patterns: Vec<String> = texts.iter().map(escaped).collect();
        let query = Query::of(&patterns.join("|"));
        (!texts.is_empty()).then(|| Self { query, texts: texts.to_vec() })
    }

    // Returns the names of the search without and with context.
    fn names(&self) -> (String, String) {
        let around = self.query.around(CONTEXT_LINES as u64);
        (format!(".grep/{}", self.query), format!(".grep/{around}"))
    }
}

fn try_all(
    subject: &Subject<'_>,
    first: &Finding,
    (names, words, searches): (&[&str], &[&str], &[StepSearch]),
    own: &[u8],
) -> io::Result<Vec<TriedView>> {
    let line = first.at.line;
    let mut texts: Vec<SearchText> = Vec::new();
    let mut sets = Vec::new();
    let text = |text: &str, is_word| SearchText { text: text.to_owned(), is_word };
    let wanted = words.iter().map(|word| vec![text(word, true)]);
    let of_search = |search: &StepSearch| search.texts.iter().map(|it| text(it, false)).collect();
    for wanted in wanted.chain(searches.iter().map(of_search)) {
        let mut set = 0_u64;
        for text in wanted {
            let known = texts.iter().position(|known| *known == text);
            let at = known.unwrap_or(texts.len());
            if known.is_none() && at < MAX_TEXTS {
                texts.push(text);
            }
            set |= 1_u64.checked_shl(at as u32).unwrap_or(0);
        }
        sets.push(set);
    }
    let found = find_lines(subject.content, &texts, &sets)?;
    let (of_words, of_searches) = found.split_at(words.len());
    let mut tried = Vec::new();
    for (search, lines) in searches.iter().zip(of_searches) {
        let (mut view, around) = search.names();
        let is_few = lines.count <= FEW_LINES;
        if is_few && lines.bytes_with_context(subject.content)? <= STEP_BYTES as u64 {
            view = around;
        }
        let shows = lines.bytes <= STEP_BYTES as u64
            && search.texts.iter().any(|text| own.contains_str(text));
        tried.push(TriedView { view, line, lines: Some(lines.count), shows });
    }
    let mut rare: Vec<(usize, &str, &FoundLines)> =
        (0..).zip(words).zip(of_words).map(|((at, word), lines)| (at, *word, lines)).collect();
    rare.retain(|(_, _, lines)| lines.count > 0);
    rare.sort_by_key(|(_, word, lines)| (lines.count, Reverse(word.len())));
    let leads = rare.first().is_some_and(|(_, _, lines)| {
        let is_first = lines.first.first().is_some_and(|it| it.start == first.at.offset);
        lines.count <= RARE_LINES || is_first
    });
    // If no search above leads to the error, the rarest word may.
    if let Some((_, word, lines)) = rare.first().filter(|_| leads) {
        let view = format!(".grep/{}", Query::ignoring_case(word));
        let shows = lines.bytes <= STEP_BYTES as u64 && own.contains_str(word);
        tried.push(TriedView { view, line, lines: Some(lines.count), shows });
    }
    let of_names: u64 = of_words[..names.len()].iter().map(|lines| lines.count).sum();
    if !names.is_empty() && of_names <= RARE_LINES {
        rare.retain(|(at, ..)| *at < names.len());
    }
    let words = rare.into_iter().map(|(at, word, _)| (at, word)).collect();
    let none = TriedView { view: FIND.to_owned(), line, lines: None, shows: false };
    tried.push(step_of_words(words, line).filter(|_| leads).unwrap_or(none));
    Ok(tried)
}

// Returns the view that finds the first of `words`, best first, in the order of their numbers.
fn step_of_words(mut words: Vec<(usize, &str)>, line: u64) -> Option<TriedView> {
    words.truncate(MAX_WORDS);
    words.sort_unstable();
    let words: Vec<&str> = words.into_iter().map(|(_, word)| word).collect();
    let view = format!("{FIND}{}", Words::of(&words.join(" ")));
    (!words.is_empty()).then_some(TriedView { view, line, lines: None, shows: true })
}

// Returns the words and names of a message. Leaves out numbers, and the directories of paths.
fn words_of(message: &str) -> Vec<&str> {
    let is_word = |word: &&str| {
        let letters = word.bytes().filter(u8::is_ascii_alphabetic).count();
        letters >= MIN_WORD_LETTERS && word.is_ascii() && !word.as_bytes()[0].is_ascii_digit()
    };
    let texts = message.split_whitespace().filter_map(|text| text.rsplit(['/', '\\']).next());
    let split = |text| str::split(text, |c: char| !c.is_alphanumeric() && c != '_');
    let mut words: Vec<&str> = Vec::new();
    for word in texts.flat_map(split).map(|word| word.trim_matches('_')).filter(is_word) {
        if words.len() < MAX_COUNTED_WORDS && !words.contains(&word) {
            words.push(word);
        }
    }
    words
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

// Returns candidate searches: for the names of the first errors, for the words of all errors, for
// the name of the first error, and for a phrase of its line `own`.
fn searches(subject: &Subject<'_>, found: &Findings, own: &[u8]) -> io::Result<Vec<StepSearch>> {
    let names = error_names(subject, found)?;
    let words = &subject.analysis.errors.words;
    let all = |texts: &[String]| if texts.len() > 1 { StepSearch::of(texts) } else { None };
    let first = |texts: &[String]| StepSearch::of(&texts[..texts.len().min(1)]);
    let phrase = phrase(own).and_then(|phrase| StepSearch::of(&[phrase]));
    let searches = [all(&names), all(words), first(words), first(&names), phrase];
    Ok(searches.into_iter().flatten().collect())
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

// Returns the longest piece of a line without numbers, quotes, brackets or gaps.
fn phrase(line: &[u8]) -> Option<String> {
    let pieces = line.split(|byte| !(byte.is_ascii_alphabetic() || b" :_-'.,/".contains(byte)));
    let pieces = pieces.flat_map(|piece| piece.split_str(b"  "));
    let piece = pieces.map(<[u8]>::trim_ascii).max_by_key(|piece| piece.len())?;
    let end = piece.len().min(*PHRASE_BYTES.end());
    let end = if end < piece.len() { piece[..end].rfind_byte(b' ').unwrap_or(end) } else { end };
    let piece = piece[..end].trim_ascii().to_str().ok()?;
    (piece.len() >= *PHRASE_BYTES.start()).then(|| piece.to_owned())
}

// Matches the name of an error: an exception, a code or a signal.
static NAME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?-u)\b[A-Za-z_]\w*(Error|Exception|Failure|Fault|Panic|Interrupt)\b|\b[A-Z]{1,4}-?\d{3,5}\b|\bE[A-Z]{4,}\b|\bSIG[A-Z]{3,}\b",
    )
    .expect("a pattern of this file")
});

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
