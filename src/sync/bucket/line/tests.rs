use proptest::prelude::*;

use super::*;
use crate::replica::WriterId;
use ctxfs_core::model::{LocalFile, Owner, Provenance, ViewSizes};

const SEGMENT: &str = "00000000000000ab-000000000007";
const NAME: &str = "0000000000000000000000000000003f";

fn segment() -> SegmentId {
    SegmentId { writer: WriterId(0xab), number: 7 }
}

fn origin(place: u32) -> Origin {
    Origin { segment: segment(), place }
}

fn put(size: u64, place: Place) -> PutLine {
    let record = Record {
        path: "artifacts/tool/x.txt".to_owned(),
        generation: 1,
        state: ArtifactState::Sealed,
        size,
        modified: 5,
        created: 6,
        ..Record::default()
    };
    let attributes = BTreeMap::new();
    PutLine { record, mode: 0o644, attributes, stamp: Stamp(1), place, parts: None, origin: None }
}

fn inside(size: u64) -> PutLine {
    put(size, Place::Inside { at: 0, packed: 120, size })
}

fn in_object(blocks: &str) -> PutLine {
    let (name, blocks) = (NAME.parse().unwrap(), blocks.to_owned());
    put(2, Place::Object(ObjectPlace { name, packed: 1, size: 2, blocks }))
}

