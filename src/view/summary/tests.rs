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
        let written = match line {
            4410 => "request timeout after 30s Error\n".to_owned(),
            _ if is_error => format!("Exception in request {line}\n"),
            _ => format!("{line:06} a line of the log that says caf\u{e9} and not much\n"),
        };
        text.push_str(&written);
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

/// Lines `range` of `fixture`, joined.
fn lines(fixture: &Fixture, first: usize, last: usize) -> String {
    let text = String::from_utf8(fixture.bytes.0.clone()).unwrap();
    text.split_inclusive('\n').take(last).skip(first - 1).collect()
}

const FACTS: &str = "\
size: 437,970 bytes, 429,861 characters, 8,112 lines (longest 52), about 107,000 tokens; text
";
const WAYS: &str = "\
errors: 3 lines look like errors: 4410, 6002, 8101
search: /ctx/c7/artifacts/tool/9f3k.txt.grep/Error|Exception
end:    /ctx/c7/artifacts/tool/9f3k.txt.tail (last 200 lines)
part:   /ctx/c7/artifacts/tool/9f3k.txt.lines/4400-4420
all:    /ctx/c7/artifacts/tool/9f3k.txt (or 88 pages: /ctx/c7/artifacts/tool/9f3k.txt.pages/0001)
";
const ERRORS: &str = "\
--- errors ---
4410: request timeout after 30s Error
6002: Exception in request 6002
";

#[test]
fn a_log() {
    let fixture = log();
    let want = format!(
        "[ctxfs] The complete output is stored; the call ended with exit code 0. There is no need to run it again.\n\
         tool: shell/exec    call: 9f3k    ref: ctx://c7/artifacts/tool/9f3k.txt\n\
         {FACTS}shown: lines 1-37 and 8,075-8,112; lines 38-8,074 are not shown\n{WAYS}\
         --- head: lines 1-37 ---\n{}{ERRORS}--- tail: lines 8,075-8,112 ---\n{}",
        lines(&fixture, 1, 37),
        lines(&fixture, 8075, 8112),
    );
    assert_eq!(print(&fixture), want);
}

#[test]
fn a_failed_call_shows_more_of_its_end() {
    let fixture = log().said(said(Some(2)));
    let want = format!(
        "[ctxfs] The complete output is stored; the call ended with exit code 2 (failed). There is no need to run it again.\n\
         tool: shell/exec    call: 9f3k    ref: ctx://c7/artifacts/tool/9f3k.txt\n\
         {FACTS}shown: lines 1-18 and 8,056-8,112; lines 19-8,055 are not shown\n{WAYS}\
         --- head: lines 1-18 ---\n{}{ERRORS}--- tail: lines 8,056-8,112 ---\n{}",
        lines(&fixture, 1, 18),
        lines(&fixture, 8056, 8112),
    );
    assert_eq!(print(&fixture), want);
}

#[test]
fn what_is_not_known_is_not_claimed() {
    let mut fixture = log().said(Said::default());
    fixture.at("artifacts/terminal/s1.log");
    fixture.analysis.bytes = 100_000;
    fixture.analysis.lines = 2_000;
    fixture.analysis.tokens = 25_000;
    fixture.analysis.errors = Errors::default();
    let want = format!(
        "# analysed so far: first 100.0 of 437.9 kB\n\
         [ctxfs] The complete output is stored. There is no need to run the call again.\n\
         ref: ctx://c7/artifacts/terminal/s1.log\n\
         size: 437,970 bytes, at least 2,000 lines (longest 52), at least about 25,000 tokens; text\n\
         shown: lines 1-37 and the last 38; what is between is not shown\n\
         search: /ctx/c7/artifacts/terminal/s1.log.grep/TEXT (any pattern of ripgrep for TEXT)\n\
         end:    /ctx/c7/artifacts/terminal/s1.log.tail (last 200 lines)\n\
         part:   /ctx/c7/artifacts/terminal/s1.log.lines/990-1010\n\
         all:    /ctx/c7/artifacts/terminal/s1.log \
         (or 88 pages: /ctx/c7/artifacts/terminal/s1.log.pages/0001)\n\
         --- head: lines 1-37 ---\n{}--- tail: the last 38 ---\n{}",
        lines(&fixture, 1, 37),
        lines(&fixture, 8075, 8112),
    );
    assert_eq!(print(&fixture), want);
    assert!(!fixture.render(&View::Summary).unwrap().1.whole);
}

