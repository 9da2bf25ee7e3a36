use proptest::prelude::*;

use crate::View;
use crate::fixture::Fixture;
use ctxfs_core::model::{ArtifactState, ErrorLine, ErrorRank, Errors, Json, Limits, Provenance};

fn provenance(exit_code: Option<i32>) -> Provenance {
    let text = |text: &str| Some(text.to_owned());
    Provenance { tool: text("exec"), server: text("shell"), exit_code, ..Provenance::default() }
}

/// Returns a log of 8,112 lines of about 50 bytes, three of which are errors.
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
            let rank = ErrorRank::Logged;
            shown.push(ErrorLine { line, offset, length, rank, times: 1, last: None });
        }
    }
    let mut fixture = Fixture::new(text).provenance(provenance(Some(0)));
    let words = vec!["Error".to_owned(), "Exception".to_owned()];
    fixture.analysis.errors = Errors { count: 3, shown, words };
    fixture
}

pub(super) fn print(fixture: &Fixture) -> String {
    let text = fixture.text(&View::Summary);
    check(&text);
    text
}

/// Creates a fixture with the real analysis.
fn analysed(text: impl Into<Vec<u8>>) -> Fixture {
    Fixture::analysed(text)
}

fn check(text: &str) {
    assert!(text.len() <= Limits::STAND_IN_BYTES, "{} bytes", text.len());
    assert!(text.lines().count() <= Limits::STAND_IN_LINES);
    for line in text.lines() {
        assert!(line.chars().count() <= Limits::LINE_CHARS, "{line}");
    }
    assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
}

/// Returns the lines from `first` to `last` of `fixture`, joined.
fn lines(fixture: &Fixture, first: usize, last: usize) -> String {
    let text = String::from_utf8(fixture.bytes.clone()).unwrap();
    text.split_inclusive('\n').take(last).skip(first - 1).collect()
}

const FACTS: &str = "\
file:   /ctx/c7/artifacts/tool/9f3k.txt    (names below that begin with a dot are added to it)
size: 437,970 bytes, 429,861 characters, 8,112 lines (longest 52), about 107,000 tokens; text
";
const WAYS: &str = "\
errors: 3 lines look like errors
next:   .errors    (3 kinds of error, with the lines around each)
find:   .find/timeout after Error
search: .grep/-C3 Error|Exception    (3 lines)
part:   .lines/4400-4420
end:    .tail    (last 200 lines)
pages:  .pages/0001 to .pages/0088    (all of it, 6 KB each)
";
const ERRORS: &str = "\
--- errors ---
4410: request timeout after 30s Error
6002: Exception in request 6002
8101: Exception in request 8101
";

#[test]
fn a_log() {
    let fixture = log();
    let want = format!(
        "[ctxfs] The complete output is stored; the call ended with exit code 0. There is no need to run it again.\n\
         tool: shell/exec    call: 9f3k    ref: ctx://c7/artifacts/tool/9f3k.txt\n\
         {FACTS}shown: lines 1-1,213 and 6,899-8,112; lines 1,214-6,898 are not shown; lines alike are folded\n{WAYS}\
         --- head: lines 1-1,213 ---\n{}[... 1,211 lines like these: {{000003-001213}} ...]\n\
         {ERRORS}--- tail: lines 6,899-8,112 ---\n[... 1,202 lines like these below: {{006899-008100}} ...]\n{}\
         [... 9 lines like these below: {{008102-008110}} ...]\n{}",
        lines(&fixture, 1, 2),
        lines(&fixture, 8101, 8101),
        lines(&fixture, 8111, 8112),
    );
    assert_eq!(print(&fixture), want);
}

// A word for each number.
fn word(n: usize) -> String {
    char::from(b'a' + (n % 26) as u8).to_string().repeat(n / 26 + 1)
}

