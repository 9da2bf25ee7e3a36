
use std::io;
use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::bucket::{PARTS_BYTES, PutParts, packed_parts};
use ctxfs_view::StandInReads;

///+ Maximum packed bytes of parts, except for the ends alone: without masks of secrets, and with
///+ them.
const PACKED: u64 = 1 << 20;
const PACKED_MASKED: u64 = 512 << 10;
const MOST: usize = 250;
///+ Bytes of parts count for this fraction in the size of a segment, since they are packed in
///+ memory.
const WEIGHT: u64 = 4;

///+ Candidate ranges for the segment.
#[derive(Debug)]
pub(super) struct PartsPlan {
    ///+ Growing sets of ranges, each with its maximum packed bytes: the ends, the findings, the
    ///+ needs of masks at the ends, and all needs of masks.
    steps: Vec<(Vec<Range<u64>>, u64)>,
}

///+ Bytes of some ranges of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PartBytes {
    ///+ Sorted and disjoint.
    ranges: Vec<Range<u64>>,
    bytes: Vec<u8>,
}

///+ Reader of a file that keeps the bytes of some ranges.
#[derive(Debug)]
pub(super) struct Watched<F> {
    content: F,
    at: u64,
    kept: Arc<Mutex<PartBytes>>,
}

impl PartsPlan {
    ///+ Plans the parts of a file whose stand-ins read these ranges.
    pub(super) fn of(reads: &StandInReads) -> Self {
        let StandInReads { ends, found, masked_ends, masked } = reads;
        let (mut chosen, mut steps) = (Vec::new(), Vec::new());
        for (more, most) in
            [(ends, PACKED), (found, PACKED), (masked_ends, PACKED_MASKED), (masked, PACKED_MASKED)]
        {
            for range in more {
                add(&mut chosen, range);
            }
            steps.push((chosen.clone(), most));
        }
        Self { steps }
    }

    ///+ Wraps `content` to keep all bytes that may be needed.
    pub(super) fn watch<F>(&self, content: F) -> (Watched<F>, Arc<Mutex<PartBytes>>) {
        let ranges = self.steps.last().map(|(ranges, _)| ranges.clone()).unwrap_or_default();
        let kept = Arc::new(Mutex::new(PartBytes { ranges, bytes: Vec::new() }));
        (Watched { content, at: 0, kept: Arc::clone(&kept) }, kept)
    }

    ///+ Returns the largest set of ranges within its packed limit, or else the ends.
    pub(super) fn picked(&self, kept: &PartBytes) -> PartBytes {
        let steps = self.steps.iter().rev();
        let mut steps = steps.map(|(step, most)| (kept.only(step), *most)).peekable();
        while let Some((parts, most)) = steps.next() {
            if steps.peek().is_none() || packed_parts(&parts.bytes) <= most {
                return parts;
            }
        }
        PartBytes::default()
    }
}

impl PartBytes {
    pub(super) fn put(&self) -> Option<PutParts<'_>> {
        let (ranges, bytes) = (&self.ranges, &self.bytes);
        (!bytes.is_empty()).then_some(PutParts::Bytes { ranges, bytes })
    }

    ///+ Returns their share of the bytes of a segment.
    pub(super) fn weight(&self) -> u64 {
        self.bytes.len() as u64 / WEIGHT
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

    ///+ Returns the bytes of ranges, each within a kept one.
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

///+ Adds a range if it fits.
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
    use crate::remote::push::stand_in::planned;
    use ctxfs_core::materialize::Analyzer;
    use ctxfs_core::model::Record;

    fn planned_for(text: &[u8]) -> (PartsPlan, PartBytes) {
        let mut analyzer = Analyzer::new();
        analyzer.push(text);
        let (analysis, path) = (Some(analyzer.finish()), "artifacts/tool/a.txt".to_owned());
        let mut record = Record { path, analysis, ..Record::default() };
        let plan = planned(&mut record, &text.to_vec()).unwrap().unwrap();
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
        let (plan, kept) = planned_for(&text);
        check(&text, &kept);
        let parts = plan.picked(&kept);
        check(&text, &parts);
        let has = |at: usize| parts.ranges.iter().any(|range| range.contains(&(at as u64)));
        assert!(has(0) && has(40_000) && has(text.len() - 1) && has(text.len() - 40_000));
        assert!(has(text.len() / 2) && !has(text.len() / 4));
        assert!(packed_parts(&parts.bytes) <= PACKED);
    }

    #[test]
    fn of_what_packs_badly_less_comes_for_masks() {
        let mut random = vec![0; 4 << 20];
        blake3::Hasher::new().finalize_xof().fill(&mut random);
        let mut text = Vec::new();
        for (number, line) in random.chunks(1 << 19).enumerate() {
            text.extend(line.iter().map(|byte| b'!' + byte % 90));
            text.extend(format!("\nValueError: {} is no port\n", "a".repeat(number)).into_bytes());
        }
        let (plan, kept) = planned_for(&text);
        let parts = plan.picked(&kept);
        check(&text, &parts);
        let (size, all) = (parts.bytes.len(), kept.bytes.len());
        assert!(size > 140 << 10 && size < all, "{size} of {all}");
        assert!(packed_parts(&parts.bytes) <= PACKED, "{size} of {all}");
    }

    #[test]
    fn without_an_analysis_there_are_none() {
        assert!(planned(&mut Record::default(), &b"some text".to_vec()).unwrap().is_none());
    }

    #[test]
    fn endless_places_take_no_more_room() {
        let mut chosen = Vec::new();
        for place in 0..10_000 {
            add(&mut chosen, &(place * 200_000..place * 200_000 + 100_000));
        }
        let size: u64 = chosen.iter().map(|range| range.end - range.start).sum();
        assert!(size <= PARTS_BYTES && size > PARTS_BYTES - 100_000, "{size}");
        for place in 0..10_000 {
            add(&mut chosen, &(place * 1000..place * 1000 + 1));
        }
        assert!(chosen.len() <= MOST);
    }
}
