//! The sections of one kind.

use crate::model::{Section, Sections};

/// The first sections that are kept.
const FIRST: usize = 16;
/// The largest of the other sections that are kept.
const LARGEST: usize = 16;
/// The fewest lines of a section on average: shorter ones are little more than their headings.
const LINES: u64 = 3;

/// The sections of one kind.
#[derive(Debug, Clone, Default)]
pub(super) struct SectionGroup {
    pub(super) count: u64,
    /// The line of the first section.
    start: u64,
    /// Sections of one line.
    short: u64,
    first: Vec<Section>,
    largest: Vec<Section>,
    /// The last section, whose end is not known.
    open: Option<Section>,
}

impl SectionGroup {
    /// Begins a section, which ends the open one.
    pub(super) fn begin(&mut self, section: Section) {
        if self.count == 0 {
            self.start = section.line;
        }
        self.count += 1;
        self.end(section.line - 1);
        self.open = Some(section);
    }

    /// Ends the open section with the line `last`.
    pub(super) fn end(&mut self, last: u64) {
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
    pub(super) fn divides(&self, lines: u64) -> bool {
        let before = self.start.saturating_sub(1);
        self.count >= 2
            && 2 * before <= lines
            && self.count * LINES <= lines - before
            && 2 * self.short <= self.count
    }

    /// Returns the group after its last section has ended, in an output of `lines` lines.
    pub(super) fn ended(&self, lines: u64) -> Self {
        let mut ended = self.clone();
        ended.end(lines);
        ended
    }

    pub(super) fn into_sections(mut self) -> Sections {
        self.largest.sort_by_key(|section| section.line);
        Sections { count: self.count, shown: [self.first, self.largest].concat() }
    }
}