#[test]
fn a_failed_call_shows_little_of_its_beginning() {
    let step = |n: usize| format!("the next of many steps of this is {}\n", word(n));
    let text: String = (0..300).map(step).collect();
    let shown = |exit_code| {
        let fixture = analysed(text.clone() + "error: no\n").provenance(provenance(exit_code));
        fact(&print(&fixture), "shown:").unwrap()
    };
    assert_eq!(shown(Some(2)), "shown: lines 1-24 and 257-301; lines 25-256 are not shown");
    assert_eq!(shown(Some(0)), "shown: lines 1-49 and 262-301; lines 50-261 are not shown");
}

#[test]
fn rows_alike_are_folded() {
    let row = |n: usize| format!("Ann,ann{n}@example.org,{n},{}\n", if n == 700 { 7 } else { 1 });
    let text = "name,mail,number,state\n".to_owned() + &(0..2000).map(row).collect::<String>();
    let print = print(&analysed(text));
    let (_, excerpt) = print.split_once("--- head: lines 1-1,").unwrap();
    let lines: Vec<&str> = excerpt.lines().skip(1).take(6).collect();
    let want = [
        "name,mail,number,state",
        "Ann,ann0@example.org,0,1",
        "Ann,ann1@example.org,1,1",
        "[... 698 lines like these: Ann,ann{2-699}@example.org,{2-699},1 ...]",
        "Ann,ann700@example.org,700,7",
    ];
    assert_eq!(lines[..5], want);
    assert!(lines[5].contains(" lines like these: Ann,ann{701-"), "{print}");
}

#[test]
fn names_between_the_ends_are_shown() {
    let line = |n: usize| format!("    # what is said here has no name in it: {}\n", word(n));
    let mut lines: Vec<String> = (0..400).map(line).collect();
    lines[210] = "    def find_in_the_middle(self):\n".to_owned();
    let print = print(&analysed(lines.concat()));
    let between = "\n--- between: more lines with names ---\n\
                   211: def find_in_the_middle(self):\n--- tail: ";
    assert!(print.contains(between), "{print}");
    assert!(fact(&print, "shown:").unwrap().contains(", and 1 of lines "), "{print}");
}

#[test]
fn lists_are_shown_by_file_and_directory() {
    let hit =
        |n: usize| format!("src/part{}.rs:{}: let error = fail(x, y, z);\n", n / 40, 3 * n + 1);
    let hits: String = (0..200).map(hit).collect();
    let print_of = |code| print(&analysed(hits.clone()).provenance(provenance(code)));
    let list = print_of(Some(0));
    let shown = "shown: 200 hits in 5 files, at most 16 of each with its text";
    assert_eq!(fact(&list, "shown:").as_deref(), Some(shown));
    assert!(list.contains("\n--- hits ---\nsrc/part0.rs\n:1: let error"), "{list}");
    assert_eq!(fact(&list, "errors:"), None);
    let path = |n: usize| format!("./lib/of/dir{}/Part{n}.java\n", n / 30);
    let paths: String = (0..300).map(path).collect();
    let list = print(&analysed(paths.clone()));
    assert!(list.contains("\n--- paths ---\n./lib/of/dir0/ Part0.java Part1.java "), "{list}");
    let failed = paths + "find: ./lib/x: Permission denied\n";
    let list = print(&analysed(failed).provenance(provenance(Some(1))));
    assert!(list.contains("\n--- paths ---\n"), "{list}");
    assert!(list.contains("\n--- errors ---\n301: find: ./lib/x: Permission denied"), "{list}");
}

#[test]
fn an_output_that_was_cut_before_is_not_called_complete() {
    let first = |mark: &str| {
        let fixture = Fixture::new(format!("a\nb{mark}c\n")).provenance(provenance(Some(0)));
        print(&fixture).lines().next().unwrap().to_owned()
    };
    let cut = "[ctxfs] The output is stored as it came; the call ended with exit code 0. \
               It has a mark of an earlier cut: \"7348 chars truncated\".";
    assert_eq!(first("\u{2026}7348 chars truncated\u{2026}"), cut);
    for mark in ["<truncated 12 bytes>", "\n1336 characters elided\n", "[... 9 lines omitted ...]"]
    {
        assert!(first(mark).contains(" a mark of an earlier cut: "), "{mark}");
    }
    for other in ["it was truncated", "Full output truncated (22 lines hidden)", "12 lines omitted"]
    {
        assert!(first(other).contains("The complete output is stored"), "{other}");
    }
}

