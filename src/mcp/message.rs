//! A JSON-RPC message as it came, and the bytes that leave in its place.
//!
//! Nothing that passes is parsed into values: numbers keep their digits, members their order, and
//! unknown members stay. What has to be another, such as an id, is an [`Edit`].

use std::io;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::scratch::Scratch;

/// Bytes that are read at once.
const BLOCK: usize = 64 * 1024;
/// The text that stands for a hole: `""` for a string, `{}` for another value.
pub(super) const HOLE_BYTES: usize = 2;
/// The text that stands for a value on disk in an outline.
const STANDS: &[u8] = b"\"\"";

/// A message. The long values of one that is longer than memory should hold are in a file, and its
/// text has holes there.
#[derive(Clone)]
pub(super) struct Message {
    text: String,
    holes: Vec<Hole>,
    scratch: Option<Arc<Scratch>>,
}

/// A value that is not in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hole {
    /// The position in the text, where [`HOLE_BYTES`] bytes stand for it.
    pub(super) at: usize,
    /// The value as written, in the file.
    pub(super) span: Range<u64>,
}

/// A replacement of a part of the text.
pub(super) struct Edit {
    pub(super) range: Range<usize>,
    pub(super) with: Vec<u8>,
}

/// Bytes that are about to be sent, without the newline.
#[derive(Clone)]
pub(super) struct Outgoing {
    pieces: Vec<Piece>,
    scratch: Option<Arc<Scratch>>,
}

#[derive(Clone)]
enum Piece {
    Bytes(Vec<u8>),
    Span(Range<u64>),
}

impl Message {
    pub(super) fn whole(text: String) -> Self {
        Self { text, holes: Vec::new(), scratch: None }
    }

    pub(super) fn with_holes(text: String, holes: Vec<Hole>, scratch: Scratch) -> Self {
        Self { text, holes, scratch: Some(Arc::new(scratch)) }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the bytes that it has, those on disk too.
    pub(super) fn length(&self) -> u64 {
        let holes = self.holes.iter().map(|hole| hole.span.end.saturating_sub(hole.span.start));
        self.text.len() as u64 + holes.sum::<u64>()
    }

    pub(super) fn has_holes(&self) -> bool {
        !self.holes.is_empty()
    }

    pub(super) fn scratch(&self) -> Option<&Scratch> {
        self.scratch.as_deref()
    }

    /// Returns where `part`, which was borrowed from the text, stands in it.
    pub(super) fn range_of(&self, part: &RawValue) -> Range<usize> {
        let start = part.get().as_ptr().addr() - self.text.as_ptr().addr();
        start..start + part.get().len()
    }

    /// Returns the span of `part`, which was borrowed from the text, if it is a hole.
    pub(super) fn hole(&self, part: &RawValue) -> Option<Range<u64>> {
        if self.holes.is_empty() {
            return None;
        }
        let at = self.range_of(part).start;
        self.holes.iter().find(|hole| hole.at == at).map(|hole| hole.span.clone())
    }

    /// Returns true if a value in `range` is a hole.
    pub(super) fn has_holes_in(&self, range: &Range<usize>) -> bool {
        self.holes.iter().any(|hole| range.contains(&hole.at))
    }

    /// Returns the text of a message without holes, with `edits` as for [`Self::edited`].
    pub(super) fn with(&self, edits: Vec<Edit>) -> String {
        String::from_utf8_lossy(&spliced(&self.text, edits)).into_owned()
    }

    /// Returns the message with `edits`, which are in the order of their ranges and apart.
    pub(super) fn edited(self, edits: Vec<Edit>) -> Outgoing {
        if self.holes.is_empty() {
            return Outgoing::from(spliced(&self.text, edits));
        }
        let range = 0..self.text.len();
        self.part(range, edits)
    }

    /// As [`Self::edited`], with `members`, each with a comma, in front of those of the object at `at`,
    /// if that is on disk.
    pub(super) fn edited_on_disk(mut self, edit: Edit, at: usize, members: &str) -> Outgoing {
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
            edits.push(Edit { range: at..at, with: format!("{{{members}").into_bytes() });
        }
        edits.sort_by_key(|edit| edit.range.start);
        self.edited(edits)
    }

