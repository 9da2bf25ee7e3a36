use super::*;

fn found(text: &[u8], step: usize) -> Sections {
    let mut sections = SectionDetector::new();
    text.chunks(step).for_each(|part| sections.push(ByteBlock::new(part, &mut Vec::new())));
    let newline = u64::from(text.last().is_some_and(|last| *last != b'\n'));
    sections.finish(memchr::memchr_iter(b'\n', text).count() as u64 + newline)
}

/// Returns a text such as `12-80 src/a.rs` for each section in `shown`.
fn told(text: &str) -> Vec<String> {
    let tell = |section: &Section| {
        let start = usize::try_from(section.offset).unwrap();
        let name = &text[start..start + section.length as usize];
        format!("{}-{} {name}", section.line, section.last)
    };
    found(text.as_bytes(), text.len()).shown.iter().map(tell).collect()
}

macro_rules! outputs {
    ($($name:ident $file:literal [$($section:literal),* $(,)?];)*) => {$(
        #[test]
        fn $name() {
            let text = include_str!(concat!("testdata/", $file));
            let sections: &[&str] = &[$($section),*];
            assert_eq!(told(text), sections);
            let windows = text.replace('\n', "\r\n");
            assert_eq!(told(&windows).len(), sections.len(), "with carriage returns");
            for step in [1, 7, 100] {
                let (cut, whole) = (found(text.as_bytes(), step), found(text.as_bytes(), 9999));
                assert_eq!(cut, whole, "in pieces of {step}");
            }
        }
    )*};
}

outputs! {
    pytest "pytest.txt" [
        "1-9 test session starts",
        "10-10 FAILURES",
        "11-19 test_total",
        "20-34 TestOrder.test_ship",
        "35-38 short test summary info",
    ];
    cargo_test "cargo-test.txt" ["3-23 src/lib.rs", "24-30 tests/it/main.rs", "31-36 Doc-tests shop"];
    jest "jest.txt" ["1-4 src/user.test.js", "5-14 src/cart.test.tsx", "15-20 src/order.spec.mjs"];
    go_test "go-test.txt" ["1-4 TestAdd", "5-8 TestTotal", "9-17 TestCrash"];
    go_test_without_passes "go-test-short.txt" ["1-3 TestTotal", "4-8 TestShip"];
    maven "maven.txt" [
        "5-8 com.shop:cart",
        "9-11 maven-compiler-plugin:3.11.0:compile",
        "12-15 maven-surefire-plugin:3.2.5:test",
        "16-21 com.shop.CartTest",
        "22-25 com.shop:order",
    ];
    make "make.txt" ["1-6 /home/me/shop/lib", "7-13 /home/me/shop/app"];
    cmake "cmake.txt" [
        "1-5 src/CMakeFiles/shop.dir/cart.cpp.o",
        "6-10 src/CMakeFiles/shop.dir/order.cpp.o",
        "11-11 Linking CXX executable shop",
        "12-12 shop",
    ];
    diff "diff.txt" ["1-9 src/cart.rs", "10-19 docs/new name.md", "20-25 caf\\303\\251.txt"];
    git_log "git-log.txt" ["1-13 83db48f2a1c0", "14-18 bf0c1a2d3e4f"];
    markdown "markdown.md" ["1-4 Shop", "5-11 Install", "12-16 Use", "17-20 Carts", "21-23 Orders"];
    docker "docker.txt" [
        "1-4 [internal] load build definition from Dockerfile",
        "5-7 [2/5] WORKDIR /app",
        "8-11 [3/5] RUN pip install -r requirements.txt",
    ];
    heads_of_files "heads.txt" ["1-4 app.log", "5-7 db.log"];
    listing "listing.txt" ["1-5 .", "6-9 ./src"];
    a_script_has_none "script.py" [];
    a_configuration_has_none "config.yaml" [];
    sections_of_a_line_or_two_are_none "progress.txt" [];
}

