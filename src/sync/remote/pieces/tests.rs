use super::*;
use crate::bucket::{FormatError, MessageLine, MoveLine, PutBytes, RemoveLine, SegmentWriter};
use crate::remote::tests::host::TestHost;
use crate::replica::{Covered, Covers, SegmentDigest, Stamp, WriterId};
use ctxfs_core::model::{ArtifactState, Record};

fn id(number: u64) -> SegmentId {
    SegmentId { writer: WriterId(7), number }
}

fn origin(number: u64, place: u32) -> Origin {
    Origin { segment: id(number), place }
}

fn digest(number: u64) -> SegmentDigest {
    SegmentDigest::of(&number.to_le_bytes())
}

fn line(path: &str, size: u64, stamp: u64) -> PutLine {
    let state = ArtifactState::Sealed;
    let record = Record { path: path.to_owned(), generation: 1, state, size, ..Record::default() };
    let (attributes, place) = (BTreeMap::new(), Place::Empty);
    PutLine {
        record,
        mode: 0o644,
        attributes,
        stamp: Stamp(stamp),
        place,
        parts: None,
        origin: None,
    }
}

/// Stores a segment locally with one artifact and one message.
fn keep(host: &TestHost, number: u64, covers: &[u64]) {
    let covers = covers.iter().map(|number| (id(*number), digest(*number))).collect();
    let mut writer = SegmentWriter::new(id(number), covers);
    let bytes = PutBytes::Bytes(b"some bytes");
    writer.put(line(&format!("artifacts/tool/{number}"), 10, number), bytes, None).unwrap();
    let (text, stamp) = (format!("{{\"m\":{number}}}"), Stamp(number));
    writer.message(MessageLine { text, stamp, origin: None }).unwrap();
    host.notes.keep_segment(id(number), &writer.finish().unwrap()).unwrap();
}

#[test]
fn a_segment_becomes_a_piece() {
    let host = TestHost::new();
    let mut writer = SegmentWriter::new(id(1), Covers::new());
    writer.put(line("x", 2, 5), PutBytes::Bytes(b"ab"), None).unwrap();
    for (to, stamp) in [("late", 9), ("early", 8)] {
        let (artifact, to, stamp) = (origin(4, 0), to.to_owned(), Stamp(stamp));
        writer.movement(MoveLine { artifact, to, stamp }).unwrap();
    }
    let (origins, segments) = ([origin(4, 1)].into(), [id(3)].into());
    let removed = RemoveLine { origins, segments, ends: true };
    writer.remove(removed).unwrap();
    let (text, stamp) = ("{}".to_owned(), Stamp(6));
    writer.message(MessageLine { text, stamp, origin: None }).unwrap();
    host.notes.keep_segment(id(1), &writer.finish().unwrap()).unwrap();
    let [piece] = &host.pieces()[..] else { panic!("there is one") };
    let claim = &piece.artifacts[&origin(1, 0)];
    assert_eq!((claim.path.as_str(), claim.stamp), ("x", Stamp(5)));
    assert_eq!(*claim.digest, origin(1, 0).to_string(), "nobody knows its digest");
    assert!(claim.artifact.small && claim.artifact.size == 2);
    assert_eq!(piece.moves[&origin(4, 0)].to, "late");
    assert!(piece.removed.contains(&origin(4, 1)) && piece.removed.contains(&origin(3, 7)));
    assert!(piece.removed.ends);
    let segment = host.notes.open_segment(id(1)).unwrap();
    let Line::Put(put) = segment.line(&claim.artifact.line).unwrap() else { panic!("a put") };
    assert_eq!(segment.bytes(&put.place).unwrap().unwrap(), b"ab");
    assert!(segment.line(&(0..u32::MAX)).is_err());
    assert_eq!(piece.messages[&origin(1, 4)].0, Stamp(6));
}

