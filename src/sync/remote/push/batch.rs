//! Content of one segment to publish: files, messages, moves and removals; and the limits of this
//! content.
//!
//! Larger files are packed while they are read. This produces the blocks of an object, and the
//! parts that are stored in the segment with the record.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use std::{io, mem};

use parking_lot::Mutex;

use crate::bucket::{
    BLOCK_BYTES, BlockPacker, FormatError, LINE_BYTES, Line, MessageLine, MoveLine, ObjectPlace,
    PARTS_BYTES, PackedObject, Place, PutBytes, PutLine, PutParts, RemoveLine, SEGMENT_BYTES,
    SMALL_BYTES, SegmentWriter, packed_parts,
};
use crate::remote::{LogPosition, Moment};
use crate::replica::{
    Changes, Clock, Covers, FileKey, FileVersion, LocalPut, Origin, Publication, Segment,
    SegmentId, Stamp, WriterId,
};
use ctxfs_core::materialize::{Checkpoints, PlainText};
use ctxfs_core::model;
use ctxfs_core::model::{
    Analysis, Content, Earlier, Limits, NoFilters, Record, RelPath, Shortcuts, Subject,
};
use ctxfs_view::{StandInReads, shortcuts};

/// Age from which a segment must not be sent, because its objects may be deleted some days later.
pub(super) const DAY: Duration = Duration::from_hours(24);
/// Longest possible stamp and origin. A line that fits with them also fits with the real ones, even
/// after a merge.
const LONGEST_STAMP: Stamp = Stamp(u64::MAX);
const LONGEST_ORIGIN: Origin = Origin {
    segment: SegmentId { writer: WriterId(u64::MAX), number: 999_999_999_999 },
    place: u32::MAX,
};

#[derive(Debug)]
pub(super) struct ReadyFile {
    pub(super) line: PutLine,
    pub(super) weight: usize,
    pub(super) bytes: ReadyBytes,
}

#[derive(Debug)]
pub(super) enum ReadyBytes {
    Small(Vec<u8>),
    Object(Upload),
}

impl ReadyFile {
    pub(super) fn bytes(&self) -> PutBytes<'_> {
        match &self.bytes {
            ReadyBytes::Small(bytes) => PutBytes::Bytes(bytes),
            ReadyBytes::Object(upload) => PutBytes::Object(upload.object.clone()),
        }
    }

    pub(super) fn parts(&self) -> Option<PutParts<'_>> {
        self.upload()?.parts.as_ref()?.put()
    }

    pub(super) fn small_bytes(&self) -> u64 {
        match &self.bytes {
            ReadyBytes::Small(bytes) => bytes.len() as u64,
            ReadyBytes::Object(upload) => upload.parts.as_ref().map_or(0, |parts| parts.weight()),
        }
    }

    pub(super) fn upload(&self) -> Option<&Upload> {
        match &self.bytes {
            ReadyBytes::Small(_) => None,
            ReadyBytes::Object(upload) => Some(upload),
        }
    }
}

pub(crate) fn message_text(line: Vec<u8>) -> Result<String, String> {
    let text = String::from_utf8(line).map_err(|error| error.to_string())?;
    let line = MessageLine { text, stamp: LONGEST_STAMP, origin: Some(LONGEST_ORIGIN) };
    match written(Line::Message(line)).map_err(|error| error.to_string())? {
        (Line::Message(line), _) => Ok(line.text),
        _ => unreachable!("a line stays what it is"),
    }
}

pub(super) fn too_long() -> String {
    FormatError::TooLarge { what: "a line of the records", most: LINE_BYTES as u64 }.to_string()
}

pub(super) fn check_move(artifact: Origin, to: &str) -> Result<(), LeftOut> {
    let line = MoveLine { artifact, to: to.to_owned(), stamp: Stamp::default() };
    check(Line::Move(line)).map(drop)
}

pub(super) fn recorded(
    record: Record,
    path: &str,
    put: &LocalPut,
    digest: &str,
) -> Result<Record, LeftOut> {
    let is_it = record.analysis.as_ref().is_some_and(|analysis| analysis.digest == digest);
    if !is_it {
        return Err(LeftOut::Changed);
    }
    let (path, size, modified) = (path.to_owned(), put.version.size, put.version.modified);
    Ok(Record { path, size, modified, ..record })
}

pub(super) fn small(file: File, put: &LocalPut, digest: &str) -> Result<Vec<u8>, LeftOut> {
    let mut bytes = Vec::with_capacity(put.version.size as usize);
    let read = file.take(SMALL_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| unread(&error))?;
    let is_it =
        bytes.len() as u64 == put.version.size && blake3::hash(&bytes).to_hex().as_str() == digest;
    if is_it { Ok(bytes) } else { Err(LeftOut::Changed) }
}

pub(super) fn unread(error: &io::Error) -> LeftOut {
    LeftOut::Unread(error.to_string())
}

