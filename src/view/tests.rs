//! Tests of the counts of masks that views show.

use std::ffi::OsStr;

use crate::fixture::Fixture;
use crate::{Audience, Form, StandIn, View, ViewDir, stand_in_always};
use ctxfs_core::model::{Json, Limits, Provenance};
use ctxfs_core::redact::{Rule, SecretRules};

const MASK: &str = "[redacted:jwt]******";

fn with_masks(text: &str) -> Fixture {
    // Names of masks. No text has such a secret.
    let rule = |name: &str| Rule { name: name.to_owned(), regex: "ABSENT-[0-9]{12}".to_owned() };
    let rules = SecretRules::new(&[], &[rule("jwt"), rule("aws-key")]).unwrap();
    Fixture { redacts: Some(rules), ..Fixture::new(text) }
}

fn grep(query: &str) -> View {
    ViewDir::Grep.view(OsStr::new(query)).unwrap()
}

#[test]
fn the_first_line_counts_what_follows() {
    let text = format!("one {MASK}\ntwo\nthree [redacted:aws-key]* {MASK}\n");
    let fixture = with_masks(&text);
    let all = format!("# 3 secrets are redacted (jwt 2, aws-key 1)\n{text}");
    assert_eq!(fixture.text(&View::Tail), all);
    assert_eq!(fixture.text(&View::Head), all);
    let line = ViewDir::Lines.view(OsStr::new("1")).unwrap();
    let one = format!("# 1 secret is redacted (jwt 1)\none {MASK}\n");
    assert_eq!(fixture.text(&line), one);
    let found = "# 1 secret is redacted (jwt 1)\n1:one [redacted:jwt]******\n";
    assert_eq!(fixture.text(&grep("one")), found);
    assert_eq!(fixture.text(&grep("-c redacted")), "2\n");
}

#[test]
fn where_no_mask_is_shown_nothing_is_said() {
    let fixture = with_masks(&format!("one {MASK}\ntwo\n"));
    assert_eq!(fixture.text(&grep("two")), "2:two\n");
    assert_eq!(fixture.text(&grep("absent")), "");
    let ordinary = Fixture::new(format!("one {MASK}\n"));
    assert_eq!(ordinary.text(&View::Tail), format!("one {MASK}\n"));
}

#[test]
fn other_notices_come_after_it() {
    let fixture = with_masks(&format!("{}{MASK}(\n", "x\n".repeat(40_000)));
    let tail = fixture.text(&ViewDir::Lines.view(OsStr::new("-30000")).unwrap());
    let mut lines = tail.lines();
    assert_eq!(lines.next(), Some("# 1 secret is redacted (jwt 1)"));
    assert!(lines.next().unwrap().starts_with("# lines "), "{}", &tail[..200]);
    let found = fixture.text(&grep("*("));
    assert!(found.starts_with("# 1 secret is redacted (jwt 1)\n# not a regex"), "{found}");
}

#[test]
fn what_is_said_fits_into_the_view() {
    let line = format!("{MASK} {}\n", "y".repeat(60));
    for text in [line.repeat(2_000), "z".repeat(Limits::VIEW_BYTES - 40) + MASK] {
        let fixture = with_masks(&text);
        for view in [View::Tail, View::Head, grep("redacted")] {
            let bytes = fixture.text(&view);
            assert!(bytes.len() <= Limits::VIEW_BYTES, "{} bytes of {view:?}", bytes.len());
        }
    }
}

#[test]
fn a_summary_says_it_among_the_facts() {
    let short = with_masks(&format!("one {MASK}\ntwo\n")).text(&View::Summary);
    let facts: Vec<&str> = short.lines().skip(3).take(2).collect();
    assert_eq!(facts, ["shown: all of it, 2 lines", "redacted: 1 secret (jwt 1) in what is shown"]);
    let log = format!("{MASK}\n{}[redacted:aws-key]\n", "a line of a log\n".repeat(3_000));
    let long = with_masks(&log).text(&View::Summary);
    assert!(long.lines().next().unwrap().starts_with("[ctxfs] "));
    assert!(long.contains("\nredacted: 2 secrets (aws-key 1, jwt 1) in what is shown\n"), "{long}");
    assert!(long.len() <= Limits::STAND_IN_BYTES);
}

