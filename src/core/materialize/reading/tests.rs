use proptest::prelude::*;

use super::*;
use crate::materialize::plain_text::{Checkpoints, PlainText};
use crate::model::Content as _;

fn of(bytes: &[u8]) -> Option<Reading> {
    reading(bytes, false)
}

fn encoded(text: &str, charset: Charset) -> Vec<u8> {
    match charset {
        Charset::Bytes => text.as_bytes().to_vec(),
        Charset::Utf16Le => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        Charset::Utf16Be => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        Charset::Utf32Le => text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(),
        Charset::Utf32Be => text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect(),
    }
}

const TEXTS: [&str; 5] = [
    "Name  Status\r\n----  ------\r\nspooler Stopped\r\n",
    "d\u{e9}j\u{e0} vu",
    "\u{41f}\u{440}\u{438}\u{432}\u{435}\u{442}, \u{43c}\u{438}\u{440}\r\n\u{434}\u{430}\r\n",
    "\u{9519}\u{8bef}: \u{627e}\u{4e0d}\u{5230}\u{6587}\u{4ef6}\n\u{5b8c}\u{6210}\n",
    "{\"name\": \"\u{1f600}\", \"ok\": true}\n",
];

#[test]
fn utf16_and_utf32_are_known_with_and_without_a_mark() {
    for text in TEXTS {
        for (charset, mark) in WIDE {
            let bare = encoded(text, charset);
            for bytes in [[mark, &bare].concat(), bare] {
                let found = of(&bytes).unwrap();
                assert_eq!(found, Reading { charset, ..Reading::default() }, "{text} {charset:?}");
                assert_eq!(String::from_utf8(decode(&bytes, found)).unwrap(), text);
            }
        }
    }
    let lines = encoded("\u{feff}one\rtwo\rthree\r", Charset::Utf16Le);
    assert_eq!(decode(&lines, of(&lines).unwrap()), b"one\ntwo\nthree\n");
    let coloured = encoded("\u{feff}\x1b[31mred\x1b[0m\r\n", Charset::Utf16Be);
    assert_eq!(decode(&coloured, of(&coloured).unwrap()), b"red\n");
}

#[test]
fn what_is_no_character_is_replaced() {
    let reading = |charset| Reading { charset, ..Reading::default() };
    let cases: [(&[u8], Charset, &str); 5] = [
        (b"a\0\0\xd8b\0", Charset::Utf16Le, "a\u{fffd}b"),
        (b"\xd8\x3d\xde\0", Charset::Utf16Be, "\u{1f600}"),
        (b"\xd8\x3d", Charset::Utf16Be, "\u{fffd}"),
        (b"a\0b", Charset::Utf16Le, "a\u{fffd}"),
        (b"\0\x11\0\0\0\0\0a", Charset::Utf32Be, "\u{fffd}a"),
    ];
    for (bytes, charset, text) in cases {
        assert_eq!(decode(bytes, reading(charset)), text.as_bytes(), "{}", bytes.escape_ascii());
    }
}

#[test]
fn some_nul_bytes_do_not_make_a_text_binary() {
    let long = "a line of a log\n".repeat(400);
    let blocks = [&long, &"\0".repeat(4096), &*long].concat();
    for text in [
        &b"a\0b\n"[..],
        b"name=\0\nsteps\n",
        b"abc\0",
        b"src/a.rs\x0012:use x;\nsrc/b.rs\x00\x31:mod b;\n",
        b"commit one\n\nAuthor: A\n\0commit two\n\nAuthor: B\n",
        blocks.as_bytes(),
        b"caf\xe9 \0 na\xefve\n",
    ] {
        assert_eq!(of(text), Some(Reading::default()), "{}", text.escape_ascii());
    }
}

#[test]
fn nul_bytes_end_the_entries_of_a_list() {
    for list in [
        &b"./a\0./b c\0"[..],
        b"HOME=/root\0PATH=/bin\0X=one\ntwo\0",
        b"sh\0-c\0echo\0",
        b" M src/a.rs\0?? new\0",
        b"one\0two\0three",
    ] {
        let wanted = Reading { line_end: LineEnd::Nul, ..Reading::default() };
        assert_eq!(of(list), Some(wanted), "{}", list.escape_ascii());
    }
    assert_eq!(decode(b"./a\0./b\0", of(b"./a\0./b\0").unwrap()), b"./a\n./b\n");
}

#[test]
fn binary_data_is_binary() {
    let samples: Vec<u8> = (0..4000_i16).flat_map(|at| (at % 90 - 45).to_le_bytes()).collect();
    let records = [&b"user"[..], &[0; 28], b"\x07\0\0\0tty1", &[0; 24]].concat().repeat(9);
    for bytes in [
        &b"\0"[..],
        &[0; 4096],
        b"\x01\0b",
        b"\x7fELF\x02\x01\x01\0\0\0\0\0",
        b"\0\0\0\x12\0\0\x40\x01\0\0\0\x02",
        b"DIRC\0\0\0\x02\0\0\0\x09\x65\x1f\x03\x07",
        &samples,
        &records,
        &[b"text\n\0", &[1; 2000][..]].concat(),
        b"%PDF-1.7\n1 0 obj",
    ] {
        assert_eq!(of(bytes), None, "{}", bytes[..bytes.len().min(40)].escape_ascii());
    }
}

