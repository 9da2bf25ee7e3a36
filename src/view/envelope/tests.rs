use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::View;
use crate::fixture::Fixture;
use ctxfs_core::model::{ArtifactState, Place, Provenance};

fn fixture(bytes: impl Into<Vec<u8>>) -> Fixture {
    Fixture::analysed(bytes)
}

fn limited(bytes: impl Into<Vec<u8>>, direction: Direction, lines: u64, size: u64) -> Fixture {
    let mut fixture = fixture(bytes);
    fixture.limits.direction = direction;
    (fixture.limits.max_lines, fixture.limits.max_bytes) = (lines, size);
    fixture
}

fn parsed(fixture: &Fixture) -> Value {
    serde_json::from_str(&fixture.text(&View::Envelope)).unwrap()
}

/// Returns the preview, and the number of lines and bytes that it claims to show.
fn kept(fixture: &Fixture) -> (String, u64, u64) {
    let value = parsed(fixture);
    let truncation = &value["data"]["truncation"];
    let number = |name: &str| truncation[name].as_u64().unwrap();
    let preview = value["data"]["preview"].as_str().unwrap().to_owned();
    (preview, number("kept_lines"), number("kept_bytes"))
}

fn with_tools(fixture: &Fixture, tools: &[&str]) -> String {
    let tools: Vec<String> = tools.iter().map(|tool| (*tool).to_owned()).collect();
    match of(&fixture.subject(), &tools, &|| false).unwrap() {
        Envelope::Untouched => "untouched".to_owned(),
        Envelope::Wrapped { text, .. } => {
            let value: Value = serde_json::from_str(&text).unwrap();
            value["text"].as_str().unwrap().to_owned()
        }
    }
}

/// Returns `count` lines of `length` bytes each, including their newlines.
fn lines(count: usize, length: usize) -> String {
    format!("{}\n", "x".repeat(length - 1)).repeat(count)
}

#[test]
fn the_example_of_the_format() {
    let head = lines(1872, 25) + &lines(128, 24);
    let mut fixture = fixture(head.clone() + &lines(3113, 41) + &lines(121, 40));
    fixture.place = Place::alone("tool-output/tool_20260113_153045_Read.json");
    let want = format!(
        "{{\"status\":\"partial\",\
         \"data\":{{\"truncated\":true,\
         \"truncation\":{{\"direction\":\"head\",\"max_lines\":2000,\"max_bytes\":51200,\
         \"original_lines\":5234,\"original_bytes\":182345,\
         \"kept_lines\":2000,\"kept_bytes\":49872,\
         \"full_output_path\":\"tool-output/tool_20260113_153045_Read.json\"}},\
         \"preview\":\"{}\"}},\
         \"text\":\"The complete output is stored. There is no need to run the call again. \
         `preview` has the first 2,000 lines: 49,872 of 182,345 bytes, 2,000 of 5,234 lines. \
         All of it: `tool-output/tool_20260113_153045_Read.json`. \
         To go on: Read that file in pages (offset and limit), or Grep it.\"}}\n",
        head.replace('\n', "\\n")
    );
    assert_eq!(fixture.text(&View::Envelope), want);
}

#[test]
fn the_text_names_only_tools_that_are_there() {
    let fixture = limited(lines(9, 9), Direction::Head, 3, 100);
    let step = |tools: &[&str]| {
        let text = with_tools(&fixture, tools);
        text.split_once("9f3k.txt`.").unwrap().1.trim().to_owned()
    };
    let subagent =
        "To go on: have a subagent (Task) process that file, rather than reading it yourself.";
    assert_eq!(step(&["Task"]), subagent);
    assert_eq!(step(&["Read", "Task"]), subagent);
    let both = "To go on: Read that file in pages (offset and limit), or Grep it.";
    assert_eq!(step(&[]), both);
    assert_eq!(step(&["Grep", "Read"]), both);
    assert_eq!(step(&["Read"]), "To go on: Read that file in pages (offset and limit).");
    assert_eq!(step(&["Grep", "Bash"]), "To go on: Grep that file.");
    assert_eq!(step(&["Bash"]), "");
}

