use super::*;
use crate::View;
use crate::fixture::Fixture;
use ctxfs_core::model::Provenance;

const TWO_FAIL: &str = "\
running 3 tests
test tests::alpha ... FAILED
test tests::beta ... FAILED
test tests::gamma ... ok

failures:

---- tests::alpha stdout ----

thread 'tests::alpha' (101) panicked at src/lib.rs:10:9:
assertion `left == right` failed: alpha
  left: 1
 right: 2

---- tests::beta stdout ----

thread 'tests::beta' (102) panicked at src/lib.rs:20:9:
assertion `left == right` failed: beta
  left: 3
 right: 4


failures:
    tests::alpha
    tests::beta

test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";

const ONE_FAILS: &str = "\
running 3 tests
test tests::alpha ... ok
test tests::beta ... FAILED
test tests::gamma ... ok

failures:

---- tests::beta stdout ----

thread 'tests::beta' (77) panicked at src/lib.rs:26:9:
assertion `left == right` failed: beta
  left: 3
 right: 4


failures:
    tests::beta

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.71s
";

fn output(text: &str, exit_code: i32, created: i64) -> Fixture {
    let provenance = Provenance { exit_code: Some(exit_code), ..Provenance::default() };
    let mut output = Fixture::analysed(text).provenance(provenance);
    output.record.created = created;
    output
}

fn shown(earlier: &Fixture, later: &Fixture) -> String {
    let output = &earlier.subject();
    let earlier = Earlier::Output { run: Some(3), output };
    let subject = Subject { earlier, ..later.subject() };
    let mut out = Vec::new();
    let rendered = crate::render(&View::Since, &subject, &|| false, &mut out).unwrap();
    rendered.notice.unwrap_or_default() + &String::from_utf8(out).unwrap()
}

fn change_of(old: &str, codes: [i32; 2], new: &str) -> Change {
    let (old, new) = (output(old, codes[0], 0), output(new, codes[1], 1000));
    change(&old.subject(), &new.subject()).unwrap()
}

#[test]
fn a_mended_test_is_told() {
    let mut earlier = output(TWO_FAIL, 101, 0);
    earlier.at("artifacts/tool/a1.txt");
    let text = shown(&earlier, &output(ONE_FAILS, 101, 240_000));
    assert!(
        text.starts_with(
            "# since run 3 (a1.txt, 4 min ago): fixed 1, new 0, same 1; 11 lines removed, 3 added\n"
        ),
        "{text}"
    );
    let errors: Vec<&str> = text.lines().skip(1).take(4).collect();
    let [fixed, alpha, same, beta] = errors[..] else { panic!("{text}") };
    assert_eq!(fixed, "--- fixed: 1, lines of a1.txt ---");
    assert!(alpha.starts_with("11: ") && alpha.contains("alpha"), "{text}");
    assert_eq!(same, "--- same: 1, lines of 9f3k.txt ---");
    assert!(beta.starts_with("11: ") && beta.contains("beta"), "{text}");
    assert!(
        text.contains("\n-test tests::alpha ... FAILED\n+test tests::alpha ... ok\n"),
        "{text}"
    );
}

#[test]
fn changes_are_counted() {
    let counts = |gone, new, same, fixed| Change::Errors { gone, new, same, fixed };
    assert_eq!(change_of(TWO_FAIL, [101, 101], ONE_FAILS), counts(1, 0, 1, true));
    assert_eq!(change_of(ONE_FAILS, [101, 101], TWO_FAIL), counts(0, 1, 1, true));
    assert_eq!(change_of(TWO_FAIL, [101, 0], "all is well\n"), counts(2, 0, 0, true));
    // A run that failed before the tests began has fixed nothing, nor has one that was killed.
    let broken = "error[E0425]: cannot find value `x` in this scope\n --> src/lib.rs:3:5\n";
    assert_eq!(change_of(TWO_FAIL, [101, 101], broken), counts(2, 1, 0, false));
    assert_eq!(change_of(TWO_FAIL, [101, 137], "running 3 tests\n"), counts(2, 0, 0, false));
    assert_eq!(change_of(TWO_FAIL, [101, 1], "running 3 tests\n"), counts(2, 0, 0, false));
    // A line is no error where the run succeeded, but it has not gone.
    let same = change_of("ValueError: bad\n", [1, 0], "ValueError: bad\nok\n");
    assert_eq!(same, Change::Lines { removed: 0, added: 1 });
    assert_eq!(change_of(TWO_FAIL, [101, 101], TWO_FAIL), Change::Same);
    let later = TWO_FAIL.replace("0.00s", "3.10s").replace("(101)", "(9)");
    assert_eq!(change_of(TWO_FAIL, [101, 101], &later), Change::Alike);
    assert_eq!(change_of("a\nb\n", [0, 0], "a\nc\nd\n"), Change::Lines { removed: 1, added: 2 });
    assert_eq!(change_of("a\x01\0b", [0, 0], "a\x01\0c"), Change::Other);
}

