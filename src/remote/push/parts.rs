//! Some bytes of a larger file, which go into the segment with its record: what its `.summary`,
//! `.tail` and `.head` read.

use std::io;
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::bucket::PARTS_BYTES;
use crate::bucket::PutParts;
use crate::bucket::packed_parts;
use crate::model::Record;
use crate::view::StandInReads;

/// The most bytes of parts when they are packed, unless they are the ends alone.
const PACKED: u64 = 64 << 10;
/// The most ranges.
const MOST: usize = 200;

/// The ranges that may go into the segment.
#[derive(Debug)]
pub(super) struct PartsPlan {
    /// The ends; with what was found; with what masks need. Each has the one before in it.
    steps: Vec<Vec<Range<u64>>>,
}

/// The bytes of some ranges of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PartBytes {
    /// In order, and apart.
    ranges: Vec<Range<u64>>,
    bytes: Vec<u8>,
}

/// A file of which the bytes of some ranges are kept while it is read, from its start.
#[derive(Debug)]
pub(super) struct Watched<F> {
    content: F,
    at: u64,
    kept: Arc<Mutex<PartBytes>>,
}

impl PartsPlan {
    /// Returns what may go into the segment of a file of so many bytes. `None` where that would not
    /// help: views of the log of a terminal show its text, for which all of it is read.
    pub(super) fn of(record: &Record, size: u64) -> Option<Self> {
        let analysis = record.analysis.as_ref()?;
        if analysis.bytes != size || analysis.has_escapes() {
            return None;
        }
        let reads = StandInReads::of(analysis);
        let (mut chosen, mut steps) = (Vec::new(), Vec::new());
        for more in [&reads.ends, &reads.found, &reads.masked] {
            for range in more {
                add(&mut chosen, range);
            }
            steps.push(chosen.clone());
        }
        Some(Self { steps })
    }

    /// Returns `content`, of which all that may be needed is kept in what is returned with it.
    pub(super) fn watch<F>(&self, content: F) -> (Watched<F>, Arc<Mutex<PartBytes>>) {
        let ranges = self.steps.last().cloned().unwrap_or_default();
        let kept = Arc::new(Mutex::new(PartBytes { ranges, bytes: Vec::new() }));
        (Watched { content, at: 0, kept: Arc::clone(&kept) }, kept)
    }

    /// Returns the most of what was kept that is small when it is packed, or else the ends.
    pub(super) fn picked(&self, kept: &PartBytes) -> PartBytes {
        let mut steps = self.steps.iter().rev().map(|step| kept.only(step)).peekable();
        while let Some(parts) = steps.next() {
            if steps.peek().is_none() || packed_parts(&parts.bytes) <= PACKED {
                return parts;
            }
        }
        PartBytes::default()
    }
}

impl PartBytes {
    /// Returns what is to be written; none if there is nothing.
    pub(super) fn put(&self) -> Option<PutParts<'_>> {
        let (ranges, bytes) = (&self.ranges, &self.bytes);
        (!bytes.is_empty()).then_some(PutParts::Bytes { ranges, bytes })
    }

    /// Returns how many bytes there are.
    pub(super) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn keep(&mut self, at: u64, bytes: &[u8]) {
        for range in &self.ranges {
            let start = range.start.max(at) - at;
            let end = range.end.min(at + bytes.len() as u64).saturating_sub(at);
            if start < end {
                self.bytes.extend_from_slice(&bytes[start as usize..end as usize]);
            }
        }
    }

    /// Returns the bytes of ranges, each of which is in one that was kept.
    fn only(&self, ranges: &[Range<u64>]) -> Self {
        let (mut only, mut before) = (Self::default(), 0);
        for kept in &self.ranges {
            let inside = |range: &&Range<u64>| kept.start <= range.start && range.end <= kept.end;
            for range in ranges.iter().filter(inside) {
                let start = before + range.start - kept.start;
                let part = start as usize..(start + range.end - range.start) as usize;
                if let Some(bytes) = self.bytes.get(part) {
                    only.bytes.extend_from_slice(bytes);
                    only.ranges.push(range.clone());
                }
            }
            before += kept.end - kept.start;
        }
        only
    }
}

