use std::cell::Cell;
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;

use proptest::prelude::*;

use crate::fixture::Fixture;
use crate::grep::fold;
use crate::grep::read_ahead::ReadAheadSizes;
use crate::{Query, Rendered, View, ViewDir};
use ctxfs_core::model::Limits;

fn grep(query: &str) -> View {
    ViewDir::Grep.view(OsStr::new(query)).unwrap()
}

/// Returns sizes with which short texts are read in many chunks and nearly all lines are left out.
fn small(chunk: usize, block: usize, min_gap: usize) -> ReadAheadSizes {
    ReadAheadSizes { content: 0, chunk, block, min_gap }
}

/// Runs a search with the given sizes.
fn searched(fixture: &Fixture, query: &Query, sizes: ReadAheadSizes) -> (Vec<u8>, Rendered) {
    let mut out = Vec::new();
    let rendered =
        crate::grep::search(query, &fixture.subject(), &|| false, &mut out, sizes).unwrap();
    (out, rendered)
}

pub(super) fn log(lines: usize) -> String {
    let level = |line: usize| if line.is_multiple_of(97) { "ERROR" } else { "info" };
    let tag =
        |line: usize| ["foo(bar)", "a|b", "[x]", "caf\u{e9}", "C:\\temp", "50% done"][line % 6];
    let text = |line| format!("{} REQ-{line:06} GET /item/{line} {}\n", level(line), tag(line));
    (1..=lines).map(text).collect()
}

pub(super) fn corpus() -> Vec<Vec<u8>> {
    vec![
        Vec::new(),
        b"\n".to_vec(),
        b"foo".to_vec(),
        b"foo\n\n\nfoo bar\r\nFOO\n".to_vec(),
        b"\xef\xbb\xbffoo\nbar\n".to_vec(),
        b"caf\xc3\xa9 foo\xff\xfebar\nfoo \xe2\x82\nstra\xc3\x9fe\n".to_vec(),
        // Two letters have non-ASCII forms in any case.
        "TASK\nta\u{17f}k\nta\u{17f}\u{212a}\ntas\u{212a}\nta\u{17f}\nta\u{212a}s\n".into(),
        b"a foo\nb\nfoo foo\nc\nd\ne foo\nf\nfoo".to_vec(),
        b"--- FAIL: foo\n-n\n-i foo\n".to_vec(),
        log(300).into_bytes(),
        format!("x\n{}foo\n", "y\n".repeat(100_000)).into_bytes(),
    ]
}

