use std::ffi::OsStr;
use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::fixture::Fixture;
use crate::{View, ViewDir};
use ctxfs_core::model::Limits;

fn jq(name: &str) -> View {
    ViewDir::Jq.view(OsStr::new(&name.replace('/', "%2F"))).unwrap()
}

fn text(name: &str, json: &str) -> String {
    let view = Fixture::new(json).text(&jq(name));
    assert!(view.len() <= Limits::VIEW_BYTES || name.contains("-m0"), "{} bytes", view.len());
    view
}

/// Returns the output of the real jq, or an empty string if jq fails.
fn real(arguments: &[&str], json: &str) -> String {
    let mut child = Command::new("jq")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("scripts/packages installs jq");
    let mut input = child.stdin.take().unwrap();
    // jq may end before it has read all input.
    input.write_all(json.as_bytes()).ok();
    drop(input);
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
}

/// Returns `count` lines of JSON.
fn lines(count: usize) -> String {
    let line = |n| format!("{{\"n\":{n},\"text\":\"some text\"}}");
    let lines: Vec<String> = (1..=count).map(line).collect();
    lines.join("\n") + "\n"
}

const DOCUMENT: &str = r#"{"total": 3, "items": [
  {"id": 1, "name": "one", "tags": ["x", "y"], "nested": {"a b": null, "t": true}},
  {"id": 2, "name": "tw\"o", "tags": [], "nested": {"deep": [[1], [2, [3]]]}},
  {"id": 3, "name": "gr\u00fcn \u20ac \ud83d\ude00", "tags": ["z"], "price": 2.5}
], "next": null, "empty": {}, "text": "a,b;c\td\n"}"#;

const LINES: &str = "{\"level\":\"info\",\"ms\":12}\n{\"level\":\"error\",\"ms\":340,\"why\":\"timeout\"}\n\
                     {\"level\":\"info\",\"ms\":7}\n{\"level\":\"warn\",\"ms\":51}\n";

/// Options and filters for a single document.
const OF_DOCUMENT: &[(&[&str], &str)] = &[
    (&[], ".items"),
    (&[], ".items[]"),
    (&["-c"], ".items[]"),
    (&["-r"], ".items[].name"),
    (&["-c"], ".items[1:]"),
    (&[], ".items[-1].name"),
    (&["-c", "-S"], "."),
    (&["-S"], ".items[0]"),
    (&[], "keys"),
    (&[], ".missing"),
    (&[], ".items[9]"),
    (&[], ".items[0].nested.\"a b\""),
    (&[], ".items | length"),
    (&["-c"], "[.items[] | select(.id > 1) | .name]"),
    (&["-c"], ".items | map({id, n: (.tags | length)})"),
    (&["-c"], "to_entries | map(.key)"),
    (&["-c"], "[paths | map(tostring) | join(\".\")]"),
    (&["-c"], "[leaf_paths | length]"),
    (&["-c"], ".items | group_by(.tags | length) | map(map(.id))"),
    (&["-c"], ".items | sort_by(-.id) | map(.id)"),
    (&["-c"], ".items | map(has(\"price\"))"),
    (&["-c"], "[.. | numbers] | add"),
    (&["-c"], "[.items[] | .nested?.deep? | values | flatten]"),
    (&["-r"], ".items[] | [.id, .name, .tags[0]] | @csv"),
    (&["-r"], ".items[] | [.id, .name, true, null] | @tsv"),
    (&["-r"], "[.text] | @tsv"),
    (&["-r"], ".text | @json, @text, @base64, @uri, @html, @sh"),
    (&["-r"], "\"\\(.total) items, the first \\(.items[0].name)\""),
    (&["-c"], ".text | split(\",\")"),
    (&["-c"], "[.text | scan(\"[a-z]\")]"),
    (&["-c"], ".text | test(\"B\"; \"i\"), sub(\"a\"; \"A\"), ascii_upcase, length"),
    (&["-c"], "[.text | match(\"b.c\") | .offset, .length, .string]"),
    (&["-c"], ".items[0] | with_entries(select(.value | type == \"string\"))"),
    (&["-c"], ".items[0] | del(.tags, .nested)"),
    (&["-c"], ".items[0] | .tags += [\"new\"] | .tags"),
    (&["-c"], ".items[0] | .name |= ascii_upcase | .name"),
    (&["-c"], "reduce .items[] as $item (0; . + $item.id)"),
    (&["-c"], "[foreach .items[] as $item (0; . + $item.id; [$item.id, .])]"),
    (&["-c"], "[limit(2; .items[])] | length"),
    (&["-c"], "first(.items[] | select(.id == 2)) | .id"),
    (&["-c"], ".items as [$a, {id: $b}] | [$a.id, $b]"),
    (&["-c"], "def double: . * 2; [.items[].id | double]"),
    (&["-c"], "if .total > 2 then \"many\" elif .total == 2 then \"two\" else \"few\" end"),
    (&["-c"], "try error(\"no\") catch ."),
    (&["-c"], "(.a.b.c // \"none\"), (.total // 0)"),
    (&["-c"], "[range(0; 10; 3)], [range(3)], ([1, [2]] | flatten)"),
    (&["-c"], "1 / 4, 7 % 3, 2 * 3, -1, (5 | floor), (2 | sqrt | . * 100 | round)"),
    (&["-c"], "[.items[] | .tags[]] | unique, min, max, index(\"y\"), any, all"),
    (&["-c"], "[1, 2, 3] | IN(2), (.[] | IN(2, 3))"),
    (&["-c"], "INDEX(.items[]; .id) | map_values(.name)"),
    (&["-c"], "[.items[0] | tostream] | length"),
    (&["-c"], "\"2015-03-05T23:51:47Z\" | fromdate, (fromdate | todate)"),
    (&["-c"], "\"x\" * 3, (\"a-b\" | ltrimstr(\"a\")), ([\"a\", \"b\"] | join(\"/\"))"),
    (&["-c"], ".items[] | halt"),
];