    /// Returns the message with all values in its text, if that has at most `most` bytes.
    pub(super) fn filled(self, most: usize) -> Result<Self, String> {
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

    /// Returns the message with `edits` in its text, which are in order and replace no holes.
    pub(super) fn rewritten(mut self, edits: Vec<Edit>) -> Self {
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

    /// Returns a part of the message, with `edits` in it.
    pub(super) fn part(&self, range: Range<usize>, edits: Vec<Edit>) -> Outgoing {
        let mut outgoing = Outgoing { pieces: Vec::new(), scratch: self.scratch.clone() };
        let holes = self
            .holes
            .iter()
            .map(|hole| (hole.at..hole.at + HOLE_BYTES, Piece::Span(hole.span.clone())));
        let edits = edits.into_iter().map(|edit| (edit.range, Piece::Bytes(edit.with)));
        let mut changes: Vec<_> = edits.chain(holes).collect();
        // Of an edit that replaces a hole, the edit wins.
        changes.sort_by_key(|(range, piece)| (range.start, matches!(piece, Piece::Span(_))));
        let mut at = range.start;
        for (place, piece) in changes {
            if place.start < at || place.end > range.end {
                continue;
            }
            outgoing.add(Piece::Bytes(self.text.as_bytes()[at..place.start].to_vec()));
            outgoing.add(piece);
            at = place.end;
        }
        outgoing.add(Piece::Bytes(self.text.as_bytes()[at..range.end].to_vec()));
        outgoing
    }
}

fn spliced(text: &str, edits: Vec<Edit>) -> Vec<u8> {
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
    /// Returns the bytes that it holds in memory.
    pub(super) fn held(&self) -> usize {
        let held = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Span(_) => BLOCK,
        };
        self.pieces.iter().map(held).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the bytes that it has, those on disk too.
    pub(super) fn length(&self) -> u64 {
        let length = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => bytes.len() as u64,
            Piece::Span(span) => span.end.saturating_sub(span.start),
        };
        self.pieces.iter().map(length).sum()
    }

    /// Returns the message with [`STANDS`] for each value on disk.
    pub(super) fn outline(&self) -> Message {
        let mut text = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Bytes(bytes) => text.extend_from_slice(bytes),
                Piece::Span(_) => text.extend_from_slice(STANDS),
            }
        }
        Message::whole(String::from_utf8(text).unwrap_or_default())
    }

    /// Replaces a part that has the place `edit.range` in the outline, and is not on disk.
    pub(super) fn replace(&mut self, edit: &Edit) {
        let mut at = 0;
        for piece in &mut self.pieces {
            let length = match piece {
                Piece::Bytes(bytes) => bytes.len(),
                Piece::Span(_) => STANDS.len(),
            };
            if let Piece::Bytes(bytes) = piece
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

    /// Takes the next bytes, at most a block of those on disk. `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let Some(piece) = self.pieces.first_mut() else { return Ok(None) };
        match piece {
            Piece::Bytes(bytes) => {
                let bytes = std::mem::take(bytes);
                self.pieces.remove(0);
                Ok(Some(bytes))
            }
            Piece::Span(span) => {
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

    /// Writes all of it.
    pub(super) fn write_to(mut self, out: &mut dyn Write) -> io::Result<()> {
        while let Some(bytes) = self.next()? {
            out.write_all(&bytes)?;
        }
        Ok(())
    }

    fn add(&mut self, piece: Piece) {
        match (self.pieces.last_mut(), piece) {
            (Some(Piece::Bytes(last)), Piece::Bytes(more)) => last.extend_from_slice(&more),
            (_, piece) => self.pieces.push(piece),
        }
    }
}

impl From<Vec<u8>> for Outgoing {
    fn from(bytes: Vec<u8>) -> Self {
        Self { pieces: vec![Piece::Bytes(bytes)], scratch: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(mut outgoing: Outgoing) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(bytes) = outgoing.next().unwrap() {
            all.extend(bytes);
        }
        all
    }

    #[test]
    fn an_outline_has_the_places_of_what_is_in_memory() {
        let pieces = vec![
            Piece::Bytes(br#"{"a":"#.to_vec()),
            Piece::Span(0..1000),
            Piece::Bytes(br#","id":1}"#.to_vec()),
        ];
        let mut outgoing = Outgoing { pieces, scratch: None };
        assert_eq!(outgoing.length(), 1013);
        let outline = outgoing.outline();
        assert_eq!(outline.text(), r#"{"a":"","id":1}"#);
        let at = outline.text().find('1').unwrap();
        outgoing.replace(&Edit { range: at..at + 1, with: b"\"x-1\"".to_vec() });
        assert_eq!(outgoing.outline().text(), r#"{"a":"","id":"x-1"}"#);
        // What is on disk stays.
        outgoing.replace(&Edit { range: 5..7, with: b"0".to_vec() });
        assert_eq!(outgoing.outline().text(), r#"{"a":"","id":"x-1"}"#);
    }

    #[test]
    fn holes_move_with_the_text_before_them() {
        let text = r#"{"id":7,"a":"","b":{}}"#.to_owned();
        let holes = vec![Hole { at: 12, span: 0..5 }, Hole { at: 19, span: 5..9 }];
        let message = Message { text, holes, scratch: None };
        let message = message.rewritten(vec![
            Edit { range: 6..7, with: b"1234".to_vec() },
            Edit { range: 16..17, with: Vec::new() },
        ]);
        assert_eq!(message.text(), r#"{"id":1234,"a":"","":{}}"#);
        assert_eq!((message.holes[0].at, message.holes[1].at), (15, 21));
        let plain = Message::whole(r#"{"id":7}"#.to_owned());
        let plain = plain.rewritten(vec![Edit { range: 6..7, with: b"8".to_vec() }]);
        assert_eq!(bytes(plain.edited(Vec::new())), br#"{"id":8}"#);
    }
}