#[test]
fn how_the_call_ended_is_said() {
    let provenance = Provenance { exit_code: Some(3), ..Provenance::default() };
    let mut fixture = limited("a\nb\n", Direction::Head, 1, 9).provenance(provenance);
    let text = with_tools(&fixture, &["Bash"]);
    assert_eq!(
        text,
        "The complete output is stored; the call ended with exit code 3 (failed). There is no need \
         to run it again. `preview` has the first line: 2 of 4 bytes, 1 of 2 lines. \
         All of it: `/ctx/c7/artifacts/tool/9f3k.txt`."
    );
    assert_eq!(parsed(&fixture)["status"], "partial");
    fixture.record.state = ArtifactState::Incomplete("no room".to_owned());
    let text = with_tools(&fixture, &[]);
    assert!(text.starts_with("INCOMPLETE: part of the output may be missing (no room)"), "{text}");
}

#[test]
fn limits_hold_at_each_boundary() {
    // (lines of 10 bytes, max_lines, max_bytes, over, kept lines)
    let cases = [
        (19, 20, 1000, false, 0),
        (20, 20, 1000, false, 0),
        (21, 20, 1000, true, 20),
        (10, 1000, 101, false, 0),
        (10, 1000, 100, false, 0),
        (10, 1000, 99, true, 9),
        (10, 9, 99, true, 9),
        (30, 20, 100, true, 10),
        (30, 10, 200, true, 10),
        (30, 20, 200, true, 20),
        (30, 20, 199, true, 19),
        (30, 20, 201, true, 20),
    ];
    for (count, max_lines, max_bytes, over, expected) in cases {
        for direction in [Direction::Head, Direction::Tail] {
            let fixture = limited(lines(count, 10), direction, max_lines, max_bytes);
            let case = format!("{count} lines, limits {max_lines} and {max_bytes}, {direction:?}");
            assert_eq!(is_over(&fixture.subject()), over, "{case}");
            assert_eq!(parsed(&fixture)["data"]["truncated"], over, "{case}");
            if over {
                let (preview, kept_lines, kept_bytes) = kept(&fixture);
                assert_eq!((kept_lines, kept_bytes), (expected, expected * 10), "{case}");
                assert_eq!(preview, lines(expected as usize, 10), "{case}");
            }
        }
    }
}

#[test]
fn the_default_limits_hold_at_each_boundary() {
    let over = |text: String| is_over(&fixture(text).subject());
    assert!(!over(lines(1999, 2)) && !over(lines(2000, 2)) && over(lines(2001, 2)));
    assert!(!over(lines(1999, 2) + "x") && over(lines(2000, 2) + "x"));
    assert!(!over("x".repeat(51_199)) && !over("x".repeat(51_200)) && over("x".repeat(51_201)));
}

#[test]
fn each_direction_keeps_its_part() {
    let text = (1..=100).map(|line| format!("line {line:04}\n")).collect::<Vec<_>>().concat();
    let head = limited(text.clone(), Direction::Head, 3, 1000);
    assert_eq!(kept(&head), ("line 0001\nline 0002\nline 0003\n".to_owned(), 3, 30));
    let tail = limited(text.clone(), Direction::Tail, 2, 1000);
    assert_eq!(kept(&tail), ("line 0099\nline 0100\n".to_owned(), 2, 20));
    let open = limited(text.trim_end().to_owned(), Direction::Tail, 2, 1000);
    assert_eq!(kept(&open), ("line 0099\nline 0100".to_owned(), 2, 19));
    let both = limited(text.clone(), Direction::HeadTail, 3, 1000);
    let want = "line 0001\nline 0002\n[... 97 lines, 970 bytes not shown ...]\nline 0100\n";
    assert_eq!(kept(&both), (want.to_owned(), 3, 30));
    assert!(with_tools(&both, &[]).contains(
        "`preview` has the first 2 lines and the last line: 30 of 1,000 bytes, 3 of 100 lines."
    ));
    let one = limited(text, Direction::HeadTail, 1, 1000);
    let want = "line 0001\n[... 99 lines, 990 bytes not shown ...]\n";
    assert_eq!(kept(&one), (want.to_owned(), 1, 10));
}

#[test]
fn a_line_that_is_too_long_is_cut_inside() {
    let text = "\u{20ac}".repeat(1000);
    let part = |count: usize| "\u{20ac}".repeat(count);
    for direction in [Direction::Head, Direction::Tail] {
        let fixture = limited(text.clone(), direction, 9, 100);
        assert_eq!(kept(&fixture), (part(33), 1, 99));
    }
    let head = limited(text.clone(), Direction::Head, 9, 100);
    assert!(
        with_tools(&head, &[]).contains("has a part of the first line: 99 of 3,000 bytes. All")
    );
    let both = limited(text.clone(), Direction::HeadTail, 9, 100);
    let want = format!("{}\n[... 2,904 bytes not shown ...]\n{}", part(16), part(16));
    assert_eq!(kept(&both), (want, 1, 96));
    let ended = limited(text.clone() + "\nlast\n", Direction::Head, 9, 100);
    assert_eq!(kept(&ended), (part(33), 1, 99));
    let ended = limited(format!("first\n{text}\n"), Direction::Tail, 9, 100);
    assert_eq!(kept(&ended), (part(33) + "\n", 1, 100));
    // After whole lines, a line that does not fit is left out entirely.
    let later = limited(format!("first\n{text}\n"), Direction::Head, 9, 100);
    assert_eq!(kept(&later), ("first\n".to_owned(), 1, 6));
}

