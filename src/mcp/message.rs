//! JSON-RPC messages as received, and the messages sent in their place.
//!
//! Messages are relayed as text: digits of numbers, the order of members, and unknown members are
//! preserved. Only parts that must change, such as ids, are replaced, each by an [`Edit`].

use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::raw_object::RawObject;
use crate::shelf::Scratch;

const BLOCK: usize = 64 * 1024;
// Length in bytes of a placeholder: `""` for a string, `{}` for any other value.
pub(crate) const HOLE_BYTES: usize = 2;
// Placeholder in an outline for a value on disk.
const PLACEHOLDER: &[u8] = b"\"\"";

/// A received message. If the message is too long for memory, its long values are holes. A hole is
/// a span of a scratch file, and [`HOLE_BYTES`] bytes of placeholder stand for it in the text.
/// Parts of a message borrow from its text; see [`Self::range_of`].
#[derive(Clone)]
pub(crate) struct Message {
    text: String,
    holes: Vec<Hole>,
    pub(crate) scratch: Option<Arc<Scratch>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hole {
    pub(crate) at: usize,
    pub(crate) span: Range<u64>,
}

/// Replaces a byte range in the text of a message. `range` refers to the text before any edit.
/// Edits of one message can be applied in any order, but must not overlap.
pub(crate) struct Edit {
    pub(crate) range: Range<usize>,
    pub(crate) with: Vec<u8>,
}

impl Edit {
    pub(crate) fn new(range: Range<usize>, with: impl Into<Vec<u8>>) -> Self {
        Self { range, with: with.into() }
    }

    pub(crate) fn insert(at: usize, with: impl Into<Vec<u8>>) -> Self {
        Self { range: at..at, with: with.into() }
    }
}

/// A message to send, without the newline. Values on disk are read only when they are sent, so a
/// queue of long messages takes little memory.
#[derive(Clone)]
pub(crate) struct Outgoing {
    pub(crate) pieces: Vec<OutgoingPiece>,
    scratch: Option<Arc<Scratch>>,
}

#[derive(Clone)]
pub(crate) enum OutgoingPiece {
    Bytes(Vec<u8>),
    Span(Range<u64>),
}

impl Message {
    pub(crate) fn whole(text: String) -> Self {
        Self { text, holes: Vec::new(), scratch: None }
    }