impl<F: Read> Read for Watched<F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(bytes)?;
        self.kept.lock().keep(self.at, &bytes[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

/// Adds a range, if there is room for it.
fn add(chosen: &mut Vec<Range<u64>>, range: &Range<u64>) {
    let mut all: Vec<_> = chosen.iter().chain([range]).cloned().collect();
    all.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::with_capacity(all.len());
    for range in all {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    let size: u64 = merged.iter().map(|range| range.end - range.start).sum();
    if size <= PARTS_BYTES && merged.len() <= MOST {
        *chosen = merged;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::materialize::Analyzer;

    fn planned(text: &[u8]) -> (PartsPlan, PartBytes) {
        let mut analyzer = Analyzer::new();
        analyzer.push(text);
        let record = Record { analysis: Some(analyzer.finish()), ..Record::default() };
        let plan = PartsPlan::of(&record, text.len() as u64).unwrap();
        let (mut watched, kept) = plan.watch(text);
        let mut read = Vec::new();
        watched.read_to_end(&mut read).unwrap();
        assert_eq!(read, text);
        let kept = kept.lock().clone();
        (plan, kept)
    }

    fn check(text: &[u8], parts: &PartBytes) {
        let mut at = 0;
        for range in &parts.ranges {
            let part = &text[range.start as usize..range.end as usize];
            assert_eq!(parts.bytes[at..at + part.len()], *part);
            at += part.len();
        }
        assert_eq!(at, parts.bytes.len());
    }

    fn log(lines: usize) -> Vec<u8> {
        (0..lines).flat_map(|line| format!("line {line} of a log\n").into_bytes()).collect()
    }

    #[test]
    fn they_are_what_is_read_at_the_ends_and_in_between() {
        let text = [log(100_000), b"ValueError: 17 is no port\n".to_vec(), log(100_000)].concat();
        let (plan, kept) = planned(&text);
        check(&text, &kept);
        let parts = plan.picked(&kept);
        check(&text, &parts);
        let has = |at: usize| parts.ranges.iter().any(|range| range.contains(&(at as u64)));
        assert!(has(0) && has(40_000) && has(text.len() - 1) && has(text.len() - 40_000));
        assert!(parts.len() <= PARTS_BYTES && !has(text.len() / 4));
        assert!(packed_parts(&parts.bytes) <= PACKED || parts.ranges.len() == 2);
    }

    #[test]
    fn of_what_packs_badly_only_the_ends_come() {
        let mut random = vec![0; 1 << 20];
        blake3::Hasher::new().finalize_xof().fill(&mut random);
        let text: String = random.iter().map(|byte| char::from(b'!' + byte % 90)).collect();
        let (plan, kept) = planned(text.as_bytes());
        let parts = plan.picked(&kept);
        check(text.as_bytes(), &parts);
        assert_eq!(parts.ranges.len(), 2);
        assert!(parts.len() < 140 << 10 && parts.len() < kept.len(), "{}", parts.len());
    }

    #[test]
    fn where_all_is_read_there_are_none() {
        let text = b"a\x1b[1mb\x1b[0m\n".repeat(100_000);
        let mut analyzer = Analyzer::of_log();
        analyzer.push(&text);
        let record = Record { analysis: Some(analyzer.finish()), ..Record::default() };
        assert!(PartsPlan::of(&record, text.len() as u64).is_none());
        assert!(PartsPlan::of(&Record::default(), 7).is_none());
    }

    #[test]
    fn endless_places_take_no_more_room() {
        let mut chosen = Vec::new();
        for place in 0..10_000 {
            add(&mut chosen, &(place * 100_000..place * 100_000 + 50_000));
        }
        let size: u64 = chosen.iter().map(|range| range.end - range.start).sum();
        assert!(size <= PARTS_BYTES && size > PARTS_BYTES - 50_000, "{size}");
        for place in 0..10_000 {
            add(&mut chosen, &(place * 1000..place * 1000 + 1));
        }
        assert!(chosen.len() <= MOST);
    }
}