/// Pairs of a query and the equivalent arguments of rg.
pub(super) const QUERIES: &[(&str, &[&str])] = &[
    ("foo", &["foo"]),
    ("-i foo", &["-i", "foo"]),
    ("-i task", &["-i", "task"]),
    ("-S foo", &["-S", "foo"]),
    ("-S FOO", &["-S", "FOO"]),
    ("-w foo", &["-w", "foo"]),
    ("-x foo", &["-x", "foo"]),
    ("-F foo(bar)", &["-F", "foo(bar)"]),
    ("foo\\(bar\\)", &["foo\\(bar\\)"]),
    ("^foo", &["^foo"]),
    ("foo$", &["foo$"]),
    ("^", &["^"]),
    ("$", &["$"]),
    ("^$", &["^$"]),
    ("-v ^$", &["-v", "^$"]),
    ("-v foo", &["-v", "foo"]),
    ("-v -o foo", &["-v", "-o", "foo"]),
    ("-c foo", &["-c", "foo"]),
    ("-c -v foo", &["-c", "-v", "foo"]),
    ("-c -o foo", &["-c", "-o", "foo"]),
    ("-c -m1 foo", &["-c", "-m1", "foo"]),
    ("-c zzz", &["-c", "zzz"]),
    ("-c -C3 foo", &["-c", "-C3", "foo"]),
    ("-o foo", &["-o", "foo"]),
    ("-o x*", &["-o", "x*"]),
    ("-o fo|o", &["-o", "fo|o"]),
    ("-o -C1 foo", &["-o", "-C1", "foo"]),
    ("-o -m1 foo", &["-o", "-m1", "foo"]),
    ("-C1 foo", &["-C1", "foo"]),
    ("-C3 ERROR", &["-C3", "ERROR"]),
    ("-A2 foo", &["-A2", "foo"]),
    ("-B2 foo", &["-B2", "foo"]),
    ("-A1 -B2 REQ-0001[0-3]", &["-A1", "-B2", "REQ-0001[0-3]"]),
    ("-m1 foo", &["-m1", "foo"]),
    ("-m2 foo", &["-m2", "foo"]),
    ("-m1 -A3 foo", &["-m1", "-A3", "foo"]),
    ("-m1 -C1 foo", &["-m1", "-C1", "foo"]),
    ("-m1 -v -A3 foo", &["-m1", "-v", "-A3", "foo"]),
    ("-m2 -A4 -o foo", &["-m2", "-A4", "-o", "foo"]),
    ("-i --context=1 --max-count 2 foo", &["-i", "-C1", "-m2", "foo"]),
    ("-e foo -e ERROR", &["-e", "foo", "-e", "ERROR"]),
    ("-i -e FOO -w -e task", &["-i", "-w", "-e", "FOO", "-e", "task"]),
    ("-F -e foo( -e a.b", &["-F", "-e", "foo(", "-e", "a.b"]),
    ("-c -e foo -e ERROR", &["-c", "-e", "foo", "-e", "ERROR"]),
    ("-N foo", &["-N", "foo"]),
    ("-N -C1 foo", &["-N", "-C1", "foo"]),
    ("--no-line-number foo", &["-N", "foo"]),
    ("--column foo", &["--column", "foo"]),
    ("--column -C1 foo", &["--column", "-C1", "foo"]),
    ("--column -o foo", &["--column", "-o", "foo"]),
    ("--count-matches foo", &["--count-matches", "foo"]),
    ("--color=never -a foo", &["--color=never", "-a", "foo"]),
    ("-u -j2 --no-heading foo", &["-u", "-j2", "--no-heading", "foo"]),
    ("--engine=default foo", &["--engine=default", "foo"]),
    ("--replace=<$0> foo", &["--replace=<$0>", "foo"]),
    ("-o -r ${n} (?P<n>o+)", &["-o", "-r", "${n}", "(?P<n>o+)"]),
    ("-r $2$1 (f)(o)", &["-r", "$2$1", "(f)(o)"]),
    ("ERROR|REQ-00001[0-3]", &["ERROR|REQ-00001[0-3]"]),
    ("GET %2Fitem%2F7[0-9] ", &["GET /item/7[0-9] "]),
    ("50%25 done", &["50% done"]),
    ("caf[\u{e9}]", &["caf[\u{e9}]"]),
    ("-i STRASSE|STRA\u{1e9e}E", &["-i", "STRASSE|STRA\u{1e9e}E"]),
    ("\\bfoo\\b", &["\\bfoo\\b"]),
    ("\\d{6}", &["\\d{6}"]),
    ("foo.", &["foo."]),
    ("(?-u)foo\\xff", &["(?-u)foo\\xff"]),
    ("foo\\s", &["foo\\s"]),
    ("--- FAIL", &["-e", "--- FAIL"]),
    ("-n", &["-e", "-n"]),
    ("-- -i foo", &["-e", "-i foo"]),
    ("-e -i foo", &["-e", "-i foo"]),
];

#[test]
fn results_are_ripgreps() {
    for (at, input) in corpus().into_iter().enumerate() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&input).unwrap();
        let fixture = Fixture::new(input);
        for (query, args) in QUERIES {
            let mut rg = Command::new("rg");
            rg.args(["--no-config", "-n"]).args(*args).arg(file.path());
            let want = rg.output().expect("ripgrep is on PATH").stdout;
            let (got, rendered) = fixture.render(&grep(&format!("-m0 {query}"))).unwrap();
            let got = if query.contains("-m") || query.starts_with("--") || *query == "-n" {
                fixture.render(&grep(query)).unwrap().0
            } else {
                assert_eq!(rendered.notice, None, "{query}");
                got
            };
            let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
            assert!(got == want, "text {at}, {query}:\n{}\n{}", text(&got), text(&want));
            let View::Grep(query) = grep(&format!("-m0 {query}")) else { unreachable!() };
            let whole = searched(&fixture, &query, ReadAheadSizes::default()).0;
            for sizes in [small(4096, 512, 1), small(300, 100, 40), small(64, 64, 1)] {
                let got = searched(&fixture, &query, sizes).0;
                let (got, want) = (text(&got), text(&whole));
                assert!(got == want, "text {at}, {query}, {sizes:?}:\n{got}\n{want}");
            }
        }
    }
}