    pub(crate) fn with_holes(text: String, holes: Vec<Hole>, scratch: Scratch) -> Self {
        Self { text, holes, scratch: Some(Arc::new(scratch)) }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the length of the message in bytes, including values on disk.
    pub(crate) fn length(&self) -> u64 {
        let holes = self.holes.iter().map(|hole| hole.span.end.saturating_sub(hole.span.start));
        self.text.len() as u64 + holes.sum::<u64>()
    }

    pub(crate) fn has_holes(&self) -> bool {
        !self.holes.is_empty()
    }

    /// Returns the position of `part` in the text. `part` must borrow from this text, because the
    /// position is computed from its address.
    pub(crate) fn range_of(&self, part: &RawValue) -> Range<usize> {
        let start = part.get().as_ptr().addr() - self.text.as_ptr().addr();
        start..start + part.get().len()
    }

    pub(crate) fn hole(&self, part: &RawValue) -> Option<Range<u64>> {
        if self.holes.is_empty() {
            return None;
        }
        let at = self.range_of(part).start;
        self.holes.iter().find(|hole| hole.at == at).map(|hole| hole.span.clone())
    }

    pub(crate) fn has_holes_in(&self, range: &Range<usize>) -> bool {
        self.holes.iter().any(|hole| range.contains(&hole.at))
    }

    pub(crate) fn with(&self, edits: Vec<Edit>) -> String {
        String::from_utf8_lossy(&spliced(&self.text, edits)).into_owned()
    }

    /// Applies `edits`. An edit that covers a hole replaces the hole.
    pub(crate) fn edited(self, edits: Vec<Edit>) -> Outgoing {
        if self.holes.is_empty() {
            return Outgoing::from(spliced(&self.text, edits));
        }
        let range = 0..self.text.len();
        self.part(range, edits)
    }

    /// Applies `edit` like [`Self::edited`]. If the value at position `at` is an object on disk,
    /// also inserts `members` at its start. Each member must be followed by a comma.
    pub(crate) fn edited_on_disk(mut self, edit: Edit, at: usize, members: &str) -> Outgoing {
        let mut edits = vec![edit];
        let scratch = self.scratch.clone();
        let begins = |span: &Range<u64>| {
            let mut first = [0];
            let mut span = span.start..span.start + 1;
            let read = scratch.as_ref().and_then(|file| file.read(&mut span, &mut first).ok());
            read == Some(1) && first == *b"{"
        };
        let hole = self.holes.iter_mut().find(|hole| hole.at == at);
        if let Some(hole) = hole.filter(|hole| begins(&hole.span)) {
            hole.span.start += 1;
            edits.push(Edit::insert(at, format!("{{{members}")));
        }
        self.edited(edits)
    }

    /// Loads all values into memory, for code that parses the message into values. Fails if the
    /// message is longer than `most` bytes.
    pub(crate) fn filled(self, most: usize) -> Result<Self, String> {
        if self.holes.is_empty() {
            return Ok(self);
        }
        let mut outgoing = self.edited(Vec::new());
        let mut text = Vec::new();
        while let Some(bytes) = outgoing.next().map_err(|error| error.to_string())? {
            text.extend_from_slice(&bytes);
            if text.len() > most {
                return Err(format!("the message has more than {most} bytes"));
            }
        }
        let text = String::from_utf8(text).map_err(|_| "the message is no text")?;
        Ok(Self::whole(text))
    }

    /// Applies `edits` to the text. No edit may cover a hole.
    pub(crate) fn rewritten(mut self, edits: Vec<Edit>) -> Self {
        for hole in &mut self.holes {
            let before = edits.iter().filter(|edit| edit.range.end <= hole.at);
            let (gone, added) = before.fold((0, 0), |(gone, added), edit| {
                (gone + edit.range.len(), added + edit.with.len())
            });
            hole.at = hole.at - gone + added;
        }
        let text = spliced(&self.text, edits);
        self.text = String::from_utf8(text)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        self
    }

    pub(crate) fn part(&self, range: Range<usize>, edits: Vec<Edit>) -> Outgoing {
        let mut outgoing = Outgoing { pieces: Vec::new(), scratch: self.scratch.clone() };
        let holes = self
            .holes
            .iter()
            .map(|hole| (hole.at..hole.at + HOLE_BYTES, OutgoingPiece::Span(hole.span.clone())));
        let edits = edits.into_iter().map(|edit| (edit.range, OutgoingPiece::Bytes(edit.with)));
        let mut changes: Vec<_> = edits.chain(holes).collect();
        // If an edit and a hole have the same range, the edit comes first and replaces the hole.
        changes
            .sort_by_key(|(range, piece)| (range.start, matches!(piece, OutgoingPiece::Span(_))));
        let mut at = range.start;
        for (place, piece) in changes {
            if place.start < at || place.end > range.end {
                continue;
            }
            outgoing.add(OutgoingPiece::Bytes(self.text.as_bytes()[at..place.start].to_vec()));
            outgoing.add(piece);
            at = place.end;
        }
        outgoing.add(OutgoingPiece::Bytes(self.text.as_bytes()[at..range.end].to_vec()));
        outgoing
    }
}

fn spliced(text: &str, mut edits: Vec<Edit>) -> Vec<u8> {
    edits.sort_by_key(|edit| edit.range.start);
    let mut out = Vec::with_capacity(text.len() + 64);
    let mut at = 0;
    for edit in edits {
        out.extend_from_slice(&text.as_bytes()[at..edit.range.start]);
        out.extend_from_slice(&edit.with);
        at = edit.range.end;
    }
    out.extend_from_slice(&text.as_bytes()[at..]);
    out
}

impl Outgoing {
    /// Returns the memory size of the message in bytes.
    pub(crate) fn held(&self) -> usize {
        let held = |piece: &OutgoingPiece| match piece {
            OutgoingPiece::Bytes(bytes) => bytes.len(),
            OutgoingPiece::Span(_) => BLOCK,
        };
        self.pieces.iter().map(held).sum()
    }

    pub(crate) fn length(&self) -> u64 {
        let length = |piece: &OutgoingPiece| match piece {
            OutgoingPiece::Bytes(bytes) => bytes.len() as u64,
            OutgoingPiece::Span(span) => span.end.saturating_sub(span.start),
        };
        self.pieces.iter().map(length).sum()
    }

    /// Returns the message with a placeholder for each value on disk. Positions in the returned
    /// message are valid for [`Self::edit`].
    pub(crate) fn outline(&self) -> Message {
        let mut text = Vec::new();
        for piece in &self.pieces {
            match piece {
                OutgoingPiece::Bytes(bytes) => text.extend_from_slice(bytes),
                OutgoingPiece::Span(_) => text.extend_from_slice(PLACEHOLDER),
            }
        }
        Message::whole(String::from_utf8(text).unwrap_or_default())
    }

    /// Applies edits at positions in the outline. Parts on disk cannot be replaced.
    pub(crate) fn edit(&mut self, mut edits: Vec<Edit>) {
        // From last to first, so that earlier positions stay valid.
        edits.sort_by_key(|edit| std::cmp::Reverse(edit.range.start));
        for edit in &edits {
            self.replace(edit);
        }
    }

    fn replace(&mut self, edit: &Edit) {
        let mut at = 0;
        for piece in &mut self.pieces {
            let length = match piece {
                OutgoingPiece::Bytes(bytes) => bytes.len(),
                OutgoingPiece::Span(_) => PLACEHOLDER.len(),
            };
            if let OutgoingPiece::Bytes(bytes) = piece
                && edit.range.start >= at
                && edit.range.end <= at + length
            {
                let part = edit.range.start - at..edit.range.end - at;
                bytes.splice(part, edit.with.iter().copied());
                return;
            }
            at += length;
        }
    }