#[test]
fn what_is_not_known_is_not_claimed() {
    let mut fixture = log().provenance(Provenance::default());
    fixture.at("artifacts/terminal/s1.log");
    fixture.analysis.bytes = 100_000;
    fixture.analysis.lines = 2_000;
    fixture.analysis.tokens = 25_000;
    fixture.analysis.errors = Errors::default();
    let want = format!(
        "# analysed so far: first 100.0 of 437.9 kB\n\
         [ctxfs] The complete output is stored. There is no need to run the call again.\n\
         ref: ctx://c7/artifacts/terminal/s1.log\n\
         file:   /ctx/c7/artifacts/terminal/s1.log    (names below that begin with a dot are added to it)\n\
         size: 437,970 bytes, at least 2,000 lines (longest 52), at least about 25,000 tokens; text\n\
         shown: lines 1-1,213 and the last 1,214; what is between is not shown; lines alike are folded\n\
         find:   .find/WORDS    (the passages that fit some words best)\n\
         search: .grep/PATTERN    part: .lines/A-B\n\
         end:    .tail    (last 200 lines)\n\
         pages:  .pages/0001 to .pages/0088    (all of it, 6 KB each)\n\
         --- head: lines 1-1,213 ---\n{}[... 1,211 lines like these: {{000003-001213}} ...]\n\
         --- tail: the last 1,214 ---\n[... 1,202 lines like these below: {{006899-008100}} ...]\n{}\
         [... 9 lines like these below: {{008102-008110}} ...]\n{}",
        lines(&fixture, 1, 2),
        lines(&fixture, 8101, 8101),
        lines(&fixture, 8111, 8112),
    );
    assert_eq!(print(&fixture), want);
    assert!(!fixture.render(&View::Summary).unwrap().1.whole);
}

#[test]
fn an_incomplete_output_says_so_first() {
    let mut fixture = Fixture::new("a\n").provenance(provenance(Some(1)));
    fixture.record.state = ArtifactState::Incomplete("the daemon died".to_owned());
    let first = "[ctxfs] INCOMPLETE: part of the output may be missing (the daemon died); \
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
         file:   /ctx/c7/artifacts/tool/9f3k.txt\n\
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
    assert!(!shown_whole(&Fixture::new(format!("{}\n", "x".repeat(499)).repeat(13))));
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
         file:   /ctx/c7/artifacts/tool/9f3k.txt\n",
        "00".repeat(32)
    );
    assert_eq!(print(&Fixture::new(b"\x7fELF\0".to_vec())), want);
}

#[test]
fn binary_formats_are_named() {
    let size_of = |bytes: &[u8], mime: &str| {
        let mut fixture = Fixture::new(bytes);
        mime.clone_into(&mut fixture.analysis.mime);
        print(&fixture).lines().nth(2).unwrap().to_owned()
    };
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x03\x20\0\0\x02\x58\x08\x02\0\0\0";
    assert_eq!(size_of(png, "image/png"), "size: 29 bytes; binary, image/png, 800 x 600");
    let pdf = b"%PDF-1.7\n\0";
    assert_eq!(size_of(pdf, "application/pdf"), "size: 10 bytes; binary, application/pdf");
}