#[test]
fn a_large_result_is_cut_and_says_how_to_go_on() {
    let text: String = (1..=8112)
        .map(|line| {
            if line % 2 == 0 {
                format!("{line:06} request timeout after thirty seconds, gave up at last\n")
            } else {
                format!("{line:06} fine\n")
            }
        })
        .collect();
    let fixture = Fixture::new(text);
    let all = String::from_utf8(fixture.render(&grep("-m0 timeout")).unwrap().0).unwrap();
    let (notice, body) = split_notice(&fixture.text(&grep("timeout")));
    assert_eq!(
        notice,
        "# 4,056 of 8,112 lines match; the first 747 follow. \
         Go on: /ctx/c7/artifacts/tool/9f3k.txt.grep/--from=1496 timeout    \
         All at once: /ctx/c7/artifacts/tool/9f3k.txt.grep/-m0 timeout\n"
    );
    let (next_notice, next) = split_notice(&fixture.text(&grep("--from=1496 timeout")));
    assert_eq!(
        next_notice,
        "# 3,309 of the 6,617 lines from line 1,496 on match; the first 738 follow. \
         Go on: /ctx/c7/artifacts/tool/9f3k.txt.grep/--from=2972 timeout    \
         All at once: /ctx/c7/artifacts/tool/9f3k.txt.grep/--from=1496 -m0 timeout\n"
    );
    assert!(all.starts_with(&(body + &next)));
}

pub(super) fn split_notice(text: &str) -> (String, String) {
    let body = text.split_inclusive('\n').skip_while(|line| line.starts_with("# "));
    let body: String = body.collect();
    (text[..text.len() - body.len()].to_owned(), body)
}

/// Runs the search and each search that a `Go on` notice names, and joins the results.
fn followed(fixture: &Fixture, query: &str) -> String {
    let mut all = String::new();
    let mut next = Some(query.to_owned());
    while let Some(query) = next {
        let (notice, body) = split_notice(&fixture.text(&grep(&query)));
        assert!(notice.len() + body.len() <= Limits::VIEW_BYTES);
        all.push_str(&body);
        next = notice.split_once("Go on: ").map(|(_, rest)| {
            let path = rest.split("    ").next().unwrap();
            path.split_once(".grep/").unwrap().1.to_owned()
        });
    }
    all
}

#[test]
fn going_on_misses_nothing() {
    let fixture = Fixture::new(log(6000));
    for query in
        ["REQ", "-C2 7[0-9] ", "-A9 ERROR", "-B5 0 G", "-o [0-9]", "-v ERROR", "-m3000 e", "-o \\w"]
    {
        let all = fixture
            .render(&grep(&format!("-m0 {}", query.trim_start_matches("-m3000 "))))
            .unwrap()
            .0;
        let mut all = String::from_utf8(all).unwrap().replace("--\n", "");
        if query.starts_with("-m") {
            all = all.lines().take(3000).flat_map(|line| [line, "\n"]).collect();
        }
        let got = followed(&fixture, query).replace("--\n", "");
        let differs = got.lines().zip(all.lines()).find(|(got, want)| got != want);
        assert!(got == all, "{query}: {differs:?}");
    }
}

#[test]
fn what_is_no_regex_is_searched_as_text() {
    let fixture = Fixture::new("call(unclosed [\ncall\n\\n x\n");
    let cases = [
        (
            "(unclosed [",
            "# not a regex (unclosed character class): searched as text\n1:call(unclosed [\n",
        ),
        ("call(", "# not a regex (unclosed group): searched as text\n1:call(unclosed [\n"),
        ("-o call(", "# not a regex (unclosed group): searched as text\n1:call(\n"),
        ("*", "# not a regex (repetition operator missing expression): searched as text\n"),
        (
            "\\n",
            "# not a regex (the literal \"\\n\" is not allowed in a regex): searched as text\n3:\\n x\n",
        ),
        ("-F call(", "1:call(unclosed [\n"),
    ];
    for (query, want) in cases {
        assert_eq!(fixture.text(&grep(query)), want, "{query}");
    }
    let huge = fixture.text(&grep("(\\w{100}){1000}"));
    assert_eq!(
        huge,
        "# not a regex (compiled regex exceeds size limit of 10485760): searched as text\n"
    );
}