#[test]
fn carriage_returns_end_lines_if_most_lines_end_so() {
    for (text, is_end) in [
        (&b"id,name\r1,Ann\r2,Joe"[..], true),
        (b"MSH|^~\\&|A\rPID|1||77\rOBX|1|NM\r", true),
        (b"MSH|A\rPID|1\rOBX|1\r\r\nMSH|B\rPID|1\rOBX|2\r\r\n", true),
        (b"one\rtwo\rthree\n", true),
        (b"{\"a\": 1}\r{\"a\": 2}\r", true),
        (b"one\r\ntwo\r\n", false),
        (b"one\r\r\ntwo\r\r\n", false),
        (b"one\n\rtwo\n\rthree\n\r", false),
        (b"a log\nAnn 1\rJoe 2\rBea 3\na log\na log\n", false),
        (b"plain\n", false),
        (b"", false),
    ] {
        let found = of(text).unwrap().line_end == LineEnd::Return;
        assert_eq!(found, is_end, "{}", text.escape_ascii());
        let mut lines = text.to_vec();
        lines.iter_mut().filter(|byte| is_end && **byte == b'\r').for_each(|byte| *byte = b'\n');
        assert_eq!(decode(text, of(text).unwrap()), lines);
    }
}

#[test]
fn progress_is_drawn_over_and_other_lines_of_a_terminal_are_lines() {
    let shown = |log: &[u8]| decode(log, reading(log, true).unwrap());
    assert_eq!(shown(b"copy 10%\rcopy 20%\rcopy 30%\r\n"), b"copy 30%\n");
    assert_eq!(shown(b"Ann\rJoe\rBea\n"), b"Ann\nJoe\nBea\n");
    let mixed = b"copy 10%\rcopy 20%\rERROR: disk full\rcopy 30%\r\n";
    assert_eq!(shown(mixed), b"copy 20%\nERROR: disk full\ncopy 30%\n");
    assert_eq!(shown(b"a\nb\nx\rERROR: y\rz\nc\n"), b"a\nb\nx\rERROR: y\rz\nc\n");
}

fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c ]{0,6}",
        prop::sample::select(vec![
            "\n",
            "\r",
            "\r\n",
            "\x1b[1;31m",
            "\r\x1b[K",
            "\x1b[A",
            "copying 10%\rcopying 20%\r",
            "\u{e9}\u{1f600}",
            "\u{feff}",
            "\0",
        ])
        .prop_map(str::to_owned),
    ]
}

fn any_reading() -> impl Strategy<Value = Reading> {
    let charsets = [Charset::Bytes].into_iter().chain(WIDE.map(|(charset, _)| charset));
    let ends = vec![LineEnd::Newline, LineEnd::Return, LineEnd::Nul];
    let charset = prop::sample::select(charsets.collect::<Vec<_>>());
    (charset, prop::sample::select(ends), any::<bool>())
        .prop_map(|(charset, line_end, strips)| Reading { charset, line_end, strips })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_part_of_a_text_can_be_read(
        pieces in prop::collection::vec(piece(), 0..12),
        reading in any_reading(),
        stray in prop::collection::vec(any::<u8>(), 0..3),
        repeat in prop::sample::select(vec![1_usize, 3, 6000]),
        step in 1..70_usize,
        at in 0.0..1.0,
    ) {
        let mut bytes = encoded(&pieces.concat(), reading.charset).repeat(repeat);
        bytes.extend_from_slice(&stray);
        let text = decode(&bytes, reading);
        let (mut decoder, mut out) = (TextDecoder::new(reading), Vec::new());
        for part in bytes.chunks(if repeat > 9 { step * 1000 } else { step }) {
            decoder.push(part, &mut out);
        }
        decoder.finish(&mut out);
        prop_assert!(out == text);
        let (checkpoints, _) = Checkpoints::of(&bytes, reading, &|| false).unwrap();
        let dense = Checkpoints::dense(&bytes, reading).unwrap();
        let offset = (text.len() as f64 * at) as usize;
        let wanted = &text[offset..text.len().min(offset + 1000)];
        let places = offset as u64..(offset + wanted.len()) as u64;
        let (place, _) = dense.around(&places, bytes.len() as u64);
        for known in [checkpoints, Checkpoints::at(&[place], reading), Checkpoints::none(reading)] {
            let content = PlainText::new(&bytes, known).unwrap();
            prop_assert_eq!(content.len(), text.len() as u64);
            prop_assert_eq!(content.bytes(offset as u64, 1000).unwrap(), wanted);
        }
    }
}
