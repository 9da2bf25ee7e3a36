use super::*;
use ctxfs_core::model::Json;
use proptest::prelude::*;
use serde_json::Value;

use crate::View;
use crate::fixture::Fixture;
use ctxfs_core::materialize::analyze;

/// Uses the real analysis, because these tests depend on how it classifies JSON.
fn fixture(bytes: impl Into<Vec<u8>>) -> Fixture {
    Fixture::analysed(bytes)
}

fn pretty(text: &str) -> String {
    fixture(text).text(&View::Pretty)
}

/// Indents the stream in pieces of `step` bytes. Returns the indented bytes and the notice.
fn in_pieces(bytes: &[u8], step: usize) -> (Vec<u8>, String) {
    let mut values = ValueStream::default();
    let mut text = Vec::new();
    for piece in bytes.chunks(step) {
        values.push(piece);
        let take = |piece: &[u8]| {
            text.extend_from_slice(piece);
            Ok(())
        };
        values.indenter.take(take).unwrap();
    }
    values.finish();
    values
        .indenter
        .take(|piece| {
            text.extend_from_slice(piece);
            Ok(())
        })
        .unwrap();
    let notice = notice(&values, None, 0).unwrap_or_default();
    (text, notice)
}

/// Removes the white space between the tokens of JSON.
fn stripped(json: &str) -> String {
    let (mut inside, mut escaped) = (false, false);
    let keep = |c: &char| {
        let kept = inside || !c.is_ascii_whitespace();
        match c {
            '"' if !escaped => inside = !inside,
            _ => {}
        }
        escaped = inside && *c == '\\' && !escaped;
        kept
    };
    json.chars().filter(keep).collect()
}

fn without_space(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect()
}

#[test]
fn a_document_is_indented_as_everybody_does() {
    let texts = [
        r#"{"total":2,"items":[{"id":1,"tags":[]},{"id":2,"tags":["a","b"]}],"next":null,"o":{}}"#,
        "[[[1],[]],[true,false],\"\u{20ac}\"]",
        "\"text\"",
        "[]",
    ];
    for text in texts {
        let value: Value = serde_json::from_str(text).unwrap();
        let expected = serde_json::to_string_pretty(&value).unwrap() + "\n";
        // serde_json sorts the keys of an object, so an input with keys is not compared directly.
        if !text.starts_with('{') {
            assert_eq!(pretty(text), expected);
        }
        assert_eq!(pretty(&expected), expected);
        assert_eq!(pretty(text).lines().count(), expected.lines().count());
    }
}

#[test]
fn tokens_keep_their_spelling_and_keys_their_order() {
    let text = r#" { "b" : 1.0, "a":1e400,"a":12345678901234567890123,
        "\u00e9\/" : "\ud83d\ude00 \t", "e":[ ] ,"o":{ }, "n":[-0.0,1E+2,null]} "#;
    let want = r#"{
  "b": 1.0,
  "a": 1e400,
  "a": 12345678901234567890123,
  "\u00e9\/": "\ud83d\ude00 \t",
  "e": [],
  "o": {},
  "n": [
    -0.0,
    1E+2,
    null
  ]
}
"#;
    assert_eq!(pretty(text), want);
}

#[test]
fn json_lines_follow_one_another() {
    let text = "{\"a\":1}\r\n\r\n[1,{}]\n{}\n";
    assert_eq!(pretty(text), "{\n  \"a\": 1\n}\n[\n  1,\n  {}\n]\n{}\n");
}

#[test]
fn a_bad_line_spoils_no_other() {
    let good = "{\"name\":\"a value that is long enough to be told from text\",\"more\":[1,2,3]}\n";
    let text = format!("{good}{{\"k\": nope}}\n  at line 7 {{\n{good}{{\"a\":1}} and more\n[2]\n");
    let indented = "{\n  \"name\": \"a value that is long enough to be told from text\",\n  \"more\": [\n    1,\n    2,\n    3\n  ]\n}\n";
    let want = format!(
        "# 3 lines are not JSON and stand as they are; the first: line 2 is not JSON from byte column 8 on, \
         here in line 11\n\
         {indented}{{\n  \"k\": nope}}\n  at line 7 {{\n{indented}{{\n  \"a\": 1\n}}\n and more\n[\n  2\n]\n"
    );
    assert_eq!(pretty(&text), want);
    let shown = want.lines().nth(10).unwrap();
    assert_eq!(shown, "  \"k\": nope}");
}