#[test]
fn bytes_and_newlines_are_searched_as_text() {
    let fixture = Fixture::new(b"a\xffb\nx.y\n".to_vec());
    let query = |name: &[u8]| ViewDir::Grep.view(OsStr::from_bytes(name)).unwrap();
    assert_eq!(
        fixture.bytes(&query(b"\xffb")),
        b"# not a regex (not UTF-8): searched as text\n1:a\xffb\n"
    );
    let two = fixture.bytes(&query(b"x.y\n(?"));
    assert!(two.ends_with(b"searched as text\n2:x.y\n"), "{}", two.escape_ascii());
}

#[test]
fn long_lines_are_cut_around_their_matches() {
    let line = format!(
        "{}timeout{}timeout, timeout{}",
        "a".repeat(1000),
        "b".repeat(1000),
        "c".repeat(1000)
    );
    let fixture = Fixture::new(format!("short timeout\n{line}\nend\n"));
    let want = format!(
        "# some lines are long: 2@1001 is line 2 at byte column 1001\n\
         1:short timeout\n\
         2@1001:...{}timeout{}...\n\
         2@2008:...{}timeout, timeout{}...\n",
        "a".repeat(120),
        "b".repeat(367),
        "b".repeat(120),
        "c".repeat(358),
    );
    assert_eq!(fixture.text(&grep("timeout")), want);
    let around = fixture.text(&grep("-C1 end"));
    let start = "a".repeat(494);
    assert_eq!(
        around,
        format!("# some lines are long: 2@1 is line 2 at byte column 1\n2@1-{start}...\n3:end\n")
    );
    let inverted = fixture.text(&grep("-v end"));
    assert!(inverted.ends_with(&format!("1:short timeout\n2@1:{start}...\n")));
    assert_eq!(fixture.text(&grep("-c timeout")), "2\n");
    assert_eq!(fixture.text(&grep("-o timeout")), "1:timeout\n2:timeout\n2:timeout\n2:timeout\n");
    let rest = fixture.text(&grep("--from=2@2500 c{3}"));
    assert!(rest.contains("\n2@2500:...ccc"), "{rest}");
}

/// Returns a line of several pieces with a word wherever two pieces meet, and one more line on
/// either side.
fn giant() -> (String, Vec<usize>) {
    let mut text = "\u{e9}".repeat(2_500_000);
    let step = fold::PIECE - fold::OVERLAP;
    let mut places = vec![0, 100_000];
    places.extend(
        (1..5)
            .flat_map(|piece| [piece * step, piece * step + 40_000, piece * step + fold::OVERLAP]),
    );
    for place in &places {
        text.replace_range(place & !1..(place & !1) + 6, "needle");
    }
    places.sort_unstable();
    places.dedup();
    (text, places)
}

#[test]
fn giant_lines_are_searched_in_pieces() {
    let (line, places) = giant();
    let fixture = Fixture::new(format!("needle\n{line}\nlast needle\n"));
    let got = fixture.text(&grep("needle"));
    let columns: Vec<String> =
        places.iter().map(|place| format!("2@{}", (place & !1) + 1)).collect();
    let found: Vec<&str> =
        got.lines().skip(2).filter_map(|line| line.split_once(':')).map(|(at, _)| at).collect();
    assert_eq!(found[..columns.len()], columns);
    assert!(got.ends_with("\n3:last needle\n"));
    assert_eq!(fixture.text(&grep("-c needle")), "3\n");
    assert_eq!(fixture.text(&grep("-c -o needle")), format!("{}\n", places.len() + 2));
    assert_eq!(fixture.text(&grep("-v needle")), "");
    assert_eq!(fixture.text(&grep("-c -v nothing")), "3\n");
    assert_eq!(fixture.text(&grep("-c -v last")), "2\n");
    assert_eq!(fixture.text(&grep("-m1 -A1 needle")).lines().count(), 5);
    assert_eq!(fixture.text(&grep("-C1 last")).lines().last(), Some("3:last needle"));
}

