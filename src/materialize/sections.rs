//! The sections of an output: files of a diff, modules of a test run, headings.
//!
//! A line is a candidate if it begins with one of a few dozen fragments; [`kinds`] decides if it
//! begins a section, and of which kind. Sections of each kind are recorded separately. Of the kinds
//! that divide most of the output, the most telling one is reported. [`outline`] finds those that
//! need more than one line.

mod group;
mod kinds;
mod outline;
mod statuses;

use std::sync::LazyLock;

use crate::materialize::fragments::Fragments;
use crate::materialize::open_line::OpenLine;
use crate::materialize::sections::group::SectionGroup;
use crate::materialize::sections::kinds::Heading;
use crate::materialize::sections::outline::OutlineDetector;
use crate::model::Section;
use crate::model::Sections;

/// Bytes of a line that are examined, and of the longest name.
const LINE_BYTES: usize = 256;

/// Finds the sections of a stream.
#[derive(Debug, Clone)]
pub(super) struct SectionDetector {
    open: OpenLine<LINE_BYTES>,
    /// True if the open line follows a blank line or is the first.
    apart: bool,
    found: [SectionGroup; kinds::KINDS],
    outline: OutlineDetector,
}

impl SectionDetector {
    pub(super) fn new() -> Self {
        let outline = OutlineDetector::default();
        Self { open: OpenLine::default(), apart: true, found: <_>::default(), outline }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.outline.push(bytes);
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
        let outline = self.outline.finish(lines);
        if outline.is_search {
            return outline.sections;
        }
        let mut ended = self.clone();
        if !self.open.is_empty() {
            ended.end_open();
        }
        let sections = best(&ended.found, lines);
        if sections.is_empty() { outline.sections } else { sections }
    }

    /// Returns the statuses of an access log with their counts. There are `lines` lines in all.
    pub(super) fn statuses(&self, lines: u64) -> Vec<(u16, u64)> {
        self.outline.finish(lines).statuses
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
    match kinds::heading(line, apart, number == 1) {
        Some(Heading::Begins(kind, name)) => {
            let length = u32::try_from(name.len()).unwrap_or(u32::MAX);
            let offset = offset + name.start as u64;
            found[kind].begin(Section { line: number, last: number, offset, length });
        }
        Some(Heading::Ends(kind)) => found[kind].end(number),
        None => {}
    }
}

/// Returns true if the last line in `bytes`, which is not their first, is blank.
fn ends_blank(bytes: &[u8]) -> bool {
    bytes.ends_with(b"\n\n") || bytes.ends_with(b"\n\r\n")
}

fn best(kinds: &[SectionGroup], lines: u64) -> Sections {
    let mut ended = kinds.iter().map(|kind| kind.ended(lines));
    ended.find(|kind| kind.divides(lines)).map(SectionGroup::into_sections).unwrap_or_default()
}

static FRAGMENTS: LazyLock<Fragments> = LazyLock::new(|| Fragments::new(&kinds::FRAGMENTS));

#[cfg(test)]
mod tests;