#[test]
fn what_is_covered_is_not_read() {
    let host = TestHost::new();
    keep(&host, 1, &[]);
    keep(&host, 2, &[1]);
    keep(&host, 3, &[1, 2]);
    keep(&host, 4, &[]);
    let ids: Vec<_> = host.pieces().iter().map(|piece| piece.id.number).collect();
    assert_eq!(ids, [3, 4]);
    let covered = host.notes.covered().unwrap();
    assert_eq!(covered.ids().collect::<Vec<_>>(), [id(1), id(2)]);
    assert_eq!(covered.has(id(1), digest(1)), Some(true));
    assert_eq!(covered.has(id(1), digest(2)), Some(false));
    assert_eq!(covered.has(id(3), digest(3)), None);
    host.notes.forget_segment(id(3)).unwrap();
    assert_eq!(host.notes.covered().unwrap().ids().collect::<Vec<_>>(), [id(1)]);
    host.notes.forget_segment(id(2)).unwrap();
    assert_eq!(host.notes.covered().unwrap(), Covered::default());
}

#[test]
fn what_is_damaged_is_named_and_the_others_count() {
    let host = TestHost::new();
    (1..=4).for_each(|number| keep(&host, number, &[]));
    keep(&host, 5, &[1]);
    let damaged = host.notes.segment_bytes(id(2)).unwrap();
    let head = host.notes.head(id(5)).unwrap();
    host.notes.keep_segment(id(2), &damaged[..damaged.len() / 4]).unwrap();
    host.notes.keep_segment(id(3), &damaged).unwrap();
    let merge = host.notes.segment_bytes(id(5)).unwrap();
    host.notes.keep_segment(id(5), &merge[..head.records_end as usize - 1]).unwrap();
    host.notes.refuse_segment(id(9), "it was odd").unwrap();
    let found = pieces(&host.notes).unwrap();
    let ids: Vec<_> = found.pieces.iter().map(|piece| piece.id.number).collect();
    assert_eq!(ids, [1, 4], "what a damaged merge covers counts");
    let mut refused: Vec<_> = found.refused.iter().map(|(id, _)| id.number).collect();
    refused.sort_unstable();
    assert_eq!(refused, [2, 3, 5, 9]);
    let told = found.refused.iter().any(|(_, error)| error.to_string().contains("it was odd"));
    assert!(told, "{:?}", found.refused);
}

#[test]
fn the_bytes_of_a_cut_segment_are_elsewhere() {
    let host = TestHost::new();
    keep(&host, 1, &[]);
    let bytes = host.notes.segment_bytes(id(1)).unwrap();
    let end = host.notes.head(id(1)).unwrap().records_end;
    host.notes.keep_segment(id(1), &bytes[..end as usize]).unwrap();
    let piece = &host.pieces()[0];
    let segment = host.notes.open_segment(id(1)).unwrap();
    let claim = &piece.artifacts[&origin(1, 0)];
    let Line::Put(put) = segment.line(&claim.artifact.line).unwrap() else { panic!("a put") };
    assert_eq!(segment.bytes(&put.place).unwrap(), None);
    assert!(put.place.size() == 10 && piece.messages.len() == 1);
}

#[test]
fn a_conversation_has_so_many_artifacts_and_no_more() {
    let host = TestHost::new();
    for (number, count) in [(1, MOST_ARTIFACTS / 2), (2, MOST_ARTIFACTS / 2), (3, 1)] {
        let mut writer = SegmentWriter::new(id(number), Covers::new());
        for place in 0..count {
            writer.put(line(&format!("{number}/{place}"), 0, 1), PutBytes::Empty, None).unwrap();
        }
        host.notes.keep_segment(id(number), &writer.finish().unwrap()).unwrap();
    }
    let mut read = ReadPieces::default();
    for number in [3, 1, 2] {
        read.keep(piece(&host.notes.open_segment(id(number)).unwrap()).unwrap());
    }
    assert_eq!(read.pieces.len(), 2, "no more is in memory than a conversation may have");
    for found in [pieces(&host.notes).unwrap(), pieces_with(&host.notes, read).unwrap()] {
        let [(refused, error)] = &found.refused[..] else { panic!("{:?}", found.refused) };
        assert!(*refused == id(3) && matches!(error, RemoteError::TooMany { .. }), "{error}");
        assert_eq!(found.pieces.len(), 2);
    }
}

#[test]
fn a_segment_that_says_another_name_is_refused() {
    let host = TestHost::new();
    keep(&host, 1, &[]);
    let bytes = host.notes.segment_bytes(id(1)).unwrap();
    host.notes.keep_segment(id(2), &bytes).unwrap();
    let error = host.notes.open_segment(id(2)).unwrap_err();
    let is_damage =
        matches!(error, RemoteError::Segment { source: FormatError::Damaged { .. }, .. });
    assert!(is_damage, "{error}");
}
