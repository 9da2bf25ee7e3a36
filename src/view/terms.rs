//! `.terms`: the most distinctive words of an artifact, for a reader who does not know what to
//! search for. One pass counts the words, which are then ranked.

mod counts;
mod ranking;
mod words;

use std::io;
use std::io::Write;

use crate::number::{counted, portion};
use crate::{Query, RenderError, Rendered};
use counts::{Term, WordCounts};
use ctxfs_core::model::{Content, Json, Subject};

const TERMS: usize = 200;

/// Writes the terms, a line each: its number of occurrences, the term, its first line.
pub(super) fn render(
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let escaped = subject.analysis.json != Json::No;
    let counts = WordCounts::take(subject.content, escaped, expired)?;
    let terms = ranking::best(&counts, TERMS);
    for Term { text, times, line, .. } in &terms {
        write!(out, "{times}\t")?;
        out.write_all(text)?;
        match line {
            Some(line) => writeln!(out, "\t{line}")?,
            None => writeln!(out, "\t-")?,
        }
    }
    let whole = counts.stopped.is_none();
    let notice = match terms.first() {
        Some(first) => Some(notice(subject, &counts, first, terms.len())),
        None if whole => None,
        None => Some("# out of time before a word was counted\n".to_owned()),
    };
    Ok(Rendered { notice, whole })
}

/// Returns the `count` most distinctive words of `content`. If `escaped`, it has escapes as in
/// JSON.
pub(super) fn telling(
    content: &dyn Content,
    escaped: bool,
    count: usize,
    expired: &dyn Fn() -> bool,
) -> io::Result<Vec<String>> {
    let counts = WordCounts::take(content, escaped, expired)?;
    let terms = ranking::best(&counts, count);
    Ok(terms.iter().map(|term| String::from_utf8_lossy(term.text).into_owned()).collect())
}

// Describes the lines and the part of the content that they cover, and how to search for a term.
fn notice(subject: &Subject<'_>, counts: &WordCounts, first: &Term<'_>, shown: usize) -> String {
    let length = subject.content.len();
    let words = match counts.words() {
        Some(words) => counted(words, "word"),
        None => format!("more than {}", counted(counts::MOST_WORDS as u64, "word")),
    };
    let among = match counts.stopped {
        Some(offset) => format!("{} (out of time)", portion(offset, length)),
        None if counts::is_sampled(length) => {
            format!("{}, in stretches all over it", portion(counts.bytes, length))
        }
        None => counted(counts.lines, "line"),
    };
    let most = match shown {
        1 => "the most telling follows".to_owned(),
        shown => format!("the {shown} most telling follow"),
    };
    let query = Query::of(&String::from_utf8_lossy(first.text));
    let file = subject.place.file();
    format!("# {words} in {among}; {most}: count, word, first line. Search: {file}.grep/{query}\n")
}

#[cfg(test)]
mod tests;