#[test]
fn leaving_out_lines_changes_neither_giant_lines_nor_large_results() {
    let (line, _) = giant();
    let giants = Fixture::new(format!("{}{line}\n{}{line}", log(9000), log(2000)));
    let mut large = Fixture::new(log(200_000));
    // An incomplete analysis, so that the lines have to be counted.
    large.analysis.bytes = 0;
    let sizes = [small(50_000, 4096, 100), small(1 << 20, 128 << 10, 8 << 10)];
    for query in ["needle", "-v needle", "-c -o needle", "-C2 needle", "ERROR", "-B1 ERROR", "REQ"]
    {
        let View::Grep(query) = grep(query) else { unreachable!() };
        for fixture in [&giants, &large] {
            let (want, whole) = searched(fixture, &query, ReadAheadSizes::default());
            for sizes in sizes {
                let (got, rendered) = searched(fixture, &query, sizes);
                assert!(got == want, "{query}, {sizes:?}");
                assert_eq!(rendered.notice, whole.notice, "{query}, {sizes:?}");
            }
        }
    }
    let View::Grep(query) = grep("ERROR") else { unreachable!() };
    let notice = searched(&large, &query, sizes[0]).1.notice.unwrap();
    assert!(notice.starts_with("# 2,061 of 200,000 lines match; "), "{notice}");
}

#[test]
fn going_on_inside_a_giant_line_misses_nothing() {
    let text = "0123456789".repeat(300_000);
    let fixture = Fixture::new(text);
    let parts = followed(&fixture, "--from=1@1000001 -o .{1,400}");
    let joined: String = parts.lines().map(|line| line.split_once(':').unwrap().1).collect();
    assert!(joined == "0123456789".repeat(200_000));
    let first = fixture.text(&grep("-o .{1,400}"));
    let want = "# 1 of 1 line matches; the first follows, line 1 up to byte column 48,400. \
                Go on: /ctx/c7/artifacts/tool/9f3k.txt.grep/--from=1@48401 -o .{1,400}    \
                All at once: /ctx/c7/artifacts/tool/9f3k.txt.grep/-o -m0 .{1,400}\n";
    assert_eq!(split_notice(&first).0, want);
}

#[test]
fn a_search_can_run_out_of_time() {
    let fixture = Fixture::new(log(50_000));
    let asked = Cell::new(0);
    let expired = || asked.replace(asked.get() + 1) >= 4;
    let (body, rendered) = fixture.render_until(&grep("REQ-000001"), &expired).unwrap();
    assert!(!rendered.whole);
    assert!(body.starts_with(b"1:"));
    let notice = rendered.notice.unwrap();
    assert!(
        notice.starts_with("# out of time after 0.1 of 1.9 MB; what was found follows. Go on: "),
        "{notice}"
    );
    let from = notice.split_once("--from=").unwrap().1.split(' ').next().unwrap();
    let on = fixture.render(&grep(&format!("--from={from} REQ-049"))).unwrap();
    assert!(on.0.starts_with(b"49000:"));
    let (body, rendered) = fixture.render_until(&grep("--from=9 x"), &|| true).unwrap();
    assert_eq!((body.len(), rendered.whole), (0, false));
}

#[test]
fn a_search_that_ran_out_of_time_goes_on_where_lines_were_left_out() {
    let fixture = Fixture::new(log(20_000));
    let View::Grep(query) = grep("-m0 ERROR") else { unreachable!() };
    let want = searched(&fixture, &query, ReadAheadSizes::default()).0;
    for most in [3, 40, 41, 42, 43, 44, 200] {
        let asked = Cell::new(0);
        let expired = || asked.replace(asked.get() + 1) >= most;
        let (mut got, sizes) = (Vec::new(), small(5000, 1000, 100));
        let rendered =
            crate::grep::search(&query, &fixture.subject(), &expired, &mut got, sizes).unwrap();
        let notice = rendered.notice.unwrap();
        let from = notice.split_once("--from=").unwrap().1.split(' ').next().unwrap();
        let View::Grep(on) = grep(&format!("--from={from} -m0 ERROR")) else { unreachable!() };
        got.extend(searched(&fixture, &on, sizes).0);
        assert!(got == want, "{most}");
    }
}