/// Checks the sections of a text. Repeats the check with the text in pieces and with carriage
/// returns.
fn check(text: &str, sections: &[&str]) {
    assert_eq!(told(text), sections, "{text}");
    assert_eq!(told(&text.replace('\n', "\r\n")).len(), sections.len(), "{text}");
    for step in [1, 7, 100] {
        let (cut, whole) = (found(text.as_bytes(), step), found(text.as_bytes(), 9999));
        assert_eq!(cut, whole, "in pieces of {step}");
    }
}

#[test]
fn manual_pages_have_capital_headings() {
    let page = "XARGS(1)   Commands   XARGS(1)\n\nNAME\n       xargs - build\n\nSEE ALSO\n\tfind(1)\n\n\
                       WARNING\n       text\n\n\nFAILED\nno page goes on so\n";
    check(page, &["3-5 NAME", "6-8 SEE ALSO", "9-14 WARNING"]);
    check("BEGIN\nCOMMIT\n\nBEGIN\nCOMMIT\n\nBEGIN\nCOMMIT\n", &[]);
}

#[test]
fn headings_may_be_underlined() {
    let text = "Shop\n====\n\nA shop.\n\nInstall caf\u{e9}s\n-------------\n\nRun it.\n\n=====\nNotes\n=====\nx\n";
    check(text, &["1-5 Shop", "6-11 Install caf\u{e9}s", "12-14 Notes"]);
    let table = " id | name\n----+-----\n  1 | a\n\nrow\n-------------------------\n1\n2\n3\n4\n";
    check(table, &[]);
}

#[test]
fn listings_have_directories() {
    let listing = "/srv:\ntotal 8\n-rw-r--r-- 1 a a 1 x\n-rw-r--r-- 1 a a 1 y\n\n\
                   my dir/sub:\ntotal 4\n-rw-r--r-- 1 a a 1 z\n-rw-r--r-- 1 a a 1 y\n";
    check(listing, &["1-5 /srv", "6-9 my dir/sub"]);
}

#[test]
fn texts_have_numbered_headings() {
    let text = "1. Introduction\nWe begin.\nAnd so on.\n\n1.1 Terms and words\nA term is a word.\n\
                It is.\n\n2. This is only a long sentence.\nx\n";
    check(text, &["1-4 1. Introduction", "5-10 1.1 Terms and words"]);
}

#[test]
fn search_results_have_files() {
    let results = "src/a.rs:1:fn a() {\nsrc/a.rs:12:}\n--\nsrc/b.rs:7:x: 7:\nc.rs:1:== y ==\n";
    check(results, &["1-3 src/a.rs", "4-4 src/b.rs", "5-5 c.rs"]);
    check("src/a.rs:1:x\nsrc/b.rs:2:y\nand this is text\n", &[]);
    check("12:30:01 a\n12:30:02 b\n", &[]);
}

#[test]
fn dumps_have_tables() {
    let dump = "BEGIN;\nCREATE TABLE jobs(id INTEGER);\nINSERT INTO jobs VALUES(1);\nINSERT INTO jobs \
                VALUES(2);\nCREATE TABLE IF NOT EXISTS \"log\" (\n  id int\n);\nCOPY public.x (id) FROM \
                stdin;\n1\n2\n\\.\n";
    check(dump, &["2-4 jobs", "5-7 log", "8-11 public.x"]);
}

#[test]
fn a_test_run_ends_with_its_result() {
    let run = "=== FAILURES ===\nx\ny\nz\n=== short test summary info ===\nFAILED a\nFAILED b\n\
               === 2 failed, 3 passed in 0.12s ===\nWheel  1.0\npip  2.0\n";
    check(run, &["1-4 FAILURES", "5-8 short test summary info"]);
}

#[test]
fn signals_in_a_trace_are_no_sections() {
    let signal =
        "--- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED} ---\nread(3) = 0\nread(3) = 0\n";
    check(&signal.repeat(3), &[]);
}

fn statuses(text: &str, step: usize) -> Vec<(u16, u64)> {
    let mut sections = SectionDetector::new();
    text.as_bytes()
        .chunks(step)
        .for_each(|part| sections.push(ByteBlock::new(part, &mut Vec::new())));
    sections.statuses(text.lines().count() as u64)
}

