use super::*;

fn found(bytes: &[u8]) -> Errors {
    let mut failures = FailureDetector::default();
    failures.push(ByteBlock::new(bytes, &mut Vec::new()));
    failures.finish()
}

fn shown(text: &str) -> Vec<&str> {
    let line = |at: &ErrorLine| {
        let start = usize::try_from(at.offset).unwrap();
        let line = &text[start..start + at.length as usize];
        assert_eq!(text[..start].matches('\n').count() as u64 + 1, at.line, "{line}");
        line.trim()
    };
    found(text.as_bytes()).shown.iter().map(line).collect()
}

fn passes(text: &str) {
    for line in text.lines().map(str::as_bytes) {
        let looked_at =
            rules::rank(&noise::blanked(line)).is_none() || prefilter::find(line, 0).is_some();
        assert!(looked_at, "no fragment stands in {}", String::from_utf8_lossy(line));
    }
}

macro_rules! outputs {
    ($($name:ident $file:literal $count:literal [$($line:literal),* $(,)?] $words:literal;)*) => {$(
        #[test]
        fn $name() {
            let text = include_str!(concat!("testdata/", $file));
            passes(text);
            let errors = found(text.as_bytes());
            let lines: &[&str] = &[$($line),*];
            let first: Vec<&str> = shown(text).into_iter().take(lines.len()).collect();
            assert_eq!(first, lines, "all: {:#?}", shown(text));
            let all = shown(text);
            assert_eq!((errors.count, &*errors.words.join("|")), ($count, $words), "{all:#?}");
        }
    )*};
}

outputs! {
    rustc "rustc.txt" 3 [
        "error[E0308]: mismatched types",
        "error[E0433]: failed to resolve: use of undeclared type `HashMap`",
        "error: could not compile `shop` (bin \"shop\") due to 2 previous errors; 1 warning emitted",
    ] "error|failed";
    cargo_test "cargo-test.txt" 7 [
        "assertion `left == right` failed: the sum is off",
        "left: 41",
        "right: 42",
    ] "assert|failed|panicked|FAILED|error";
    pytest "pytest.txt" 5 ["E       assert 7 == 8"] "assert|FAILED|failed";
    python "python.txt" 4 ["KeyError: 'price'", "shop.errors.ImportFailed: row 17"] "Error|error|Traceback";
    java "java.txt" 3 [
        "Caused by: java.io.FileNotFoundException: /etc/shop.yml (No such file or directory)",
    ] "Caused by|Exception|No such file";
    maven "maven.txt" 5 ["org.opentest4j.AssertionFailedError: expected: <8> but was: <7>"] "Error|ERROR|FAIL";
    gcc_and_make "gcc-make.txt" 3 [
        "main.c:5:3: error: 'x' undeclared (first use in this function)",
        "make[1]: *** [Makefile:3: main.o] Error 1",
        "make: *** [Makefile:9: all] Error 2",
    ] "error|Error";
    go_test "go-test.txt" 7 [
        "cart_test.go:12: Total() = 7, want 8",
        "panic: runtime error: index out of range [3] with length 3 [recovered]",
        "exit status 2",
    ] "panic|error|FAIL";
    go_build "go-build.txt" 2 [
        "./cart.go:14:7: undefined: lenght",
        "./cart.go:20:2: declared and not used: n",
    ] "";
    jest "jest.txt" 7 [
        "expect(received).toBe(expected) // Object.is equality",
        "Expected: 8",
        "Received: 7",
    ] "Expected:|FAIL|failed";
    npm "npm.txt" 6 ["npm ERR! code ERESOLVE"] "ERR!";
    node "node.txt" 1 ["TypeError: port must be a number"] "Error";
    docker "docker.txt" 4 [
        "#7 2.013 ERROR: Could not find a version that satisfies the requirement requests==2.99",
        "#7 2.014 ERROR: No matching distribution found for requests==2.99",
    ] "ERROR|failed|exit code";
    kubectl "kubectl.txt" 2 [
        "shop-7d4b9c6f5-8hjzl    0/1     CrashLoopBackOff   17 (2m ago)   3d",
        "Error from server (NotFound): pods \"cart\" not found",
    ] "Error|not found";
    git "git.txt" 2 [
        "error: Your local changes to the following files would be overwritten by merge:",
        "fatal: Exiting because of an unresolved conflict.",
    ] "fatal|error";
    shell "shell.txt" 4 [
        "bash: line 3: jqq: command not found",
        "cat: /etc/shop.conf: No such file or directory",
        "./run.sh: line 9:  4312 Killed                  ./worker --failed=0",
        "Process completed with exit code 137.",
    ] "Killed|No such file|not found|failed|exit code";
    log "log.txt" 5 [
        "2026-11-21T10:00:02Z ERROR request timeout after 30s",
        "time=\"2026-11-21T10:00:04Z\" level=error msg=\"upstream closed\"",
    ] "ERROR|error|timeout";
    anyhow "anyhow.txt" 4 ["1: No such file or directory (os error 2)"] "error|No such file|Error|Caused by";
    clean "clean.txt" 0 [] "";
    listing "listing.txt" 0 [] "";
    names_beside_errors "names.txt" 14 [
        "java.util.concurrent.TimeoutException: after 30s",
        "assertion failed: `tests/timeout_test.rs` (left == right)",
        "src/main.rs:3:5: error: cannot find value `x`",
        "ls: cannot access '/no/such/errors': No such file or directory",
        "gcc: error: timeout.c: No such file or directory",
        "cp: cannot stat 'failed.txt': Permission denied",
        "[ERROR] /srv/shop/src/errors/Cart.java:[14,7] cannot find symbol",
        "./errors.go:14:7: undefined: lenght",
        "\"GET /img/timeout.png HTTP/1.1\" 500",
        "error.rs:10: panic: the queue is full",
        "GET https://example.org/error.html: request timed out.",
        "socket.timeout: timed out",
        "copying errors.py failed: disk full",
        "tests/timeout_test.py FAILED",
    ] "Exception|assert|failed|ERROR|error|Permission denied";
}

