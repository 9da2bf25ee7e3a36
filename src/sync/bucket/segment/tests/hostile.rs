//! Segments that ctxfs never writes.

use super::*;

/// Packs members without checking them.
fn packed(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut packer = Packer::new(true);
    let frames =
        members.iter().map(|(name, content)| packer.pack(&member_bytes(name, content)).to_vec());
    frames.collect::<Vec<_>>().concat()
}

fn head_of(packed: u64, size: u64, lines: u32) -> String {
    format!(
        r#"{{"format":1,"writer":"00000000000000ab","number":7,"covers":{{}},"records":{{"packed":{packed},"size":{size},"lines":{lines}}}}}"#
    )
}

/// Returns a segment with the records `jsonl`, which are not checked, and with `lines` as the
/// number of lines in its head.
pub(super) fn segment_of(jsonl: &str, lines: u32) -> Vec<u8> {
    let jsonl = format!("{jsonl}\n");
    let records = packed(&[(RECORDS, jsonl.as_bytes())]);
    let head = head_of(records.len() as u64, jsonl.len() as u64, lines);
    [packed(&[(HEAD, head.as_bytes())]), records].concat()
}

fn refused_head(json: &str) -> FormatError {
    SegmentHead::read(&packed(&[(HEAD, json.as_bytes())])).unwrap_err()
}

