//! Packing of larger files while they are read. Produces the blocks of the object, and the parts
//! that are stored in the segment with the record.

use std::io::{Read, Write};
use std::ops::Range;
use std::sync::Arc;
use std::{fmt, io, mem};

use parking_lot::Mutex;

use crate::bucket::{BLOCK_BYTES, BlockPacker, PARTS_BYTES, PackedObject, PutParts, packed_parts};
use ctxfs_core::materialize::{Checkpoints, PlainText};
use ctxfs_core::model::{
    Analysis, Content, Limits, NoFilters, Place, Record, RelPath, Shortcuts, Subject,
};
use ctxfs_view::{StandInReads, shortcuts};

/// Reader of the packed object of the content of `F`. It holds one block and its frame in memory,
/// so files of any size can be uploaded.
pub(crate) struct PackedFile<F> {
    content: F,
    packer: Option<BlockPacker<Pipe>>,
    pipe: Pipe,
    block: Vec<u8>,
    ready: Vec<u8>,
    at: usize,
    done: Option<PackedObject>,
}

#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<Vec<u8>>>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<F> fmt::Debug for PackedFile<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackedFile").field("done", &self.done).finish_non_exhaustive()
    }
}

impl<F: Read> PackedFile<F> {
    pub(crate) fn new(content: F) -> Self {
        let pipe = Pipe::default();
        let packer = Some(BlockPacker::new(pipe.clone()));
        let (block, ready) = (Vec::new(), Vec::new());
        Self { content, packer, pipe, block, ready, at: 0, done: None }
    }

    pub(crate) fn done(self) -> Option<PackedObject> {
        self.done
    }

    fn pack(&mut self) -> io::Result<bool> {
        let Some(packer) = &mut self.packer else { return Ok(false) };
        self.block.clear();
        let content = self.content.by_ref();
        let read = content.take(BLOCK_BYTES).read_to_end(&mut self.block)?;
        if read > 0 {
            packer.push(&self.block)?;
        } else if let Some(packer) = self.packer.take() {
            self.done = Some(packer.finish()?.1);
        }
        self.ready = mem::take(&mut *self.pipe.0.lock());
        self.at = 0;
        Ok(true)
    }
}

