//! Errors that a reader can ignore: a program logged, ignored, retried or caught them, or a test
//! that passed printed them.

use crate::errors::context::ErrorContext;
use ctxfs_core::materialize::Pattern;

const PANIC_LINES: usize = 400;
const CHECK_LINES: usize = 60;
const REQUEST_LINES: usize = 40;
const TEST_LINES: usize = 12;
const NAME_LINES: usize = 200;
const DETAIL_LINES: usize = 30;

pub(super) fn is_handled(lines: &ErrorContext) -> bool {
    entry_above(lines).is_some_and(|entry| REMARK.is_match(entry) || HANDLED.is_match(entry))
        || is_ignored_task(lines)
        || is_tried_again(lines)
        || is_on_console(lines)
        || is_caught_panic(lines)
        || is_repeated_request(lines)
        || is_of_check(lines)
}

pub(super) fn is_logged(lines: &ErrorContext) -> bool {
    entry_above(lines).is_some_and(|entry| ENTRY.is_match(entry) || is_level(entry))
}

fn is_level(entry: &str) -> bool {
    LEVEL.is_match(entry) && !entry.contains("Time elapsed")
}

// Returns the log line above the stack trace that this line belongs to.
fn entry_above(lines: &ErrorContext) -> Option<&str> {
    let is_trace = |line: &str| TRACE_LINE.is_match(line);
    let has_frames = lines.above().next().is_some_and(is_trace)
        || lines.below().next().is_some_and(|line| FRAME.is_match(line));
    if !(has_frames && is_trace(lines.own())) {
        return None;
    }
    lines.above().find(|line| !is_trace(line))
}

/// Recognizes a failed Ansible task that is ignored or rescued. A task was rescued if its host has
/// further tasks.
fn is_ignored_task(lines: &ErrorContext) -> bool {
    let Some(host) = TASK.group(lines.own(), 1) else { return false };
    let is_heading = |line: &&str| TASKS.is_match(line);
    let further = lines.below().skip_while(|line| !is_heading(line));
    let mut of_play = further.take_while(|line| !line.starts_with("PLAY "));
    lines.below().next() == Some("...ignoring")
        || of_play.any(|line| RESULT.group(line, 1) == Some(host))
}

fn is_tried_again(lines: &ErrorContext) -> bool {
    let next = lines.below().find(|line| !TRACE_LINE.is_match(line) && !line.is_empty());
    !ENTRY.is_match(lines.own()) && next.is_some_and(|line| RETRY.is_match(line))
}

fn is_on_console(lines: &ErrorContext) -> bool {
    lines.above().take(2).find(|line| !line.is_empty()).is_some_and(|line| CONSOLE.is_match(line))
}

/// Recognizes a panic that a test caught: the same thread panicked again later in the test.
fn is_caught_panic(lines: &ErrorContext) -> bool {
    let mut near = std::iter::once(lines.own()).chain(lines.above().take(3));
    let thread = near.find_map(|line| PANICKED.group(line, 1));
    let heading = || lines.above().take(PANIC_LINES).find_map(|line| STDOUT.group(line, 1));
    let Some(test) = thread.filter(|thread| heading() == Some(thread)) else { return false };
    let of_test = || lines.below().take_while(|line| !STDOUT.is_match(line));
    of_test().any(|line| PANICKED.group(line, 1) == Some(test))
        && !of_test().any(|line| TWICE.is_match(line))
}

// Recognizes a failed response to a request that curl retried successfully.
fn is_repeated_request(lines: &ErrorContext) -> bool {
    let failed = RESPONSE.group(lines.own(), 1) == Some("5");
    let mut above = lines.above().take(REQUEST_LINES).filter(|_| failed);
    let Some(request) = above.find(|line| REQUEST.is_match(line)) else { return false };
    let mut below = lines.below();
    while below.by_ref().any(|line| line == request) {
        if below.by_ref().find_map(|line| RESPONSE.group(line, 1)) == Some("2") {
            return true;
        }
    }
    false
}

