//! A passage: some lines, or parts of lines, that belong together.

use crate::find::matcher::{FoundTerms, Hit};
use crate::grep::page;

/// A passage that is ready to be shown. `terms` is the set of its words as bits. `likeness` is
/// equal for passages that differ only in numbers, and `alike` is the number of such passages.
/// `path` leads to a JSON value or a record, or is empty. `is_record` is true for a row, a JSON
/// value or another record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Passage {
    pub(super) score: u64,
    pub(super) terms: u64,
    pub(super) likeness: u64,
    pub(super) alike: u64,
    pub(super) is_record: bool,
    pub(super) path: String,
    pub(super) lines: Vec<ShownLine>,
}

/// A line, or a part of a long line. `column` is the byte column of the part, from 1. `start` and
/// `end` are offsets in the artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ShownLine {
    pub(super) line: u64,
    pub(super) column: Option<u64>,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) text: Vec<u8>,
    pub(super) is_hit: bool,
}

/// A line of an artifact, or the part of it that was read. `offset` is the position of `text` in
/// the artifact, and `column` is its position in the line. `ends` is true if `text` extends to the
/// end of the line.
#[derive(Debug, Clone, Copy)]
pub(super) struct SourceLine<'t> {
    pub(super) line: u64,
    pub(super) offset: u64,
    pub(super) column: u64,
    pub(super) text: &'t [u8],
    pub(super) ends: bool,
}

impl SourceLine<'_> {
    // Returns the whole line, or a window around the offset `around` if the line is long.
    pub(super) fn shown(&self, around: Option<usize>) -> ShownLine {
        let text = self.text;
        if self.column == 0 && self.ends && !page::is_long(text) {
            return self.whole(text, around.is_some());
        }
        let at = around.unwrap_or(0).min(text.len());
        self.part(page::window(text, at), at, around.is_some())
    }

    /// Returns the bytes in `range`, with the column of `at`. Truncates them to the maximum length
    /// of a shown line.
    pub(super) fn part(&self, range: std::ops::Range<usize>, at: usize, is_hit: bool) -> ShownLine {
        let text = self.text;
        if self.column == 0 && self.ends && range == (0..text.len()) {
            return self.whole(text, is_hit);
        }
        ShownLine {
            line: self.line,
            column: Some(self.column + at as u64 + 1),
            start: self.offset + range.start as u64,
            end: self.offset + range.end as u64,
            text: page::excerpt(text, &range, self.column > 0, self.ends),
            is_hit,
        }
    }

    fn whole(&self, text: &[u8], is_hit: bool) -> ShownLine {
        let end = self.offset + text.len() as u64;
        let (line, start, text) = (self.line, self.offset, text.to_vec());
        ShownLine { line, column: None, start, end, text, is_hit }
    }
}

impl ShownLine {
    // Appends the line as ripgrep prints it, with the name of its artifact before it unless `name`
    // is empty.
    pub(super) fn print(&self, name: &[u8], out: &mut Vec<u8>) {
        let mark = if self.is_hit { b':' } else { b'-' };
        if !name.is_empty() {
            out.extend_from_slice(name);
            out.push(mark);
        }
        out.extend_from_slice(self.line.to_string().as_bytes());
        if let Some(column) = self.column {
            out.extend_from_slice(format!("@{column}").as_bytes());
        }
        out.push(mark);
        out.extend_from_slice(&self.text);
        out.push(b'\n');
    }
}

impl Passage {
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let both = |line: &ShownLine| {
            other.lines.iter().any(|it| {
                line.start < it.end.max(it.start + 1) && it.start < line.end.max(line.start + 1)
            })
        };
        self.lines.iter().any(both)
    }

    pub(super) fn print(&self, name: &[u8], out: &mut Vec<u8>) {
        if !self.path.is_empty() {
            out.extend_from_slice(b"# ");
            out.extend_from_slice(self.path.as_bytes());
            out.push(b'\n');
        }
        self.lines.iter().for_each(|line| line.print(name, out));
    }
}

/// Returns a measure of how close together the words of `found` are: 1 for a single word. For
/// several words, the measure decreases with the length of the shortest range that contains all of
/// them.
pub(super) fn nearness(hits: &[(u64, usize)], found: &FoundTerms) -> f64 {
    let wanted = found.terms().count_ones();
    if wanted < 2 {
        return 1.0;
    }
    let mut counts = [0u32; 64];
    let (mut has, mut first, mut least) = (0, 0, u64::MAX);
    for (offset, term) in hits {
        counts[*term] += 1;
        has += u32::from(counts[*term] == 1);
        while has == wanted {
            let (start, oldest) = hits[first];
            least = least.min(offset - start);
            counts[oldest] -= 1;
            has -= u32::from(counts[oldest] == 0);
            first += 1;
        }
    }
    1.0 / (1.0 + least as f64 / 300.0)
}

// Converts the offsets of `hits` to offsets in the artifact. The searched text begins at `offset`.
pub(super) fn places(hits: &[Hit], offset: u64) -> impl Iterator<Item = (u64, usize)> {
    hits.iter().map(move |hit| (offset + hit.start as u64, hit.term))
}