#[test]
fn json_on_one_line() {
    let json = format!("{{\"total\": [{}0]}}", "1234567, ".repeat(20_000));
    let mut fixture = Fixture::new(json.clone());
    fixture.analysis.json = Json::Document {
        shape: "{total: [20001 of int]}".to_owned(),
        example: Some(".total[0]".to_owned()),
        pretty_lines: 20_004,
    };
    let want = format!(
        "[ctxfs] The complete output is stored. There is no need to run the call again.\n\
         call: 9f3k    ref: ctx://c7/artifacts/tool/9f3k.txt\n\
         file:   /ctx/c7/artifacts/tool/9f3k.txt    (names below that begin with a dot are added to it)\n\
         size: 180,014 bytes on 1 line, about 45,000 tokens; JSON, valid\n\
         shape: {{total: [20001 of int]}}\n\
         shown: line 1, byte columns 1-452 and 179,563-180,014; the rest is not shown\n\
         read:   .pretty (20,004 lines)    query: .jq/.total[0]\n\
         find:   .find/WORDS    (the passages that fit some words best)\n\
         search: .grep/PATTERN    part: .pretty.lines/A-B\n\
         pages:  .pages/0001 to .pages/0037    (all of it, 6 KB each)\n\
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
         find:   .find/WORDS    (the passages that fit some words best)\n\
         search: .grep/PATTERN    part: .lines/A-B\n\
         long:   .wrap    (long lines folded)\n\
         end:    .tail    (all of it)\n\
         --- head: lines 1-4 ---\n{} [cut at byte column 453]\nb\n{} [cut at byte column 453]\nlast\n",
        "a".repeat(452),
        "c".repeat(452),
    );
    let print = print(&Fixture::new(text));
    assert!(print.ends_with(&want), "{print}");
}

/// Returns the line that begins with `name`.
pub(super) fn fact(summary: &str, name: &str) -> Option<String> {
    summary.lines().find(|line| line.starts_with(name)).map(str::to_owned)
}

#[test]
fn sections_and_repeated_lines_are_named() {
    let diff = |n: usize, lines: usize| {
        let body = "+ a line\n".repeat(lines);
        format!("diff --git a/src/{n}.rs b/src/{n}.rs\n--- a/src/{n}.rs\n+++ b/src/{n}.rs\n{body}")
    };
    let few = print(&analysed(diff(1, 300) + &diff(2, 1500)));
    let sections = "sections: 1-303 src/1.rs; 304-1,806 src/2.rs";
    assert_eq!(fact(&few, "sections:").as_deref(), Some(sections));
    let repeated = "repeated: 1,800 x \"+ a line\" (lines 4-1,806)";
    assert_eq!(fact(&few, "repeated:").as_deref(), Some(repeated));
    let many: String = (1..300).map(|n| diff(n, if n == 200 { 900 } else { 7 })).collect();
    let many = fact(&print(&analysed(many)), "sections:").unwrap();
    assert!(
        many.starts_with("sections: 299; the first: 1-10 src/1.rs; 11-20 src/2.rs; "),
        "{many}"
    );
    assert!(many.contains("; the largest of the others: 1,991-2,893 src/200.rs; "), "{many}");
    assert!(many.len() <= 440, "{many}");
}

#[test]
fn passages_unlike_the_rest_are_shown_with_their_place() {
    let line = |n: usize| match n {
        2 => "the second line is in the head\n".to_owned(),
        700 => "evicted web-7: the node is low\n  usage 7.9Gi\n".to_owned(),
        900 => "nobody has seen this pod again\n".to_owned(),
        n => format!("GET /health took {n} ms\n"),
    };
    let log = (1..=2000).map(line).collect::<String>();
    let told = "unlike: 700-701 \"evicted web-7: the node is low | usage 7.9Gi\"; \
                901 \"nobody has seen this pod again\"";
    assert_eq!(fact(&print(&analysed(log)), "unlike:").as_deref(), Some(told));
    let bulk = "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWZnaGlqa2xtbm9wcXJzdHV2d3h5ejAxMjM0";
    let text = format!("{0}=\"the door code is on the back\"{0}", bulk.repeat(100));
    let told = "unlike: 1@7603 \"the door code is on the back\"";
    assert_eq!(fact(&print(&analysed(text)), "unlike:").as_deref(), Some(told));
}