fn written(line: &Line) -> String {
    let mut out = Vec::new();
    line.write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn of_put(line: PutLine) -> Line {
    Line::Put(Box::new(line))
}

/// Checks that the line is written as `text`, and that parsing `text` returns the line.
fn check(line: &Line, text: &str) {
    assert_eq!(written(line), format!("{text}\n"));
    assert_eq!(Line::parse(text.as_bytes()).as_ref(), Ok(line));
}

fn refusal(text: &str) -> String {
    Line::parse(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn lines_are_as_documented() {
    let record = r#"{"path":"artifacts/tool/x.txt","generation":1,"state":"sealed","size":SIZE,"modified":5,"created":6}"#;
    let put_of = |size: &str| record.replace("SIZE", size);
    let mut small = inside(300);
    small.attributes.insert("user.foo".to_owned(), r"a\xff".to_owned());
    let text = format!(
        r#"{{"put":{},"mode":420,"attributes":{{"user.foo":"a\\xff"}},"stamp":1,"bytes":{{"at":0,"packed":120,"size":300}}}}"#,
        put_of("300")
    );
    check(&of_put(small), &text);
    let blocks = "ab".repeat(32);
    let text = format!(
        r#"{{"put":{},"mode":420,"stamp":1,"object":{{"name":"{NAME}","packed":1,"size":2,"blocks":"{blocks}"}}}}"#,
        put_of("2")
    );
    check(&of_put(in_object(&blocks)), &text);
    let merged = PutLine { origin: Some(origin(3)), ..put(0, Place::Empty) };
    let text = format!(r#"{{"put":{},"mode":420,"stamp":1,"origin":"{SEGMENT}:3"}}"#, put_of("0"));
    check(&of_put(merged), &text);
    let moved = MoveLine { artifact: origin(3), to: "a/b".to_owned(), stamp: Stamp(2) };
    check(&Line::Move(moved), &format!(r#"{{"move":"{SEGMENT}:3","to":"a/b","stamp":2}}"#));
    let mut removed = RemoveLine {
        origins: [origin(3), origin(4)].into(),
        segments: [segment()].into(),
        ends: false,
    };
    let text = format!(r#"{{"remove":["{SEGMENT}:3","{SEGMENT}:4"],"segments":["{SEGMENT}"]}}"#);
    check(&Line::Remove(removed.clone()), &text);
    (removed.segments, removed.ends) = (BTreeSet::new(), true);
    let text = format!(r#"{{"remove":["{SEGMENT}:3","{SEGMENT}:4"],"ends":true}}"#);
    check(&Line::Remove(removed), &text);
    let message = MessageLine {
        text: r#"{"role":"user"}"#.to_owned(),
        stamp: Stamp(3),
        origin: Some(origin(9)),
    };
    let text = format!(r#"{{"message":"{{\"role\":\"user\"}}","stamp":3,"origin":"{SEGMENT}:9"}}"#);
    check(&Line::Message(message), &text);
}

#[test]
fn what_is_of_one_host_stays_there() {
    let mut line = inside(300);
    line.record.owner = Some(Owner { pid: 1, started: 2 });
    line.record.file = Some(LocalFile { dev: 1, ino: 2, born: None, changed: 3, copied: None });
    line.record.view_sizes = Some(ViewSizes::default());
    line.mode = 0o4755;
    let host = line.record.clone();
    let text = written(&of_put(line));
    let Line::Put(read) = Line::parse(text.trim_end().as_bytes()).unwrap() else { panic!() };
    assert_eq!((read.mode, read.record), (0o755, inside(300).record));
    // These fields are ignored when a record of another host is read.
    let json = serde_json::to_string(&host).unwrap();
    let text = format!(
        r#"{{"put":{json},"mode":65535,"stamp":1,"bytes":{{"at":0,"packed":120,"size":300}}}}"#
    );
    let Line::Put(read) = Line::parse(text.as_bytes()).unwrap() else { panic!() };
    assert_eq!((read.mode, read.record), (0o777, inside(300).record));
}

#[test]
fn keys_that_are_not_known_are_ignored() {
    let text = format!(r#"{{"new":[1],"move":"{SEGMENT}:3","to":"a","stamp":2,"x":{{}}}}"#);
    assert!(Line::parse(text.as_bytes()).is_ok());
    let text = format!(r#"{{"remove":["{SEGMENT}:3"]}}"#);
    assert!(Line::parse(text.as_bytes()).is_ok());
}

#[test]
fn kinds_that_are_not_known_are_of_a_newer_ctxfs() {
    for text in [r#"{"link":"x","stamp":1}"#, "{}", r#"{"link":"x","bytes":7}"#] {
        let refused = Line::parse(text.as_bytes());
        assert_eq!(refused, Err(FormatError::Newer { format: 2 }), "{text}");
    }
}

#[test]
fn what_is_no_line_is_refused() {
    let moved = format!(r#""move":"{SEGMENT}:3""#);
    for text in [
        "",
        "x",
        "[]",
        "7",
        "null",
        "{",
        r#"{"put":7}"#,
        r#"{"put":{}}"#,
        r#"{"remove":["x"]}"#,
        r#"{"remove":[],"segments":["x"]}"#,
        r#"{"message":"x"}"#,
        r#"{"message":"a\nb","stamp":1}"#,
        r#"{"message":"a","stamp":-1}"#,
        r#"{"message":"a","stamp":1,"origin":"x"}"#,
        r#"{"message":"a","message":"b","stamp":1}"#,
        &format!("{{{moved}}}"),
        &format!(r#"{{{moved},"to":"a"}}"#),
        &format!(r#"{{{moved},"stamp":1}}"#),
        &format!(r#"{{{moved},"to":"a","stamp":1,"message":"x"}}"#),
    ] {
        let refused = Line::parse(text.as_bytes());
        assert!(matches!(refused, Err(FormatError::Damaged { .. })), "{text}: {refused:?}");
    }
    assert!(Line::parse(b"{\"message\":\"\xff\",\"stamp\":1}").is_err());
    assert!(Line::parse("[".repeat(100_000).as_bytes()).is_err());
    let deep = format!(r#"{{"x":{}"#, "[".repeat(100_000));
    assert!(Line::parse(deep.as_bytes()).is_err());
}

#[test]
fn refusals_quote_nothing() {
    for text in [
        r#"{"put":"secret"}"#,
        r#"{"move":"secret","to":"a","stamp":1}"#,
        r#"{"message":"a","stamp":"secret"}"#,
    ] {
        let refused = refusal(text);
        assert!(!refused.contains("secret") && refused.len() < 200, "{refused}");
    }
}

#[test]
fn paths_that_lead_out_are_refused() {
    let deep = "d/".repeat(300);
    for path in [
        "",
        "/",
        "/etc/passwd",
        "..",
        "../x",
        "a/../x",
        "a//b",
        "a/",
        "./a",
        "a/.",
        ".ctxfs/x",
        "a/.ctxfs-x",
        "a\\u0000b",
        "a\\nb",
        "a\\\\x41\\u0007",
        "a\\\\x2f\\u0001",
        &format!("{deep}x"),
    ] {
        let moved = format!(r#"{{"move":"{SEGMENT}:3","to":"{path}","stamp":1}}"#);
        assert!(refusal(&moved).contains("path"), "{path}");
        let text = written(&of_put(put(0, Place::Empty)));
        let text = text.replace("artifacts/tool/x.txt", path);
        assert!(refusal(text.trim_end()).contains("path"), "{path}");
    }
    // A name has only one valid spelling.
    let moved = format!(r#"{{"move":"{SEGMENT}:3","to":"a\\xc3\\xbc","stamp":1}}"#);
    assert!(refusal(&moved).contains("as ctxfs writes it"));
}

#[test]
fn puts_that_cannot_be_are_neither_written_nor_read() {
    let refused = |what: &str, line: PutLine| {
        let json = serde_json::to_string(&RawLine::of(&of_put(line.clone()))).unwrap();
        let read = Line::parse(json.as_bytes());
        assert!(matches!(read, Err(FormatError::Damaged { .. })), "{what}: {read:?}");
        let mut out = b"before".to_vec();
        assert!(of_put(line).write(&mut out).is_err(), "{what}");
        assert_eq!(out, b"before");
    };
    let with = |change: fn(&mut PutLine)| {
        let mut line = inside(300);
        change(&mut line);
        line
    };
    refused("generation", with(|line| line.record.generation = 0));
    refused("generation", with(|line| line.record.generation = 1 << 53));
    refused("created", with(|line| line.record.created = i64::MIN));
    refused("gone", with(|line| line.record.state = ArtifactState::Gone));
    refused("size", with(|line| line.record.size = 301));
    refused("size", put(1, Place::Empty));
    refused("small", inside(0));
    refused("small", inside(SMALL_BYTES + 1));
    for packed in [0, SMALL_BYTES + (8 << 10), u64::MAX] {
        refused("packed", put(300, Place::Inside { at: 0, packed, size: 300 }));
    }
    for blocks in ["", "ab", &"AB".repeat(32), &"zz".repeat(32), &"ab".repeat(33)] {
        refused("blocks", in_object(blocks));
    }
    for (packed, size) in [(0, 2), (1, 0)] {
        let (name, blocks) = (NAME.parse().unwrap(), "ab".repeat(32));
        refused("object", put(size, Place::Object(ObjectPlace { name, packed, size, blocks })));
    }
    for attribute in ["", "user.", "user", "security.selinux", "trusted.x", "user.a\0b"] {
        let mut line = inside(300);
        line.attributes.insert(attribute.to_owned(), String::new());
        refused(attribute, line);
    }
    let mut line = inside(300);
    line.attributes.insert(format!("user.{}", "a".repeat(251)), String::new());
    refused("long", line);
}

#[test]
fn names_of_objects_are_checked() {
    let text = written(&of_put(in_object(&"ab".repeat(32))));
    for name in ["", "../../x", "0000000000000000000000000000003F"] {
        assert!(Line::parse(text.trim_end().replace(NAME, name).as_bytes()).is_err(), "{name}");
    }
}

#[test]
fn bytes_in_two_places_are_refused() {
    let text = written(&of_put(in_object(&"ab".repeat(32))));
    let both = text
        .trim_end()
        .replace(r#""stamp":1"#, r#""stamp":1,"bytes":{"at":0,"packed":120,"size":2}"#);
    assert!(refusal(&both).contains("two places"));
}

#[test]
fn lines_too_long_are_neither_written_nor_read() {
    let message = |length: usize| {
        let text = "x".repeat(length);
        Line::Message(MessageLine { text, stamp: Stamp(1), origin: None })
    };
    let around = written(&message(0)).len() - 1;
    let longest = message(LINE_BYTES - around);
    let text = written(&longest);
    assert_eq!(Line::parse(text.trim_end().as_bytes()), Ok(longest));
    let mut out = b"before".to_vec();
    let refused = message(LINE_BYTES - around + 1).write(&mut out);
    assert!(matches!(refused, Err(FormatError::TooLarge { .. })) && out == b"before");
    let text = text.trim_end().replace("\"stamp\":1", "\"stamp\":11");
    assert!(matches!(Line::parse(text.as_bytes()), Err(FormatError::TooLarge { .. })));
}

#[test]
fn a_message_is_one_line() {
    let text = "{}\n{}".to_owned();
    let message = Line::Message(MessageLine { text, stamp: Stamp(1), origin: None });
    assert!(message.write(&mut Vec::new()).is_err());
}

fn origins() -> impl Strategy<Value = Origin> {
    (any::<u64>(), 1..1_000_000_000_000_u64, any::<u32>()).prop_map(|(writer, number, place)| {
        let segment = SegmentId { writer: WriterId(writer), number };
        Origin { segment, place }
    })
}

fn places() -> impl Strategy<Value = Place> {
    let blocks = "[0-9a-f]{64}";
    prop_oneof![
        Just(Place::Empty),
        (any::<u64>(), 1..200_000_u64, 1..=SMALL_BYTES)
            .prop_map(|(at, packed, size)| Place::Inside { at, packed, size }),
        (1..u64::MAX, 1..u64::MAX, blocks).prop_map(|(packed, size, blocks)| {
            Place::Object(ObjectPlace { name: ObjectName::random(), packed, size, blocks })
        }),
    ]
}

fn puts() -> impl Strategy<Value = Line> {
    let texts = (any::<String>(), proptest::option::of(any::<String>()));
    let attributes = proptest::collection::btree_map("user\\.[a-z.]{1,9}", any::<String>(), 0..3);
    let numbers = (any::<i64>(), 1..1_000_u64, 0..0o777_u32, any::<u64>());
    let parts = (places(), texts, attributes, numbers, proptest::option::of(origins()));
    parts.prop_map(
        |(place, (why, args), attributes, (modified, generation, mode, stamp), origin)| {
            let mut line = put(place.size(), place);
            line.record = Record {
                modified,
                generation,
                state: ArtifactState::Incomplete(why),
                provenance: Provenance { args, ..Provenance::default() },
                ..line.record
            };
            of_put(PutLine { mode, attributes, stamp: Stamp(stamp), origin, ..line })
        },
    )
}

fn any_line() -> impl Strategy<Value = Line> {
    let segments = || proptest::collection::btree_set(origins().prop_map(|it| it.segment), 0..4);
    prop_oneof![
        puts(),
        (origins(), "[a-z]{1,8}/[a-z.]{3,8}x", any::<u64>()).prop_map(|(artifact, to, stamp)| {
            Line::Move(MoveLine { artifact, to, stamp: Stamp(stamp) })
        }),
        (proptest::collection::btree_set(origins(), 0..4), segments(), any::<bool>()).prop_map(
            |(origins, segments, ends)| Line::Remove(RemoveLine { origins, segments, ends })
        ),
        ("[^\n]{0,40}", any::<u64>(), proptest::option::of(origins())).prop_map(
            |(text, stamp, origin)| {
                Line::Message(MessageLine { text, stamp: Stamp(stamp), origin })
            }
        ),
    ]
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(line in any_line()) {
        let text = written(&line);
        prop_assert_eq!(text.find('\n'), Some(text.len() - 1));
        prop_assert_eq!(Line::parse(&text.as_bytes()[..text.len() - 1]), Ok(line));
    }

    #[test]
    fn every_cut_and_change_is_read_or_refused(
        line in any_line(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut text = written(&line).into_bytes();
        let at = at.index(text.len());
        prop_assert!(Line::parse(&text[..at.min(text.len() - 2)]).is_err());
        text[at] = byte;
        if let Ok(line) = Line::parse(&text) {
            prop_assert!(line.write(&mut Vec::new()).is_ok());
        }
    }
}

#[test]
fn parts_are_as_documented() {
    let blocks = "ab".repeat(32);
    let large = |parts: Parts| {
        let (name, blocks) = (NAME.parse().unwrap(), blocks.clone());
        let place = Place::Object(ObjectPlace { name, packed: 1, size: 1 << 20, blocks });
        PutLine { parts: Some(parts), ..put(1 << 20, place) }
    };
    let digest = "cd".repeat(32);
    let parts = |ranges: &[(u64, u64)]| Parts {
        at: 7,
        packed: 90,
        digest: digest.clone(),
        ranges: ranges.to_vec(),
    };
    let line = of_put(large(parts(&[(0, 100), (1000, 1 << 20)])));
    let text = written(&line);
    let expected = format!(
        r#","parts":{{"at":7,"packed":90,"digest":"{digest}","ranges":[[0,100],[1000,1048576]]}}}}"#
    );
    assert!(text.trim_end().ends_with(&expected), "{text}");
    assert_eq!(Line::parse(text.trim_end().as_bytes()).unwrap(), line);
    let many: Vec<_> = (0..300).map(|at| (2 * at, 2 * at + 1)).collect();
    for ranges in [
        &[][..],
        &[(5, 5)],
        &[(9, 5)],
        &[(0, 10), (9, 20)],
        &[(10, 20), (0, 5)],
        &[(0, (1 << 20) + 1)],
        &[(u64::MAX - 1, u64::MAX)],
        &many,
    ] {
        let refused = of_put(large(parts(ranges))).write(&mut Vec::new());
        assert!(refused.is_err(), "{ranges:?}");
        let list: Vec<String> = ranges.iter().map(|(from, to)| format!("[{from},{to}]")).collect();
        let hostile = text.replace("[[0,100],[1000,1048576]]", &format!("[{}]", list.join(",")));
        assert!(Line::parse(hostile.trim_end().as_bytes()).is_err(), "{ranges:?}");
    }
    for (from, to) in [(r#""packed":90"#, r#""packed":0"#), (&*digest, "xyz")] {
        assert!(Line::parse(text.replace(from, to).trim_end().as_bytes()).is_err(), "{to}");
    }
    let small = PutLine { parts: Some(parts(&[(0, 100)])), ..inside(300) };
    assert!(of_put(small).write(&mut Vec::new()).is_err(), "all of it is there");
}
