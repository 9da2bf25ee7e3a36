use proptest::prelude::*;

use crate::model::ErrorLine;
use crate::model::Errors;
use crate::model::Json;
use crate::model::Limits;
use crate::model::Said;
use crate::model::State;
use crate::view::View;
use crate::view::fixture::Fixture;

fn said(exit_code: Option<i32>) -> Said {
    let text = |text: &str| Some(text.to_owned());
    Said { tool: text("exec"), server: text("shell"), exit_code, ..Said::default() }
}

/// 8,112 lines of about 50 bytes, three of which are errors.
fn log() -> Fixture {
    let mut text = String::new();
    let mut shown = Vec::new();
    for line in 1..=8112u64 {
        let offset = text.len() as u64;
        let is_error = [4410, 6002, 8101].contains(&line);
        text += &match line {
            4410 => "request timeout after 30s Error\n".to_owned(),
            _ if is_error => format!("Exception in request {line}\n"),
            _ => format!("{line:06} a line of the log that says caf\u{e9} and not much\n"),
        };
        if is_error {
            let length = u32::try_from(text.len() as u64 - offset - 1).unwrap();
            shown.push(ErrorLine { line, offset, length });
        }
    }
    let mut fixture = Fixture::new(text).said(said(Some(0)));
    let words = vec!["Error".to_owned(), "Exception".to_owned()];
    fixture.analysis.errors = Errors { count: 3, shown, words };
    fixture
}

fn print(fixture: &Fixture) -> String {
    let text = fixture.text(&View::Summary);
    check(&text);
    text
}

fn check(text: &str) {
    assert!(text.len() <= Limits::STAND_IN_BYTES, "{} bytes", text.len());
    assert!(text.lines().count() <= Limits::STAND_IN_LINES);
    for line in text.lines() {
        assert!(line.chars().count() <= Limits::LINE_CHARS, "{line}");
    }
    assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
}

#[test]
fn dump() {
    println!("{}", print(&log()));
    let mut f = log().said(said(Some(2)));
    println!("{}", print(&f));
    f.record.state = State::Incomplete("the daemon died".to_owned());
    f.analysis.bytes = 100_000;
    f.analysis.lines = 2000;
    println!("{}", print(&f));
    println!("{}", print(&Fixture::new("")));
    println!("{}", print(&Fixture::new("hello\nworld")));
    println!("{}", print(&Fixture::new(b"\x7fELF\0".to_vec())));
    let mut j = Fixture::new(format!("{{\"total\": [{}0]}}", "1234567, ".repeat(20000)));
    j.analysis.json = Json::Document { shape: "{total: [20001 of int]}".to_owned() };
    println!("{}", print(&j));
}
