//! The ways to read on that a summary names. Where one leads to an error, it was tried: it shows
//! the error in few bytes, or it is not named.
//!
//! A name ends at four spaces: searches and filters have single ones.

use std::io;
use std::sync::LazyLock;

use bstr::ByteSlice as _;
use regex::bytes::Regex;

use crate::Query;
use crate::errors::{Finding, Findings};
use crate::number::counted;
use crate::summary::tried::{Trials, can_be_searched};
use ctxfs_core::model::{ErrorRank, Subject};

// The most lines that a search shows, and those up to which it also shows lines around each.
const LINES: u64 = 40;
const FEW: u64 = 10;
// Lines shown around each of a few.
const AROUND: u64 = 3;
// Errors whose names a search has.
const NAMES: usize = 3;
// Bytes of a phrase.
const PHRASE: std::ops::RangeInclusive<usize> = 8..=40;

/// Returns `search: .grep/JSONDecodeError|SyncError    (12 lines)`: the first of some searches that
/// shows the most informative error and little else. Returns `None` if there is no such search, or
/// if the output is too long to try.
pub(super) fn step(trials: &Trials<'_>, found: &Findings) -> io::Result<Option<String>> {
    let subject = trials.subject;
    let Some(first) = found.shown.first().filter(|_| can_be_searched(subject)) else {
        return Ok(None);
    };
    for query in queries(subject, found)? {
        let Some(lines) = hits(trials, &query, first)? else { continue };
        let around = query.around(AROUND);
        let helps = lines <= FEW && trials.search(&around, first.at.line)?.lines.is_some();
        let (query, lines) = (if helps { around } else { query }, counted(lines, "line"));
        return Ok(Some(format!("search: .grep/{query}    ({lines})")));
    }
    Ok(None)
}

// Searches worth trying: for the names of the first errors, for the words of all, for the name of
// the first one, for a phrase of it.
fn queries(subject: &Subject<'_>, found: &Findings) -> io::Result<Vec<Query>> {
    let names: Vec<String> =
        names(subject, found)?.iter().map(|name| regex::escape(name)).collect();
    let all = |names: &[String]| (names.len() > 1).then(|| Query::of(&names.join("|")));
    let words = &subject.analysis.errors.words;
    let first = |names: &[String]| names.first().map(|name| Query::of(name));
    let phrase = match found.shown.first() {
        Some(finding) => phrase(&own(subject, finding)?).map(|phrase| Query::of(&phrase)),
        None => None,
    };
    let queries = [all(&names), all(words), first(words), first(&names), phrase];
    Ok(queries.into_iter().flatten().collect())
}

// The names of the first errors: exceptions, codes, signals.
pub(super) fn names(subject: &Subject<'_>, found: &Findings) -> io::Result<Vec<String>> {
    let telling = |finding: &&Finding| {
        matches!(finding.at.rank, ErrorRank::Cause | ErrorRank::Error | ErrorRank::Outer)
    };
    let mut names: Vec<String> = Vec::new();
    for finding in found.shown.iter().filter(telling).take(NAMES) {
        let own = own(subject, finding)?;
        let name = NAME.find(&own).map(|name| name.as_bytes().to_str_lossy().into_owned());
        names.extend(name.filter(|name| !names.contains(name)));
    }
    Ok(names)
}

fn own(subject: &Subject<'_>, finding: &Finding) -> io::Result<Vec<u8>> {
    subject.content.bytes(finding.at.offset, finding.at.length as usize)
}

// The longest piece of a line without numbers, quotes, brackets or gaps, as a pattern.
fn phrase(line: &[u8]) -> Option<String> {
    let pieces = line.split(|byte| !(byte.is_ascii_alphabetic() || b" :_-'.,/".contains(byte)));
    let pieces = pieces.flat_map(|piece| piece.split_str(b"  "));
    let piece = pieces.map(<[u8]>::trim_ascii).max_by_key(|piece| piece.len())?;
    let end = piece.len().min(*PHRASE.end());
    let end = if end < piece.len() { piece[..end].rfind_byte(b' ').unwrap_or(end) } else { end };
    let piece = piece[..end].trim_ascii().to_str().ok()?;
    (piece.len() >= *PHRASE.start()).then(|| regex::escape(piece))
}

/// Returns the number of lines that a search shows, if the error `first` is one of them and they
/// are few and short.
fn hits(trials: &Trials<'_>, query: &Query, first: &Finding) -> io::Result<Option<u64>> {
    let tried = trials.search(query, first.at.line)?;
    Ok(tried.lines.filter(|lines| *lines <= LINES && tried.shows))
}

// A name of an error: an exception, a code, a signal.
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