fn is_of_check(lines: &ErrorContext) -> bool {
    let is_check = |line: &str| CHECK.is_match(line);
    !lines.own().starts_with("configure:") && lines.above().take(CHECK_LINES).any(is_check)
}

// Matches the time at the beginning of a log line.
pub(super) static ENTRY: Pattern = Pattern::new(
    r"^\W{0,3}(\d{4}[-/]\d\d[-/]\d\d[ T]|\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:|\d+:[A-Z] \d\d )",
);
// Matches the level of a log line without a time.
static LEVEL: Pattern = Pattern::with("R", r"^(.* )?\[?(ERROR|CRITICAL|SEVERE)[:\] ]");
static TRACE_LINE: Pattern = Pattern::new(
    r"^\s+at |^\s+\.\.\. \d+ more|^\s*Caused by: |^\s+File |^\s{4}|^\s*\+ Exception Group |^\s*\+-|^Traceback |^\s*\[cause\]: |^\s+[\w']+: \S|^([a-zA-Z_]\w*\.)*([A-Z]\w*)?(Error|Exception|ExceptionGroup)\b",
);
static FRAME: Pattern = Pattern::new(r"^\s+(at|File) ");
static REMARK: Pattern = Pattern::new(r"^.{0,60}?\b(WARN|WARNING|DEBUG|TRACE)\b|^W\d{4} \d\d:");
// Matches words in log lines about harmless errors.
static HANDLED: Pattern = Pattern::new(
    r"\b([Rr]etrying|[Rr]econnecting|[Ii]gnored|[Ii]gnoring|[Ss]kipped|[Ss]kipping|is optional)\b",
);
static TASK: Pattern = Pattern::with("]: ", r"^(?:fatal|failed): \[([^\] ]+).*?\]: ");
static TASKS: Pattern = Pattern::with(" [", r"^(TASK|RUNNING HANDLER) \[");
static RESULT: Pattern =
    Pattern::with(": [", r"^(?:ok|changed|skipping|fatal|failed): \[([^\] ]+)");
static RETRY: Pattern =
    Pattern::new(r"\b([Rr]etrying|[Ww]ill retry|[Tt]rying again|[Ff]alling back)\b|\(ok\b");
static CONSOLE: Pattern = Pattern::with("console.", r"^\s*console\.(error|warn|log|info|debug)$");
static PANICKED: Pattern = Pattern::with("panicked", r"^thread '(.+?)' (?:\(\d+\) )?panicked at ");
static STDOUT: Pattern = Pattern::with(" stdout ---", r"^---- (.+) stdout ----$");
// Matches a panic during the unwinding of another one. The first panic was not caught.
static TWICE: Pattern = Pattern::with("panic", r"while processing panic|in a destructor during");
static RESPONSE: Pattern = Pattern::with("< HTTP/", r"^< HTTP/[\d.]+ (\d)\d\d\b");
static REQUEST: Pattern = Pattern::with(" HTTP/", r"^> [A-Z]+ \S+ HTTP/");
static CHECK: Pattern = Pattern::with("configure:", r"^configure:\d+: ");

/// Returns true for a line that was printed by a test that passed in the end, or whose failure is
/// expected.
pub(super) fn is_of_passing_test(lines: &ErrorContext) -> bool {
    is_before_ok(lines)
        || is_between_own_lines(lines)
        || is_of_passing_go_test(lines)
        || is_of_retried_test(lines)
        || is_before_tap_ok(lines)
        || is_to_do(lines)
        || is_in_section_of_passes(lines)
}

// Recognizes a line in the output of a test that begins like `test_a ... ERROR x` and ends with an
// `ok` line.
fn is_before_ok(lines: &ErrorContext) -> bool {
    let test = |line: &str| TEST.is_match(line);
    let above = || lines.above().take(TEST_LINES).find(|line| test(line) || line.is_empty());
    let begins = test(lines.own()) || above().is_some_and(test);
    let end = lines.below().take(TEST_LINES).find(|line| test(line) || *line == "ok");
    begins && end == Some("ok")
}