#[test]
fn access_logs_have_statuses() {
    let entry = |n: usize| {
        let status = if n % 10 == 3 { 502 } else { 200 };
        format!(
            "10.0.0.1 - - [23/Nov/2026:05:40:55 +0000] \"GET /{n} HTTP/1.1\" {status} 9 \"-\"\n"
        )
    };
    let log: String = (0..100).map(entry).collect();
    for step in [1, 7, 9999] {
        assert_eq!(statuses(&log, step), [(200, 90), (502, 10)]);
    }
    assert_eq!(statuses(&(log + &"a line of text\n".repeat(101)), 9999), []);
    assert_eq!(statuses("curl: HTTP/1.1 200 OK\n", 9999), []);
}

#[test]
fn every_heading_begins_with_a_fragment() {
    let texts = [
        include_str!("testdata/pytest.txt"),
        include_str!("testdata/cargo-test.txt"),
        include_str!("testdata/maven.txt"),
        include_str!("testdata/cmake.txt"),
        include_str!("testdata/docker.txt"),
        include_str!("testdata/diff.txt"),
        include_str!("testdata/markdown.md"),
        "FAIL: test_x (a.B)\nERROR: test_y (a.B)\nIndex: x\ndiff -ru a b\ngmake[2]: Entering directory `/x'\n\
         PLAY [all] ***\nTASK [x : y] ****\nRUNNING HANDLER [z] **\nPLAY RECAP ***\nStep 1/4 : FROM x\n\
         ##[group]Run\n::group::Build\n> Task :app:compile\n> shop@1.0.0 build\n==> Pouring x\n../x/y:\n..:\n./z:\n",
    ];
    let mut headings = 0;
    for line in texts.iter().flat_map(|text| text.lines()) {
        if kinds::heading(line.as_bytes(), true, false).is_some() {
            assert!(FRAGMENTS.begin(line.as_bytes()), "{line}");
            headings += 1;
        }
    }
    assert!(headings >= 40, "{headings}");
}

#[test]
fn the_first_and_the_largest_of_many_are_shown() {
    let body = |n: usize| "x\n".repeat(if n.is_multiple_of(100) { 50 } else { 4 });
    let section = |n: usize| format!("==> file {n} <==\n{}", body(n));
    let text: String = (1..=5000).map(section).collect();
    let sections = found(text.as_bytes(), text.len());
    assert_eq!((sections.count, sections.shown.len()), (5000, 32));
    let told = told(&text);
    assert_eq!(told[15], "76-80 file 16");
    assert_eq!(told[16], "496-546 file 100");
    assert_eq!(told[31], format!("{} file 1600", "8686-8736"));
}

#[test]
fn sections_that_divide_little_are_not_reported() {
    let heads = "==> a <==\n1\n2\n==> b <==\n3\n4\n";
    assert_eq!(told(&format!("{}{heads}", "log\n".repeat(6))).len(), 2);
    assert_eq!(told(&format!("{}{heads}", "log\n".repeat(7))).len(), 0);
    assert_eq!(told("==> a <==\n1\n2\n").len(), 0);
}

proptest::proptest! {
    #[test]
    fn cuts_do_not_matter_in_long_texts(
        lines in proptest::collection::vec(
            proptest::sample::select(vec![
                "", "", "text", "more text of a paragraph", "NAME", "       indented", "Title", "=====",
                "-----", "/usr/lib:", "total 4", "1.2 Words", "a/b.rs:1:x", "\r", "text\r",
                "h \"GET / HTTP/1.1\" 200 9", "## Heading",
            ]),
            0..300,
        ),
        calm in 0_usize..100,
        step in 1_usize..60,
    ) {
        let text = "text\n".repeat(calm) + &lines.join("\n");
        let whole = found(text.as_bytes(), usize::MAX);
        proptest::prop_assert_eq!(found(text.as_bytes(), step), whole);
        proptest::prop_assert_eq!(statuses(&text, step), statuses(&text, usize::MAX));
    }
}
