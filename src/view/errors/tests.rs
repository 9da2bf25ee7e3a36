use std::cell::Cell;

use proptest::prelude::*;

use crate::materialize::ErrorLines;
use crate::model::Limits;
use crate::view::View;
use crate::view::fixture::Fixture;

macro_rules! sample {
    ($file:literal) => {
        include_str!(concat!("../../materialize/failure/testdata/", $file))
    };
}

fn errors(text: impl Into<Vec<u8>>) -> String {
    Fixture::new(text).text(&View::Errors)
}

/// A log of `lines` lines with `message` on each that `is_error`.
fn log(lines: u64, message: impl Fn(u64) -> Option<String>) -> String {
    let line = |n| message(n).unwrap_or_else(|| format!("{n:05} INFO all is well")) + "\n";
    (1..=lines).map(line).collect()
}

#[test]
fn errors_stand_in_their_context() {
    let text = log(30, |n| [8, 13, 25].contains(&n).then(|| format!("{n:05} ERROR no {n}")));
    let want = "\
5-00005 INFO all is well
6-00006 INFO all is well
7-00007 INFO all is well
8:00008 ERROR no 8
9-00009 INFO all is well
10-00010 INFO all is well
11-00011 INFO all is well
12-00012 INFO all is well
13:00013 ERROR no 13
14-00014 INFO all is well
15-00015 INFO all is well
16-00016 INFO all is well
--
22-00022 INFO all is well
23-00023 INFO all is well
24-00024 INFO all is well
25:00025 ERROR no 25
26-00026 INFO all is well
27-00027 INFO all is well
28-00028 INFO all is well
";
    assert_eq!(errors(text), want);
}

#[test]
fn where_there_are_none_it_is_empty() {
    assert_eq!(errors(""), "");
    assert_eq!(errors(log(1000, |_| None)), "");
    assert_eq!(errors(sample!("clean.txt")), "");
}

#[test]
fn a_trace_is_shown_whole() {
    let want = "\
1-2026-11-21 10:00:00 INFO  Main - starting with ErrorHandler.java on the class path
2:Exception in thread \"main\" java.lang.IllegalStateException: cannot start
3-\tat com.shop.Main.main(Main.java:17)
4:Caused by: com.shop.ConfigException: bad configuration
5-\tat com.shop.Config.load(Config.java:40)
6-\t... 1 more
7:Caused by: java.io.FileNotFoundException: /etc/shop.yml (No such file or directory)
8-\tat java.base/java.io.FileInputStream.open0(Native Method)
9-\t... 2 more
";
    assert_eq!(errors(sample!("java.txt")), want);
    let frames = |n: usize| "\tat com.shop.Cart.total(Cart.java:7)\n".repeat(n);
    let deep =
        |n| format!("a\nb\nException in thread \"main\" java.lang.Error: x\n{}end\n", frames(n));
    assert_eq!(errors(deep(50)).lines().count(), 53);
    let cut = errors(deep(1000));
    assert_eq!(cut.lines().count(), 64);
    assert!(
        cut.ends_with(
            "\n63-\tat com.shop.Cart.total(Cart.java:7)\n# the trace goes on at line 64\n"
        )
    );
}

#[test]
fn a_compilers_error_has_the_source_it_quotes() {
    let text = errors(sample!("rustc.txt"));
    let quoted = "\
9:error[E0308]: mismatched types
10-  --> src/error.rs:12:18
11-   |
12-12 |     let n: u32 = \"three\";
13-   |            ---   ^^^^^^^ expected `u32`, found `&str`
14-   |            |
15-   |            expected due to this
16-
";
    assert!(text.contains(quoted), "{text}");
}

#[test]
fn lines_are_those_of_the_output() {
    for text in [sample!("pytest.txt"), sample!("go-test.txt"), sample!("jest.txt")] {
        let printed = errors(text);
        let lines: Vec<&str> = text.lines().collect();
        for line in printed.lines().filter(|line| *line != "--") {
            let digits = line.chars().take_while(char::is_ascii_digit).count();
            let number: usize = line[..digits].parse().unwrap();
            assert_eq!(lines[number - 1], &line[digits + 1..], "{printed}");
        }
    }
}