#[test]
fn memory_for_context_is_bounded() {
    let lines = format!("{}\n", "x".repeat(fold::PIECE - 1)).repeat(80);
    let fixture = Fixture::new(lines + "end\n");
    let got = fixture.text(&grep("-B200 end"));
    assert!(got.starts_with("# lines too long for so much context: stopped before line "), "{got}");
}

/// Runs `grep` on `text`, and returns what it prints.
fn grep_prints(options: &[&str], pattern: &str, text: &str) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let mut grep = std::process::Command::new("grep");
    grep.arg("-n").args(options).arg("-e").arg(pattern).arg(file.path());
    String::from_utf8(grep.env("LC_ALL", "C.UTF-8").output().unwrap().stdout).unwrap()
}

const WRITTEN: &str = "start\nERROR: disk full\nretry 1\nfoobar foo\nError: gave up\nso it it is\n";

#[test]
fn look_around_is_what_grep_prints() {
    let fixture = Fixture::new(WRITTEN);
    for pattern in [
        "foo(?=bar)",
        "foo(?!bar)",
        "(?<=disk )full",
        "(?<!ERROR: )disk",
        "(\\w+) \\1",
        "^(?!.*ERROR).*r",
        "(?i)error(?=:)",
        "\\Kfoo",
        "o++b",
    ] {
        for options in ["-P ", "-oP ", "-cP ", "-vP ", "-inP ", "-wP ", "-P -C1 "] {
            let args: Vec<&str> = options.split_whitespace().collect();
            let mut want = grep_prints(&args, pattern, WRITTEN);
            if want == "0\n" {
                want.clear();
            }
            assert_eq!(
                fixture.text(&grep(&format!("{options}{pattern}"))),
                want,
                "{options}{pattern}"
            );
        }
    }
    assert_eq!(
        fixture.text(&grep("foo(?=bar)")),
        "# look-around, including look-ahead and look-behind, is not supported without -P: \
         searched with -P\n4:foobar foo\n"
    );
}

#[test]
fn what_models_write_is_understood() {
    let fixture = Fixture::new(WRITTEN);
    let place = "/ctx/c7/artifacts/tool/9f3k.txt.grep";
    for (query, like, reading, args, pattern) in [
        ("ERROR\\|gave", "basic grep", "ERROR|gave", &[][..], "ERROR\\|gave"),
        ("'disk full'", "a shell", "disk full", &[], "disk full"),
        ("-i \"DISK full\" -A 1", "a shell", "-i -A1 DISK full", &["-i", "-A1"], "disk full"),
        ("retry -B1", "a shell", "-B1 retry", &["-B1"], "retry"),
        ("grep -n 'gave up' log.txt", "a shell", "gave up", &[], "gave up"),
        ("-v 'ERROR\\|o'", "a shell and basic grep", "-v ERROR|o", &["-v"], "ERROR\\|o"),
    ] {
        let notice =
            format!("# nothing matches as it stands; read as {like} would: {place}/{reading}\n");
        let want = notice + &grep_prints(args, pattern, WRITTEN);
        assert_eq!(fixture.text(&grep(query)), want, "{query}");
    }
    for query in ["-E ERROR|gave", "-nE ERROR|gave", "-rn ERROR|gave", "-e ERROR -e gave"] {
        let want = grep_prints(&["-E"], "ERROR|gave", WRITTEN);
        assert_eq!(fixture.text(&grep(query)), want, "{query}");
    }
    let name = "9f3k.txt";
    for (query, want) in [
        ("-l gave", format!("{name}\n")),
        ("-L gave", String::new()),
        ("-L absent", format!("{name}\n")),
        ("-l absent", String::new()),
        ("-H gave", format!("{name}:5:Error: gave up\n")),
        ("-cH r", format!("{name}:4\n")),
        ("--include=*.py gave", "5:Error: gave up\n".to_owned()),
        ("-q gave", "# `--quiet` has no effect here\n5:Error: gave up\n".to_owned()),
        (
            "-U --sort path gave",
            "# `--multiline`, `--sort=path` have no effect here\n5:Error: gave up\n".to_owned(),
        ),
        (
            "-Q gave",
            "# nothing matches; `-Q` is no option here, so it was searched as text\n".to_owned(),
        ),
        ("-- -Q gave", String::new()),
        ("absent", String::new()),
        ("'absent'", String::new()),
    ] {
        assert_eq!(fixture.text(&grep(query)), want, "{query}");
    }
}

