mod hostile;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use proptest::prelude::*;

use hostile::segment_of;

use super::*;
use crate::bucket::frame::Packer;
use crate::bucket::line::{LINE_BYTES, Line, MessageLine, SMALL_BYTES};
use crate::bucket::name::ObjectName;
use crate::replica::Stamp;
use ctxfs_core::model::{ArtifactState, Record};

fn id(number: u64) -> SegmentId {
    SegmentId { writer: WriterId(0xab), number }
}

fn origin(number: u64, place: u32) -> Origin {
    Origin { segment: id(number), place }
}

fn writer() -> SegmentWriter {
    SegmentWriter::new(id(7), Covers::new())
}

fn covers(numbers: &[u64]) -> Covers {
    let digest = |number: &u64| SegmentDigest::of(&number.to_le_bytes());
    numbers.iter().map(|number| (id(*number), digest(number))).collect()
}

fn line(name: &str, size: u64) -> PutLine {
    let path = format!("artifacts/tool/{name}");
    let state = ArtifactState::Sealed;
    let record = Record { path, generation: 1, state, size, created: 6, ..Record::default() };
    let (attributes, place) = (BTreeMap::new(), Place::Empty);
    PutLine { record, mode: 0o644, attributes, stamp: Stamp(1), place, parts: None, origin: None }
}

fn put(writer: &mut SegmentWriter, name: &str, bytes: &[u8]) -> Origin {
    writer.put(line(name, bytes.len() as u64), PutBytes::Bytes(bytes), None).unwrap()
}

fn message(text: &str) -> MessageLine {
    MessageLine { text: text.to_owned(), stamp: Stamp(2), origin: None }
}

fn object() -> PutBytes<'static> {
    let blocks = "ab".repeat(32);
    PutBytes::Object(ObjectPlace { name: ObjectName::random(), packed: 1, size: 1 << 30, blocks })
}

/// Returns a segment with records of all kinds.
fn filled() -> Vec<u8> {
    let mut writer = writer();
    assert_eq!(put(&mut writer, "a.txt", b"bytes of a"), origin(7, 0));
    let moved = MoveLine { artifact: origin(3, 1), to: "notes/x".to_owned(), stamp: Stamp(2) };
    writer.movement(moved).unwrap();
    assert_eq!(put(&mut writer, "empty.txt", b""), origin(7, 2));
    assert_eq!(writer.put(line("large.txt", 1 << 30), object(), None), Ok(origin(7, 3)));
    let origins = [origin(3, 1), origin(3, 2)].into();
    writer.remove(RemoveLine { origins, segments: [id(2)].into(), ends: false }).unwrap();
    assert_eq!(writer.message(message("{}")), Ok(origin(7, 5)));
    assert_eq!(put(&mut writer, "b.txt", &[b'b'; 2000]), origin(7, 6));
    writer.finish().unwrap()
}

/// Data read from a segment: its head, its lines, and the bytes of each artifact in it.
type Seen = (SegmentHead, Vec<(Origin, Line)>, BTreeMap<Origin, Vec<u8>>);

fn read(segment: &[u8]) -> Result<Option<Seen>, FormatError> {
    let Some(head) = SegmentHead::read(segment)? else { return Ok(None) };
    let frame = segment.get(head.records_start as usize..head.records_end as usize);
    let Some(frame) = frame else { return Ok(None) };
    let jsonl = head.records(frame)?;
    let (mut seen, mut contents) = (Vec::new(), BTreeMap::new());
    for line in head.lines(&jsonl) {
        let (origin, line, range) = line?;
        assert_eq!(Line::parse(&jsonl[range]).as_ref(), Ok(&line));
        if let Line::Put(put) = &line
            && let Some(range) = head.range_of(&put.place)?
        {
            let frame = segment.get(range.start as usize..range.end as usize);
            let Some(frame) = frame else { return Ok(None) };
            contents.insert(origin, unpack_member(frame, put.place.size())?);
        }
        seen.push((origin, line));
    }
    Ok(Some((head, seen, contents)))
}

fn seen(segment: &[u8]) -> Seen {
    read(segment).unwrap().unwrap()
}

