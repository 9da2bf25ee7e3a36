//! Tests of summaries of JSON: what they say about trouble, and the filters that they suggest.

use std::ffi::OsStr;
use std::fmt::Write as _;

use proptest::prelude::*;

use crate::fixture::Fixture;
use crate::{View, ViewDir};
use ctxfs_core::materialize::analyze;
use ctxfs_core::model::Provenance;

fn analysed(text: &str, exit_code: Option<i32>) -> Fixture {
    let mut fixture = Fixture::new(text).provenance(Provenance { exit_code, ..<_>::default() });
    fixture.analysis = analyze(&fixture.bytes).unwrap();
    fixture
}

/// Returns the filter that a summary suggests, and its results.
fn query(fixture: &Fixture) -> Option<(String, String)> {
    let summary = fixture.text(&View::Summary);
    let (_, after) = summary.split_once(".jq/")?;
    let name = after.lines().next()?.split("    ").next()?;
    let view = ViewDir::Jq.view(OsStr::new(name)).unwrap();
    Some((name.to_owned(), fixture.text(&view)))
}

fn facts<'s>(summary: &'s str, name: &str) -> Vec<&'s str> {
    summary.lines().filter(|line| line.starts_with(name)).collect()
}

/// Returns one line with the report of a linter about `files` files.
fn report(files: usize) -> String {
    let message = |n: usize, severity: usize| {
        format!(
            "{{\"ruleId\":\"rule-{n}\",\"severity\":{severity},\"message\":\"'x{n}' is not \
             \\\"defined\\\"\",\"line\":{n}}}"
        )
    };
    let file = |n: usize| {
        let messages: Vec<String> =
            (0..4).map(|at| message(at, 1 + usize::from(at == n))).collect();
        let (text, errors) = (messages.join(","), usize::from(n < 4));
        format!(
            "{{\"filePath\":\"/src/{n}.js\",\"messages\":[{text}],\"errorCount\":{errors},\
             \"source\":\"{}\"}}",
            "let a = 1; ".repeat(100)
        )
    };
    format!("[{}]", (0..files).map(file).collect::<Vec<String>>().join(","))
}

#[test]
fn a_report_shows_its_errors_with_their_files() {
    let fixture = analysed(&report(30), Some(1));
    let summary = fixture.text(&View::Summary);
    let trouble = "trouble: .[].messages[].severity: 4 with 2, 116 with 1; \
                   .[].errorCount: 4 of 30 over 0";
    assert_eq!(facts(&summary, "trouble:"), [trouble]);
    let (name, results) = query(&fixture).unwrap();
    let filter = ".[]|{filePath}+(.messages[]?|select(.severity==2)|{line,ruleId,message})";
    assert_eq!(name, format!("-c -m10 {filter}"));
    assert_eq!(facts(&summary, "next:"), [format!("next:   .jq/{name}    (the worst)")]);
    let first = r#"{"filePath":"/src/0.js","line":0,"ruleId":"rule-0","message":"'x0' is not \"defined\""}"#;
    assert_eq!(results.lines().next(), Some(first));
    assert_eq!(results.lines().count(), 4);
    let (_, errors) = summary.split_once("--- errors ---\n").unwrap();
    let errors: Vec<&str> = errors.lines().take(4).collect();
    assert_eq!(fixture.text(&View::Errors).lines().collect::<Vec<&str>>(), errors);
    assert_eq!(errors[1], "1: rule-1: 'x1' is not \"defined\"  [/src/1.js:1]");
}

#[test]
fn data_of_a_call_that_succeeded_is_no_error() {
    let summary = analysed(&report(30), Some(0)).text(&View::Summary);
    assert_eq!(facts(&summary, "trouble:").len(), 1);
    assert!(!summary.contains("--- errors ---"), "{summary}");
}