#[test]
fn json_says_it_inside_itself() {
    let provenance =
        Provenance { args: Some(format!("{{\"auth\": \"{MASK}\"}}")), ..Provenance::default() };
    let fixture = with_masks("x\n").provenance(provenance);
    let meta: serde_json::Value = serde_json::from_str(&fixture.text(&View::Meta)).unwrap();
    assert_eq!(meta["redacted"], serde_json::json!({"jwt": 1}));
    let plain = with_masks("x\n").text(&View::Meta);
    assert!(!plain.contains("redacted"), "{plain}");
}

#[test]
fn an_envelope_says_it_inside_itself() {
    let envelope = |fixture: &Fixture| -> serde_json::Value {
        serde_json::from_str(&fixture.text(&View::Envelope)).unwrap()
    };
    let mut fixture = with_masks(&format!("one {MASK}\ntwo [redacted:aws-key]\n"));
    let all = serde_json::json!({"jwt": 1, "aws-key": 1});
    assert_eq!(envelope(&fixture)["data"]["redacted"], all);
    fixture.limits.max_lines = 1;
    assert_eq!(envelope(&fixture)["data"]["redacted"], serde_json::json!({"jwt": 1}));
    let plain = with_masks("one\n").text(&View::Envelope);
    assert_eq!(plain, Fixture::new("one\n").text(&View::Envelope));
}

#[test]
fn a_response_that_masks_have_broken_is_wrapped() {
    let envelope = |text: &str| {
        let mut fixture = with_masks(text);
        fixture.analysis.json =
            Json::Document { shape: String::new(), example: None, pretty_lines: 0 };
        fixture.text(&View::Envelope)
    };
    let whole = format!("{{\"status\": \"success\", \"data\": \"{MASK}\"}}\n");
    assert_eq!(envelope(&whole), whole);
    let broken = format!("{{\"status\": \"success\", \"data\": {MASK}}}\n");
    let wrapped: serde_json::Value = serde_json::from_str(&envelope(&broken)).unwrap();
    assert_eq!(wrapped["data"]["preview"], broken);
    assert_eq!(wrapped["data"]["redacted"]["jwt"], 1);
}

#[test]
fn a_preview_says_it_after_its_text() {
    let end = "\n\n[Full output: /ctx/c7/artifacts/tool/9f3k.txt]\n";
    let preview = |text: &str| with_masks(text).text(&View::Preview);
    let want = format!("one {MASK}\n[Redacted: 1 secret (jwt 1)]{end}");
    assert_eq!(preview(&format!("one {MASK}")), want);
    assert_eq!(preview(&format!("one {MASK}\n")), want);
    assert_eq!(preview("one\n"), format!("one\n{end}"));
    let later = format!("{}{MASK}", "x".repeat(490));
    assert!(!preview(&later).contains("[Redacted"), "its end is not shown");
    let mut fixture = with_masks(&format!("{MASK}\n{}", "\u{20ac}\n".repeat(9000)));
    fixture.limits.message_preview = usize::MAX;
    let long = fixture.text(&View::Preview);
    assert!(long.contains("\n[Redacted: 1 secret (jwt 1)]\n\n[Full output: "), "{long}");
    assert!(long.lines().count() <= Limits::STAND_IN_LINES);
    let wide = "\u{20ac}".repeat(400) + "\n";
    fixture.bytes = format!("{MASK}\n{}", wide.repeat(20)).into();
    let full = fixture.text(&View::Preview);
    assert!(full.contains("\n[Redacted: ") && full.len() <= Limits::STAND_IN_BYTES);
}

#[test]
fn a_handle_shows_nothing_to_mask() {
    let text = format!("one {MASK}\n");
    assert_eq!(with_masks(&text).text(&View::Handle), Fixture::new(text).text(&View::Handle));
}

#[test]
fn stand_ins_say_what_their_views_say() {
    let audience = Audience { tools: &[], is_stored: &|_| false, above: b"" };
    let fixture = with_masks(&format!("one {MASK}\n"));
    for (form, view) in [
        (Form::Summary, View::Summary),
        (Form::Envelope, View::Envelope),
        (Form::Handle, View::Handle),
        (Form::Preview, View::Preview),
    ] {
        let made = stand_in_always(form, &fixture.subject(), &audience).unwrap();
        assert_eq!(made, StandIn::Replaced(fixture.text(&view)));
    }
}
