use proptest::prelude::*;

use crate::materialize::{Analyzer, SNIFFED, analyze, decode, is_binary};
use crate::model::{Analysis, Encoding, Json};

fn whole(bytes: &[u8]) -> Analysis {
    analyze(&bytes).unwrap()
}

/// Analyses `bytes` in pieces. The lengths of the pieces are taken from `cuts`, repeatedly.
fn cut(bytes: &[u8], cuts: &[usize]) -> Analysis {
    cut_by(bytes, cuts, Analyzer::push)
}

/// Does the same as [`cut`], but analyses each piece on several threads.
fn cut_side_by_side(bytes: &[u8], cuts: &[usize]) -> Analysis {
    cut_by(bytes, cuts, Analyzer::push_side_by_side)
}

fn cut_by(bytes: &[u8], cuts: &[usize], push: fn(&mut Analyzer, &[u8])) -> Analysis {
    let mut analyzer = Analyzer::new();
    let mut rest = bytes;
    for length in cuts.iter().cycle().map(|length| (*length).max(1)) {
        let (now, later) = rest.split_at(length.min(rest.len()));
        push(&mut analyzer, now);
        rest = later;
        if rest.is_empty() {
            return analyzer.finish();
        }
    }
    unreachable!("the cuts are repeated until the bytes end")
}

/// Generates fragments that at least one analyser recognizes, completely or in part.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "{\"a\": 1, \"b\": [\"x\", null, 1.5e3]}",
        "[{\"id\": 1}, {\"id\": \"\\u00e9\\n\", \"k\": true}]",
        "[{\"level\": \"error\", \"code\": \"E1\"}, {\"status\": 503, \"ok\": false}]",
        "{\"severity\": \"HIGH\", \"errors\": 12}\n",
        "{",
        "}",
        "[",
        "]",
        "\"",
        ",",
        ":",
        "\n",
        "\n\n",
        "\r\n",
        " ",
        "    ",
        "-12.5",
        "null",
        "{\"key that is rather long, longer than sixty-four bytes in all, I hope\": \"v\"}\n",
        "error: no such thing\n",
        "ERROR boom 17\n",
        "ValueError: bad\n",
        "Traceback (most recent call last):\n  File \"x.py\", line 3\n",
        "thread 'main' panicked at src/main.rs:2:5:\n",
        "Caused by:\n    deeper\n",
        "\x1b[31mred\x1b[0m\n",
        "copying 10%\rcopying 20%\r",
        "\x1b",
        "\r",
        "1,Ann\r2,Joe\r",
        "\0",
        "./a\0./b.c\0",
        "\u{feff}",
        "\x1b[1A\x1b[2K\rb: failed\r\x1b[B",
        "assertion `left == right` failed\n  left: 1\n right: 2\n",
        "diff --git a/src/a.rs b/src/a.rs\n--- a/src/a.rs\n+++ b/src/a.rs\n+x\n",
        "\n## Heading\n",
        "## Not apart\n",
        "=== FAILURES ===\n",
        "==> name <==\nline\nline\n",
        "\n./dir:\nfile\n",
        "\n/usr/lib:\ntotal 12\n",
        "NAME\n       x - y\n",
        "Title\n=====\n",
        "src/a.rs:12:text\nsrc/a.rs:14:text\nb.rs:1:x\n",
        "h - [t] \"GET / HTTP/1.1\" 503 12\n",
        "CREATE TABLE t (\n",
        "=== 2 failed in 0.1s ===\n",
        "GET /health 200\n",
        "took 17 ms\ntook 3 ms\r\n",
        "\u{e9}\u{20ac}\u{1f600}",
        "the quick brown fox",
        "deadbeef0123456789abcdef",
        "camelCaseWords",
        "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJz\n",
    ]);
    prop_oneof![
        6 => known.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..12),
        1 => prop::sample::select(vec!["\u{feff}", "d\u{e9}j\u{e0} vu\r\n", "\u{1f600}\n"])
            .prop_map(|text| text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
        1 => prop::collection::vec(prop::sample::select(b"\xe2\x82\xac\xff\xc3a\n\"".to_vec()), 0..6),
    ]
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(fragment(), 0..24).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn several_threads_find_the_same(
        bytes in stream(),
        times in 1usize..9000,
        cuts in prop::collection::vec(1usize..200_000, 1..4),
    ) {
        let bytes = bytes.repeat(times.min(300_000 / bytes.len().max(1) + 1));
        prop_assert_eq!(cut_side_by_side(&bytes, &cuts), whole(&bytes));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn cuts_do_not_matter(bytes in stream(), cuts in prop::collection::vec(1usize..40, 1..8)) {
        prop_assert_eq!(cut(&bytes, &cuts), whole(&bytes));
        prop_assert_eq!(cut(&bytes, &[1]), whole(&bytes));
    }

    #[test]
    fn counts_are_those_of_the_standard_library(bytes in stream()) {
        let found = whole(&bytes);
        let shown = decode(&bytes, found.reading);
        let text = String::from_utf8_lossy(&shown);
        prop_assert_eq!(found.chars, text.chars().count() as u64);
        let mut lines: Vec<&str> = text.split('\n').collect();
        lines.pop_if(|last| last.is_empty());
        prop_assert_eq!(found.lines, lines.len() as u64);
        let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        prop_assert_eq!(found.longest_line, longest as u64);
        prop_assert_eq!(found.digest, blake3::hash(&bytes).to_hex().to_string());
    }

    #[test]
    fn pushing_may_go_on_after_finish(head in stream(), tail in stream()) {
        let mut analyzer = Analyzer::new();
        analyzer.push(&head);
        prop_assert_eq!(analyzer.finish(), whole(&head));
        analyzer.push(&tail);
        prop_assert_eq!(analyzer.finish(), whole(&[head, tail].concat()));
    }
}

