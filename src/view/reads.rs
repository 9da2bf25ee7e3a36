//! The ranges of an output that its `.summary`, `.head` and `.tail` read, and facts about the whole
//! output that make it unnecessary to read the rest.

use std::io;
use std::ops::Range;
use std::sync::LazyLock;

use parking_lot::Mutex;

use crate::summary::READ;
use crate::{RenderError, View, render, scan, summary};
use ctxfs_core::materialize::SNIFFED;
use ctxfs_core::model::{Content, Limits, LinesBefore, Shortcuts, Subject, TriedView};
use ctxfs_core::redact::{Masked, PatternSet, SETS, SecretRules, read_to_mask};

// Number of bytes that are read at either end. An excerpt reads more than a view shows, and one
// more byte shows whether a line begins there.
const END: u64 = READ as u64 + 1;
const _: () = assert!(READ > Limits::VIEW_BYTES && READ >= SNIFFED);
// A last line up to this length is inside the part that all stand-ins read.
const NEAR: u64 = 16 << 10;

/// The ranges of an output that its `.summary`, `.head` and `.tail` read. Ranges may overlap.
///
/// `ends` has both ends of the output, independent of the limits. `found` has all ranges that were
/// read when the views were rendered.
///
/// If secrets are masked, bytes around each range are read as well. `masked_ends` has the ranges of
/// `ends`, and `masked` all ranges, extended by these bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the contract above tells it")]
pub struct StandInReads {
    pub ends: Vec<Range<u64>>,
    pub found: Vec<Range<u64>>,
    pub masked_ends: Vec<Range<u64>>,
    pub masked: Vec<Range<u64>>,
}

struct Noted<'a> {
    content: &'a dyn Content,
    reads: Mutex<Vec<Range<u64>>>,
}

impl StandInReads {
    /// Renders the three views of `subject`, and returns the ranges that they read. The ranges are
    /// small if the analysis has shortcuts. Without shortcuts, the summary of an output with errors
    /// reads everything to try searches.
    pub fn of(subject: &Subject<'_>) -> io::Result<Self> {
        let length = subject.content.len();
        let noted = Noted { content: subject.content, reads: Mutex::default() };
        let watched = Subject { content: &noted, ..*subject };
        for view in [View::Summary, View::Tail, View::Head] {
            match render(&view, &watched, &|| false, &mut io::sink()) {
                Ok(_) | Err(RenderError::NotFound) => {}
                Err(RenderError::Io(error)) => return Err(error),
            }
        }
        let ends = ends(subject);
        let found = merged(noted.reads.into_inner());
        let masked = |ranges: &[Range<u64>]| {
            let ranges = ranges.iter().filter(|range| !range.is_empty());
            merged(ranges.map(|range| read_to_mask(range, length)).collect())
        };
        let masked_ends = masked(&ends);
        let all: Vec<Range<u64>> = ends.iter().chain(&found).cloned().collect();
        Ok(Self { masked: masked(&all), masked_ends, found, ends })
    }
}

// Only the beginning of a binary output is read.
fn ends(subject: &Subject<'_>) -> Vec<Range<u64>> {
    let length = subject.content.len();
    let beginning = 0..END.min(length);
    if subject.analysis.is_binary() {
        return vec![beginning];
    }
    vec![beginning, length.saturating_sub(END)..length]
}

// Merges ranges that touch or overlap.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

impl Content for Noted<'_> {
    fn len(&self) -> u64 {
        self.content.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read_at(offset, buffer)?;
        self.reads.lock().push(offset..offset + count as u64);
        Ok(count)
    }

    fn lines_before(&self, offset: u64) -> io::Result<LinesBefore> {
        self.content.lines_before(offset)
    }

    fn last_line(&self) -> io::Result<Option<u64>> {
        self.content.last_line()
    }
}

/// Computes the shortcuts of `subject`: facts that make it unnecessary to read the whole output for
/// its stand-ins. Secrets in `subject` must not be masked. Reads the whole output if it has errors,
/// as a summary does to try searches.
///
/// The shortcuts are also valid where secrets are masked. A shortcut that would differ if all known
/// secrets were masked is left out.
pub fn shortcuts(subject: &Subject<'_>) -> io::Result<Shortcuts> {
    let tried = summary::tried(subject)?;
    let tried = if tried.is_empty() { tried } else { agreed(subject, tried)? };
    let length = subject.content.len();
    let offset = length.saturating_sub(1);
    let last_line = scan::start_before(subject.content, offset)?;
    let last_line = last_line.filter(|start| length - start > NEAR);
    Ok(Shortcuts { tried, last_line, places: Vec::new() })
}

/// Returns the views of `tried` whose results do not change if all known secrets are masked, and
/// the views that are tried only with masked secrets.
fn agreed(subject: &Subject<'_>, mut tried: Vec<TriedView>) -> io::Result<Vec<TriedView>> {
    let length = usize::try_from(subject.content.len()).map_err(io::Error::other)?;
    let masked = Masked::new(subject.content, &RULES).bytes(0, length)?;
    if masked == subject.content.bytes(0, length)? {
        return Ok(tried);
    }
    let masked = Subject { content: &masked, redacts: Some(&*RULES), ..*subject };
    for other in summary::tried(&masked)? {
        let same = |one: &TriedView| one.view == other.view && one.line == other.line;
        match tried.iter().position(same) {
            Some(at) if tried[at] != other => drop(tried.remove(at)),
            Some(_) => {}
            None => tried.push(other),
        }
    }
    Ok(tried)
}

// Rules for all known secrets.
static RULES: LazyLock<SecretRules> = LazyLock::new(|| {
    let sets: Vec<&PatternSet> = SETS.iter().collect();
    SecretRules::new(&sets, &[]).expect("the sets of this program are valid")
});

#[cfg(test)]
mod tests;