#[test]
fn data_is_told_by_its_columns_statuses_and_tables() {
    let rows = "7,open,\"a, b\"\n".repeat(900);
    let table = print(&analysed(format!("id,state,text\n{rows}")));
    assert_eq!(fact(&table, "columns:").as_deref(), Some("columns: id, state, text (900 rows)"));
    assert_eq!(fact(&table, "repeated:"), None);
    let entry = "10.0.0.1 - - [t] \"GET / HTTP/1.1\" 200 9 \"-\" \"curl\"\n";
    let log = print(&analysed(entry.repeat(900)));
    assert_eq!(fact(&log, "statuses:").as_deref(), Some("statuses: 900 x 200"));
    assert_eq!(fact(&log, "repeated:"), None);
    let rows = |table: &str| format!("INSERT INTO {table} VALUES(1,'x');\n").repeat(300);
    let tables = ["jobs", "log"].map(|name| format!("CREATE TABLE {name}(id);\n{}", rows(name)));
    let dump = print(&analysed(tables.concat()));
    assert_eq!(fact(&dump, "sections:").as_deref(), Some("sections: 1-301 jobs; 302-602 log"));
    assert_eq!(fact(&dump, "repeated:"), None);
}

#[test]
fn lines_that_differ_in_numbers_are_said_to_be_alike() {
    let long = "x".repeat(100);
    let line = |n: usize| match n % 10 {
        0 => format!("{n} took \u{1b}[1m{n}\u{1b}[0m ms\n"),
        1 => format!("{long} \n"),
        _ => format!("unlike {}\n", "z".repeat(n)),
    };
    let text: String = (0..400).map(line).collect();
    let told = format!(
        "repeated: 40 like \"0 took 0 ms\" (lines 1-391); 40 x \"{}...\" (lines 2-392)",
        "x".repeat(61)
    );
    assert_eq!(fact(&print(&analysed(text)), "repeated:"), Some(told));
    let lines: String = (0..200_000)
        .map(|n| format!("{n} is a number in a line of text"))
        .collect::<Vec<_>>()
        .join("\n");
    let told = fact(&print(&analysed(lines)), "repeated:").unwrap();
    assert!(told.starts_with("repeated: about "), "{told}");
    assert!(told.ends_with(" like \"0 is a number in a line of text\""), "{told}");
}

#[test]
fn a_document_says_what_it_repeats_by_its_shape() {
    let items = vec!["{\n\"id\": 1\n}"; 2000].join(",\n");
    let json = print(&analysed(format!("[\n{items}\n]\n")));
    assert!(fact(&json, "shape:").is_some());
    assert_eq!(fact(&json, "repeated:"), None);
}

#[test]
fn json_has_a_better_form_for_long_lines() {
    let mut fixture = Fixture::new(format!("[{}1]", "1,".repeat(4000)));
    assert!(print(&fixture).contains("\nlong:   .wrap    ("));
    fixture.analysis.json = Json::Document {
        shape: "[int]".to_owned(),
        example: Some(".[0]".to_owned()),
        pretty_lines: 0,
    };
    assert!(!print(&fixture).contains("\nlong:"));
    assert!(print(&fixture).contains(".pretty    query: .jq/.[0]\n"));
    fixture.analysis.json =
        Json::Lines { documents: 2, shape: "[int]".to_owned(), example: None, pretty_lines: 0 };
    assert!(print(&fixture).contains(".pretty    query: .jq/-m1 .\n"));
}