/// Returns the members of a segment, as `zstd -d | tar x` unpacks them.
fn members(segment: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut archive = tar::Archive::new(zstd::Decoder::new(segment).unwrap());
    let mut members = Vec::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let header = entry.header();
        let plain = (header.mode().unwrap(), header.uid().unwrap(), header.mtime().unwrap());
        assert_eq!(plain, (0o644, 0, 0));
        let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        members.push((name, content));
    }
    members
}

#[test]
fn what_is_written_is_read_back() {
    let segment = filled();
    let (head, lines, contents) = seen(&segment);
    assert_eq!((head.id, head.covers.len()), (id(7), 0));
    let origins: Vec<_> = lines.iter().map(|(origin, _)| *origin).collect();
    assert_eq!(origins, (0..7).map(|place| origin(7, place)).collect::<Vec<_>>());
    let expected: BTreeMap<_, _> =
        [(origin(7, 0), b"bytes of a".to_vec()), (origin(7, 6), vec![b'b'; 2000])].into();
    assert_eq!(contents, expected);
    let Line::Put(empty) = &lines[2].1 else { panic!() };
    assert_eq!(empty.place, Place::Empty);
    let Line::Put(large) = &lines[3].1 else { panic!() };
    assert!(matches!(large.place, Place::Object(_)));
    assert!(matches!(lines[1].1, Line::Move(_)) && matches!(lines[4].1, Line::Remove(_)));
    assert_eq!(lines[5].1, Line::Message(message("{}")));
}

#[test]
fn tar_understands_it() {
    let segment = filled();
    let members = members(&segment);
    let names: Vec<_> = members.iter().map(|(name, _)| name.as_str()).collect();
    let (a, b) = (format!("bytes/{}", origin(7, 0)), format!("bytes/{}", origin(7, 6)));
    assert_eq!(names, [HEAD, RECORDS, &a, &b]);
    let head = SegmentHead::read(&segment).unwrap().unwrap();
    let (records, covers) = (head.records_end - head.records_start, "{}");
    let expected = format!(
        r#"{{"format":1,"writer":"00000000000000ab","number":7,"covers":{covers},"records":{{"packed":{records},"size":{},"lines":7}}}}"#,
        members[1].1.len()
    );
    assert_eq!(String::from_utf8(members[0].1.clone()).unwrap(), format!("{expected}\n"));
    assert_eq!(memchr::memchr_iter(b'\n', &members[1].1).count(), 7);
    assert_eq!(members[2].1, b"bytes of a");
}

#[test]
fn the_digest_is_of_head_and_records() {
    let segment = filled();
    let head = SegmentHead::read(&segment).unwrap().unwrap();
    let end = head.records_end as usize;
    let digest = head.digest(&segment).unwrap();
    assert!(blake3::hash(&segment[..end]).to_hex().starts_with(&digest.to_string()));
    assert_eq!(head.digest(&segment[..end]), Some(digest), "one that was cut has the same");
    assert_eq!(head.digest(&segment[..end - 1]), None);
    let merge = |numbers: &[u64]| {
        let merge = SegmentWriter::new(id(9), covers(numbers)).finish().unwrap();
        SegmentHead::read(&merge).unwrap().unwrap().digest(&merge).unwrap()
    };
    assert_ne!(merge(&[2]), merge(&[2, 3]), "they cover others");
}

#[test]
fn each_member_is_one_frame() {
    let segment = filled();
    let (mut at, mut frames) = (0, Vec::new());
    while at < segment.len() {
        let length = frame::length(&segment[at..]).unwrap().unwrap();
        let unpacked = zstd::bulk::decompress(&segment[at..at + length], 1 << 20).unwrap();
        frames.push(unpacked.len() % 512);
        at += length;
    }
    assert_eq!(frames, [0; 5]);
}

#[test]
fn the_same_content_makes_the_same_bytes() {
    let segment = || {
        let mut writer = writer();
        for number in 0..50 {
            put(&mut writer, &format!("{number}.txt"), format!("text {number}").as_bytes());
        }
        writer.finish().unwrap()
    };
    assert_eq!(segment(), segment());
}

#[test]
fn a_segment_of_nothing_is_one() {
    let segment = writer().finish().unwrap();
    let (_, lines, _) = seen(&segment);
    assert!(lines.is_empty());
    assert_eq!(members(&segment).len(), 2);
}

