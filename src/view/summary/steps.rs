use std::io;

use crate::errors::Findings;
use crate::number::counted;
use crate::summary::search;
use crate::summary::tried::{STEP_BYTES, Trials, can_be_found};
use crate::{PageNumber, Words};
use ctxfs_core::model::{ErrorLine, ErrorRank, Json, Subject, TriedView};

// Lines to show on either side of the line that a part is shown around.
const PART_LINES: u64 = 10;
// The fewest letters of a word to look for, and the most words.
const WORD_LETTERS: usize = 4;
const WORDS: usize = 3;

/// Returns the line that names the artifact itself. The names in other lines are added to it.
pub(super) fn file(subject: &Subject<'_>) -> String {
    format!(
        "file:   {}    (names below that begin with a dot are added to it)",
        subject.place.file()
    )
}

/// Returns the steps that show the rest of the errors `found`, the best first.
pub(super) fn to_errors(subject: &Subject<'_>, found: &Findings) -> io::Result<Vec<String>> {
    if found.shown.is_empty() {
        return Ok(vec![ANY_WORDS.to_owned()]);
    }
    let kinds = counted(found.shown.len() as u64, "kind");
    let next = || format!("next:   .errors    ({kinds} of error, with the lines around each)");
    let next = (!is_document(subject)).then(next);
    let trials = Trials::of(subject);
    let steps =
        [next, words(&trials, found)?, search::step(&trials, found)?, part(subject, found)?];
    Ok(steps.into_iter().flatten().collect())
}

/// Returns the views that are tried to find these steps.
pub(super) fn tried(subject: &Subject<'_>, found: &Findings) -> io::Result<Vec<TriedView>> {
    let trials = Trials::of(subject);
    if !found.shown.is_empty() {
        words(&trials, found)?;
        search::step(&trials, found)?;
    }
    Ok(trials.into_made())
}

/// Returns true for one JSON value: a filter tells more about its errors than lines do.
pub(super) fn is_document(subject: &Subject<'_>) -> bool {
    matches!(subject.analysis.json, Json::Document { .. })
}

/// Returns the steps that show the rest of the output.
pub(super) fn to_the_rest(subject: &Subject<'_>) -> Vec<String> {
    let analysis = subject.analysis;
    let end = (analysis.lines > 1).then(|| "end:    .tail    (last 200 lines)".to_owned());
    let count = PageNumber::count(subject.content.len());
    let (first, last) = (PageNumber::after(0), PageNumber::after(count - 1));
    let pages = (count > 1)
        .then(|| format!("pages:  .pages/{first} to .pages/{last}    (all of it, 6 KB each)"));
    end.into_iter().chain(pages).collect()
}

// Stands where the summary knows no words of the output to look for.
const ANY_WORDS: &str = "find:   .find/WORDS    (the passages that fit some words best)";

// The view that finds an error by its name and those of others, or by some of its words.
fn words(trials: &Trials<'_>, found: &Findings) -> io::Result<Option<String>> {
    let Some(first) = found.shown.first() else { return Ok(None) };
    let subject = trials.subject;
    let names = search::names(subject, found)?;
    let names = (names.len() > 1).then(|| names.iter().map(String::as_str).collect());
    for words in names.into_iter().chain(choices(&first.message)) {
        let words = Words::of(&words.join(" "));
        if !can_be_found(subject) || trials.words(&words, first.at.line)?.shows {
            return Ok(Some(format!("find:   .find/{words}")));
        }
    }
    Ok(None)
}

// Words of a message to try: the longest, the first, the last. Paths are left out.
fn choices(message: &str) -> Vec<Vec<&str>> {
    let is_word = |word: &&str| {
        word.len() >= WORD_LETTERS && word.chars().all(|letter| letter.is_ascii_alphabetic())
    };
    let texts = message.split_whitespace().filter(|text| !text.contains(['/', '\\']));
    let mut words: Vec<&str> = Vec::new();
    for word in texts.flat_map(|text| text.split(|c: char| !c.is_alphanumeric())).filter(is_word) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    let (first, last) = (words.len().min(WORDS), words.len().saturating_sub(WORDS));
    let (first, last) = (words[..first].to_vec(), words[last..].to_vec());
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    words.truncate(WORDS);
    let mut choices = vec![words, first, last];
    choices.retain(|words| !words.is_empty());
    choices
}

/// Returns the lines around an error, and those to the last exception that it caused, as many as
/// stay small.
fn part(subject: &Subject<'_>, found: &Findings) -> io::Result<Option<String>> {
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
    let newlines = memchr::memchr_iter(b'\n', to_last).count() as u64;
    let is_all = at.offset + after.len() as u64 == subject.content.len();
    let (below, ends) = (newlines.saturating_sub(u64::from(!is_all)), newlines > 0 || is_all);
    let (first, last) = (at.line - above.len() as u64, last.line + below.min(PART_LINES));
    let last = last.min(subject.analysis.lines);
    Ok((first < last && ends).then(|| format!("part:   .lines/{first}-{last}")))
}

// The last exception that the first error caused, of those that begin before `end`.
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