#[test]
fn a_long_filter_has_a_line_of_its_own() {
    let mut fixture = Fixture::new(format!("[{}1]", "1,".repeat(4000)));
    let example = format!(".{}", "x".repeat(480));
    fixture.analysis.json = Json::Document {
        shape: "[int]".to_owned(),
        example: Some(example.clone()),
        pretty_lines: 4004,
    };
    let print = print(&fixture);
    assert!(fact(&print, "read:").unwrap().ends_with(".pretty (4,004 lines)"), "{print}");
    assert!(fact(&print, "query:").unwrap().ends_with(&example), "{print}");
}

#[test]
fn endless_names_do_not_break_the_caps() {
    let mut fixture = log();
    fixture.at(&format!("artifacts/tool/{}", vec!["\u{20ac}".repeat(80); 12].join("/")));
    fixture.record.provenance.tool = Some("\u{20ac}\n".repeat(5000));
    fixture.record.provenance.call = Some("x".repeat(5000));
    fixture.analysis.json = Json::Lines {
        documents: 2,
        shape: "[\u{20ac}]".repeat(5000),
        example: None,
        pretty_lines: 4,
    };
    print(&fixture);
    fixture.record.state = ArtifactState::Incomplete("why\n".repeat(1000));
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
        let mut fixture = Fixture::new(text).provenance(provenance(exit_code));
        (fixture.limits.snippet_lines, fixture.limits.snippet_bytes) = snippets;
        let summary = print(&fixture);
        prop_assert!(!summary.is_empty());
        prop_assert_eq!(print(&fixture), summary);
    }

    #[test]
    fn caps_hold_for_any_sections_and_repeated_lines(
        lines in proptest::collection::vec(
            prop_oneof![
                "==> .{0,300} <==",
                "error: \\PC{0,90}",
                "[a-z\u{20ac}]{4,90}",
                Just("a line again".to_owned()),
            ],
            0..40,
        ),
        times in 1usize..60,
        deep in 0usize..40,
    ) {
        let mut fixture = analysed(lines.join("\n").repeat(times));
        fixture.at(&format!("artifacts/tool/{}", vec!["\u{20ac}".repeat(20); deep + 1].join("/")));
        print(&fixture);
    }

    #[test]
    fn caps_hold_for_any_bytes(bytes in proptest::collection::vec(1u8.., 0..9000)) {
        print(&Fixture::new(bytes));
    }
}

/// Checks every noun that is counted, for counts of 0, 1 and 2.
#[test]
fn one_is_never_many() {
    let wrong = regex::Regex::new(
        r"\b1 (bytes|lines|tokens|characters|values)\b|\b[02] (byte|line|token|character|value)\b",
    )
    .unwrap();
    for text in ["", "a", "\n", "a\n", "ab", "a\nb\n", "\u{e9}", "\u{e9}\u{e9}\n", "\0", "\0\0"] {
        let mut fixture = Fixture::new(text);
        for view in [View::Summary, View::Ref, View::Tail, View::Head] {
            for tokens in 0..3 {
                fixture.analysis.tokens = tokens;
                let text = fixture.text(&view);
                assert!(!wrong.is_match(&text), "{text}");
            }
        }
    }
    assert!(
        print(&Fixture::new("abcd")).contains("size: 4 bytes on 1 line, about 1 token; text\n")
    );
    assert!(print(&Fixture::new("a")).contains("size: 1 byte on 1 line, about 0 tokens; text\n"));
    assert!(Fixture::new("\0").text(&View::Tail).contains("application/octet-stream, 1 byte)"));
}

/// A summary based on an incomplete analysis counts only the lines at the end.
#[test]
fn one_line_at_the_end_of_what_was_not_counted() {
    let mut fixture = Fixture::new(format!("{}\n{}\n", "a ".repeat(240), "b ".repeat(240)));
    let mut limits = Limits::default();
    (limits.snippet_lines, limits.max_inline_chars) = (1, 0);
    fixture.limits = limits;
    fixture.analysis.bytes = 100;
    let text = print(&fixture);
    assert!(text.contains("shown: line 1 and the last one; what is between is not"), "{text}");
    assert!(text.contains("--- tail: the last one ---"), "{text}");
}