#[test]
fn messages_of_tools_are_ranked_by_their_form() {
    for (line, rank) in [
        ("Permissions 0644 for '/home/a/.ssh/id' are too open.", ErrorRank::Error),
        ("Load key \"id\": bad permissions", ErrorRank::Error),
        ("convert: no images defined `a.jpg' @ error/convert.c/Command/32.", ErrorRank::Error),
        ("in/clip-2.mp4: Invalid data found when processing input", ErrorRank::Error),
        ("      src/grid.c:104:27: error: 'x' undeclared", ErrorRank::Error),
        ("  = note: rust-lld: error: undefined symbol: x", ErrorRank::Error),
        ("    Failure/Error: expect(x).to eq(1)", ErrorRank::Cause),
        ("        Error [BalanceError]: no balance", ErrorRank::Cause),
        ("  [cause]: browserType.launch: no such browser", ErrorRank::Cause),
        ("Program terminated with signal SIGSEGV, Segmentation fault.", ErrorRank::Error),
        (r#"{"service":"a","status":"failed"}"#, ErrorRank::Logged),
        (r#" "status": "failed""#, ErrorRank::Report),
        (r#"{"uri":"/a","status":502}"#, ErrorRank::Logged),
        ("GET /a status=500 12ms", ErrorRank::Logged),
        ("#   Failed test 'a'", ErrorRank::Error),
        ("Can't open 'a': No such file at a.pl line 3.", ErrorRank::Error),
        ("Tests:       2 failed, 1 skipped, 3 total", ErrorRank::Tally),
        (r#"{"Action":"output","Test":"A","Output":"    a_test.go:3: got 1\n"}"#, ErrorRank::Cause),
    ] {
        let errors = found(line.as_bytes());
        assert_eq!(errors.shown.first().map(|at| at.rank), Some(rank), "{line}");
        passes(line);
    }
}

#[test]
fn lines_of_other_things_are_no_errors() {
    for line in [
        "(node:20) MaxListenersExceededWarning: leak, 11 error listeners added",
        "/app/a.py:11: DeprecationWarning: level FAILURE is deprecated, use ERROR",
        "  knows the rate (PENDING: error in the tables)",
        "ERROR:feed:page 3 skipped, its answer is no JSON",
        "+++ exited with 4 +++",
        "a.timer:2: Failed to parse calendar specification, ignoring: *-*-* 25:00:00",
        "tests/test_parse.py::test_login[FAILURE-Segmentation fault]",
        "    error: null,",
        "  \"errors\": [],",
        "run --failure-level=ERROR book.adoc",
        "  res.statusCode = 500",
        "- `status: 500` - the status code as a number",
        "-rw-r--r-- 1 root root 20 Jan  1 00:00 permissions",
        r#"{"Action":"output","Test":"A","Output":"    --- PASS: A/error (0.00s)\n"}"#,
    ] {
        assert_eq!(shown(line), [""; 0], "{line}");
    }
}

#[test]
fn the_last_of_lines_alike_is_known() {
    let errors = found(b"ERROR a 1\nx\nERROR a 2\nERROR a 3\n");
    let last = errors.shown[0].last.map(|last| (last.line, last.offset));
    assert_eq!((errors.shown[0].times, last), (3, Some((4, 22))));
    assert_eq!(found(b"ERROR a 1\nERROR b\n").shown[0].last, None);
}

#[test]
fn lines_that_differ_in_digits_are_shown_once() {
    let lines: Vec<String> = (1..=10_000).map(|n| format!("ERROR request {n} failed\n")).collect();
    let mut text = lines.concat();
    text.push_str("make: *** [all] Error 2\n");
    let errors = found(text.as_bytes());
    assert_eq!(errors.count, 10_001);
    assert_eq!(shown(&text), ["make: *** [all] Error 2", "ERROR request 1 failed"]);
}

#[test]
fn first_and_last_of_many_are_shown() {
    let word = |n: usize| ["a", "b", "c", "d", "e", "f", "g", "h"][n % 8].repeat(n / 8 + 1);
    let lines: Vec<String> = (0..800).map(|n| format!("error: {}\n", word(n))).collect();
    let text = lines.concat();
    let shown = shown(&text);
    assert_eq!(shown.len(), 16);
    assert_eq!(shown[0], "error: a");
    assert_eq!(shown[15], format!("error: {}", word(799)));
}

#[test]
fn only_the_start_of_a_long_line_is_examined() {
    let far = format!("{}error: far\nerror: near\n", "x".repeat(LINE_BYTES));
    assert_eq!(shown(&far), ["error: near"]);
    let long = format!("error: {}\n", "x".repeat(2 * LINE_BYTES));
    assert_eq!(found(long.as_bytes()).shown[0].length as usize, LINE_BYTES);
}

#[test]
fn numbers_that_matter_make_kinds() {
    let kinds = |lines: &[&str]| {
        let text = lines.join("\n") + "\n";
        shown(&text).len()
    };
    for lines in [
        ["not ok 4 - adds 123", "not ok 7 - adds 456"],
        ["test parse::case_7 ... FAILED", "test parse::case_9 ... FAILED"],
        ["ERROR: job 1 exited with code 2", "ERROR: job 2 exited with code 137"],
        ["ERROR GET /items/1 status=500", "ERROR GET /items/2 status=503"],
        ["Tests: 2 failed, 8 passed", "Tests: 3 failed, 8 passed"],
        ["1 \"GET /a HTTP/1.1\" 500 7", "2 \"GET /a HTTP/1.1\" 503 7"],
    ] {
        assert_eq!(kinds(&lines), 2, "{lines:?}");
    }
    let request = ["ERROR request 7 failed with code 5", "ERROR request 8 failed with code 5"];
    assert_eq!(kinds(&request), 1);
}

#[test]
fn a_name_unlike_the_others_stays() {
    let name = |n: usize| format!("not ok {n} - {}\n", if n == 40 { "parses" } else { "adds" });
    let names: Vec<String> = (0..90).map(name).collect();
    assert!(shown(&names.concat()).iter().any(|line| line.ends_with("parses")));
}