// Recognizes a line between `name: ...` and the matching `name: ok`.
fn is_between_own_lines(lines: &ErrorContext) -> bool {
    let name = lines.below().next().and_then(|line| line.strip_suffix(": ok"));
    let above = lines.above().next();
    name.zip(above).is_some_and(|(name, above)| {
        above.strip_prefix(name).is_some_and(|rest| rest.starts_with(": "))
    })
}

fn is_of_passing_go_test(lines: &ErrorContext) -> bool {
    let mut above = lines.above().take(NAME_LINES).take_while(|line| !GO_END.is_match(line));
    let Some(test) = above.find_map(|line| GO_TEST.group(line, 1)) else { return false };
    let end = lines.below().find(|line| GO_END.group(line, 2) == Some(test));
    end.is_some_and(|line| GO_END.group(line, 1) != Some("FAIL"))
}

// Recognizes the output of a failed attempt at a test that passed when nextest retried it.
fn is_of_retried_test(lines: &ErrorContext) -> bool {
    let tried = lines.above().take(NAME_LINES).find_map(|line| TRY.group(line, 2));
    let passed = |line: &str, test: &str| {
        TRY.group(line, 2) == Some(test) && TRY.group(line, 1) == Some("PASS")
    };
    tried.is_some_and(|test| lines.below().any(|line| passed(line, test)))
}

/// Recognizes a line that a test printed before its passing verdict in TAP. The explanation of a
/// failed verdict comes after the verdict.
fn is_before_tap_ok(lines: &ErrorContext) -> bool {
    let explains = lines.own().starts_with(['#', ' ', '\t']) || TAP.is_match(lines.own());
    let above = lines.above().take(TEST_LINES).any(|line| TAP.is_match(line));
    let mut below = lines.below().take(TEST_LINES);
    let next = below.find(|line| TAP.is_match(line) || TAP_END.is_match(line));
    above && !explains && next.is_some_and(|line| line.starts_with("ok "))
}

/// Recognizes a test that is expected to fail: `# TODO` in TAP, or a reason after the time in a
/// report of Node.
fn is_to_do(lines: &ErrorContext) -> bool {
    let tap = lines.above().take(DETAIL_LINES).find(|line| TAP.is_match(line));
    let spec = lines.above().take(4).find(|line| SPEC.is_match(line));
    tap.is_some_and(|line| TO_DO.is_match(line)) || spec.is_some_and(|line| line.contains(") # "))
}

// Recognizes the sections in which pytest repeats the output of passing tests and lists warnings. A
// test may run pytest itself, whose output has sections too: from a session's start to its totals.
fn is_in_section_of_passes(lines: &ErrorContext) -> bool {
    let (mut own, mut inner, mut ended) = (None, None, 0_u32);
    for section in lines.above().filter_map(|line| SECTION.group(line, 1)) {
        if TOTALS.is_match(section) {
            ended += 1;
        } else if section == "test session starts" && ended > 0 {
            ended -= 1;
        } else if section == "test session starts" {
            inner = own.take().or(inner);
        } else if ended == 0 && own.is_none() {
            own = Some(section);
        }
    }
    matches!(own.or(inner), Some("PASSES" | "XPASSES" | "warnings summary"))
}

static TEST: Pattern = Pattern::with(" ... ", r"^\S.* \.\.\. ");
static GO_TEST: Pattern = Pattern::with("=== ", r"^=== (?:RUN|CONT|NAME) +(\S+)$");
static GO_END: Pattern = Pattern::with("--- ", r"^\s*--- (PASS|FAIL|SKIP): (\S+) \(");
static TRY: Pattern = Pattern::with("TRY ", r"^ *TRY \d+ ([A-Z]+) +\[.*?\] (?:\(.*?\) )?(\S.*)$");
static TAP: Pattern = Pattern::with("ok ", r"^\s*(not )?ok \d+\b");
static TAP_END: Pattern = Pattern::new(r"^(Dubious|Bail out|\d+\.\.\d+|# Looks like)|^$");
static TO_DO: Pattern = Pattern::with("# ", r"(?i)# (todo|skip)\b");
static SPEC: Pattern = Pattern::with("ms)", r"^\s*\u{2716} .* \([\d.]+ms\)( #|$)");
static TOTALS: Pattern = Pattern::with(" in ", r"\b\d+ \w+.* in [\d.]+s");
static SECTION: Pattern = Pattern::with("===", r"^={3,} (.+?) ={3,}$");

