//! Segments of a bucket, from an arbitrary source.
//!
//! If the first byte is `m`, the rest is a list of texts, separated by 0xFE: the head, the records,
//! and the contents to which the records refer, in order. A segment with correct lengths, digests
//! and frames is built from these texts, so that a reader can refuse only their statements.
//!
//! If the first byte is `w`, the rest is a list of texts, also separated by 0xFE. A text that
//! begins with `t` is a message, and any other text is an output. A segment is written with them.
//! Otherwise the input is a segment.

mod forge;

use std::collections::BTreeMap;
use std::ops::Range;

use ctxfs_core::model::{ArtifactState, Record};
use ctxfs_sync::bucket::{
    Line, MessageLine, PARTS_BYTES, Parts, Place, PutBytes, PutLine, PutParts, RECORDS_BYTES,
    SEGMENT_BYTES, SMALL_BYTES, SegmentHead, SegmentWriter, unpack_member, unpack_parts,
};
use ctxfs_sync::replica::{Covers, Origin, SegmentId, Stamp, WriterId};

/// Separator of the texts in an input. No text contains it.
const SEPARATOR: u8 = 0xFE;
/// Maximum bytes of records. Segments with more are skipped. `MOST_LINES` is the maximum number of
/// lines.
const MOST_RECORDS: usize = 1 << 20;
const MOST_LINES: usize = 64;
/// Panic message. The range was checked when its line was parsed.
const POSSIBLE: &str = "the range was checked with its line";

/// Asserts that a segment is refused, or has the same content after it is written again. The
/// content includes the lines, the bytes of small artifacts, and parts of larger artifacts, all
/// within their limits.
pub fn segment(data: &[u8]) {
    tried(data);
}

/// Returns the number of lines. Returns `None` if the segment is refused, truncated or skipped.
fn tried(data: &[u8]) -> Option<usize> {
    let read = match data.split_first() {
        Some((b'm', texts)) => seen(&forge::segment(texts), MOST_RECORDS),
        Some((b'w', texts)) => Some(written(texts)),
        _ => seen(data, MOST_RECORDS),
    }?;
    let first = read.written()?;
    // The rewritten records may be longer.
    let again = seen(&first, 2 * MOST_RECORDS).expect("what was written can be read");
    assert_eq!(again.unplaced(), read.unplaced());
    assert_eq!(again.written().as_deref(), Some(&*first), "the same content has the same bytes");
    Some(read.lines.len())
}

#[derive(Debug)]
struct Seen {
    head: SegmentHead,
    lines: Vec<SeenLine>,
}

/// A line, and the bytes in the segment to which it refers. `bytes` and `parts` are empty if it
/// refers to none.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SeenLine {
    origin: Origin,
    line: Line,
    bytes: Packed,
    parts: Packed,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Packed {
    frame: Vec<u8>,
    content: Vec<u8>,
}

/// Reads a segment. Returns `None` if it is refused or truncated, or has more than `most` bytes of
/// records.
fn seen(segment: &[u8], most: usize) -> Option<Seen> {
    let head = SegmentHead::read(segment).ok()??;
    let (start, end) = (head.records_start, head.records_end);
    assert!(start <= end && end <= SEGMENT_BYTES, "{head:?}");
    assert_eq!(head.digest(segment).is_some(), end <= segment.len() as u64);
    let jsonl = head.records(cut(segment, start..end)?).ok()?;
    assert!(jsonl.len() as u64 <= RECORDS_BYTES.min(head.merged_bytes()), "{head:?}");
    if jsonl.len() > most {
        return None;
    }
    let mut reading = head.lines(&jsonl);
    let found = reading.by_ref().collect::<Result<Vec<_>, _>>();
    assert!(reading.next().is_none(), "nothing follows an error");
    let found = found.ok().filter(|found| found.len() <= MOST_LINES)?;
    let seen = found.into_iter().map(|(origin, line, range)| {
        check(&head, origin, &line, &jsonl[range]);
        SeenLine::of(&head, segment, origin, line)
    });
    let lines = seen.collect::<Option<Vec<_>>>()?;
    Some(Seen { head, lines })
}

fn cut(segment: &[u8], range: Range<u64>) -> Option<&[u8]> {
    segment.get(range.start as usize..range.end as usize)
}

/// Asserts that a line is equal when it is parsed alone, and after it is written again.
fn check(head: &SegmentHead, origin: Origin, line: &Line, text: &[u8]) {
    let is_covered = head.covers.contains_key(&origin.segment);
    assert!(origin.segment == head.id || is_covered, "{origin} of {head:?}");
    assert_eq!(Line::parse(text).as_ref(), Ok(line));
    let mut again = Vec::new();
    line.write(&mut again).expect("what was read can be written");
    let again = again.strip_suffix(b"\n").expect("a line ends");
    assert_eq!(Line::parse(again).as_ref(), Ok(line));
}

/// Writes a segment with messages and outputs. Asserts that reading returns all of them.
fn written(texts: &[u8]) -> Seen {
    let texts = texts.split(|byte| *byte == SEPARATOR).take(MOST_LINES);
    let texts: Vec<_> = texts.filter(|text| text.len() as u64 <= SMALL_BYTES).collect();
    let id = SegmentId { writer: WriterId(7), number: 1 };
    let mut writer = SegmentWriter::new(id, Covers::new());
    for (place, text) in texts.iter().enumerate() {
        let written = match message(text) {
            Some(line) => writer.message(line),
            None => writer.put(output(place, text.len() as u64), PutBytes::Bytes(text), None),
        };
        let origin = written.expect("it can be written");
        assert_eq!((origin.segment, origin.place as usize), (id, place));
    }
    let segment = writer.finish().expect("it is small");
    let read = seen(&segment, usize::MAX).expect("what was written can be read");
    assert_eq!(read.lines.len(), texts.len());
    for (seen, text) in read.lines.iter().zip(texts) {
        match &seen.line {
            Line::Message(line) => assert_eq!([&b"t"[..], line.text.as_bytes()].concat(), text),
            _ => assert_eq!(seen.bytes.content, text),
        }
    }
    read
}

