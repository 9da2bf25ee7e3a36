//! Parses local segments into values of `Segment`. The module `replica` computes the state of a
//! conversation from these values.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use crate::bucket::{Line, ObjectName, Place, PutLine};
use crate::remote::{Notes, RemoteError, StoredSegment};
use crate::replica::{Claim, Move, Origin, Segment, SegmentId, add_move};

const MOST_ARTIFACTS: usize = 100_000;
/// Maximum number of messages, moves and removals in a conversation.
const MOST_STATEMENTS: usize = 1_000_000;

/// A parsed segment, as the module `replica` takes it to compute the state of a conversation.
pub type Piece = Segment<Stored, StoredMessage>;

/// Index entry of an artifact. `line` is the range of its line in the records of `segment`; the
/// line is parsed on demand. `size` is the size of the artifact in bytes. `small` is true if the
/// segment contains bytes of the artifact, all or parts of them. `object` is `None` if the segment
/// contains all bytes or the artifact is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct Stored {
    pub segment: SegmentId,
    pub line: Range<u32>,
    pub size: u64,
    pub small: bool,
    pub object: Option<ObjectName>,
}

/// Index entry of a message. `line` is the range of its line in the records of `segment`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct StoredMessage {
    pub segment: SegmentId,
    pub line: Range<u32>,
}

/// Parsed segments of a conversation. `pieces` are the segments that no other local segment covers.
/// `refused` are the ignored segments, with the reasons. Content that seems to be removed may be in
/// a refused segment. Hosts with the same segments refuse the same ones, so they compute the same
/// state.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "described above")]
pub struct Pieces {
    pub pieces: Vec<Piece>,
    pub refused: Vec<(SegmentId, RemoteError)>,
}

#[derive(Debug, Default)]
pub(super) struct ReadPieces {
    pieces: BTreeMap<SegmentId, Piece>,
    artifacts: usize,
    statements: usize,
}

impl ReadPieces {
    pub(super) fn keep(&mut self, piece: Piece) {
        let artifacts = self.artifacts + piece.artifacts.len();
        let statements = self.statements + statements(&piece);
        if artifacts <= MOST_ARTIFACTS && statements <= MOST_STATEMENTS {
            (self.artifacts, self.statements) = (artifacts, statements);
            self.pieces.insert(piece.id, piece);
        }
    }
}

/// Parses all local segments of a conversation.
///
/// Segments that are damaged or exceed the limits are refused. The other segments are used. Hosts
/// with the same segments refuse the same ones.
pub fn pieces(notes: &Notes) -> Result<Pieces, RemoteError> {
    pieces_with(notes, ReadPieces::default())
}

pub(super) fn pieces_with(notes: &Notes, read: ReadPieces) -> Result<Pieces, RemoteError> {
    let mut reading = PieceReader { read, ..PieceReader::default() };
    for segment in notes.refused()? {
        let why = notes.refusal(segment)?;
        reading.found.refused.push((segment, RemoteError::Refused { segment, why }));
    }
    for id in reading.order(notes)? {
        reading.take(notes, id)?;
    }
    reading.found.pieces.sort_unstable_by_key(|piece| piece.id);
    Ok(reading.found)
}

#[derive(Default)]
struct PieceReader {
    read: ReadPieces,
    found: Pieces,
    covered: BTreeSet<SegmentId>,
    artifacts: HashSet<Origin>,
    statements: usize,
}

impl PieceReader {
    /// Returns the segments, sorted by descending number of covered segments. A merge comes before
    /// the segments that it covers, so these need not be parsed.
    fn order(&mut self, notes: &Notes) -> Result<Vec<SegmentId>, RemoteError> {
        let mut order = Vec::new();
        for id in notes.segments()? {
            if let Some(head) = self.unless_refused(id, notes.head(id))? {
                order.push((std::cmp::Reverse(head.covers.len()), id));
            }
        }
        order.sort_unstable();
        Ok(order.into_iter().map(|(_, id)| id).collect())
    }

    fn take(&mut self, notes: &Notes, id: SegmentId) -> Result<(), RemoteError> {
        if self.covered.contains(&id) {
            return Ok(());
        }
        let read = match self.read.pieces.remove(&id) {
            Some(piece) => Ok(piece),
            None => notes.open_segment(id).and_then(|segment| piece(&segment)),
        };
        let fitting = read.and_then(|piece| self.fitting(piece));
        if let Some(piece) = self.unless_refused(id, fitting)? {
            self.covered.extend(piece.covers.keys());
            self.artifacts.extend(piece.artifacts.keys());
            self.statements += statements(&piece);
            self.found.pieces.push(piece);
        }
        Ok(())
    }

