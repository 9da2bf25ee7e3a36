//! Finds the sections of an output: the files of a diff, the modules of a test run, headings.
//!
//! A line is a candidate if it begins with one of a few dozen fragments. [`kinds`] decides whether
//! a candidate begins a section, and of which kind. The sections of each kind are recorded
//! separately. Of the kinds that divide most of the output, the most informative one is reported.
//! [`outline`] finds sections that can only be recognized from several lines.

mod kinds;
mod outline;

use std::sync::LazyLock;

use crate::materialize::block::{ByteBlock, OpenLine};
use crate::materialize::sections::kinds::{Heading, SectionGroup};
use crate::materialize::sections::outline::OutlineDetector;
use crate::model::{Section, Sections};

// Number of bytes of a line that are examined, and maximum length of a name.
const LINE_BYTES: usize = 256;

#[derive(Debug, Clone)]
pub(super) struct SectionDetector {
    open: OpenLine<LINE_BYTES>,
    // True if the open line is the first line or follows a blank line.
    apart: bool,
    found: [SectionGroup; kinds::KINDS],
    outline: OutlineDetector,
}

impl SectionDetector {
    pub(super) fn new() -> Self {
        let outline = OutlineDetector::default();
        Self { open: OpenLine::default(), apart: true, found: <_>::default(), outline }
    }

    pub(super) fn push(&mut self, block: ByteBlock<'_>) {
        let ByteBlock { bytes, newlines } = block;
        self.outline.push(bytes);
        let [first, ..] = newlines else {
            return self.open.push(bytes);
        };
        self.open.push(&bytes[..*first as usize]);
        self.end_open();
        self.whole_lines(block);
        self.open.push(&bytes[block.last_line()..]);
    }

    /// Returns the sections so far. Examines an unfinished last line too. `lines` is the total
    /// number of lines.
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

    pub(super) fn statuses(&self, lines: u64) -> Vec<(u16, u64)> {
        self.outline.finish(lines).statuses
    }

    fn end_open(&mut self) {
        let (found, apart) = (&mut self.found, &mut self.apart);
        self.open.end(|line, number, offset| {
            examine(found, line, number, offset, *apart);
            *apart = matches!(line, b"" | b"\r");
        });
    }

    /// Takes the complete lines of a block after its first newline. The caller has already examined
    /// the line that ends at the first newline.
    fn whole_lines(&mut self, block: ByteBlock<'_>) {
        let ByteBlock { bytes, newlines } = block;
        let before = self.apart;
        let first = newlines[0] as usize;
        for (index, pair) in newlines.windows(2).enumerate() {
            let (start, end) = (pair[0] as usize + 1, pair[1] as usize);
            let line = &bytes[start..end];
            if !FRAGMENTS.begin(line) {
                continue;
            }
            let apart = if index == 0 { before } else { ends_blank(&bytes[first..start]) };
            let offset = self.open.offset + (start - first) as u64 - 1;
            let number = self.open.lines + index as u64 + 1;
            examine(&mut self.found, &line[..line.len().min(LINE_BYTES)], number, offset, apart);
        }
        self.open.lines += newlines.len() as u64 - 1;
        self.open.offset += (block.last_line() - first) as u64 - 1;
        let rest = &bytes[first..block.last_line()];
        self.apart = if rest.len() == 1 { before } else { ends_blank(rest) };
    }
}

fn examine(found: &mut [SectionGroup], line: &[u8], number: u64, offset: u64, apart: bool) {
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

// Returns true if the last line is blank. The last line must not be the first line in `bytes`.
fn ends_blank(bytes: &[u8]) -> bool {
    bytes.ends_with(b"\n\n") || bytes.ends_with(b"\n\r\n")
}

fn best(kinds: &[SectionGroup], lines: u64) -> Sections {
    let mut ended = kinds.iter().map(|kind| kind.ended(lines));
    ended.find(|kind| kind.divides(lines)).map(SectionGroup::into_sections).unwrap_or_default()
}

// The fragments at the beginning of a line, grouped by their first byte.
struct HeadingStarts([Vec<&'static [u8]>; 256]);

impl HeadingStarts {
    #[inline]
    fn begin(&self, line: &[u8]) -> bool {
        let Some(first) = line.first() else { return false };
        self.0[usize::from(*first)].iter().any(|start| line.starts_with(start))
    }
}

static FRAGMENTS: LazyLock<HeadingStarts> = LazyLock::new(|| {
    let starting = |first| {
        let all = kinds::FRAGMENTS.iter().map(|fragment| fragment.as_bytes());
        all.filter(|fragment| usize::from(fragment[0]) == first).collect()
    };
    HeadingStarts(std::array::from_fn(starting))
});

#[cfg(test)]
mod tests;