#[test]
fn a_huge_single_line_is_read_at_its_ends_only() {
    struct Endless;
    impl ctxfs_core::model::Content for Endless {
        fn len(&self) -> u64 {
            1 << 40
        }
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            assert!(buffer.len() < 60_000 && offset + 60_000 > self.len() || offset == 0);
            buffer.fill(b'x');
            Ok(buffer.len())
        }
    }
    for direction in [Direction::Head, Direction::Tail, Direction::HeadTail] {
        let mut fixture = limited("", direction, 2000, 51_200);
        (fixture.analysis.bytes, fixture.analysis.lines) = (1 << 40, 1);
        let subject = Subject { content: &Endless, ..fixture.subject() };
        let Envelope::Wrapped { text, whole } = of(&subject, &[], &|| false).unwrap() else {
            unreachable!()
        };
        let value: Value = serde_json::from_str(&text).unwrap();
        assert!(whole && text.len() < 60_000);
        assert!(value["data"]["truncation"]["kept_bytes"].as_u64().unwrap() > 51_000);
    }
}

/// Returns a response of the protocol, with `data` of `size` bytes.
fn response(status: &str, size: usize) -> Value {
    json!({
        "status": status,
        "data": {"content": "x".repeat(size)},
        "text": "read a file",
        "stats": {"time_ms": 12, "lines": 5234},
        "context": {"cwd": "/work", "params_input": {"path": "a.txt"}},
        "error": {"code": "TIMEOUT", "message": "too slow"},
    })
}

#[test]
fn a_response_keeps_what_it_says_of_itself() {
    for (before, after) in [("success", "partial"), ("partial", "partial"), ("error", "error")] {
        let value = response(before, 60_000);
        for text in [value.to_string(), format!("{value:#}\n")] {
            let fixture = fixture(text.clone());
            let envelope = parsed(&fixture);
            assert_eq!(envelope["status"], after);
            for name in ["stats", "context", "error"] {
                assert_eq!(envelope[name], value[name], "{name}");
            }
            let (preview, ..) = kept(&fixture);
            assert!(text.starts_with(&preview) && !preview.is_empty());
            let told = envelope["text"].as_str().unwrap();
            assert_eq!(told.contains("It reports an error."), before == "error", "{told}");
        }
    }
}

#[test]
fn a_huge_response_is_read_in_pieces() {
    const START: &[u8] = br#"{"status":"error","data":""#;
    const END: &[u8] = br#"","context":{"cwd":"/work"},"error":{"code":"TIMEOUT"}}"#;
    const LENGTH: u64 = 300 << 20;
    struct Huge;
    impl ctxfs_core::model::Content for Huge {
        fn len(&self) -> u64 {
            LENGTH
        }
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            assert!(buffer.len() <= 256 << 10);
            buffer.fill(b'x');
            let place = |bytes: &[u8], at: u64, buffer: &mut [u8]| {
                for (byte, at) in bytes.iter().zip(at..) {
                    if let Some(slot) = at.checked_sub(offset).map(|at| at as usize) {
                        buffer.get_mut(slot).into_iter().for_each(|slot| *slot = *byte);
                    }
                }
            };
            place(START, 0, buffer);
            place(END, LENGTH - END.len() as u64, buffer);
            Ok(buffer.len())
        }
    }
    let mut fixture = limited("", Direction::Head, 2000, 51_200);
    (fixture.analysis.bytes, fixture.analysis.lines) = (LENGTH, 1);
    fixture.analysis.json =
        ctxfs_core::model::Json::Document { shape: String::new(), example: None, pretty_lines: 0 };
    let subject = Subject { content: &Huge, ..fixture.subject() };
    let Envelope::Wrapped { text, .. } = of(&subject, &[], &|| false).unwrap() else {
        unreachable!()
    };
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["status"], "error");
    assert_eq!(value["context"], json!({"cwd": "/work"}));
    assert_eq!(value["error"], json!({"code": "TIMEOUT"}));
}

