//! Segments with correct lengths, digests and frames, and arbitrary statements.

use serde_json::{Map, Value, json};
use tar::{EntryType, Header};

use crate::segment::SEPARATOR;

/// Block size of a tar archive in bytes.
const BLOCK: usize = 512;

/// Builds a segment from texts: the head, the records, and contents. Each line with `bytes` or
/// `parts` refers to the next content.
pub(super) fn segment(texts: &[u8]) -> Vec<u8> {
    let mut texts = texts.split(|byte| *byte == SEPARATOR);
    let (head, records) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
    let mut forge = Forge { contents: texts, frames: Vec::new() };
    let lines = records.split_inclusive(|byte| *byte == b'\n').map(|line| forge.line(line));
    let records = lines.collect::<Vec<_>>().concat();
    let packed = frame("records.jsonl", &records);
    let lines = memchr::memchr_iter(b'\n', &records).count();
    let said = json!({ "packed": packed.len(), "size": records.len(), "lines": lines });
    let head = frame("segment.json", &with_records(head, said));
    [head, packed, forge.frames].concat()
}

/// Sets the member `records` of a head. Returns the head unchanged if it is not an object.
fn with_records(head: &[u8], records: Value) -> Vec<u8> {
    match serde_json::from_slice(head) {
        Ok(Value::Object(mut said)) => {
            said.insert("records".to_owned(), records);
            Value::Object(said).to_string().into_bytes()
        }
        _ => head.to_vec(),
    }
}

/// Writer of the frames after the records.
struct Forge<T> {
    /// Contents to which no line refers yet.
    contents: T,
    frames: Vec<u8>,
}

impl<'a, T: Iterator<Item = &'a [u8]>> Forge<T> {
    /// If a line has `bytes` or `parts`, corrects its statements about the next content. Returns
    /// any other line unchanged.
    fn line(&mut self, line: &[u8]) -> Vec<u8> {
        let Ok(Value::Object(mut said)) = serde_json::from_slice(line) else {
            return line.to_vec();
        };
        if said.contains_key("bytes") {
            self.correct_bytes(&mut said);
        } else if said.contains_key("parts") {
            self.correct_parts(&mut said);
        } else {
            return line.to_vec();
        }
        (Value::Object(said).to_string() + "\n").into_bytes()
    }

    fn correct_bytes(&mut self, said: &mut Map<String, Value>) {
        let (content, at, packed) = self.add("bytes/x");
        let size = content.len();
        said.insert("bytes".to_owned(), json!({ "at": at, "packed": packed, "size": size }));
        let Some(record) = said.get_mut("put").and_then(Value::as_object_mut) else { return };
        record.insert("size".to_owned(), size.into());
        if let Some(analysis) = record.get_mut("analysis").and_then(Value::as_object_mut) {
            analysis.insert("digest".to_owned(), digest(content).into());
        }
    }

    fn correct_parts(&mut self, said: &mut Map<String, Value>) {
        let (content, at, packed) = self.add("parts/x");
        let Some(parts) = said.get_mut("parts").and_then(Value::as_object_mut) else { return };
        parts.insert("at".to_owned(), at.into());
        parts.insert("packed".to_owned(), packed.into());
        parts.insert("digest".to_owned(), digest(content).into());
        if parts.get("ranges").and_then(length) != Some(content.len() as u64) {
            parts.insert("ranges".to_owned(), json!([[0, content.len()]]));
        }
    }

    /// Adds the frame of the next content. Returns the content, and the offset and length of the
    /// frame.
    fn add(&mut self, name: &str) -> (&'a [u8], usize, usize) {
        let content = self.contents.next().unwrap_or_default();
        let (frame, at) = (frame(name, content), self.frames.len());
        self.frames.extend_from_slice(&frame);
        (content, at, frame.len())
    }
}

/// Returns the total length of ranges. Returns `None` if they are invalid.
fn length(ranges: &Value) -> Option<u64> {
    let ranges: Vec<(u64, u64)> = serde_json::from_value(ranges.clone()).ok()?;
    ranges.iter().try_fold(0_u64, |sum, (start, end)| sum.checked_add(end.checked_sub(*start)?))
}

fn digest(content: &[u8]) -> String {
    blake3::hash(content).to_hex().to_string()
}

/// Returns the frame of a member.
fn frame(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_size(content.len() as u64);
    header.set_cksum();
    let mut member = [&header.as_bytes()[..], content].concat();
    member.resize(member.len().next_multiple_of(BLOCK), 0);
    zstd::bulk::compress(&member, 1).expect("memory")
}