pub(super) fn checked(mut line: PutLine, bytes: ReadyBytes) -> Result<ReadyFile, LeftOut> {
    line.place = match &bytes {
        ReadyBytes::Small(bytes) if bytes.is_empty() => Place::Empty,
        // The offset is not known yet, so use the longest one.
        ReadyBytes::Small(bytes) => {
            Place::Inside { at: SEGMENT_BYTES, packed: SMALL_BYTES, size: bytes.len() as u64 }
        }
        ReadyBytes::Object(upload) => Place::Object(upload.object.clone()),
    };
    (line.stamp, line.origin) = (LONGEST_STAMP, Some(LONGEST_ORIGIN));
    match check(Line::Put(Box::new(line)))? {
        (Line::Put(mut line), weight) => {
            (line.stamp, line.origin) = (Stamp::default(), None);
            Ok(ReadyFile { line: *line, weight, bytes })
        }
        _ => unreachable!("a line stays what it is"),
    }
}

fn check(line: Line) -> Result<(Line, usize), LeftOut> {
    written(line).map_err(|error| LeftOut::Refused(error.to_string()))
}

fn written(line: Line) -> Result<(Line, usize), FormatError> {
    let mut written = Vec::new();
    line.write(&mut written)?;
    Ok((line, written.len()))
}

/// A segment is full once it has this many bytes of small artifacts, or `MOST_RECORDS` bytes of
/// records. Even with one more line of maximum length, the segment stays a quarter below the limits
/// of readers.
const MOST_BYTES: u64 = 4 << 20;
const MOST_RECORDS: usize = 8 << 20;
const MOST_LINES: usize = 20_000;

#[derive(Debug)]
pub(super) struct NewMessages {
    pub(super) texts: Vec<String>,
    pub(super) at: LogPosition,
}

#[derive(Debug)]
pub(super) struct Batch {
    changes: Changes,
    pub(super) ready: BTreeMap<String, ReadyFile>,
    pub(super) messages: Option<NewMessages>,
    ends: bool,
    bytes: u64,
    weight: usize,
}

#[derive(Debug)]
pub(super) struct FinishedSegment {
    pub(super) publication: Publication<(), String>,
    pub(super) bytes: Vec<u8>,
}

impl Batch {
    /// Starts a segment with the moves and removals in `changes`. Their lines have `weight` bytes.
    /// If `ends` is true, the removals state that the whole conversation was removed.
    pub(super) fn new(changes: Changes, weight: usize, ends: bool) -> Self {
        Self { changes, ready: BTreeMap::new(), messages: None, ends, bytes: 0, weight }
    }

    pub(super) fn add(&mut self, path: &str, put: &LocalPut, ready: ReadyFile) {
        self.bytes += ready.small_bytes();
        self.weight += ready.weight;
        self.changes.puts.insert(path.to_owned(), put.clone());
        self.ready.insert(path.to_owned(), ready);
    }

    pub(super) fn is_full(&self) -> bool {
        let lines = self.ready.len();
        self.bytes >= MOST_BYTES || self.weight >= MOST_RECORDS || lines >= MOST_LINES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.messages.is_none()
    }

    /// Returns the time from which the age of the segment counts: the creation time of its oldest
    /// object, or `now`.
    pub(super) fn since(&self, now: &Moment) -> Moment {
        let objects = self.ready.values().filter_map(ReadyFile::upload);
        let oldest = objects.max_by_key(|upload: &&Upload| now.since(&upload.since));
        oldest.map_or_else(|| now.clone(), |upload| upload.since.clone())
    }

    /// Builds the segment `id`. `now` is the current time in microseconds since the epoch.
    pub(super) fn make(
        &self,
        id: SegmentId,
        clock: &mut Clock,
        now: u64,
    ) -> Result<FinishedSegment, FormatError> {
        let texts = self.messages.iter().flat_map(|messages| messages.texts.iter().cloned());
        let publication = Publication::new(id, &self.changes, texts, clock, now, |_| ());
        let bytes = self.write(&publication.segment)?;
        Ok(FinishedSegment { publication, bytes })
    }

    fn write(&self, segment: &Segment<(), String>) -> Result<Vec<u8>, FormatError> {
        let mut writer = SegmentWriter::new(segment.id, Covers::new());
        for (origin, claim) in &segment.artifacts {
            let ready = &self.ready[&claim.path];
            let line = PutLine { stamp: claim.stamp, ..ready.line.clone() };
            let place = writer.put(line, ready.bytes(), ready.parts())?;
            assert_eq!(place, *origin, "the lines of artifacts come in the order of their places");
        }
        for (origin, (stamp, text)) in &segment.messages {
            let line = MessageLine { text: text.clone(), stamp: *stamp, origin: None };
            let place = writer.message(line)?;
            assert_eq!(place, *origin, "messages follow the artifacts");
        }
        for (artifact, to) in &segment.moves {
            let (artifact, to, stamp) = (*artifact, to.to.clone(), to.stamp);
            writer.movement(MoveLine { artifact, to, stamp })?;
        }
        if !segment.removed.is_empty() {
            let (origins, segments) =
                (segment.removed.origins.clone(), segment.removed.segments.clone());
            writer.remove(RemoveLine { origins, segments, ends: self.ends })?;
        }
        writer.finish()
    }
}