#[test]
fn what_fits_stays_what_it_is() {
    for status in ["success", "partial", "error"] {
        let text = format!("{:#}\n", response(status, 100));
        assert_eq!(fixture(text.clone()).text(&View::Envelope), text);
    }
    let want = json!({
        "status": "success",
        "data": {"truncated": false, "preview": "a\nb"},
        "text": "The complete output is stored. There is no need to run the call again. `preview` \
                 has all of it. All of it: `/ctx/c7/artifacts/tool/9f3k.txt`.",
    });
    assert_eq!(parsed(&fixture("a\nb")), want);
}

#[test]
fn one_that_asks_for_it_goes_through_untouched() {
    let mut value = response("success", 60_000);
    let untouched = |value: &Value| with_tools(&fixture(value.to_string()), &[]) == "untouched";
    value["context"]["truncation_skip"] = json!(true);
    assert!(untouched(&value));
    assert_eq!(fixture(value.to_string()).text(&View::Envelope), value.to_string());
    for other in [json!(false), json!("true"), json!(1), json!(null), json!([true])] {
        value["context"]["truncation_skip"] = other;
        assert!(!untouched(&value));
    }
    value["context"] = json!([{"truncation_skip": true}]);
    assert!(!untouched(&value));
    // The setting has no effect elsewhere in the response.
    value["context"] = json!({"params_input": {"truncation_skip": true}});
    assert!(!untouched(&value));
}

#[test]
fn anything_else_is_wrapped() {
    let body = "x".repeat(60_000);
    for text in [
        json!({"status": "ok", "data": body}).to_string(),
        json!({"status": "success", "message": body}).to_string(),
        json!({"status": 1, "data": body}).to_string(),
        json!({"data": body, "text": "", "error": {}}).to_string(),
        json!([response("error", 60_000)]).to_string(),
        json!({"result": response("error", 60_000)}).to_string(),
        response("error", 60_000).to_string() + " trailing",
        response("error", 60_000).to_string().trim_end_matches('}').to_owned(),
    ] {
        let envelope = parsed(&fixture(text.clone()));
        assert_eq!(envelope["status"], "partial", "{text:.80}");
        assert_eq!(envelope.get("error"), None);
    }
}

#[test]
fn what_is_too_large_to_carry_over_is_named() {
    let mut value = response("success", 10);
    value["context"]["log"] = json!("y".repeat(70_000));
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let text = value.to_string().replace("{\"code\":\"TIMEOUT\",\"message\":\"too slow\"}", &deep);
    let envelope = parsed(&fixture(text));
    assert_eq!(envelope.get("context"), None);
    assert_eq!(envelope.get("error"), None);
    assert_eq!(envelope["stats"], value["stats"]);
    let size = value["context"].to_string().len();
    let named = format!(
        "`context` ({} bytes) and `error` (400 bytes) are there only.",
        crate::number::grouped(size as u64)
    );
    let told = envelope["text"].as_str().unwrap();
    assert!(told.contains(&named), "{told}");
}

#[test]
fn what_no_parser_takes_in_is_not_carried_over() {
    for odd in ["\"\\ud800\"", "1e400", "[\"\\udc00\\ud800\"]"] {
        let text = response("success", 60_000).to_string();
        let text = text.replace("{\"code\":\"TIMEOUT\",\"message\":\"too slow\"}", odd);
        let envelope = parsed(&fixture(text));
        assert_eq!(envelope.get("error"), None, "{odd}");
        assert!(envelope["text"].as_str().unwrap().contains("`error` ("), "{odd}");
    }
}

#[test]
fn what_is_not_text_is_named() {
    let fixture = limited(b"\x7fELF\0\x01\n\0".to_vec(), Direction::Head, 2000, 4);
    let envelope = parsed(&fixture);
    assert_eq!(envelope["status"], "partial");
    let preview = envelope["data"]["preview"].as_str().unwrap();
    assert!(preview.starts_with("[not text: ") && preview.ends_with(", 8 bytes]"), "{preview}");
    assert_eq!(envelope["data"]["truncation"]["kept_bytes"], 0);
    let told = envelope["text"].as_str().unwrap();
    assert!(told.contains("It is not text, so `preview` shows none of it."), "{told}");
    assert!(!told.contains("To go on"), "{told}");
}

#[test]
fn bytes_that_are_not_text_take_the_room_of_what_is_shown() {
    let fixture = limited(vec![0xff; 500], Direction::Head, 2000, 100);
    assert_eq!(kept(&fixture), ("\u{fffd}".repeat(33), 1, 33));
}