#[cfg(test)]
mod tests {
    use super::*;

    fn handled(text: &str, own: &str) -> bool {
        is_handled(&ErrorContext::of(text, own))
    }

    const TRACEBACK: &str =
        "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    g()\nKeyError: 1\n";

    #[test]
    fn what_was_dealt_with_is_no_error() {
        let test = "---- a stdout ----\n\nthread 'a' panicked at a.rs:1:2:\nfirst\n";
        let again = format!("{test}\nthread 'a' panicked at a.rs:3:4:\nsecond\n");
        let warned = format!("12:00:01 WARNING job failed\n{TRACEBACK}");
        let skipped = format!("ERROR:feed:page 3 skipped\n{TRACEBACK}");
        let retried =
            format!("ERROR page 3\n{TRACEBACK}12:00:01 WARNING attempt 1 failed, retrying\n");
        let request = "> GET /a HTTP/1.1\n> Host: x\n< HTTP/1.1 503 no\n";
        let answered = format!("{request}{}", request.replace("503 no", "200 OK"));
        for (text, own) in [
            (again.as_str(), "first"),
            (&again, "a.rs:1:2"),
            (&warned, "KeyError"),
            (&skipped, "KeyError"),
            (&retried, "KeyError"),
            (&answered, "503"),
            ("fatal: [a]: FAILED! => {}\n...ignoring\n", "fatal"),
            (
                "fatal: [a -> b]: FAILED! => {}\n\nTASK [c] ***\nok: [x]\nchanged: [a] => {}\n",
                "fatal",
            ),
            ("mount: timed out\n12:00:01 attempt 1 failed with 32, retrying\n", "mount"),
            ("  console.error\n    CartError: no\n", "CartError"),
            ("configure:47: gcc x.c >&5\nx.c:1:2: error: no y\nconfigure:47: $? = 1\n", "error"),
            (
                "x is optional: Error: no\n    at a (b.js:1:2) {\n  code: 'E',\n  [cause]: Error: refused\n      at c\n",
                "refused",
            ),
        ] {
            assert!(handled(text, own), "{text}");
        }
    }

    #[test]
    fn errors_that_nobody_dealt_with_stay() {
        let once = "---- a stdout ----\n\nthread 'a' panicked at a.rs:1:2:\nfirst\n\n---- b stdout ----\n\nthread 'b' panicked at a.rs:3:4:\nsecond\n";
        let twice = "---- a stdout ----\nthread 'a' panicked at a.rs:1:2:\nfirst\nthread 'a' panicked at a.rs:3:4:\nsecond\nthread 'a' panicked while processing panic. aborting.\n";
        let workers = "thread 'worker' panicked at a.rs:1:2:\nfirst\nthread 'worker' panicked at a.rs:1:2:\nsecond\n";
        let logged = format!("12:00:01 ERROR job failed\n{TRACEBACK}");
        let warned = format!("12:00:01 WARNING unused\nok\n{TRACEBACK}");
        let request = "> GET /a HTTP/1.1\n< HTTP/1.1 503 no\n";
        let refused = format!("{request}{request}> GET /b HTTP/1.1\n< HTTP/1.1 200 OK\n");
        for (text, own) in [
            (once, "first"),
            (twice, "first"),
            (workers, "first"),
            (&logged, "KeyError"),
            (&warned, "KeyError"),
            (&refused, "503"),
            ("WARNING unused\nValueError: no\n", "ValueError"),
            (
                "fatal: [a]: FAILED! => {}\nok: [a]\n\nTASK [c] ***\nok: [b]\n\nPLAY RECAP\na : ok=1\n",
                "fatal",
            ),
            ("fatal: [a]: FAILED! => {}\n\nTASK [c] ***\nchanged: [ab]\n", "fatal"),
            ("error: x\n12:00:01 done, retries: 3\n", "error"),
            ("configure:47: gcc x.c\nconfigure: error: no compiler\n", "error"),
            ("console.error\n\n\nCartError: no\n", "CartError"),
        ] {
            assert!(!handled(text, own), "{text}");
        }
    }