#[test]
fn what_goes_wrong_in_a_later_line_stands_as_it_is() {
    let text = "{\n\"name\":\"a value that is long enough to be told from text\",\n\"more\":[1,2,3],\n\"k\" 1,\n   \"l\":2\n}\n";
    let want = "\
# line 4 is not JSON from byte column 5 on; that stands as it is, here in line 11
# from line 4 on everything stands as it is
{
  \"name\": \"a value that is long enough to be told from text\",
  \"more\": [
    1,
    2,
    3
  ],
  \"k\"
1,
   \"l\":2
}
";
    assert_eq!(pretty(text), want);
    assert_eq!(want.lines().nth(10), Some("1,"));
}

#[test]
fn a_document_that_breaks_off() {
    let text = "{\"items\":[{\"id\":1,\"name\":\"a value that is long enough to be told from text\"},{\"id\":2,\"name\":\"a val";
    let want = format!(
        "# the JSON breaks off at its end, line 1, byte column {}, with 3 brackets open\n\
         {{\n  \"items\": [\n    {{\n      \"id\": 1,\n      \"name\": \"a value that is long enough to be told from text\"\n    }},\n    \
         {{\n      \"id\": 2,\n      \"name\": \"a val\n",
        text.len() + 1,
    );
    assert_eq!(pretty(text), want);
}

#[test]
fn what_is_not_json_is_said_to_be_none() {
    let file = "/ctx/c7/artifacts/tool/9f3k.txt";
    let ways = format!(
        "so nothing is indented. As it is: {file}, {file}.head, {file}.tail, {file}.wrap\n"
    );
    assert_eq!(pretty("started\n"), format!("# not JSON (text/plain, 8 bytes), {ways}"));
    let wrong = "{\n  \"a\": 1,\n  oops}";
    let want = format!("# not JSON from line 3, byte column 3 on (text/plain, 19 bytes), {ways}");
    assert_eq!(pretty(wrong), want);
    assert_eq!(pretty(""), "");
    assert!(pretty("{\"a\": \x01\0}").starts_with("# not text (application/octet-stream"));
}

/// Only the first bytes of a large content are analysed.
#[test]
fn a_long_string_is_json() {
    let text = format!("  \"{}\"\n", "x".repeat(200_000));
    let mut fixture = fixture(text.as_str());
    fixture.analysis = analyze(&text.as_bytes()[..65_536].to_vec()).unwrap();
    assert_eq!(fixture.text(&View::Pretty), text.trim_start());
}

#[test]
fn a_nul_byte_further_on_is_shown() {
    let mut text = b"{\"a\": [1]}\n".repeat(9000);
    text.extend_from_slice(b"no \0 text\n{\"b\": 2}\n");
    let shown = fixture(text).text(&View::Pretty);
    assert!(shown.starts_with("# line 9,001 is not JSON from byte column 1 on"), "{shown:.200}");
    assert!(shown.ends_with("}\nno \0 text\n{\n  \"b\": 2\n}\n"), "{shown}");
}

#[test]
fn deep_nesting_takes_bounded_room() {
    let deep = 100_000;
    let text = format!("{}1{}", "[".repeat(deep), "]".repeat(deep));
    let shown = pretty(&text);
    assert!(
        shown.starts_with("# nested deeper than 64 levels: no line is indented further\n[\n  [")
    );
    assert!(shown.len() <= 2 * deep * 130 + 1000, "{}", shown.len());
    assert_eq!(without_space(shown.split_once('\n').unwrap().1.as_bytes()), text.as_bytes());
    let (_, notice) = in_pieces("[".repeat(1_100_000).as_bytes(), 1 << 16);
    let want = "# line 1 is nested too deep to be followed from byte column 1,048,577 on; \
                that stands as it is, here in line 1,048,579\n";
    assert!(notice.starts_with(want), "{notice}");
}

