use bstr::ByteSlice as _;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::materialize::plain_text::{Checkpoints, PlainText};
use crate::model::{Content as _, Reading};

#[track_caller]
fn shows(log: &[u8], text: &[u8]) {
    assert_eq!(strip_escapes(log).as_bstr(), text.as_bstr());
}

#[test]
fn escape_sequences_are_removed() {
    shows(b"\x1b[1;31merror\x1b[0m: no\n", b"error: no\n");
    shows(b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", b"alink\n");
    shows(b"\x1b[2J\x1b[10;20Hx\x1b[?25l\x1b(B\x1b=\n", b"x\n");
    shows(b"\x1b[\r1mx\x1b[\t2my\n", b"x\ty\n");
    shows(b"bell\x07 and \x08back\x7f\ttab\n", b"bell and back\ttab\n");
    shows(
        "\x1b[32m\u{2713}\x1b[0m \u{e9}\u{1f600}\n".as_bytes(),
        "\u{2713} \u{e9}\u{1f600}\n".as_bytes(),
    );
}

#[test]
fn overwritten_text_is_removed() {
    shows(b"10%\r20%\r100%\nnext\n", b"100%\nnext\n");
    shows(b"line\r\nline\r\r\n\r\n", b"line\nline\n\n");
    shows(b"50%\r\x1b[K\n", b"50%\n");
    shows(b"50%\r\x1b[K100%", b"100%");
    shows(b"50%\r", b"50%");
}

#[test]
fn text_that_no_progress_replaces_stays() {
    shows(b"row 1\rrow 2\rERROR row 3\rrow 4\rrow 5\n", b"row 2\rERROR row 3\rrow 5\n");
    shows(b"id,name\r1,name1\r2,name2\r", b"id,name\r1,name1\r2,name2");
    shows(b"a 10%\ra 20%\r\x1b[31mERROR: no\x1b[0m\r\ra 30%\r\n", b"a 20%\rERROR: no\ra 30%\n");
    shows(b"step one\r\x1b[Kstep two\n", b"step one\rstep two\n");
    shows(b"step one\r        \rstep two\n", b"step one\rstep two\n");
    shows(b"one\rtwo\x1b[2Kthree\rfour", b"one\rtwo\rthree\rfour");
    shows(
        b"copy 10%\rcopy 20% FAILED: no space\rcopy 30%\n",
        b"copy 20% FAILED: no space\rcopy 30%\n",
    );
    shows(b"\x1b[2Kerror: checksum\x1b[2K\x1b[1Gdone\n", b"error: checksum\rdone\n");
}

#[test]
fn erased_progress_is_removed() {
    for progress in [
        "Building [===>    ] 3/9: foo",
        "\u{280b} reify:lodash: timing",
        "Resolving packages...",
        "12.3 MB/s",
        "   \u{2501}\u{2501} 10.2/10.2 MB",
    ] {
        shows(format!("{progress}\r\x1b[KCompiling\n").as_bytes(), b"Compiling\n");
        let blanks = " ".repeat(progress.len());
        shows(format!("{progress}\r{blanks}\rCompiling\n").as_bytes(), b"Compiling\n");
    }
}

#[test]
fn each_row_of_the_screen_has_frames_of_its_own() {
    let drawn =
        |row: u32, text: &str| format!("\x1b[{row}A\x1b[2K\r{text}\r\x1b[{row}B").into_bytes();
    let log = [
        b"a: Waiting\r\nb: Waiting\r\n".to_vec(),
        drawn(2, "a: Downloading 10%"),
        drawn(1, "b: Downloading 10%"),
        drawn(2, "a: Downloading 60%"),
        drawn(1, "b: FAILED: checksum mismatch"),
        drawn(2, "a: Pull complete"),
        b"1 of 2 failed\r\n".to_vec(),
    ];
    let text = b"a: Waiting\nb: Waiting\n\
        b: FAILED: checksum mismatch\ra: Pull complete\r1 of 2 failed\n";
    shows(&log.concat(), text);
    shows(b"\x1b[3;1Hcpu 10%\x1b[5;1Hmem 20%\x1b[3;1Hcpu 30%\n", b"mem 20%\rcpu 30%\n");
    shows(b"one\x1b7\x1b[Atwo\x1b8three\n", b"one\rtwo\rthree\n");
}

#[test]
fn frames_that_are_drawn_over_are_counted() {
    let mut stripper = EscapeStripper::default();
    stripper.push(b"1%\r2%\r3%\nplain\n\x1b[m1%\r2%\rERROR\r9%\n1%\r2%\r", &mut Vec::new());
    assert_eq!(stripper.overdrawn(), 4);
}

#[test]
fn a_line_that_is_begun_again_or_erased_is_written_anew() {
    shows(b"\x1b[1G\x1b[0K-\x1b[1G\x1b[0K|\x1b[1G\x1b[0Kdone\n", b"done\n");
    shows(b"10%\x1b[G20%\x1b[0G30%\x1b[2K40%\n", b"40%\n");
    shows(b"done\x1b[1G\x1b[0K\n", b"done\n");
    shows(b"a \x1b[01;31m\x1b[Kmatch\x1b[m\x1b[K of grep\n", b"a match of grep\n");
    shows(b"a\x1b[5Gb\x1b[12Gc\x1b[1;2Gd\x1b[?1Ge\x1b[1Kf\n", b"abcdef\n");
}

#[test]
fn a_sequence_ends_with_its_line() {
    shows(b"a\x1b]0;never ended\nb\n\x1b[31\nc\x1b\nd\n", b"a\nb\n\nc\nd\n");
}

#[test]
fn other_text_stays() {
    for text in [&b"plain\n\ttext"[..], b"", b"\n\n", b"latin \xe9\x9b1 text\n", b"a\0b\n"] {
        shows(text, text);
    }
    shows(b"\x1b[1mno\0text\n", b"no\0text\n");
}

#[test]
fn parts_do_not_overlap_where_a_sequence_is_text() {
    let log = b"\x01\xc2\x1b[1G\0";
    let parts = text_parts(log);
    assert!(parts.windows(2).all(|pair| pair[0].log.end <= pair[1].log.start), "{parts:?}");
}

#[test]
fn a_line_too_long_to_be_held_is_not_overwritten() {
    let long = vec![b'='; HELD - 3];
    shows(&[&long[..], b"\rend\n"].concat(), b"end\n");
    shows(&[&long[..], b"=\rend\n"].concat(), &[&long[..], b"=\rend\n"].concat());
}

/// Generates pieces of logs.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[a-c ]{0,6}".prop_map(String::into_bytes),
        Just(b"\n".to_vec()),
        Just(b"\r".to_vec()),
        Just(b"copying 10%\rcopying 20%\r".to_vec()),
        Just(b"\r\x1b[K".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\x1b[1;31m".to_vec()),
        Just(b"\x1b[1G".to_vec()),
        Just(b"\x1b[2K".to_vec()),
        Just(b"\x1b[2A".to_vec()),
        Just(b"\x1b[B".to_vec()),
        Just(b"\x1b[7;1H".to_vec()),
        Just(b"\x1b]0;t\x07".to_vec()),
        Just(b"\x1b[".to_vec()),
        Just(b"\0".to_vec()),
        Just("\u{e9}\u{1f600}".as_bytes().to_vec()),
        vec(any::<u8>(), 0..4),
        Just(vec![b'z'; HELD - 2]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn cuts_do_not_matter(pieces in vec(piece(), 0..12), step in 1..70_usize) {
        let log = pieces.concat();
        let (mut stripper, mut out) = (EscapeStripper::default(), Vec::new());
        for part in log.chunks(if log.len() > 5000 { step * 1000 } else { step }) {
            stripper.push(part, &mut out);
            prop_assert!(stripper.line.held <= HELD && stripper.line.frames.len() <= MAX_FRAMES);
        }
        stripper.finish(&mut out);
        prop_assert_eq!(&out, &strip_escapes(&log));
        let lines = |bytes: &[u8]| memchr::memchr_iter(b'\n', bytes).count();
        prop_assert_eq!(lines(&out), lines(&log));
        prop_assert!(out.len() <= log.len());
        let parts = text_parts(&log);
        prop_assert!(parts.windows(2).all(|pair| pair[0].log.end <= pair[1].log.start));
        let text = |part: TextPart| if part.is_return { b"\r" } else { &log[part.log] };
        prop_assert_eq!(parts.into_iter().flat_map(text).copied().collect::<Vec<u8>>(), out);
    }

    #[test]
    fn any_stretch_can_be_read(
        pieces in vec(piece(), 0..12),
        repeat in 1..4_usize,
        at in 0.0..1.0,
        size in 1..200_000_usize,
    ) {
        let log = pieces.concat().repeat(repeat);
        let text = strip_escapes(&log);
        let (checkpoints, read) = Checkpoints::of(&log, Reading::TERMINAL, &|| false).unwrap();
        prop_assert_eq!(read, log.len() as u64);
        let content = PlainText::new(&log, checkpoints.clone()).unwrap();
        prop_assert_eq!(content.len(), text.len() as u64);
        let offset = (text.len() as f64 * at) as usize;
        let wanted = &text[offset..text.len().min(offset + size)];
        prop_assert_eq!(content.bytes(offset as u64, size).unwrap(), wanted);
        prop_assert_eq!(content.bytes(0, size).unwrap(), &text[..text.len().min(size)]);
        // The same checkpoints are valid for a shorter log.
        let shorter = log[..(log.len() as f64 * at) as usize].to_vec();
        let content = PlainText::new(&shorter, checkpoints).unwrap();
        prop_assert_eq!(content.bytes(0, usize::MAX).unwrap(), strip_escapes(&shorter));
    }
}

/// Returns the text of a line as the general stripper prints it, and the number of frames that were
/// drawn over.
fn printed(line: &[u8]) -> (Vec<u8>, u64) {
    let (mut stripper, mut out) = (EscapeStripper::default(), Vec::new());
    stripper.inside(line, &mut out);
    stripper.line.finish(&mut (&mut out, ()));
    (out, stripper.overdrawn())
}

#[test]
fn lines_with_colours_or_frames_are_simple() {
    for (line, shown) in [
        ("\x1b[1;31merror\x1b[0m: no", Some("error: no")),
        ("10%\r20%\r\x1b[32m30%\x1b[m\r", None),
        ("10%\r20%\rdone\r20%", Some("done\r20%")),
        ("10%\r20%\r\r", Some("20%")),
        ("\r", Some("")),
        ("plain\t\u{2713}", Some("plain\t\u{2713}")),
        ("a\x1b[2K", None),
        ("a\x08b", None),
        ("a\u{9b}31m", None),
    ] {
        let mut out = b"kept ".to_vec();
        let is_simple = EscapeStripper::default().print_simple(line.as_bytes(), &mut out);
        assert_eq!(out.strip_prefix(b"kept ").unwrap(), shown.unwrap_or("").as_bytes());
        assert_eq!(is_simple, shown.is_some(), "{line:?}");
    }
}

proptest! {
    #[test]
    fn they_are_shown_as_the_printer_shows_them(
        parts in prop::collection::vec(
            prop_oneof![
                4 => prop::sample::select(vec![
                    "\x1b[0m", "\x1b[1;31m", "\x1b[", "\x1b", "\r", "m", "text ", "\t", "\0", "10%",
                    "\u{e9}", "\u{2713}", "\u{9b}", "\x1b[38;5;1m",
                ]).prop_map(|part| part.as_bytes().to_vec()),
                1 => prop::collection::vec(any::<u8>(), 0..4),
            ],
            0..12,
        ),
    ) {
        let mut line = parts.concat();
        line.retain(|byte| *byte != b'\n');
        let mut out = Vec::new();
        let mut simple = EscapeStripper::default();
        if simple.print_simple(&line, &mut out) {
            let (text, overdrawn) = printed(&line);
            prop_assert_eq!((out, simple.overdrawn()), (text, overdrawn));
        }
    }
}