impl<F: Read> Read for PackedFile<F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.at == self.ready.len() {
            if !self.pack()? {
                return Ok(0);
            }
        }
        let count = bytes.len().min(self.ready.len() - self.at);
        bytes[..count].copy_from_slice(&self.ready[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// Maximum packed bytes of parts if the text has no masks of secrets. `PACKED_MASKED` applies if it
/// has. The two ends of the text are sent even if they are larger.
const PACKED: u64 = 1 << 20;
const PACKED_MASKED: u64 = 512 << 10;
const MOST: usize = 250;
/// The size of a segment includes the bytes of parts divided by this number, because parts are
/// packed in memory.
const WEIGHT: u64 = 4;

#[derive(Debug)]
pub(super) struct PartsPlan {
    /// Growing sets of ranges, each with its maximum packed bytes. They are the ends, the findings,
    /// the ranges that masks at the ends require, and the ranges that all masks require.
    steps: Vec<(Vec<Range<u64>>, u64)>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PartBytes {
    /// Sorted and disjoint ranges.
    ranges: Vec<Range<u64>>,
    bytes: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct PartsRecorder<F> {
    content: F,
    at: u64,
    kept: Arc<Mutex<PartBytes>>,
}

impl PartsPlan {
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

    pub(super) fn watch<F>(&self, content: F) -> (PartsRecorder<F>, Arc<Mutex<PartBytes>>) {
        let ranges = self.steps.last().map(|(ranges, _)| ranges.clone()).unwrap_or_default();
        let kept = Arc::new(Mutex::new(PartBytes { ranges, bytes: Vec::new() }));
        (PartsRecorder { content, at: 0, kept: Arc::clone(&kept) }, kept)
    }

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

impl<F: Read> Read for PartsRecorder<F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(bytes)?;
        self.kept.lock().keep(self.at, &bytes[..count]);
        self.at += count as u64;
        Ok(count)
    }
}

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

/// Maximum number of checkpoints in a log with escape sequences.
const PLACES: usize = 400;

/// Computes the stand-ins of `content` in advance, so that other hosts can create them without the
/// object. Adds shortcuts to the analysis in `record`, and returns the ranges to send with the
/// record. Returns `None` if the analysis is not complete.
pub(super) fn planned(record: &mut Record, content: &dyn Content) -> io::Result<Option<PartsPlan>> {
    let Some(analysis) = record.analysis.as_ref().filter(|known| known.bytes == content.len())
    else {
        return Ok(None);
    };
    let (shortcuts, reads) = if analysis.has_escapes() {
        of_log(record, analysis, content)?
    } else {
        of_text(record, analysis.clone(), content)?
    };
    let plan = PartsPlan::of(&reads);
    if let Some(analysis) = &mut record.analysis {
        analysis.shortcuts =
            Some(shortcuts).filter(|known| *known != Shortcuts::default()).map(Box::new);
    }
    Ok(Some(plan))
}

fn of_text(
    record: &Record,
    analysis: Analysis,
    content: &dyn Content,
) -> io::Result<(Shortcuts, StandInReads)> {
    let path = RelPath::from_text(&record.path).map_err(io::Error::other)?;
    let (place, limits) = (Place::new("/ctx", "conversation", &path), Limits::default());
    let analysis = Analysis { shortcuts: None, ..analysis };
    let subject = Subject {
        content,
        analysis: &analysis,
        record,
        place: &place,
        limits: &limits,
        same_name: &[],
        redacts: None,
        filters: &NoFilters,
    };
    let shortcuts = shortcuts(&subject)?;
    let analysis = Analysis { shortcuts: Some(Box::new(shortcuts.clone())), ..analysis.clone() };
    let reads = StandInReads::of(&Subject { analysis: &analysis, ..subject })?;
    Ok((shortcuts, reads))
}

/// Does what [`of_text`] does, for a log with escape sequences. The stand-ins of such a log show
/// its plain text. Maps their ranges to positions in the log, and adds checkpoints from which the
/// log can be decoded.
fn of_log(
    record: &Record,
    analysis: &Analysis,
    log: &dyn Content,
) -> io::Result<(Shortcuts, StandInReads)> {
    let lines = Checkpoints::dense(log)?;
    let text = PlainText::new(log, lines.clone())?;
    let (mut shortcuts, reads) = of_text(record, analysis.of_text(), &text)?;
    let mut places = Vec::new();
    let mut in_log = |ranges: Vec<Range<u64>>| -> Vec<Range<u64>> {
        let around = ranges.iter().map(|range| lines.around(range, log.len()));
        let around = around.map(|(place, range)| {
            places.push(place);
            range
        });
        around.collect()
    };
    let StandInReads { ends, found, masked_ends, masked } = reads;
    let (ends, found) = (in_log(ends), in_log(found));
    let (masked_ends, masked) = (in_log(masked_ends), in_log(masked));
    places.truncate(PLACES);
    places.sort_unstable();
    places.dedup();
    shortcuts.places = places;
    Ok((shortcuts, StandInReads { ends, found, masked_ends, masked }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{Blocks, unpack_block};
    use ctxfs_core::materialize::Analyzer;

    #[test]
    fn it_is_packed_as_it_is_read() {
        for size in [1, BLOCK_BYTES, 2 * BLOCK_BYTES + 7] {
            let content: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let mut file = PackedFile::new(&content[..]);
            let mut packed = Vec::new();
            file.read_to_end(&mut packed).unwrap();
            let done = file.done().unwrap();
            assert_eq!((done.size, done.packed), (size, packed.len() as u64));
            assert_eq!(done.digest, blake3::hash(&content).to_hex().as_str());
            let blocks = Blocks::parse(&done.blocks, size, done.packed).unwrap();
            let unpacked = (0..blocks.len()).flat_map(|block| {
                let range = blocks.frame_range(block);
                let frame = &packed[range.start as usize..range.end as usize];
                unpack_block(frame, block, &blocks).unwrap()
            });
            assert!(unpacked.eq(content.iter().copied()), "{size}");
        }
    }

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