#[test]
fn lines_of_a_linter_are_read_by_their_fields() {
    let mut text = String::new();
    for n in 0..60 {
        let hint = "y".repeat(300);
        writeln!(
            text,
            "{{\"hint\": \"{hint}\", \"message\": \"Name {} is unknown\", \"line\": {n}, \
             \"file\": \"a{n}.py\", \"code\": \"c{}\", \"severity\": \"error\"}}",
            n % 7,
            n % 20
        )
        .unwrap();
    }
    let summary = analysed(&text, Some(1)).text(&View::Summary);
    assert!(summary.contains("\n1: c0: Name 0 is unknown (x 3)  [a0.py:0]\n"), "{summary}");
}

#[test]
fn what_is_long_is_cut_in_the_results() {
    let record = |n: usize| {
        format!("{{\"id\":{n},\"level\":\"error\",\"message\":\"{}\"}}", "long text ".repeat(300))
    };
    let records: Vec<String> = (0..40).map(record).collect();
    let fixture = analysed(&format!("{{\"items\":[{}]}}", records.join(",")), None);
    let (name, results) = query(&fixture).unwrap();
    assert!(name.ends_with("|{id,message:.message[:160]}"), "{name}");
    assert!(results.len() <= 2000 && results.lines().count() >= 5, "{results}");
}

#[test]
fn indented_json_is_read_as_it_is() {
    let item = |n: usize| format!("  {{\n    \"name\": \"item {n}\",\n    \"size\": {n}\n  }}");
    let items: Vec<String> = (0..300).map(item).collect();
    let indented = format!("[\n{}\n]\n", items.join(",\n"));
    let summary = analysed(&indented, None).text(&View::Summary);
    assert_eq!(facts(&summary, "read:").len(), 0, "{summary}");
    let query = "query:  .jq/.[0]";
    assert_eq!(facts(&summary, "query:"), [query]);
    let joined = analysed(&indented.replace('\n', ""), None).text(&View::Summary);
    assert_eq!(facts(&joined, "read:").len(), 1, "{joined}");
}

/// Generates values with the keys from which filters are built.
fn value() -> impl Strategy<Value = String> {
    let keys = prop::sample::select(vec![
        "severity", "level", "status", "errors", "ok", "code", "message", "msg", "file", "line",
        "name", "a b", "items", "9", "end", "and", "metadata", "x",
    ]);
    let scalar = prop_oneof![
        prop::sample::select(vec!["1", "2", "503", "404", "true", "false", "null", "0.5", "-7"])
            .prop_map(str::to_owned),
        prop::sample::select(vec!["error", "HIGH", "Failed", "ok", "a/b", "t\\n\\\"x"])
            .prop_map(|text| format!("\"{text}\"")),
        (10usize..3000).prop_map(|length| format!("\"{}\"", "w ".repeat(length / 2))),
    ];
    scalar.prop_recursive(5, 200, 12, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..12)
                .prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((keys.clone(), inner), 0..8).prop_map(|fields| {
                let mut fields = fields;
                fields.sort_by_key(|(key, _)| *key);
                fields.dedup_by_key(|(key, _)| *key);
                let fields = fields.iter().map(|(key, value)| format!("\"{key}\":{value}"));
                format!("{{{}}}", fields.collect::<Vec<String>>().join(","))
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn offered_filters_have_short_results(values in prop::collection::vec(value(), 1..12)) {
        let padding = format!("\"{}\"", "p".repeat(7000));
        for text in [
            format!("[{},{padding}]", values.join(",")),
            format!("{{\"data\":[{}],\"z\":{padding}}}", values.join(",")),
            format!("[{padding}]\n[{}]\n", values.join("]\n[")),
        ] {
            if let Some((name, results)) = query(&analysed(&text, None)) {
                prop_assert!(results.len() <= 2100, "{name} of {text}: {results}");
                prop_assert!(!results.starts_with("# "), "{name} of {text}: {results}");
            }
        }
    }
}