    /// Takes the next bytes to send. Reads at most one block from disk. Returns `None` at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(piece) = self.pieces.first_mut() else { return Ok(None) };
        match piece {
            OutgoingPiece::Bytes(bytes) => {
                let bytes = std::mem::take(bytes);
                self.pieces.remove(0);
                Ok(Some(bytes))
            }
            OutgoingPiece::Span(span) => {
                let scratch = self.scratch.as_ref().ok_or(io::ErrorKind::UnexpectedEof)?;
                let mut block = vec![0; BLOCK];
                let count = scratch.read(span, &mut block)?;
                block.truncate(count);
                if span.is_empty() {
                    self.pieces.remove(0);
                }
                Ok(Some(block))
            }
        }
    }

    pub(crate) fn write_to(mut self, out: &mut dyn Write) -> io::Result<()> {
        while let Some(bytes) = self.next()? {
            out.write_all(&bytes)?;
        }
        Ok(())
    }

    fn add(&mut self, piece: OutgoingPiece) {
        match (self.pieces.last_mut(), piece) {
            (Some(OutgoingPiece::Bytes(last)), OutgoingPiece::Bytes(more)) => {
                last.extend_from_slice(&more);
            }
            (_, piece) => self.pieces.push(piece),
        }
    }
}

impl From<String> for Outgoing {
    fn from(text: String) -> Self {
        Self { pieces: vec![OutgoingPiece::Bytes(text.into_bytes())], scratch: None }
    }
}

impl From<&str> for Outgoing {
    fn from(text: &str) -> Self {
        Self { pieces: vec![OutgoingPiece::Bytes(text.into())], scratch: None }
    }
}

impl From<Vec<u8>> for Outgoing {
    fn from(bytes: Vec<u8>) -> Self {
        Self { pieces: vec![OutgoingPiece::Bytes(bytes)], scratch: None }
    }
}

/// The last member with a given name in an object, and the comma to remove along with it.
pub(crate) struct ObjectMember {
    range: Range<usize>,
    is_first: bool,
    comma: Option<usize>,
}

impl ObjectMember {
    pub(crate) fn of(message: &Message, object: &RawObject<'_>, name: &str) -> Option<Self> {
        let index = object.0.iter().rposition(|(key, _)| key == name)?;
        let value = message.range_of(object.0[index].1);
        let text = message.text();
        let start = match index.checked_sub(1) {
            Some(before) => message.range_of(object.0[before].1).end,
            // Only the member's name stands between the brace and the value.
            None => text[..value.start].rfind('{')? + 1,
        };
        let has_next = index + 1 < object.0.len();
        let comma =
            if has_next { Some(value.end + text[value.end..].find(',')? + 1) } else { None };
        Some(Self { range: start..value.end, is_first: index == 0, comma })
    }

    pub(crate) fn removed(&self) -> Edit {
        let end = self.comma.filter(|_| self.is_first).unwrap_or(self.range.end);
        Edit::new(self.range.start..end, "")
    }

    pub(crate) fn replaced(&self, with: &str) -> Edit {
        let comma = if self.is_first { "" } else { "," };
        Edit::new(self.range.clone(), format!("{comma}{with}"))
    }

    pub(crate) fn preceded(&self, by: &str) -> Edit {
        let text = if self.is_first { format!("{by},") } else { format!(",{by}") };
        Edit::insert(self.range.start, text)
    }
}

pub(crate) fn without_members(
    message: &Message,
    object: &RawObject<'_>,
    start: usize,
    names: &[&str],
) -> Vec<Edit> {
    let goes: Vec<bool> = object.0.iter().map(|(key, _)| names.contains(&&**key)).collect();
    let ends: Vec<usize> = object.0.iter().map(|(_, value)| message.range_of(value).end).collect();
    // A member begins after the opening brace or after the preceding comma.
    let begin = |index: usize| match index.checked_sub(1) {
        None => start + 1,
        Some(before) => {
            let comma = message.text()[ends[before]..].find(',').unwrap_or_default();
            ends[before] + comma + 1
        }
    };
    let mut edits = Vec::new();
    let mut index = 0;
    while index < goes.len() {
        let run = goes[index..].iter().take_while(|goes| **goes).count();
        if run > 0 {
            let range = match (ends.get(index + run), index.checked_sub(1)) {
                (Some(_), _) => begin(index)..begin(index + run),
                (None, Some(before)) => ends[before]..ends[index + run - 1],
                (None, None) => start + 1..ends[index + run - 1],
            };
            edits.push(Edit::new(range, ""));
        }
        index += run + 1;
    }
    edits
}

pub(crate) fn with_id(message: Message, range: Range<usize>, id: &str) -> Outgoing {
    message.edited(vec![Edit::new(range, id)])
}

#[cfg(test)]
mod tests;