/// Options and filters for arbitrary values.
const OF_ANY: &[(&[&str], &str)] = &[
    (&[], "."),
    (&["-r"], "."),
    (&["-c"], ".."),
    (&["-c"], "[paths]"),
    (&["-c"], "type, (tojson | length)"),
    (&["-r"], "@text, @json"),
    (&["-c"], "select(type == \"object\") | keys"),
    (&["-c"], ".level?, .[]?"),
    (&["-c"], "try .level catch \"none\""),
    (&["-c"], "halt"),
    (&["-c"], "empty"),
    (&["-c", "-n"], "[inputs | length]"),
    (&["-c", "-n"], "1, [2]"),
    (&["-c", "-n"], "[limit(2; inputs)] | length"),
    (&["-c", "-s"], "length, (.[0] | type)"),
];

/// Options and filters for JSON Lines.
const OF_LINES: &[(&[&str], &str)] = &[
    (&["-c"], "select(.level == \"error\") | .why"),
    (&["-c"], "select(.ms > 10) | {level, ms}"),
    (&["-r"], ".level?"),
    (&["-c", "-s"], "map(.ms?) | add"),
    (&["-c", "-s"], "group_by(.level) | map({level: .[0].level, n: length})"),
    (&["-c", "-n"], "reduce inputs as $row ({}; .[$row.level // \"none\"] += 1)"),
];

#[test]
fn results_are_jqs() {
    let others = ["[1, [2, {\"a\": \"b\"}]]", "\"text\"", "1 2 [3]\n{}", ""];
    let mut cases = vec![(OF_DOCUMENT, DOCUMENT), (OF_LINES, LINES)];
    cases.extend([DOCUMENT, LINES].iter().chain(&others).map(|json| (OF_ANY, *json)));
    for (filters, json) in cases {
        for (options, filter) in filters {
            let expected = real(&[*options, &[filter]].concat(), json);
            let name = [*options, &["--", filter]].concat().join(" ");
            assert_eq!(text(&name, json), expected, "{name} on {json}");
        }
    }
}

#[test]
fn numbers_are_kept_as_they_are_written() {
    let numbers = "[1.10,100000000000000000000,1e1000,0.1]\n";
    assert_eq!(text("-c %2E", numbers), numbers);
}

