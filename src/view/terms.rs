//! `.terms`: the most distinctive words of an artifact, as suggestions for a search. A pass over
//! the artifact counts the words, which are then ranked.

mod words;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;
use std::io::Write;

use crate::number::{counted, portion};
use crate::{Query, RenderError, Rendered};
use ctxfs_core::materialize::frequent::Frequent;
use ctxfs_core::model::{Content, Json, Subject};

const TERMS: usize = 200;
// Maximum number of words that are counted at the same time, which takes about 10 MB.
const MAX_WORDS: usize = 1 << 16;
// Maximum number of bytes that are read, which takes about a second. Of a larger artifact, evenly
// spaced samples are read.
const MAX_BYTES: u64 = 32 << 20;
const SAMPLE_BYTES: u64 = 256 << 10;
// A sample begins and ends between two words if there is a gap within this many bytes.
const GAP_MARGIN: usize = 512;
// Longer lines are divided into units of this many bytes.
const UNIT_BYTES: usize = 512;
// Number of candidates for each term that is shown. The candidates are searched for names that
// contain them.
const CANDIDATES: usize = 4;
// Scores are integers: this many points represent 1.0.
const SCORE_UNIT: f64 = 1000.0;

// Writes one line for each term: its number of occurrences, the term, and its first line.
pub(super) fn render(
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let escaped = subject.analysis.json != Json::No;
    let counts = WordCounts::take(subject.content, escaped, expired)?;
    let terms = best_terms(&counts, TERMS);
    for CountedTerm { text, times, line, .. } in &terms {
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

/// Returns the `count` most distinctive words of `content`. `escaped` is true if the content has
/// escapes as in JSON.
pub(super) fn distinctive(
    content: &dyn Content,
    escaped: bool,
    count: usize,
    expired: &dyn Fn() -> bool,
) -> io::Result<Vec<String>> {
    let counts = WordCounts::take(content, escaped, expired)?;
    let terms = best_terms(&counts, count);
    Ok(terms.iter().map(|term| String::from_utf8_lossy(term.text).into_owned()).collect())
}

// Describes the columns, the part of the content that was counted, and how to search for a term.
fn notice(
    subject: &Subject<'_>,
    counts: &WordCounts,
    first: &CountedTerm<'_>,
    shown: usize,
) -> String {
    let length = subject.content.len();
    let words = match counts.words() {
        Some(words) => counted(words, "word"),
        None => format!("more than {}", counted(MAX_WORDS as u64, "word")),
    };
    let among = match counts.stopped {
        Some(offset) => format!("{} (out of time)", portion(offset, length)),
        None if is_sampled(length) => {
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

/// The words of an artifact, with their counts. `units` counts lines, or parts of long lines.
/// `lines` and `bytes` count the part that was read. `stopped` is the offset at which time ran out.
struct WordCounts {
    words: Frequent<Vec<u8>, WordStats>,
    units: u64,
    lines: u64,
    bytes: u64,
    stopped: Option<u64>,
    escaped: bool,
}

/// The counts of a word: the line of its first occurrence (if lines are counted), the number of
/// units that contain the word, and the last of these units.
#[derive(Debug, Clone, Copy)]
struct WordStats {
    line: Option<u64>,
    units: u64,
    unit: u64,
}

struct CountedTerm<'a> {
    text: &'a [u8],
    times: u64,
    // Number of units in which the term occurs.
    units: u64,
    line: Option<u64>,
}

impl WordCounts {
    fn take(content: &dyn Content, escaped: bool, expired: &dyn Fn() -> bool) -> io::Result<Self> {
        let words = Frequent::new(MAX_WORDS);
        let mut counts = Self { words, units: 0, lines: 0, bytes: 0, stopped: None, escaped };
        if is_sampled(content.len()) {
            counts.sample(content, expired)?;
        } else {
            counts.whole(content, expired)?;
        }
        Ok(counts)
    }

    /// Returns the number of words, including names, or `None` if there are more than
    /// [`MAX_WORDS`].
    fn words(&self) -> Option<u64> {
        self.words.is_complete().then_some(self.words.counts().len() as u64)
    }

    fn terms(&self) -> impl Iterator<Item = CountedTerm<'_>> {
        self.words.counts().iter().map(|(text, count)| CountedTerm {
            text,
            times: count.times,
            units: count.value.units,
            line: count.value.line,
        })
    }

    fn whole(&mut self, content: &dyn Content, expired: &dyn Fn() -> bool) -> io::Result<()> {
        let mut offset = 0;
        while offset < content.len() {
            if expired() {
                self.stopped = Some(offset);
                break;
            }
            let bytes = content.bytes(offset, SAMPLE_BYTES as usize)?;
            let ends = offset + bytes.len() as u64 == content.len();
            let sample = if ends { &bytes[..] } else { &bytes[..last_gap(&bytes)] };
            if sample.is_empty() {
                break;
            }
            self.add(sample, true);
            offset += sample.len() as u64;
        }
        self.bytes = offset;
        self.lines += u64::from(offset > 0 && content.bytes(offset - 1, 1)? != b"\n");
        Ok(())
    }

    fn sample(&mut self, content: &dyn Content, expired: &dyn Fn() -> bool) -> io::Result<()> {
        let count = MAX_BYTES / SAMPLE_BYTES;
        let step = (content.len() - SAMPLE_BYTES) / (count - 1);
        for offset in (0..count).map(|at| at * step) {
            if expired() {
                self.stopped = Some(offset);
                break;
            }
            let bytes = content.bytes(offset, SAMPLE_BYTES as usize)?;
            let start = if offset == 0 { 0 } else { first_gap(&bytes) };
            let end = last_gap(&bytes).max(start);
            self.add(&bytes[start..end], offset == 0);
            self.bytes += bytes.len() as u64;
        }
        Ok(())
    }

    // `numbered` is true if all lines before the sample were counted.
    fn add(&mut self, sample: &[u8], numbered: bool) {
        let mut lines = 0;
        for line in sample.split(|byte| *byte == b'\n') {
            let number = numbered.then_some(self.lines + lines + 1);
            let first = self.units;
            words::each(line, self.escaped, |at, word| {
                let unit = first + (at / UNIT_BYTES) as u64;
                let known = || WordStats { line: number, units: 0, unit: u64::MAX };
                let count = self.words.add(word, 1, known);
                count.value.units += u64::from(count.value.unit != unit);
                count.value.unit = unit;
            });
            self.units += (line.len() / UNIT_BYTES) as u64 + 1;
            lines += 1;
        }
        self.lines += lines - 1;
    }
}

// Returns true if the content is so long that only samples are read.
fn is_sampled(length: u64) -> bool {
    length > MAX_BYTES
}

// Returns the offset after the last byte near the end that is not part of a word, or the end if
// there is no such byte.
fn last_gap(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(GAP_MARGIN);
    let gap = bytes[from..].iter().rposition(|byte| words::is_gap(*byte));
    gap.map_or(bytes.len(), |at| from + at + 1)
}

// Returns the offset after the first byte near the start that is not part of a word, or the start
// if there is no such byte.
fn first_gap(bytes: &[u8]) -> usize {
    bytes.iter().take(GAP_MARGIN).position(|byte| words::is_gap(*byte)).map_or(0, |at| at + 1)
}

// Parts of words that suggest trouble.
const TROUBLE_WORDS: [&[u8]; 12] = [
    b"abort",
    b"corrupt",
    b"crash",
    b"denied",
    b"error",
    b"exception",
    b"fail",
    b"fatal",
    b"invalid",
    b"panic",
    b"refused",
    b"timeout",
];

/// Returns the best `count` terms, best first. Leaves out words that occur almost only in one of
/// the names.
fn best_terms(counts: &WordCounts, count: usize) -> Vec<CountedTerm<'_>> {
    let terms = counts.terms().filter(|term| !words::is_common(term.text));
    let mut terms: Vec<(u64, CountedTerm<'_>)> =
        terms.map(|term| (score(&term, counts.units), term)).collect();
    let order =
        |(score, term): &(u64, CountedTerm<'_>)| (Reverse(*score), Reverse(term.times), term.line);
    terms.sort_unstable_by(|a, b| (order(a), a.1.text).cmp(&(order(b), b.1.text)));
    terms.truncate(CANDIDATES * count);
    let mut in_name: HashMap<&[u8], u64> = HashMap::new();
    for (_, name) in terms.iter().filter(|(_, term)| words::is_name(term.text)) {
        for word in words::of_name(name.text) {
            let times = in_name.entry(word).or_default();
            *times = name.times.max(*times);
        }
    }
    let is_part = |term: &CountedTerm<'_>| {
        let times = in_name.get(term.text).filter(|_| !words::is_name(term.text));
        times.is_some_and(|times| times * 10 >= term.times * 9)
    };
    let terms = terms.into_iter().map(|(_, term)| term);
    terms.filter(|term| !is_part(term)).take(count).collect()
}

/// Scores a term. The score is highest if the number of lines with the term is the square root of
/// the number of all lines. A term that occurs in most lines is as uninformative as a term that
/// occurs once. Names score higher than words, and names that suggest trouble score highest.
fn score(term: &CountedTerm<'_>, units: u64) -> u64 {
    let (some, all) = (term.units as f64, units as f64);
    let spread = some.ln_1p() * (all / some).ln_1p();
    (spread * weight(term.text) * SCORE_UNIT) as u64
}

fn weight(text: &[u8]) -> f64 {
    let digits = text.iter().filter(|byte| byte.is_ascii_digit()).count();
    let is_name = words::is_name(text) || text.contains(&b'_') || is_camel(text);
    let name = if is_name { 2.0 } else { 1.0 };
    let trouble = if tells_of_trouble(text) { 1.5 } else { 1.0 };
    let number = if 2 * digits > text.len() { 0.25 } else { 1.0 };
    name * trouble * number
}

fn tells_of_trouble(text: &[u8]) -> bool {
    let lower = text.to_ascii_lowercase();
    TROUBLE_WORDS.iter().any(|trouble| memchr::memmem::find(&lower, trouble).is_some())
}

fn is_camel(text: &[u8]) -> bool {
    text.windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
}

#[cfg(test)]
mod tests;