#[test]
fn the_same_test_may_fail_in_another_way() {
    let other = ONE_FAILS.replace("left: 3", "left: 7");
    let change = change_of(ONE_FAILS, [101, 101], &other);
    assert_eq!(change, Change::Errors { gone: 0, new: 0, same: 1, fixed: true });
    let python = |name: &str| {
        format!("FAILED tests/test_a.py::{name} - assert 1 == 2\n1 failed, 3 passed in 0.1s\n")
    };
    let change = change_of(&python("test_1"), [1, 1], &python("test_2"));
    assert!(matches!(change, Change::Errors { gone: 1, new: 1, .. }), "{change:?}");
}

#[test]
fn nothing_to_compare_with() {
    let alone = output("a\n", 0, 0);
    let text = alone.text(&View::Since);
    assert!(text.starts_with("# no earlier run of this command is stored"), "{text}");
    let subject = Subject { earlier: Earlier::Missing("the bucket is away"), ..alone.subject() };
    let rendered = crate::render(&View::Since, &subject, &|| false, &mut Vec::new()).unwrap();
    assert_eq!(rendered.notice.as_deref(), Some("# the bucket is away\n"));
}

#[test]
fn equal_outputs_take_one_line() {
    let [earlier, later] = [0, 90_000].map(|created| output("a\nb\n", 0, created));
    assert_eq!(shown(&earlier, &later), "# since run 3 (9f3k.txt, 1 min ago): the same bytes\n");
    let later = output("a\nb\n", 0, 0);
    let earlier = output("a\nb\n", 0, 10);
    assert_eq!(
        shown(&earlier, &later),
        "# since run 3 (9f3k.txt, a later output): the same bytes\n"
    );
    let alike = shown(&output("up 1s\n", 0, 0), &output("up 2s\n", 0, 0));
    let text = "# since run 3 (9f3k.txt, 0 s ago): the same but for times, durations, addresses \
                and temporary names\n";
    assert_eq!(alike, text);
}

#[test]
fn binary_content_is_not_shown() {
    let text = shown(&output("a\x01\0b", 0, 0), &output("plain\n", 0, 0));
    assert!(text.ends_with("; not text, so not compared further\n") && text.is_ascii(), "{text}");
}

#[test]
fn incomplete_outputs_are_told() {
    let mut later = output("a\n", 0, 0);
    later.record.state = ctxfs_core::model::ArtifactState::Incomplete("the disk was full".into());
    let text = shown(&output("a\nb\n", 0, 0), &later);
    assert!(text.starts_with("# this output is incomplete (the disk was full)"), "{text}");
}

#[test]
fn a_view_has_a_limit() {
    let lines =
        |from: u32| (from..from + 20_000).map(|n| format!("n {n}\n")).collect::<Vec<_>>().concat();
    let text = shown(&output(&lines(0), 0, 0), &output(&lines(100_000), 0, 0));
    assert!(text.len() <= ctxfs_core::model::Limits::VIEW_BYTES, "{}", text.len());
    assert!(text.starts_with("# not all lines that differ are shown; go on at /ctx/"), "{text}");
    assert!(text.contains(": at least 20,000 lines removed, 20,000 added\n"), "{}", &text[..400]);
    let errors = |name: char| {
        (b'a'..=b'z')
            .flat_map(|one| (b'a'..=b'z').map(move |two| (one, two)))
            .map(|(one, two)| {
                format!("error: {name}{}{} is wrong\n", char::from(one), char::from(two))
            })
            .collect::<Vec<_>>()
            .concat()
    };
    let text = shown(&output(&errors('x'), 1, 0), &output(&errors('y'), 1, 0));
    assert!(text.len() <= ctxfs_core::model::Limits::VIEW_BYTES, "{}", text.len());
    assert!(text.starts_with("# not all errors were compared\n"), "{}", &text[..400]);
}

#[test]
fn the_line_of_a_summary() {
    let line_of = |change| {
        let mut output = output("a\n", 0, 0);
        let (path, ago) = ("artifacts/terminal/a1.log".to_owned(), 240_000);
        output.record.since = Some(Since { run: 3, path, ago, generation: 1, change });
        (line(&output.subject()).unwrap(), output)
    };
    let (text, mut output) = line_of(Change::Errors { gone: 3, new: 1, same: 12, fixed: true });
    assert_eq!(text, "since run 3 (4 min ago): fixed 3, new 1, same 12    .since");
    assert!(output.text(&View::Summary).contains(&text));
    output.record.generation = 2;
    assert_eq!(line(&output.subject()), None);
    assert_eq!(line_of(Change::Same).0, "since run 3 (4 min ago): the same output as a1.log");
    let lines = Change::Lines { removed: 1, added: 2 };
    assert_eq!(line_of(lines).0, "since run 3 (4 min ago): 1 line removed, 2 added    .since");
    let ages = [999, 60_000, 7_200_000, 90_000_000, 200_000_000].map(ago);
    assert_eq!(ages, ["0 s ago", "1 min ago", "2 h ago", "1 day ago", "2 days ago"]);
}