#[test]
fn what_is_no_filter_says_so() {
    let cases = [
        (".[", "expected closing bracket at its end"),
        (".a b", "expected nothing at character 4, before `b`"),
        (".a | | .b", "expected term at character 6, before `| .b`"),
        (
            "foo(1) | .",
            "there is no filter of 1 arguments `foo` at character 1, before `foo(1) | .`",
        ),
        (".a | env", "there is no filter `env` at character 6, before `env`"),
        ("now", "there is no filter `now` at character 1, before `now`"),
        ("$ENV.HOME", "there is no variable `$ENV` at character 1, before `$ENV.HOME`"),
        ("import \"x\" as x; .", "modules cannot be loaded here"),
        ("\u{20ac}", "expected token at character 1, before `\u{20ac}`"),
    ];
    for (filter, why) in cases {
        assert_eq!(text(filter, DOCUMENT), format!("# not a filter: {why}\n"), "{filter}");
    }
    assert!(text(".a[", "not json").starts_with("# not a filter"));
}

#[test]
fn what_is_not_json_says_where() {
    let file = "/ctx/c7/artifacts/tool/9f3k.txt";
    let want = format!(
        "# not JSON from line 1 on (byte 2): nothing was found before. What it is: {file}.summary\n"
    );
    assert_eq!(text(".a", "[INFO] start\n"), want);
    let want = "# line 3 is not JSON, and left out\n1\n2\n";
    assert_eq!(text(".a", "{\"a\":1}\n {\"a\":2}\nthe end\n"), want);
    let cut = text("%2E", "{\"a\": 1");
    assert!(cut.starts_with("# not JSON from line 1 on (byte 7): nothing"), "{cut}");
}

#[test]
fn a_value_that_fails_does_not_hide_the_others() {
    let json = "{\"a\":1}\n[]\n{\"a\":2}\n\"x\"\n";
    let view = text(".a", json);
    assert!(view.starts_with("# 2 errors, the first on line 2: cannot "), "{view}");
    assert!(view.ends_with("\n1\n2\n"), "{view}");
    assert_eq!(text("error(\"why\")", "1"), "# error on line 1: why\n");
    assert!(text("-n error(\"why\")", "1").starts_with("# error: why\n"));
}

#[test]
fn long_results_say_how_to_go_on() {
    let json = lines(9000);
    let view = text("-c %2E", &json);
    let (first, rest) = view.split_once('\n').unwrap();
    let shown = rest.lines().count();
    let file = "/ctx/c7/artifacts/tool/9f3k.txt";
    let next = shown + 1;
    let want = format!(
        "# the first {},{:03} results follow; more would pass 48 KiB. \
         Go on with line {},{:03}: {file}.jq/--from={next} -c .    All at once: {file}.jq/-c -m0 .",
        shown / 1000,
        shown % 1000,
        next / 1000,
        next % 1000
    );
    assert_eq!(first, want);
    assert!(view.len() > 40_000);
    assert_eq!(
        text(&format!("--from={next} -c -m1 %2E"), &json),
        format!("{{\"n\":{next},\"text\":\"some text\"}}\n")
    );
    assert_eq!(text("-c -m0 %2E", &json), json);
    assert_eq!(text("-c -m2 %2E", &json).lines().count(), 2);
    let one = text("-s %2E", &json);
    assert!(one.starts_with("# the first 4"), "{one:.300}");
    assert!(one.lines().next().unwrap().contains(" of one result follow"), "{one:.300}");
}

#[test]
fn a_result_may_be_long() {
    let long = "long ".repeat(600_000);
    assert!(text("-m0 -r .[0]", &format!("[\"{long}\"]")) == format!("{long}\n"));
    let cut = text("-r .[0]", &format!("[\"{long}\"]"));
    assert!(
        cut.starts_with("# the first 47,") && cut.contains(" bytes of one result follow; "),
        "{cut:.300}"
    );
}

#[test]
fn raw_text_has_no_nul() {
    assert_eq!(text("-r .[]", "[\"a\\u0000b\", \"c\"]"), "a\u{2400}b\nc\n");
    assert_eq!(text(".[0]", "[\"a\\u0000b\"]"), "\"a\\u0000b\"\n");
}

#[test]
fn a_large_document_is_followed_along_a_path() {
    let item = |n: usize| format!("{{\"n\":{n},\"text\":\"{}\"}}", "x".repeat(20_000));
    let items: Vec<String> = (0..1000).map(item).collect();
    let json = format!("{{\"items\":[{}],\"total\":1000}}", items.join(","));
    assert_eq!(text(".items[998:] | .[] | .n", &json), "998\n999\n");
    assert_eq!(text("-c [.total, 1]", "{\"total\": 5}"), "[5,1]\n");
    assert_eq!(text(".total + 1", &json).lines().count(), 1);
    assert!(
        text(".total + 1", &json)
            .starts_with("# the value on line 1 is left out: it has more than 16 MiB, ")
    );
    assert_eq!(text(".total | . + 1", &json), "1001\n");
    assert_eq!(text("-m2 .items[].n", &json), "0\n1\n");
    assert_eq!(text(".items[5].none.x", &json), "null\n");
    assert!(text(".total.x", &json).starts_with("# error on line 1: cannot "));
}