#[test]
fn a_merge_takes_frames_over() {
    let segment = filled();
    let (head, lines, contents) = seen(&segment);
    let covers = covers(&[7, 2]);
    let mut merge = SegmentWriter::new(id(9), covers.clone());
    assert_eq!(put(&mut merge, "own.txt", b"own"), origin(9, 0));
    for (origin, line) in lines {
        let Line::Put(line) = line else { continue };
        let range = head.range_of(&line.place).unwrap();
        let bytes = match range {
            Some(range) => {
                let frame = &segment[range.start as usize..range.end as usize];
                PutBytes::Packed { frame, size: line.place.size() }
            }
            None => PutBytes::Empty,
        };
        if line.place.size() <= SMALL_BYTES {
            let line = PutLine { origin: Some(origin), ..*line };
            assert_eq!(merge.put(line, bytes, None), Ok(origin));
        }
    }
    let told = MessageLine { origin: Some(origin(2, 5)), ..message("{}") };
    assert_eq!(merge.message(told), Ok(origin(2, 5)));
    let merged = merge.finish().unwrap();
    let (head, lines, merged_contents) = seen(&merged);
    assert_eq!((head.id, head.covers, lines.len()), (id(9), covers, 5));
    let expected: BTreeMap<_, _> =
        contents.into_iter().chain([(origin(9, 0), b"own".to_vec())]).collect();
    assert_eq!(merged_contents, expected);
    let names: BTreeSet<_> = members(&merged).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 5, "no member hides another one: {names:?}");
}

#[test]
fn origins_are_of_what_is_covered() {
    let mut merge = SegmentWriter::new(id(9), covers(&[7]));
    for wrong in [origin(8, 0), origin(9, 1)] {
        let stated = PutLine { origin: Some(wrong), ..line("a.txt", 0) };
        assert!(merge.put(stated, PutBytes::Empty, None).is_err());
        assert!(merge.message(MessageLine { origin: Some(wrong), ..message("{}") }).is_err());
    }
    assert_eq!(put(&mut merge, "a.txt", b"a"), origin(9, 0), "what was refused has no place");
    let stranger = r#"{"message":"{}","stamp":1,"origin":"00000000000000ab-000000000008:0"}"#;
    let refused = read(&segment_of(stranger, 1)).unwrap_err();
    assert!(refused.to_string().contains("record 0: it states an origin"), "{refused}");
}

#[test]
fn what_is_refused_leaves_the_writer_as_it_was() {
    let mut writer = writer();
    put(&mut writer, "a.txt", b"a");
    let before = writer.added();
    let large = vec![0; SMALL_BYTES as usize + 1];
    let refused = [
        writer.put(line("x", large.len() as u64), PutBytes::Bytes(&large), None),
        writer.put(line("x", 1), PutBytes::Packed { frame: b"no frame", size: 1 }, None),
        writer.put(line("x", 1), PutBytes::Packed { frame: b"", size: SMALL_BYTES + 1 }, None),
        writer.put(line("x", 2), PutBytes::Bytes(b"one"), None),
        writer.put(line("../x", 1), PutBytes::Bytes(b"1"), None),
        writer.message(message("two\nlines")),
        writer.message(message(&"x".repeat(17 << 20))),
    ];
    assert!(refused.iter().all(Result::is_err), "{refused:?}");
    assert_eq!(writer.added(), before);
    assert_eq!(put(&mut writer, "b.txt", b"b"), origin(7, 1));
    let (_, lines, contents) = seen(&writer.finish().unwrap());
    assert_eq!((lines.len(), contents.len()), (2, 2));
}

#[test]
fn a_segment_too_large_is_not_written() {
    let mut writer = writer();
    let mut bytes = vec![0; SMALL_BYTES as usize];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    while writer.added() as u64 <= SEGMENT_BYTES {
        put(&mut writer, "x.txt", &bytes);
    }
    assert!(matches!(writer.finish(), Err(FormatError::TooLarge { .. })));
}