#[test]
fn a_pattern_that_takes_too_long_is_said_to() {
    let line = format!("{}b\n", "a".repeat(60));
    let fixture = Fixture::new(line.repeat(100) + "end\n");
    let text = fixture.text(&grep("-P ^(a|aa)+(?=c)\\1$"));
    assert!(text.starts_with("# the pattern takes too long: stopped before line "), "{text}");
}

#[test]
fn what_is_not_text_is_named() {
    let fixture = Fixture::new(b"\x01\0foo\n".to_vec());
    let want = "# not text (application/octet-stream, 6 bytes), so nothing follows. \
                The bytes: /ctx/c7/artifacts/tool/9f3k.txt\n";
    assert_eq!(fixture.text(&grep("foo")), want);
}

/// Generates lines that match seldom or often.
fn lines() -> impl Strategy<Value = Vec<u8>> {
    const SPECIAL: &[&str] =
        &["foo", "a foo", "foos b", "-foo-", "FOO", "caf\u{e9} foo", "foo\r", "\r", "\u{feff}foo"];
    let line = prop_oneof![
        9 => "[a-z]{0,9}".prop_map(String::into_bytes),
        1 => proptest::sample::select(SPECIAL).prop_map(|line| line.as_bytes().to_vec()),
        1 => proptest::collection::vec(b' '.., 0..6).prop_map(with_start),
    ];
    (proptest::collection::vec(line, 0..120), "\n?")
        .prop_map(|(lines, end)| [lines.join(&b'\n'), end.into_bytes()].concat())
}

/// Makes a line begin with the first byte of a character. Only in a line that begins inside a
/// character does a match depend on what else is in the searcher's buffer: to find a word boundary,
/// the regex engine joins the beginning of the line with the end of the line before.
fn with_start(mut line: Vec<u8>) -> Vec<u8> {
    if let Some(first @ 0x80..0xc0) = line.first_mut() {
        *first |= 0x40;
    }
    line
}

/// Patterns that examine the text beside a match, or that match the empty string.
const PATTERNS: &[&str] = &[
    "foo",
    "^foo",
    "foo$",
    "^",
    "$",
    "^$",
    "x*",
    "\\bfoo\\b",
    "\\B",
    "\\Bo",
    "o\\b",
    "\\w+ foo",
    "\\s",
    "[^a-z]",
    "\\A\\w",
    "\\w\\z",
    "(?R)foo$",
    "(?R)^f",
    "(?R)$",
    "(?-u)[^a-z]",
    "(?-u:\\B)",
    "(?s).",
    "zzz",
];

proptest! {
    #[test]
    fn leaving_out_lines_changes_nothing(
        text in lines(),
        options in "(-[iSFwxvco] |-[vco]{2} |-[ABCm][0-4] |--from=[1-9](@[1-9])? ){0,3}",
        pattern in proptest::sample::select(PATTERNS),
        (chunk, block, min_gap) in (16_usize..600, 8_usize..200, 1_usize..40),
    ) {
        let fixture = Fixture::new(text);
        let View::Grep(query) = grep(&format!("{options}{pattern}")) else { unreachable!() };
        let (got, rendered) = searched(&fixture, &query, small(chunk, block, min_gap));
        let (want, whole) = searched(&fixture, &query, ReadAheadSizes::default());
        let (got, want) = (got.escape_ascii().to_string(), want.escape_ascii().to_string());
        prop_assert_eq!(got, want);
        prop_assert_eq!(rendered.notice, whole.notice);
    }

    #[test]
    fn nothing_panics_and_results_stay_small(
        text in proptest::collection::vec(any::<u8>(), 0..4000),
        name in "(-[iSFwvcxo]{1,3} |-[ABCm][0-9]{1,2} |--from=[1-9](@[1-9]{1,3})? ){0,2}[ -~]{1,12}",
    ) {
        let fixture = Fixture::new(text.into_iter().map(|byte| byte.max(1)).collect::<Vec<u8>>());
        if let Some(view) = ViewDir::Grep.view(OsStr::new(&name)) {
            let once = fixture.bytes(&view);
            prop_assert!(name.contains("-m0") || once.len() <= Limits::VIEW_BYTES);
            prop_assert_eq!(once, fixture.bytes(&view));
        }
    }
}