#[test]
fn what_was_not_read_in_time_is_not_claimed() {
    let mut half = limited(response("error", 60_000).to_string(), Direction::Head, 2000, 100);
    half.analysis.bytes = 30_000;
    let (text, rendered) = half.render(&View::Envelope).unwrap();
    let envelope: Value = serde_json::from_slice(&text).unwrap();
    assert!(!rendered.whole);
    assert_eq!(envelope["status"], "partial");
    assert_eq!(envelope["data"]["truncation"]["original_lines"], Value::Null);
    let told = envelope["text"].as_str().unwrap();
    assert!(told.contains("There was time to read the first 30.0 of 60.2 kB only"), "{told}");
    let late = fixture(response("error", 60_000).to_string());
    let (_, rendered) = late.render_until(&View::Envelope, &|| true).unwrap();
    assert!(!rendered.whole);
}

#[test]
fn half_of_an_untouched_one_is_never_shown() {
    let text = response("success", 600_000)
        .to_string()
        .replace("\"cwd\"", "\"truncation_skip\":true,\"cwd\"");
    let fixture = fixture(text.clone());
    let asked = std::cell::Cell::new(0);
    // Time runs out after reading, before copying.
    let expired = || asked.replace(asked.get() + 1) > 4;
    assert!(fixture.render_until(&View::Envelope, &expired).is_err());
    assert_eq!(fixture.text(&View::Envelope), text);
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let line =
        prop_oneof![".{0,40}", "[a-z\u{e9}\u{20ac}\u{1f600}\"\\\\]{0,300}", Just(String::new()),];
    let valid =
        (proptest::collection::vec(line, 0..60), any::<bool>()).prop_map(|(lines, ends)| {
            let mut text = lines.join("\n").replace('\0', "");
            text += if ends { "\n" } else { "" };
            text.into_bytes()
        });
    // Starts at 1 because no binary format begins with these bytes.
    let any = proptest::collection::vec(1u8.., 0..3000)
        .prop_map(|bytes| [b"text", bytes.as_slice()].concat());
    prop_oneof![4 => valid, 1 => any]
}

proptest! {
    #[test]
    fn both_limits_hold_for_any_text(
        bytes in text(),
        direction in prop_oneof![
            Just(Direction::Head),
            Just(Direction::Tail),
            Just(Direction::HeadTail),
        ],
        max_lines in 1u64..40,
        max_bytes in 8u64..3000,
    ) {
        let fixture = limited(bytes, direction, max_lines, max_bytes);
        let bytes = &fixture.bytes;
        let written = fixture.text(&View::Envelope);
        prop_assert_eq!(&fixture.text(&View::Envelope), &written);
        let value: Value = serde_json::from_str(&written).unwrap();
        let lossy = String::from_utf8_lossy(bytes).into_owned();
        let original = (lossy.split_inclusive('\n').count() as u64, bytes.len() as u64);
        let over = original.0 > max_lines || original.1 > max_bytes;
        prop_assert_eq!(value["data"]["truncated"].as_bool(), Some(over));
        let preview = value["data"]["preview"].as_str().unwrap();
        if !over {
            prop_assert_eq!(preview, lossy);
            return Ok(());
        }
        let (_, kept_lines, kept_bytes) = kept(&fixture);
        prop_assert!(kept_lines <= max_lines && kept_bytes <= max_bytes);
        prop_assert!(kept_bytes > 0 && !preview.is_empty());
        prop_assert_eq!(value["data"]["truncation"]["original_lines"].as_u64(), Some(original.0));
        prop_assert_eq!(value["data"]["truncation"]["original_bytes"].as_u64(), Some(original.1));
        let (head, tail) = match direction {
            Direction::Head => (preview, ""),
            Direction::Tail => ("", preview),
            Direction::HeadTail => {
                let (head, rest) = preview.split_once("[... ").unwrap();
                let (_, tail) = rest.split_once(" not shown ...]\n").unwrap();
                (head.strip_suffix('\n').unwrap_or(head), tail)
            }
        };
        prop_assert!(head.len() as u64 + tail.len() as u64 <= max_bytes);
        if max_bytes >= 1000 {
            prop_assert!(preview.len() as u64 <= max_bytes);
        }
        if std::str::from_utf8(bytes).is_ok() {
            prop_assert!(lossy.starts_with(head) && lossy.ends_with(tail));
            if direction != Direction::HeadTail {
                prop_assert_eq!(preview.len() as u64, kept_bytes);
                prop_assert_eq!(preview.split_inclusive('\n').count() as u64, kept_lines);
            }
        }
    }
}