    fn passed(text: &str, own: &str) -> bool {
        is_of_passing_test(&ErrorContext::of(text, own))
    }

    #[test]
    fn what_passing_tests_print_is_no_error() {
        for (text, own) in [
            ("test_a (m.T) ... ERROR app: no x\nok\n", "ERROR"),
            ("test_a (m.T) ... \nERROR app: no x\nok\n", "ERROR app"),
            ("queue: put 1 ok\nERROR: simulated\nqueue: ok\n", "ERROR"),
            ("=== RUN   TestA\n    a_test.go:3: error: x\n--- PASS: TestA (0.00s)\n", "error"),
            (
                "=== RUN   TestA/b\n    a_test.go:3: x\n--- FAIL: TestA (0.0s)\n    --- SKIP: TestA/b (0.0s)\n",
                "x\n",
            ),
            (
                "  TRY 1 FAIL [   0.1s] (---) app::t a\n\n    no\n\n  TRY 2 PASS [   0.1s] app::t a\n",
                "no",
            ),
            ("not ok 4 - a # TODO later\n  ---\n  error: 'no'\n", "error"),
            ("\u{2716} a (0.5ms) # later\n  Error: no\n", "Error"),
            ("=== PASSES ===\n___ test_a ___\nERROR: printed\n", "ERROR"),
            ("ok 1 - a\nqueue: error: refused\nok 2 - refused is counted\n", "error"),
            ("=== warnings summary ===\na.py:3: DeprecationWarning: error x\n", "error"),
        ] {
            assert!(passed(text, own), "{text}");
        }
    }

    #[test]
    fn what_failing_tests_print_stays() {
        for (text, own) in [
            ("test_a (m.T) ... ERROR app: no x\nFAIL\n", "ERROR"),
            ("test a ... FAILED: no x\ntest b ... ok\n", "FAILED"),
            ("queue: put 1 ok\nERROR: simulated\nqueue: failed\n", "ERROR"),
            ("start\nERROR: real\nqueue: ok\n", "ERROR"),
            ("=== RUN   TestA\n    a_test.go:3: error: x\n--- FAIL: TestA (0.00s)\n", "error"),
            ("--- PASS: TestA (0.0s)\npanic: x\n--- PASS: TestA (0.0s)\n", "panic"),
            ("=== RUN   TestA\n    a_test.go:3: error: cut\n", "error"),
            (
                "  TRY 1 FAIL [   0.1s] (---) app::t a\n\n    no\n\n  TRY 2 PASS [   0.1s] app::t b\n",
                "no",
            ),
            ("not ok 4 - a\n  ---\n  error: 'no'\n", "error"),
            ("\u{2716} a (0.5ms)\n  Error: no\n", "Error"),
            ("ok 1 - a\nqueue: error: refused\nnot ok 2 - b\n", "error"),
            (
                "ok 1 - a\nCan't open x at a.t line 3.\nDubious, test returned 255\nok 1 - c\n",
                "Can't",
            ),
            ("not ok 1 - a\n#   Failed test 'a'\nok 2 - b\n", "Failed"),
            ("=== FAILURES ===\n___ test_a ___\nERROR: printed\n", "ERROR"),
            (
                "=== PASSES ===\nx\n=== short test summary info ===\nFAILED a.py::b - KeyError: 1\n",
                "FAILED",
            ),
        ] {
            assert!(!passed(text, own), "{text}");
        }
    }
}