#[test]
fn every_cut_asks_for_more_or_is_refused() {
    let segment = filled();
    let head = SegmentHead::read(&segment).unwrap().unwrap();
    for end in 0..segment.len() {
        let found = SegmentHead::read(&segment[..end]).unwrap();
        let expected = (end as u64 >= head.records_start).then(|| head.clone());
        assert_eq!(found, expected, "{end}");
        let whole = read(&segment[..end]).unwrap();
        let (_, _, contents) = seen(&segment);
        assert!(whole.is_none_or(|(_, _, found)| found == contents), "{end}");
    }
    let frame = &segment[head.records_start as usize..head.records_end as usize];
    for end in 0..frame.len() {
        assert!(head.records(&frame[..end]).is_err(), "{end}");
    }
    let jsonl = head.records(frame).unwrap();
    for end in 0..jsonl.len() {
        let mut lines = head.lines(&jsonl[..end]);
        assert!(lines.any(|line| line.is_err()), "{end}");
        assert!(lines.next().is_none(), "nothing follows an error");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_artifacts_come_back(
        artifacts in proptest::collection::vec(
            proptest::collection::vec(any::<u8>(), 0..3000),
            0..20,
        ),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut writer = writer();
        let mut expected = BTreeMap::new();
        for (number, bytes) in artifacts.iter().enumerate() {
            let origin = put(&mut writer, &format!("{number}.txt"), bytes);
            if !bytes.is_empty() {
                expected.insert(origin, bytes.clone());
            }
        }
        let segment = writer.finish().unwrap();
        let (_, lines, contents) = seen(&segment);
        prop_assert_eq!((lines.len(), contents), (artifacts.len(), expected));
        let cut = read(&segment[..cut.index(segment.len())]);
        prop_assert!(cut.is_ok());
    }

    #[test]
    fn whatever_is_covered_comes_back(
        numbers in proptest::collection::btree_map(1..7_u64, any::<Vec<u8>>(), 0..7),
    ) {
        let digests = numbers.iter().map(|(at, bytes)| (id(*at), SegmentDigest::of(bytes)));
        let covers: Covers = digests.collect();
        let merge = SegmentWriter::new(id(7), covers.clone()).finish().unwrap();
        let (head, ..) = seen(&merge);
        prop_assert_eq!(head.covers, covers);
    }

    #[test]
    fn any_change_is_noticed_or_harmless(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut segment = filled();
        let at = at.index(segment.len());
        segment[at] = byte;
        if let Ok(Some((head, lines, _))) = read(&segment) {
            prop_assert!(head.id == id(7) && lines.len() == 7);
        }
    }
}

#[test]
fn parts_of_a_large_one_go_with_it_and_into_merges() {
    let (ranges, bytes) = ([0..4, 10..13], b"headend");
    let large = line("large.log", 1 << 30);
    let mut first = writer();
    let parts = PutParts::Bytes { ranges: &ranges, bytes };
    let origin = first.put(large.clone(), object(), Some(parts)).unwrap();
    let segment = first.finish().unwrap();
    let of = |segment: &[u8]| {
        let (head, lines, _) = seen(segment);
        let Line::Put(put) = lines[0].1.clone() else { panic!() };
        let parts = put.parts.clone().unwrap();
        let range = head.range(parts.at, parts.packed).unwrap();
        let frame = segment[range.start as usize..range.end as usize].to_vec();
        assert_eq!(unpack_parts(&frame, &parts).unwrap(), bytes);
        (put, parts, frame)
    };
    let (put, parts, frame) = of(&segment);
    assert_eq!((parts.size(), parts.ranges.as_slice()), (7, &[(0, 4), (10, 13)][..]));
    assert_eq!(parts.around(11), Some((10..13, 4)));
    assert_eq!(parts.around(5), None);
    let names: Vec<_> = members(&segment).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names[2..], [format!("parts/{origin}")]);
    let mut merge = SegmentWriter::new(id(9), [(id(7), SegmentDigest::of(b"seven"))].into());
    let packed = PutParts::Packed { frame: &frame, parts: &parts };
    let line = PutLine { origin: Some(origin), ..*put };
    merge.put(line, object(), Some(packed)).unwrap();
    of(&merge.finish().unwrap());
    let other = Parts { digest: "ab".repeat(32), ..parts.clone() };
    assert!(unpack_parts(&frame, &other).is_err());
    let longer = Parts { ranges: vec![(0, 4), (10, 14)], ..parts };
    assert!(unpack_parts(&frame, &longer).is_err());
    let none = PutParts::Bytes { ranges: &[], bytes: b"" };
    assert!(writer().put(large, object(), Some(none)).is_err());
}