#[test]
fn an_incomplete_output_says_so_first() {
    let mut fixture = Fixture::new("a\n").said(said(Some(1)));
    fixture.record.state = State::Incomplete("the daemon died".to_owned());
    let first = "[ctxfs] INCOMPLETE: the output may lack its end (the daemon died); \
                 the call ended with exit code 1 (failed).";
    assert_eq!(print(&fixture).lines().next(), Some(first));
}

#[test]
fn little_is_shown_whole() {
    let fixture = Fixture::new("\x1b[1mhello\x1b[0m\r\nw\u{f6}rld\x07");
    let want = format!(
        "[ctxfs] The complete output is stored. There is no need to run the call again.\n\
         call: 9f3k    ref: ctx://c7/artifacts/tool/9f3k.txt\n\
         size: 22 bytes, 21 characters, 2 lines (longest 14), about 5 tokens; text\n\
         shown: all of it, 2 lines\n\
         all:    /ctx/c7/artifacts/tool/9f3k.txt\n\
         --- output: lines 1-2 ---\n\
         hello\nw{}rld{}\n",
        '\u{f6}', '\u{2407}',
    );
    assert_eq!(print(&fixture), want);
}

#[test]
fn limits_decide_what_is_little() {
    let shown_whole = |fixture: &Fixture| print(fixture).contains("\nshown: all of it, ");
    assert!(shown_whole(&Fixture::new("x\n".repeat(190))));
    assert!(!shown_whole(&Fixture::new("x\n".repeat(200))));
    assert!(shown_whole(&Fixture::new(format!("{}\n", "x".repeat(499)).repeat(8))));
    assert!(!shown_whole(&Fixture::new(format!("{}\n", "x".repeat(500)).repeat(8))));
    assert!(!shown_whole(&Fixture::new("x".repeat(501))));
    assert!(!shown_whole(&Fixture::new(format!("{}\n", "\u{20ac}".repeat(400)).repeat(6))));
}

#[test]
fn nothing_and_what_is_not_text() {
    let want = "\
[ctxfs] The complete output is stored. There is no need to run the call again.
call: 9f3k    ref: ctx://c7/artifacts/tool/9f3k.txt
size: 0 bytes; empty
shown: nothing, the output is empty
";
    assert_eq!(print(&Fixture::new("")), want);
    let want = format!(
        "[ctxfs] The complete output is stored. There is no need to run the call again.\n\
         call: 9f3k    ref: ctx://c7/artifacts/tool/9f3k.txt\n\
         size: 5 bytes; binary, application/octet-stream\n\
         digest: blake3 {}\n\
         shown: nothing, it is not text\n\
         all:    /ctx/c7/artifacts/tool/9f3k.txt\n",
        "00".repeat(32)
    );
    assert_eq!(print(&Fixture::new(b"\x7fELF\0".to_vec())), want);
}