#[test]
fn where_not_all_fits_the_first_of_each_kind_follows() {
    let text = log(60_000, |n| match n {
        70 => Some("00070 ERROR disk is full".to_owned()),
        _ if n % 20 == 0 => Some(format!("{n:05} ERROR request {n} timed out after 30s")),
        59_999 => Some("Traceback (most recent call last):".to_owned()),
        _ => None,
    });
    let want = "\
# 3,002 lines look like errors, of 3 kinds; the first of each follows. \
All: /ctx/c7/artifacts/tool/9f3k.txt.grep/-m0 ERROR|timed out|Traceback
17-00017 INFO all is well
18-00018 INFO all is well
19-00019 INFO all is well
20:00020 ERROR request 20 timed out after 30s
21-00021 INFO all is well
22-00022 INFO all is well
23-00023 INFO all is well
# like line 20: 2,999 more, the last on line 60000
--
67-00067 INFO all is well
68-00068 INFO all is well
69-00069 INFO all is well
70:00070 ERROR disk is full
71-00071 INFO all is well
72-00072 INFO all is well
73-00073 INFO all is well
--
59996-59996 INFO all is well
59997-59997 INFO all is well
59998-59998 INFO all is well
59999:Traceback (most recent call last):
60000:60000 ERROR request 60000 timed out after 30s
";
    assert_eq!(errors(text), want);
}

#[test]
fn the_heading_of_a_trace_comes_with_its_new_cause() {
    let trace = |cause: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    f()\n{cause}\n"
        )
    };
    let text: String = (0..5000)
        .map(|n| {
            let cause = if n == 4000 { "KeyError: 'b'" } else { "ValueError: a" };
            trace(cause) + &"fine\n".repeat(9)
        })
        .collect();
    let printed = errors(text);
    let want = "\
# like line 4: 4,998 more, the last on line 64991
--
51998-fine
51999-fine
52000-fine
52001:Traceback (most recent call last):
52002-  File \"a.py\", line 3, in f
52003-    f()
52004:KeyError: 'b'
52005-fine
52006-fine
52007-fine
";
    assert!(printed.ends_with(want), "{printed}");
    assert_eq!(printed.matches("# like").count(), 1 + 1, "{printed}");
}

#[test]
fn what_does_not_fit_says_how_to_go_on() {
    let word = |n: u64| char::from(b'a' + (n % 26) as u8).to_string().repeat((n / 26) as usize + 1);
    let text =
        log(9000, |n| n.is_multiple_of(10).then(|| format!("error: no such {}", word(n / 10))));
    let printed = errors(text);
    let (notice, body) = printed.split_once('\n').unwrap();
    assert_eq!(
        notice,
        "# 900 lines look like errors; the first 251 follow. \
         Go on: /ctx/c7/artifacts/tool/9f3k.txt.grep/--from=2520 error"
    );
    assert_eq!(body.matches(":error: ").count(), 251);
    assert!(printed.len() <= Limits::VIEW_BYTES && printed.len() > Limits::VIEW_BYTES - 1000);
    let text =
        log(40_000, |n| n.is_multiple_of(10).then(|| format!("./{}.go:1:1: x", word(n / 100))));
    let notice = errors(text).lines().next().unwrap().to_owned();
    assert!(notice.starts_with("# 4,000 lines look like errors, of 401 kinds; the first "));
    assert!(notice.contains(" Go on: /ctx/c7/artifacts/tool/9f3k.txt.lines/"), "{notice}");
}

