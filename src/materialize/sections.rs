//! The sections of an output: files of a diff, modules of a test run, headings.
//!
//! A line is a candidate if it begins with one of a few dozen fragments; [`kinds`] decides if it
//! begins a section, and of which kind. Sections of each kind are recorded separately. Of the kinds
//! that divide most of the output, the most telling one is reported.

mod kinds;

use std::sync::LazyLock;

use crate::materialize::fragments::Fragments;
use crate::materialize::open_line::OpenLine;
use crate::model::Section;
use crate::model::Sections;

/// Bytes of a line that are examined, and of the longest name.
const LINE_BYTES: usize = 256;
/// The first sections of a kind that are kept.
const FIRST: usize = 16;
/// The largest of the other sections that are kept.
const LARGEST: usize = 16;
/// The fewest lines of a section on average: shorter ones are little more than their headings.
const LINES: u64 = 3;

/// Finds the sections of a stream.
#[derive(Debug, Clone)]
pub(super) struct SectionDetector {
    open: OpenLine<LINE_BYTES>,
    /// True if the open line follows a blank line or is the first.
    apart: bool,
    found: [SectionGroup; kinds::KINDS],
}

/// The sections of one kind.
#[derive(Debug, Clone, Default)]
struct SectionGroup {
    count: u64,
    /// The line of the first section.
    start: u64,
    /// Sections of one line.
    short: u64,
    first: Vec<Section>,
    largest: Vec<Section>,
    /// The last section, whose end is not known.
    open: Option<Section>,
}

impl SectionDetector {
    pub(super) fn new() -> Self {
        Self { open: OpenLine::default(), apart: true, found: <_>::default() }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let Some(end) = memchr::memchr(b'\n', bytes) else {
            return self.open.push(bytes);
        };
        self.open.push(&bytes[..end]);
        self.end_open();
        let last = memchr::memrchr(b'\n', bytes).unwrap_or(end);
        self.whole_lines(&bytes[end..=last]);
        self.open.push(&bytes[last + 1..]);
    }

    /// Returns the sections so far, including the line that has not ended. There are `lines` lines
    /// in all.
    pub(super) fn finish(&self, lines: u64) -> Sections {
        if self.open.is_empty() {
            return best(&self.found, lines);
        }
        let mut ended = self.clone();
        ended.end_open();
        best(&ended.found, lines)
    }

    /// Ends the open line.
    fn end_open(&mut self) {
        let (found, apart) = (&mut self.found, &mut self.apart);
        self.open.end(|line, number, offset| {
            look(found, line, number, offset, *apart);
            *apart = matches!(line, b"" | b"\r");
        });
    }

    /// Takes whole lines: `bytes` begins and ends with a newline, and the line that the first
    /// newline ends has been examined.
    fn whole_lines(&mut self, bytes: &[u8]) {
        let before = self.apart;
        let mut counted = 1;
        let mut at = 0;
        while let Some(hit) = FRAGMENTS.find(bytes, at) {
            let newlines = bytes[hit..].iter().take_while(|byte| **byte == b'\n').count();
            let start = hit + newlines;
            let Some(length) = memchr::memchr(b'\n', &bytes[start..]) else { break };
            self.open.lines += memchr::memchr_iter(b'\n', &bytes[counted..start]).count() as u64;
            counted = start;
            let apart = if start == 1 { before } else { ends_blank(&bytes[..start]) };
            let line = &bytes[start..start + length.min(LINE_BYTES)];
            let offset = self.open.offset + start as u64 - 1;
            look(&mut self.found, line, self.open.lines + 1, offset, apart);
            at = start + length;
        }
        self.open.lines += memchr::memchr_iter(b'\n', &bytes[counted..]).count() as u64;
        self.open.offset += bytes.len() as u64 - 1;
        self.apart = if bytes.len() == 1 { before } else { ends_blank(bytes) };
    }
}

fn look(found: &mut [SectionGroup], line: &[u8], number: u64, offset: u64, apart: bool) {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if let Some((kind, name)) = kinds::heading(line, apart, number == 1) {
        let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
        let offset = offset + name.start as u64;
        found[kind].begin(Section { line: number, last: number, offset, length });
    }
}

/// Returns true if the last line in `bytes`, which is not their first, is blank.
fn ends_blank(bytes: &[u8]) -> bool {
    bytes.ends_with(b"\n\n") || bytes.ends_with(b"\n\r\n")
}

impl SectionGroup {
    fn begin(&mut self, section: Section) {
        if self.count == 0 {
            self.start = section.line;
        }
        self.count += 1;
        self.end(section.line - 1);
        self.open = Some(section);
    }

    fn end(&mut self, last: u64) {
        let Some(mut section) = self.open.take() else { return };
        section.last = last.max(section.line);
        self.short += u64::from(section.last == section.line);
        if self.first.len() < FIRST {
            self.first.push(section);
            return;
        }
        let size = |section: &Section| section.last - section.line;
        // After sections of the same size, so that the earlier ones stay.
        let at = self.largest.partition_point(|kept| size(kept) >= size(&section));
        self.largest.insert(at, section);
        self.largest.truncate(LARGEST);
    }

    /// Returns true if these sections divide most of the output into parts worth naming.
    fn divides(&self, lines: u64) -> bool {
        let before = self.start.saturating_sub(1);
        self.count >= 2
            && 2 * before <= lines
            && self.count * LINES <= lines - before
            && 2 * self.short <= self.count
    }

    fn ended(&self, lines: u64) -> Self {
        let mut ended = self.clone();
        ended.end(lines);
        ended
    }

    fn into_sections(mut self) -> Sections {
        self.largest.sort_by_key(|section| section.line);
        Sections { count: self.count, shown: [self.first, self.largest].concat() }
    }
}

fn best(kinds: &[SectionGroup], lines: u64) -> Sections {
    let mut ended = kinds.iter().map(|kind| kind.ended(lines));
    ended.find(|kind| kind.divides(lines)).map(SectionGroup::into_sections).unwrap_or_default()
}

static FRAGMENTS: LazyLock<Fragments> = LazyLock::new(|| Fragments::new(&kinds::FRAGMENTS));

#[cfg(test)]
mod tests;