#[test]
fn json_on_one_line() {
    let json = format!("{{\"total\": [{}0]}}", "1234567, ".repeat(20_000));
    let mut fixture = Fixture::new(json.clone());
    fixture.analysis.json =
        Json::Document { shape: "{total: [20001 of int]}".to_owned(), pretty_lines: 20_004 };
    let want = format!(
        "[ctxfs] The complete output is stored. There is no need to run the call again.\n\
         call: 9f3k    ref: ctx://c7/artifacts/tool/9f3k.txt\n\
         size: 180,014 bytes on 1 line, about 45,000 tokens; JSON, valid\n\
         shape: {{total: [20001 of int]}}\n\
         shown: line 1, byte columns 1-452 and 179,563-180,014; the rest is not shown\n\
         read:   /ctx/c7/artifacts/tool/9f3k.txt.pretty (20,004 lines)\n\
         search: /ctx/c7/artifacts/tool/9f3k.txt.grep/TEXT (any pattern of ripgrep for TEXT)\n\
         part:   /ctx/c7/artifacts/tool/9f3k.txt.grep/--from=1@90008 -o .{{1,400}}\n\
         all:    /ctx/c7/artifacts/tool/9f3k.txt \
         (or 37 pages: /ctx/c7/artifacts/tool/9f3k.txt.pages/0001)\n\
         --- head: line 1, byte columns 1-452 ---\n{} [cut at byte column 453]\n\
         --- tail: line 1, byte columns 179,563-180,014 ---\n[from byte column 179,563 on] {}\n",
        &json[..452],
        &json[179_562..],
    );
    assert_eq!(print(&fixture), want);
}

#[test]
fn long_lines_are_cut_with_their_column() {
    let text = format!("{}\nb\n{}\nlast\n", "a".repeat(3000), "c".repeat(3000));
    let want = format!(
        "shown: all 4 lines; long lines are cut\n\
         search: /ctx/c7/artifacts/tool/9f3k.txt.grep/TEXT (any pattern of ripgrep for TEXT)\n\
         end:    /ctx/c7/artifacts/tool/9f3k.txt.tail (last 200 lines)\n\
         part:   /ctx/c7/artifacts/tool/9f3k.txt.lines/1-4\n\
         all:    /ctx/c7/artifacts/tool/9f3k.txt \
         (or 2 pages: /ctx/c7/artifacts/tool/9f3k.txt.pages/0001)\n\
         --- head: lines 1-4 ---\n{} [cut at byte column 453]\nb\n{} [cut at byte column 453]\nlast\n",
        "a".repeat(452),
        "c".repeat(452),
    );
    let print = print(&Fixture::new(text));
    assert!(print.ends_with(&want), "{print}");
}

#[test]
fn endless_names_do_not_break_the_caps() {
    let mut fixture = log();
    fixture.at(&format!("artifacts/tool/{}", vec!["\u{20ac}".repeat(80); 12].join("/")));
    fixture.record.said.tool = Some("\u{20ac}\n".repeat(5000));
    fixture.record.said.call = Some("x".repeat(5000));
    fixture.analysis.json =
        Json::Lines { documents: 2, shape: "[\u{20ac}]".repeat(5000), pretty_lines: 4 };
    print(&fixture);
    fixture.record.state = State::Incomplete("why\n".repeat(1000));
    print(&fixture);
}

proptest! {
    #[test]
    fn caps_hold_for_any_text(
        lines in proptest::collection::vec(
            prop_oneof![".{0,80}", "[a-z\u{e9}\u{20ac}\u{1f600}]{400,900}", "\\PC{0,20}\\x1b\\[[0-9]{0,3}m?"],
            0..120,
        ),
        exit_code in proptest::option::of(-1..2),
        ends in any::<bool>(),
        snippets in (0usize..300, 0usize..9000),
    ) {
        let mut text = lines.join("\n").replace('\0', "");
        text += if ends { "\n" } else { "" };
        let mut fixture = Fixture::new(text).said(said(exit_code));
        (fixture.limits.snippet_lines, fixture.limits.snippet_bytes) = snippets;
        let summary = print(&fixture);
        prop_assert!(!summary.is_empty());
        prop_assert_eq!(print(&fixture), summary);
    }

    #[test]
    fn caps_hold_for_any_bytes(bytes in proptest::collection::vec(1u8.., 0..9000)) {
        print(&Fixture::new(bytes));
    }
}