#[test]
fn time_can_run_out() {
    let text = format!("[{}1]", "1234567,".repeat(100_000));
    let asked = std::cell::Cell::new(0);
    let expired = || {
        asked.set(asked.get() + 1);
        asked.get() > 3
    };
    let (body, rendered) = fixture(text.as_str()).render_until(&View::Pretty, &expired).unwrap();
    assert!(!rendered.whole);
    assert_eq!(
        rendered.notice.unwrap(),
        "# out of time after 196.6 of 800.0 kB; what was indented follows. \
         Without a limit of time: ctxfs view /ctx/c7/artifacts/tool/9f3k.txt.pretty\n"
    );
    assert_eq!(without_space(&body), text.as_bytes()[..3 * READ_BYTES]);
}

/// Generates JSON texts with white space wherever it is allowed.
fn json() -> impl Strategy<Value = String> {
    let space = "[ \\n\\t\\r]{0,3}";
    let number = "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,4})?([eE][+-]?[0-9]{1,2})?";
    let text =
        "\"([a-z \u{e9}\u{1f600}{}\\[\\]:,]|\\\\[\"\\\\/bfnrt]|\\\\u00[0-9a-fA-F]{2}){0,12}\"";
    let leaf = prop_oneof![number, text, "true|false|null"];
    let value = leaf.prop_recursive(5, 40, 6, move |inner| {
        let items = proptest::collection::vec((space, inner.clone(), space), 0..6);
        let pairs = proptest::collection::vec((space, text, space, inner, space), 0..6);
        prop_oneof![
            (space, items).prop_map(|(space, items)| {
                let items: Vec<_> =
                    items.iter().map(|(a, item, b)| format!("{a}{item}{b}")).collect();
                format!("[{}{space}]", items.join(","))
            }),
            (space, pairs).prop_map(|(space, pairs)| {
                let pair = |(a, key, b, value, c): &(String, String, String, String, String)| {
                    format!("{a}{key}{b}:{c}{value}{a}")
                };
                let pairs: Vec<_> = pairs.iter().map(pair).collect();
                format!("{{{}{space}}}", pairs.join(","))
            }),
        ]
    });
    value.prop_filter("a document", |text| text.starts_with(['{', '[', '"']))
}

proptest! {
    #[test]
    fn only_white_space_between_tokens_changes(text in json(), step in 1usize..80) {
        let fixture = fixture(text.as_str());
        let shown = fixture.text(&View::Pretty);
        prop_assert_eq!(stripped(&shown), stripped(&text));
        prop_assert!(shown.ends_with('\n'));
        let lines = shown.lines().count() as u64;
        let Json::Document { pretty_lines, .. } = fixture.analysis.json else {
            panic!("{text}");
        };
        prop_assert_eq!(pretty_lines, lines);
        if let Ok(value) = serde_json::from_str::<Value>(&text) {
            prop_assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
        }
        prop_assert_eq!(pretty(&shown), shown.as_str());
        prop_assert_eq!(in_pieces(text.as_bytes(), step), (shown.into_bytes(), String::new()));
    }

    #[test]
    fn nothing_is_lost_and_cuts_do_not_matter(
        parts in proptest::collection::vec(
            prop_oneof![json(), "[\\[\\]{},:\" \\n]{1,4}", "[a-z ]{0,9}\\n", ".{0,5}"],
            0..8,
        ),
        invalid in proptest::collection::vec(0usize..200, 0..2),
        step in 1usize..40,
    ) {
        let mut bytes = parts.concat().replace('\0', "0").into_bytes();
        for at in invalid {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = 0xff;
            }
        }
        let (text, notice) = in_pieces(&bytes, 1 << 20);
        let text_of = |bytes: &[u8]| without_space(bytes.strip_prefix(BOM).unwrap_or(bytes));
        prop_assert_eq!(text_of(&text), text_of(&bytes));
        prop_assert_eq!(in_pieces(&bytes, step), (text, notice));
    }
}