/// State about one conversation that a process keeps in memory between pushes. It is empty when the
/// process starts.
#[derive(Debug, Default)]
pub(crate) struct Session {
    pub(super) looked: Option<Moment>,
    /// Uploaded objects that no segment names yet, by path. If the process forgets them, garbage
    /// collection deletes them later.
    pub(super) uploads: BTreeMap<String, Upload>,
}

#[derive(Debug, Clone)]
pub(super) struct Upload {
    pub(super) key: FileKey,
    pub(super) version: FileVersion,
    pub(super) digest: String,
    pub(super) since: Moment,
    pub(super) object: ObjectPlace,
    pub(super) parts: Option<Arc<PartBytes>>,
}

impl Upload {
    /// Returns true if the object has the content of the file and is recent enough to be named in a
    /// segment.
    pub(super) fn fits(&self, put: &LocalPut, now: &Moment) -> bool {
        self.key == put.key
            && self.version == put.version
            && put.digest.as_deref() == Some(&*self.digest)
            && now.since(&self.since) <= DAY
    }
}

/// Reason why a file or a message was not published. The rest of the push continues. The next push
/// retries files, and reports them again. A message that cannot be shared stays on this host, and
/// is reported only once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe variants and fields")]
pub enum LeftOut {
    #[error("it has changed since")]
    Changed,
    #[error("it cannot be read: {0}")]
    Unread(String),
    #[error("it cannot be shared: {0}")]
    Refused(String),
    #[error("a message of {bytes} bytes cannot be shared, and stays on this host: {why}")]
    Message { bytes: u64, why: String },
    #[error(
        "the bucket is write-once: what it has under this name stays. Use another name for what is \
         new"
    )]
    WriteOnce,
}

impl LeftOut {
    /// Returns true if this is reported by one push only.
    #[must_use]
    pub fn is_told_once(&self) -> bool {
        matches!(self, Self::Message { .. })
    }
}

/// A reader that returns the content of `F`, packed as an object. It holds one block and its frame
/// in memory, so files of any size can be uploaded.
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

/// Maximum packed bytes of the parts that contain the two ends and the findings of a text.
/// `PACKED_MASKED` is the maximum if the parts also contain the ranges needed to mask secrets. The
/// two ends of the text are sent even if they are larger.
const PACKED: u64 = 1 << 20;
const PACKED_MASKED: u64 = 512 << 10;
const MOST_RANGES: usize = 250;
/// The unpacked bytes of parts are divided by this number before they count toward the size of a
/// segment.
const WEIGHT: u64 = 4;

#[derive(Debug)]
pub(super) struct PartsPlan {
    /// Sets of ranges, each with its maximum packed bytes. Each set extends the previous one. In
    /// order, they add the ends of the text, the findings, the ranges needed to mask secrets at the
    /// ends, and the ranges needed to mask all secrets.
    steps: Vec<(Vec<Range<u64>>, u64)>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PartBytes {
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
    if size <= PARTS_BYTES && merged.len() <= MOST_RANGES {
        *chosen = merged;
    }
}

const PLACES: usize = 400;

/// Computes what other hosts need to create the stand-ins of `content` without reading its object
/// from the bucket: adds precomputed results to the analysis in `record` (its `shortcuts`), and
/// returns the ranges to send with the record. Returns `None` if `record` has no analysis of all of
/// `content`.
pub(super) fn planned(record: &mut Record, content: &dyn Content) -> io::Result<Option<PartsPlan>> {
    let Some(analysis) = record.analysis.as_ref().filter(|known| known.bytes == content.len())
    else {
        return Ok(None);
    };
    let (shortcuts, reads) = if analysis.is_decoded() {
        of_decoded(record, analysis, content)?
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
    let (place, limits) = (model::Place::new("/ctx", "conversation", &path), Limits::default());
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
        earlier: Earlier::None,
    };
    let shortcuts = shortcuts(&subject)?;
    let analysis = Analysis { shortcuts: Some(Box::new(shortcuts.clone())), ..analysis.clone() };
    let reads = StandInReads::of(&Subject { analysis: &analysis, ..subject })?;
    Ok((shortcuts, reads))
}

/// Like [`of_text`], for a log whose text is not the bytes as they are. The stand-ins of such a log
/// show its text. Maps the ranges of the text to ranges of the log, and adds checkpoints from which
/// the log can be decoded.
fn of_decoded(
    record: &Record,
    analysis: &Analysis,
    log: &dyn Content,
) -> io::Result<(Shortcuts, StandInReads)> {
    let lines = Checkpoints::dense(log, analysis.text_reading())?;
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
        assert!(chosen.len() <= MOST_RANGES);
    }
}
