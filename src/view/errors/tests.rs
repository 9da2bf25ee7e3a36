use proptest::prelude::*;

use crate::View;
use crate::fixture::Fixture;

/// Maximum size in bytes of the view with its notices.
const MOST: usize = 8 << 10;

macro_rules! sample {
    ($file:literal) => {
        include_str!(concat!("../../core/materialize/failure/testdata/", $file))
    };
}

fn errors(text: impl Into<Vec<u8>>) -> String {
    Fixture::analysed(text).text(&View::Errors)
}

/// Returns a log of `lines` lines, with an error on each line for which `message` returns one.
fn log(lines: u64, message: impl Fn(u64) -> Option<String>) -> String {
    let line = |n| message(n).unwrap_or_else(|| format!("{n:05} INFO all is well")) + "\n";
    (1..=lines).map(line).collect()
}

#[test]
fn errors_stand_in_their_context() {
    let words = ["eight", "thirteen", "twenty-five"];
    let error = |n| [8, 13, 25].iter().position(|error| *error == n);
    let text = log(30, |n| error(n).map(|at| format!("{n:05} ERROR no {}", words[at])));
    let want = "\
5-00005 INFO all is well
6-00006 INFO all is well
7-00007 INFO all is well
8:00008 ERROR no eight
9-00009 INFO all is well
10-00010 INFO all is well
11-00011 INFO all is well
12-00012 INFO all is well
13:00013 ERROR no thirteen
14-00014 INFO all is well
15-00015 INFO all is well
16-00016 INFO all is well
--
22-00022 INFO all is well
23-00023 INFO all is well
24-00024 INFO all is well
25:00025 ERROR no twenty-five
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
    assert_eq!(errors(deep(20)).lines().count(), 23);
    let cut = errors(deep(1000));
    assert_eq!(cut.lines().count(), 28);
    assert!(
        cut.ends_with(
            "\n27-\tat com.shop.Cart.total(Cart.java:7)\n# the trace goes on at line 28\n"
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
        for line in printed.lines().filter(|line| *line != "--" && !line.starts_with("# ")) {
            let digits = line.chars().take_while(char::is_ascii_digit).count();
            let number: usize = line[..digits].parse().unwrap();
            assert_eq!(lines[number - 1], &line[digits + 1..], "{printed}");
        }
    }
}

#[test]
fn the_first_of_each_kind_has_its_count() {
    let text = log(9000, |n| match n {
        70 => Some("00070 ERROR disk is full".to_owned()),
        _ if n % 20 == 0 => Some(format!("{n:05} ERROR request {n:05} timed out after 30s")),
        8999 => Some("Traceback (most recent call last):".to_owned()),
        _ => None,
    });
    let want = "\
# 452 lines look like errors, of 3 kinds; the first of each follows. \
All: /ctx/c7/artifacts/tool/9f3k.txt.grep/ERROR|timed out|Traceback
17-00017 INFO all is well
18-00018 INFO all is well
19-00019 INFO all is well
# x 450
20:00020 ERROR request 00020 timed out after 30s
21-00021 INFO all is well
22-00022 INFO all is well
23-00023 INFO all is well
--
67-00067 INFO all is well
68-00068 INFO all is well
69-00069 INFO all is well
70:00070 ERROR disk is full
71-00071 INFO all is well
72-00072 INFO all is well
73-00073 INFO all is well
--
8996-08996 INFO all is well
8997-08997 INFO all is well
8998-08998 INFO all is well
8999:Traceback (most recent call last):
9000-09000 ERROR request 09000 timed out after 30s
";
    assert_eq!(errors(text), want);
}

#[test]
fn owners_that_are_far_stand_above() {
    let lint = "\n/src/lint/html.js\n".to_owned()
        + &"  1:1  warning  a warning of a linter  no-warning\n".repeat(40)
        + "  93:16  error  'document' is not defined  no-undef\n\n";
    let printed = errors(lint);
    let want = "\n# in /src/lint/html.js\n43:  93:16  error  'document' is not defined";
    assert!(printed.contains(want), "{printed}");
}

#[test]
fn kinds_without_room_have_a_line_each() {
    let word = |n: u64| char::from(b'a' + (n % 26) as u8).to_string().repeat((n / 26) as usize + 3);
    let around = "of the context of an error, which takes most of the room in this view";
    let text: String = (0..160_u64)
        .map(|n| match n % 10 {
            0 => format!("error: no such {}\n", word(n / 10)),
            _ => format!("a line {around}\n"),
        })
        .collect();
    let printed = errors(text);
    assert!(printed.len() <= MOST, "{}", printed.len());
    let (context, rest) = printed.split_once("# of the other kinds, the first line\n").unwrap();
    assert!(context.contains("\n21:error: no such ccc\n22-a line of"), "{context}");
    assert!(rest.ends_with("\n151: error: no such ppp\n"), "{rest}");
    let kinds = context.matches(":error: no such ").count() + rest.lines().count();
    assert_eq!(kinds, 16);
}

#[test]
fn what_does_not_fit_says_how_to_go_on() {
    let word = |n: u64| char::from(b'a' + (n % 26) as u8).to_string().repeat((n / 26) as usize + 9);
    let why = "for a reason that is as long as this line, ".repeat(9);
    let text = log(9000, |n| {
        let what =
            ["error:", "fatal: exception:", "2026-11-22 10:00:00 ERROR"][n as usize / 10 % 3];
        n.is_multiple_of(10).then(|| format!("{what} no {} {why}", word(n / 10)))
    });
    let printed = errors(text);
    let counts = "# 900 lines look like errors, of at least ";
    assert!(printed.starts_with(counts), "{printed}");
    assert!(printed.contains(" kinds; the first of each follows. All: /ctx/c7/"), "{printed}");
    assert!(printed.ends_with(" more kinds are not shown\n"), "{printed}");
    assert!(printed.len() <= MOST && printed.len() > MOST - 1000, "{}", printed.len());
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
fn what_was_not_analysed_is_said() {
    let text = log(2000, |n| (n == 7).then(|| "error: no".to_owned()));
    let mut fixture = Fixture::analysed(text.clone());
    fixture.bytes.extend_from_slice(text.as_bytes());
    let (body, rendered) = fixture.render(&View::Errors).unwrap();
    assert!(!rendered.whole);
    let notice = "# analysed so far: first 45.9 of 91.9 kB\n";
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
    fn lines_are_as_they_are_and_few(
        lines in prop::collection::vec(line(), 0..60),
        times in 1usize..90,
        ends in any::<bool>(),
    ) {
        let text = lines.join("\n").repeat(times) + if ends { "\n" } else { "" };
        let fixture = Fixture::analysed(text.clone());
        let errors = crate::errors::findings(&fixture.subject()).unwrap();
        let printed = fixture.text(&View::Errors);
        prop_assert!(printed.len() <= MOST, "{}", printed.len());
        prop_assert_eq!(printed.is_empty(), errors.shown.is_empty());
        let context = printed.split("# of the other kinds").next().unwrap();
        let lines: Vec<&str> = text.split('\n').collect();
        let mut before = 0;
        for line in context.lines().filter(|line| *line != "--" && !line.starts_with("# ")) {
            let end = line.find([':', '-', '@']).unwrap();
            let number: usize = line[..end].parse().unwrap();
            prop_assert!(number > before);
            before = number;
            let rest = line[end..].trim_start_matches(|c: char| c == '@' || c.is_ascii_digit());
            if !line[end..].starts_with('@') {
                prop_assert_eq!(lines[number - 1], &rest[1..]);
            }
            let is_error = errors.shown.iter().any(|error| error.at.line == number as u64);
            prop_assert_eq!(rest.starts_with(':'), is_error);
        }
    }
}

#[test]
fn calls_that_fail_in_a_usual_way_are_errors_if_the_traced_program_fails() {
    let look =
        "openat(AT_FDCWD, \"/etc/a.conf\", O_RDONLY) = -1 ENOENT (No such file or directory)\n";
    let ended = |code| {
        format!(
            "{look}exit_group({code})                           = ?\n+++ exited with {code} +++\n"
        )
    };
    assert_eq!(errors(ended(0)), "");
    assert!(errors(ended(1)).contains("a.conf"));
}