/// Parses a text of the input as a message. Returns `None` if it is an output.
fn message(text: &[u8]) -> Option<MessageLine> {
    let text = std::str::from_utf8(text.strip_prefix(b"t")?).ok()?;
    let is_line = !text.contains('\n');
    is_line.then(|| MessageLine { text: text.to_owned(), stamp: Stamp(2), origin: None })
}

fn output(place: usize, size: u64) -> PutLine {
    let (path, state) = (format!("artifacts/tool/{place}"), ArtifactState::Sealed);
    let record = Record { path, generation: 1, state, size, ..Record::default() };
    let (attributes, place) = (BTreeMap::new(), Place::Empty);
    PutLine { record, mode: 0o644, attributes, stamp: Stamp(1), place, parts: None, origin: None }
}

impl Seen {
    /// Writes the segment again. Returns `None` if it would be too large.
    fn written(&self) -> Option<Vec<u8>> {
        let mut writer = SegmentWriter::new(self.head.id, self.head.covers.clone());
        for line in &self.lines {
            line.write(&mut writer);
        }
        writer.finish().ok()
    }

    /// Returns the content without the offsets of bytes in the segment.
    fn unplaced(&self) -> (SegmentId, &Covers, Vec<SeenLine>) {
        let lines = self.lines.iter().map(SeenLine::unplaced).collect();
        (self.head.id, &self.head.covers, lines)
    }
}

impl SeenLine {
    /// Unpacks the bytes to which a line refers. Returns `None` if they are refused or truncated.
    fn of(head: &SegmentHead, segment: &[u8], origin: Origin, line: Line) -> Option<Self> {
        let (mut bytes, mut parts) = (Packed::default(), Packed::default());
        if let Line::Put(put) = &line {
            if let Some(range) = head.range_of(&put.place).expect(POSSIBLE) {
                bytes = Packed::small(cut(segment, range)?, put.place.size())?;
            }
            if let Some(said) = &put.parts {
                let range = head.range(said.at, said.packed).expect(POSSIBLE);
                parts = Packed::parts(cut(segment, range)?, said)?;
            }
        }
        Some(Self { origin, line, bytes, parts })
    }

    fn write(&self, writer: &mut SegmentWriter) {
        let written = match &self.line {
            Line::Put(put) => {
                let (bytes, parts) = (self.put_bytes(&put.place), self.put_parts(put));
                writer.put((**put).clone(), bytes, parts).map(Some)
            }
            Line::Move(line) => writer.movement(line.clone()).map(|()| None),
            Line::Remove(line) => writer.remove(line.clone()).map(|()| None),
            Line::Message(line) => writer.message(line.clone()).map(Some),
        };
        let origin = written.expect("what was read can be written");
        assert!(origin.is_none_or(|origin| origin == self.origin), "{origin:?} of {self:?}");
    }

    fn put_bytes(&self, place: &Place) -> PutBytes<'_> {
        match place {
            Place::Empty => PutBytes::Empty,
            Place::Inside { size, .. } => {
                PutBytes::Packed { frame: &self.bytes.frame, size: *size }
            }
            Place::Object(object) => PutBytes::Object(object.clone()),
        }
    }

    fn put_parts<'a>(&'a self, put: &'a PutLine) -> Option<PutParts<'a>> {
        let frame = &self.parts.frame;
        put.parts.as_ref().map(|parts| PutParts::Packed { frame, parts })
    }

    fn unplaced(&self) -> Self {
        let mut unplaced = self.clone();
        if let Line::Put(put) = &mut unplaced.line {
            if let Place::Inside { at, .. } = &mut put.place {
                *at = 0;
            }
            if let Some(parts) = &mut put.parts {
                parts.at = 0;
            }
        }
        unplaced
    }
}

impl Packed {
    /// Unpacks a small artifact of `size` bytes.
    fn small(frame: &[u8], size: u64) -> Option<Self> {
        let content = unpack_member(frame, size).ok()?;
        assert!(content.len() as u64 == size && size <= SMALL_BYTES, "{size}");
        Some(Self { frame: frame.to_vec(), content })
    }

    /// Unpacks parts. Asserts that [`Parts::around`] finds each range by its first and by its last
    /// byte.
    fn parts(frame: &[u8], parts: &Parts) -> Option<Self> {
        let content = unpack_parts(frame, parts).ok()?;
        let mut before = 0;
        for (start, end) in &parts.ranges {
            for offset in [*start, end - 1] {
                assert_eq!(parts.around(offset), Some((*start..*end, before)));
            }
            before += end - start;
        }
        assert!(content.len() as u64 == before && before <= PARTS_BYTES, "{parts:?}");
        assert_eq!(blake3::hash(&content).to_hex().as_str(), parts.digest);
        Some(Self { frame: frame.to_vec(), content })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn segments_come_as_far_as_their_bytes() {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/segment");
        for (name, lines) in [
            ("everything", Some(7)),
            ("merge", Some(3)),
            ("real.tar.zst", Some(2)),
            ("written", Some(4)),
            ("bomb", None),
            ("newer", None),
            ("outside", None),
            ("parts-beyond", None),
        ] {
            assert_eq!(tried(&fs::read(kept.join(name)).unwrap()), lines, "{name}");
        }
    }
}
