use bstr::ByteSlice as _;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::model::Content as _;

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
    shows(b"step one\r\x1b[Kstep two\n", b"step two\n");
    shows(b"step one\r        \rstep two\n", b"step two\n");
    shows(b"one\rtwo\x1b[2Kthree\rfour", b"one\rthree\rfour");
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
            prop_assert!(stripper.before.len() + stripper.held.len() <= HELD);
        }
        out.extend_from_slice(&stripper.tail());
        prop_assert_eq!(&out, &strip_escapes(&log));
        let lines = |bytes: &[u8]| memchr::memchr_iter(b'\n', bytes).count();
        prop_assert_eq!(lines(&out), lines(&log));
        prop_assert!(out.len() <= log.len());
        let parts = text_ranges(&log);
        prop_assert!(parts.windows(2).all(|pair| pair[0].end < pair[1].start));
        let parts: Vec<u8> = parts.into_iter().flat_map(|part| log[part].to_vec()).collect();
        prop_assert_eq!(&parts, &out);
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
        let (checkpoints, read) = Checkpoints::of(&log, &|| false).unwrap();
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

#[test]
fn checkpoints_are_bounded_and_reach_everywhere() {
    let line = b"\x1b[32msome line of a log\x1b[0m\n";
    let mut extractor = TextExtractor::default();
    extractor.spacing = 10;
    let mut text = Vec::new();
    for _ in 0..10_000 {
        text.clear();
        extractor.push(line, &mut text);
    }
    let checkpoints = extractor.checkpoints();
    assert!(checkpoints.len() > 2000 && checkpoints.len() <= 4096, "{}", checkpoints.len());
    for at in [0, 1, 100_000, 190_000, u64::MAX] {
        let checkpoint = checkpoints.before(at, u64::MAX);
        assert_eq!(checkpoint.plain / 19, checkpoint.raw / line.len() as u64);
        assert!(at.min(extractor.length()) - checkpoint.plain < 200, "{at}: {}", checkpoint.plain);
    }
}

#[test]
fn a_part_of_a_text_is_read_from_a_place_near_it() {
    let line = |number: usize| format!("\x1b[3{}mline {number}\x1b[0m of a log\n", number % 8);
    let log = (0..60_000).map(line).collect::<Vec<_>>().concat().into_bytes();
    let text = strip_escapes(&log);
    let lines = Checkpoints::dense(&log).unwrap();
    let middle = text.len() as u64 / 2;
    let wanted = middle..middle + 1000;
    let (place, around) = lines.around(&wanted, log.len() as u64);
    assert!(place.1 <= middle && middle - place.1 < 32 << 10, "{place:?}");
    assert!(around.start == place.0 && around.end - around.start < 160 << 10, "{around:?}");
    let end = text.len() as u64 - 10..text.len() as u64;
    let (last, to_end) = lines.around(&end, log.len() as u64);
    assert_eq!(to_end.end, log.len() as u64);
    // What is not read may be anything of that length.
    let mut other = vec![b'?'; log.len()];
    for range in [around, to_end] {
        let range = range.start as usize..range.end as usize;
        other[range.clone()].copy_from_slice(&log[range]);
    }
    let shown = PlainText::new(other, Checkpoints::at(&[(0, 0), place, last])).unwrap();
    assert_eq!(shown.len(), text.len() as u64);
    let part = &text[middle as usize..middle as usize + 1000];
    assert_eq!(shown.bytes(middle, 1000).unwrap().as_bstr(), part.as_bstr());
}

#[test]
fn places_out_of_order_are_left_out() {
    let places = [(0, 0), (10, 5), (9, 7), (20, 4), (30, 40), (40, 9)];
    assert_eq!(Checkpoints::at(&places).len(), 3);
}