#[test]
fn long_lines_are_windows() {
    let far = format!("{} ERROR: far {}", "x".repeat(2000), "y".repeat(3000));
    let text = format!("{}\n{far}\nend\n", "z".repeat(501));
    let printed = errors(text);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines[0], "# some lines are long: 1@1 is line 1 at byte column 1");
    assert_eq!(lines[1], format!("1@1-{}...", "z".repeat(494)));
    assert!(lines[2].starts_with("2@2003:...xxx"), "{}", lines[2]);
    assert!(lines[2].contains(" ERROR: far y") && lines[2].len() < 520);
    assert_eq!(lines[3], "3-end");
    let endless = format!("ok\nerror: {}\nerror: next\n", "x".repeat(9 << 20));
    let printed = errors(endless);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!((lines[1], lines[3]), ("1-ok", "3:error: next"));
    assert!(lines[2].starts_with("2@2:error: xxx") && lines[2].ends_with("x..."));
}

#[test]
fn what_is_not_text_is_not_printed() {
    let notice = "# not text (text/plain, 10 bytes), so nothing follows. \
                  The bytes: /ctx/c7/artifacts/tool/9f3k.txt\n";
    let mut fixture = Fixture::new("error: \0x\n");
    fixture.analysis.encoding = crate::model::Encoding::Ascii;
    fixture.analysis.mime = "text/plain".to_owned();
    assert_eq!(fixture.text(&View::Errors), notice);
}

#[test]
fn time_can_run_out() {
    let text = log(200_000, |n| (n == 7).then(|| "error: no".to_owned()));
    let fixture = Fixture::new(text);
    let calls = Cell::new(0);
    let expired = || {
        calls.set(calls.get() + 1);
        calls.get() > 2
    };
    let (body, rendered) = fixture.render_until(&View::Errors, &expired).unwrap();
    assert!(!rendered.whole);
    let notice = "# out of time after 2.0 of 4.6 MB; what was found follows. \
                  Go on: /ctx/c7/artifacts/tool/9f3k.txt.grep/--from=91182 error\n";
    assert_eq!(rendered.notice.as_deref(), Some(notice));
    assert!(String::from_utf8(body).unwrap().contains("\n7:error: no\n"));
}

fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z ]{0,30}",
        2 => prop::sample::select(vec![
            "ERROR boom 17",
            "error: no such thing",
            "Traceback (most recent call last):",
            "  File \"x.py\", line 3",
            "ValueError: bad",
            "\tat a.B.c(B.java:1)",
            "Caused by: a.B: c",
            "thread 'main' panicked at src/main.rs:2:5:",
            "  left: 1",
            "goroutine 1 [running]:",
            "",
        ])
        .prop_map(str::to_owned),
        1 => "[xy]{480,900}error: z[xy]{0,900}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_error_line_is_shown_and_marked(
        lines in prop::collection::vec(line(), 0..60),
        times in 1usize..90,
        ends in any::<bool>(),
    ) {
        let text = lines.join("\n").repeat(times) + if ends { "\n" } else { "" };
        let mut found = ErrorLines::new();
        let mut seen = found.push(text.as_bytes());
        seen.extend(found.end());
        let all: Vec<u64> = seen.iter().map(|seen| seen.at.line).collect();
        let printed = errors(text.clone());
        prop_assert!(printed.len() <= Limits::VIEW_BYTES, "{}", printed.len());
        prop_assert_eq!(printed.is_empty(), all.is_empty());
        let lines: Vec<&str> = text.split('\n').collect();
        let mut marked = Vec::new();
        let mut before = 0;
        for line in printed.lines().filter(|line| *line != "--" && !line.starts_with("# ")) {
            let end = line.find([':', '-', '@']).unwrap();
            let number: usize = line[..end].parse().unwrap();
            prop_assert!(number > before);
            before = number;
            let rest = line[end..].trim_start_matches(|c: char| c == '@' || c.is_ascii_digit());
            if !line[end..].starts_with('@') {
                prop_assert_eq!(lines[number - 1], &rest[1..]);
            }
            if rest.starts_with(':') {
                marked.push(number as u64);
            }
            prop_assert_eq!(rest.starts_with(':'), all.contains(&(number as u64)));
        }
        let cut = printed.contains(" look like errors");
        prop_assert!(cut || marked == all, "{:?} {:?}", marked, all);
    }
}