#[test]
fn invalid_text_is_shown_as_replaced() {
    let mut json = b"{\"a\": \"x".to_vec();
    json.extend(b"\xff\xfe\"}\n");
    let view = Fixture::new(json).text(&jq("-r .a"));
    assert_eq!(view, "x\u{fffd}\u{fffd}\n");
}

#[test]
fn time_can_run_out() {
    let json = lines(900);
    let calls = std::cell::Cell::new(0);
    let expired = || calls.replace(calls.get() + 1) == 2;
    let fixture = Fixture::new(json);
    let (body, rendered) = fixture.render_until(&jq(".n"), &expired).unwrap();
    let notice = rendered.notice.unwrap();
    assert!(!rendered.whole && body.starts_with(b"1\n2\n"));
    assert!(notice.starts_with("# out of time, "), "{notice}");
    assert!(notice.contains("; what was found before follows. Go on with line "), "{notice}");
}

/// What jq 1.8.1 prints: for each case a filter, its input, and the results, a line each. A blank line
/// separates the cases.
const CASES: &str = include_str!("tests/cases.txt");

#[test]
fn results_are_those_of_jq_1_8() {
    let cases: Vec<&str> = CASES.trim_end().split("\n\n").collect();
    assert!(cases.len() > 60);
    for case in cases {
        let mut lines = case.splitn(3, '\n');
        let (filter, input) = (lines.next().unwrap(), lines.next().unwrap());
        let found = text(&format!("-c {filter}").replace('%', "%25"), input);
        assert_eq!(found.trim_end(), lines.next().unwrap(), "{filter} of {input}");
    }
}

/// Where results differ from those of jq 1.8.1, as the page on JSON tells: a filter, what jq prints,
/// and what is printed here.
const OTHERWISE: &[(&str, &str, &str)] = &[
    ("[[1,2],3][] as [$a] ?// $a | $a", "`1`, `3`", "refused"),
    ("reduce 1 / 2 as $x (0; . + $x)", "`0.5`", "refused: `(1 / 2)`"),
    ("{a: [1]} as {$a: [$b]} | [$a, $b]", "`[[1],1]`", "refused"),
    ("$__loc__", "its line", "refused"),
    ("builtins, env, $ENV, now", "about its machine", "refused"),
    ("9007199254740993 + 0", "`9007199254740992`", "`9007199254740993`"),
    ("\"ab\" * 1.5", "`ab`", "an error"),
    ("\"aab\" | [match(\"a|aa\"; \"l\").string]", "`[\"aa\"]`", "an error"),
    ("[2024, 1, 1] | mktime", "`1706745600`", "an error"),
    ("try error(\"x\") catch .", "its own words for its own errors", "other words"),
];

#[test]
fn the_page_tells_where_results_differ() {
    let page = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/semantics/json.md"
    ));
    let escaped = |text: &str| text.replace('|', "\\|");
    let row = |(filter, jq, here): &(&str, &str, &str)| {
        format!("| `{}` | {jq} | {here} |\n", escaped(filter))
    };
    let rows: String = OTHERWISE.iter().map(row).collect();
    let table = format!("| filter | jq 1.8 | here |\n|---|---|---|\n{rows}\n");
    assert!(page.unwrap().contains(&table), "docs/semantics/json.md lacks:\n{table}");
    for (filter, jq, here) in OTHERWISE {
        let found = text(&format!("-c {filter}"), "null");
        let is_refused = found.starts_with("# not a filter");
        let is_error = found.starts_with("# error");
        match *here {
            here if here.starts_with("refused") => assert!(is_refused, "{filter}: {found}"),
            "an error" => assert!(is_error, "{filter}: {found}"),
            "other words" => assert!(!is_error, "{filter}: {found}"),
            here => assert_eq!(format!("`{}`", found.trim_end()), here, "{filter}, not {jq}"),
        }
    }
}