#[test]
fn heads_that_cannot_be_are_refused() {
    let good = head_of(100, 100, 3);
    assert!(SegmentHead::read(&packed(&[(HEAD, good.as_bytes())])).unwrap().is_some());
    let newer = r#"{"format":2,"all":"else"}"#;
    assert_eq!(refused_head(newer), FormatError::Newer { format: 2 });
    for (from, to) in [
        (r#""format":1"#, r#""format":0"#),
        (r#""format":1"#, r#""format":"1""#),
        (r#""format":1,"#, ""),
        ("00000000000000ab", "xyz"),
        (r#""number":7"#, r#""number":0"#),
        (r#""number":7"#, r#""number":1000000000000"#),
        ("{}", r#"{"00000000000000ab-000000000007":"000102030405060708090a0b0c0d0e0f"}"#),
        ("{}", r#"{"x":"000102030405060708090a0b0c0d0e0f"}"#),
        ("{}", r#"{"00000000000000ab-000000000006":"0001"}"#),
        ("{}", r#"{"00000000000000ab-000000000006":"000102030405060708090A0B0C0D0E0F"}"#),
        ("{}", r#"{"00000000000000ab-000000000006":null}"#),
        ("{}", r#"["00000000000000ab-000000000006"]"#),
        (r#""lines":3"#, r#""lines":101"#),
        (r#""lines":3"#, r#""lines":4294967296"#),
        (r#""lines":3"#, r#""lines":-1"#),
    ] {
        let refused = refused_head(&good.replace(from, to));
        assert!(matches!(refused, FormatError::Damaged { .. }), "{to}: {refused}");
    }
    for (packed, size) in [(SEGMENT_BYTES, 100), (u64::MAX, 100), (100, RECORDS_BYTES + 1)] {
        let refused = refused_head(&head_of(packed, size, 3));
        assert!(matches!(refused, FormatError::TooLarge { .. }), "{packed}, {size}: {refused}");
    }
    let refused = refused_head(&head_of(3000, 100, 3));
    assert!(matches!(refused, FormatError::Damaged { .. }), "no frame of so little: {refused}");
    let other = packed(&[(RECORDS, good.as_bytes())]);
    assert!(SegmentHead::read(&other).is_err(), "it begins with another member");
}

#[test]
fn what_is_no_segment_is_refused() {
    let mut packer = Packer::new(true);
    let link = {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_path(HEAD).unwrap();
        header.set_size(0);
        header.set_cksum();
        packer.pack(header.as_bytes()).to_vec()
    };
    for bytes in [
        b"{}".to_vec(),
        b"\x1f\x8b\x08\x00".to_vec(),
        packer.pack(b"").to_vec(),
        packer.pack(&[0; 1024]).to_vec(),
        packer.pack(b"text").to_vec(),
        packer.pack(&[b'x'; 512]).to_vec(),
        packer.pack(&member_bytes(HEAD, b"{}")[..512]).to_vec(),
        packer.pack(&[member_bytes(HEAD, b"{}"), vec![0; 512]].concat()).to_vec(),
        link,
    ] {
        assert!(SegmentHead::read(&bytes).is_err(), "{bytes:?}");
    }
    assert_eq!(SegmentHead::read(b""), Ok(None));
}

#[test]
fn a_head_that_never_ends_is_refused() {
    // A frame of unknown content size, whose blocks repeat one byte. Each block unpacks to 128 KiB.
    let mut endless = b"\x28\xb5\x2f\xfd\x00\x68".to_vec();
    endless.extend(b"\x02\x00\x10x".repeat(SEGMENT_BYTES as usize / 4));
    assert_eq!(SegmentHead::read(&endless[..1 << 20]), Ok(None));
    assert!(matches!(SegmentHead::read(&endless), Err(FormatError::TooLarge { .. })));
}

#[test]
fn bombs_are_refused() {
    let zeros = vec![0; 64 << 20];
    let bomb = zstd::bulk::compress(&zeros, 3).unwrap();
    assert!(matches!(SegmentHead::read(&bomb), Err(FormatError::TooLarge { .. })));
    let head = head_of(bomb.len() as u64, 100_000, 3);
    let segment = [packed(&[(HEAD, head.as_bytes())]), bomb.clone()].concat();
    assert!(matches!(read(&segment), Err(FormatError::TooLarge { .. })));
    assert!(matches!(unpack_member(&bomb, 10), Err(FormatError::TooLarge { .. })));
    let size = SMALL_BYTES + 1;
    assert!(matches!(unpack_member(&bomb, size), Err(FormatError::TooLarge { .. })));
    assert!(unpack_member(&bomb, u64::MAX).is_err());
}

#[test]
fn sizes_that_lie_are_refused() {
    let frame = packed(&[("bytes/x", &b"0123456789"[..])]);
    assert_eq!(unpack_member(&frame, 10).unwrap(), b"0123456789");
    for size in [0, 1, 9, 11, 512, 513, SMALL_BYTES] {
        assert!(unpack_member(&frame, size).is_err(), "{size}");
    }
    for end in 0..frame.len() {
        assert!(unpack_member(&frame[..end], 10).is_err(), "{end}");
    }
    assert!(unpack_member(&[&frame[..], &frame[..]].concat(), 10).is_err());
    let told = r#"{"message":"{}","stamp":1}"#;
    assert!(read(&segment_of(told, 1)).is_ok());
    for lines in [0, 2] {
        assert!(read(&segment_of(told, lines)).is_err(), "{lines}");
    }
}

#[test]
fn lines_too_long_are_refused() {
    let long = format!("{{{}}}", " ".repeat(16 << 20));
    assert!(matches!(read(&segment_of(&long, 1)), Err(FormatError::TooLarge { .. })));
}

/// Returns messages that take `bytes` in the records.
fn messages_of(mut bytes: usize) -> Vec<MessageLine> {
    let mut around = Vec::new();
    Line::Message(message("")).write(&mut around).unwrap();
    let mut messages = Vec::new();
    while bytes > 0 {
        let length = if bytes > LINE_BYTES { LINE_BYTES / 2 } else { bytes };
        messages.push(message(&"x".repeat(length - around.len())));
        bytes -= length;
    }
    messages
}

#[test]
fn records_at_the_bound_are_read_and_more_is_neither_written_nor_read() {
    let segment = |bytes: u64| {
        let mut writer = writer();
        for message in messages_of(bytes as usize) {
            writer.message(message).unwrap();
        }
        assert_eq!(writer.added() as u64, bytes);
        writer.finish()
    };
    let (head, lines, _) = seen(&segment(RECORDS_BYTES).unwrap());
    assert!(lines.len() > 1 && head.merged_bytes() > RECORDS_BYTES);
    assert!(matches!(segment(RECORDS_BYTES + 1), Err(FormatError::TooLarge { .. })));
}

#[test]
fn a_line_grows_by_its_origin_in_a_merge_and_by_no_more() {
    let last = SegmentId { writer: WriterId(u64::MAX), number: 999_999_999_999 };
    let origin = Some(Origin { segment: last, place: u32::MAX });
    let length = |line: MessageLine| {
        let mut out = Vec::new();
        Line::Message(line).write(&mut out).unwrap();
        out.len() as u64
    };
    let grown = length(MessageLine { origin, ..message("{}") }) - length(message("{}"));
    assert!((1..=ORIGIN_BYTES).contains(&grown), "{grown}");
}

#[test]
fn bytes_outside_the_segment_are_refused() {
    let record = serde_json::to_string(&line("x.txt", 10).record).unwrap();
    for at in [SEGMENT_BYTES, u64::MAX] {
        let text = format!(
            r#"{{"put":{record},"mode":420,"stamp":1,"bytes":{{"at":{at},"packed":100,"size":10}}}}"#
        );
        assert!(matches!(read(&segment_of(&text, 1)), Err(FormatError::TooLarge { .. })), "{at}");
    }
}