#[test]
fn an_empty_output_is_text() {
    let found = whole(b"");
    assert_eq!((found.bytes, found.chars, found.lines, found.tokens), (0, 0, 0, 0));
    assert_eq!(
        (found.encoding, found.json, &*found.mime),
        (Encoding::Ascii, Json::No, "text/plain")
    );
    assert_eq!(found.errors, crate::model::Errors::default());
}

#[test]
fn encodings() {
    let cases: [(&[u8], Encoding, &str); 7] = [
        (b"plain", Encoding::Ascii, "text/plain"),
        ("caf\u{e9}".as_bytes(), Encoding::Utf8, "text/plain"),
        (b"caf\xe9", Encoding::Broken, "text/plain"),
        (b"a\0b", Encoding::Ascii, "text/plain"),
        (b"\x01\0b", Encoding::Binary, "application/octet-stream"),
        (b"{\"a\": 1}\n", Encoding::Ascii, "application/json"),
        (b"{\"a\": 1}\n{\"a\": 2}\n", Encoding::Ascii, "application/x-ndjson"),
    ];
    for (bytes, encoding, mime) in cases {
        let found = whole(bytes);
        assert_eq!((found.encoding, &*found.mime), (encoding, mime), "{bytes:?}");
        assert_eq!(is_binary(bytes), found.is_binary(), "{bytes:?}");
    }
}

#[test]
fn the_first_bytes_tell_text_from_binary() {
    let (text, noise) = (b"x".repeat(SNIFFED), b"\x01\0".repeat(SNIFFED / 4));
    assert!(is_binary(&[&text[noise.len()..], &noise].concat()));
    let late = [&text[..], &noise].concat();
    assert!(!is_binary(&late) && !whole(&late).is_binary());
    assert!(is_binary(b"%PDF-1.7\n1 0 obj"));
    assert!(!is_binary(b""));
}

#[test]
fn binary_content_has_no_error_lines() {
    assert_eq!(whole(b"\0\x01\x02\x03\x04error: not text\n").errors.count, 0);
}