    fn fitting(&self, piece: Piece) -> Result<Piece, RemoteError> {
        let new = piece.artifacts.keys().filter(|origin| !self.artifacts.contains(origin)).count();
        let too_many = |what, most| RemoteError::TooMany { segment: piece.id, what, most };
        if self.artifacts.len() + new > MOST_ARTIFACTS {
            return Err(too_many("artifacts", MOST_ARTIFACTS));
        }
        if self.statements + statements(&piece) > MOST_STATEMENTS {
            return Err(too_many("messages, moves and removals", MOST_STATEMENTS));
        }
        Ok(piece)
    }

    fn unless_refused<T>(
        &mut self,
        id: SegmentId,
        outcome: Result<T, RemoteError>,
    ) -> Result<Option<T>, RemoteError> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(error @ (RemoteError::Segment { .. } | RemoteError::TooMany { .. })) => {
                self.found.refused.push((id, error));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

fn statements(piece: &Piece) -> usize {
    let removed = piece.removed.origins.len() + piece.removed.segments.len();
    piece.messages.len() + piece.moves.len() + removed
}

pub(super) fn piece(segment: &StoredSegment) -> Result<Piece, RemoteError> {
    piece_with(segment, |_| ())
}

pub(super) fn piece_with(
    segment: &StoredSegment,
    mut see: impl FnMut(&PutLine),
) -> Result<Piece, RemoteError> {
    let id = segment.id();
    let mut piece = Piece::new(id);
    piece.covers.clone_from(&segment.head.covers);
    let (mut artifacts, mut said) = (Vec::new(), 0);
    for line in segment.head.lines(&segment.records) {
        let (origin, line, range) = line.map_err(RemoteError::of(id))?;
        said += weight(&line);
        if artifacts.len() > MOST_ARTIFACTS || said > MOST_STATEMENTS + MOST_ARTIFACTS {
            let (what, most) = ("lines", MOST_STATEMENTS);
            return Err(RemoteError::TooMany { segment: id, what, most });
        }
        if let Line::Put(put) = &line {
            see(put);
        }
        // The records are smaller than 4 GiB.
        let range = range.start as u32..range.end as u32;
        add(&mut piece, &mut artifacts, (origin, line), range);
    }
    // Collect in one step: a B-tree that is filled in order has half-empty nodes.
    piece.artifacts = artifacts.into_iter().collect();
    Ok(piece)
}

fn weight(line: &Line) -> usize {
    match line {
        Line::Remove(line) => line.origins.len() + line.segments.len(),
        Line::Put(_) | Line::Move(_) | Line::Message(_) => 1,
    }
}

fn add(
    piece: &mut Piece,
    artifacts: &mut Vec<(Origin, Claim<Stored>)>,
    (origin, line): (Origin, Line),
    range: Range<u32>,
) {
    match line {
        Line::Put(put) => artifacts.push((origin, claim(piece.id, origin, *put, range))),
        Line::Move(line) => {
            let to = Move { stamp: line.stamp, to: line.to };
            add_move(&mut piece.moves, line.artifact, to);
        }
        Line::Remove(line) => {
            piece.removed.origins.extend(line.origins);
            piece.removed.segments.extend(line.segments);
            piece.removed.ends |= line.ends;
        }
        Line::Message(line) => {
            let told = StoredMessage { segment: piece.id, line: range };
            piece.messages.insert(origin, (line.stamp, told));
        }
    }
}

fn claim(segment: SegmentId, origin: Origin, put: PutLine, line: Range<u32>) -> Claim<Stored> {
    let PutLine { record, stamp, place, parts, .. } = put;
    let size = place.size();
    let (small, object) = match place {
        Place::Empty => (false, None),
        Place::Inside { .. } => (true, None),
        Place::Object(object) => (parts.is_some(), Some(object.name)),
    };
    // An artifact without a digest does not equal any other artifact.
    let digest = record.analysis.map_or_else(|| origin.to_string(), |analysis| analysis.digest);
    let (digest, artifact) = (digest.into(), Stored { segment, line, size, small, object });
    Claim { stamp, path: record.path, digest, artifact }
}

#[cfg(test)]
mod tests;
