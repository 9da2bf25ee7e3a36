use crate::errors::surroundings::Surroundings;
use ctxfs_core::materialize::Pattern;

const TEST_LINES: usize = 12;
const NAME_LINES: usize = 200;
const DETAIL_LINES: usize = 30;

/// Returns true for a line that a test printed that passed in the end, or whose failure is
/// expected.
pub(super) fn is_of_passing_test(lines: &Surroundings) -> bool {
    is_before_ok(lines)
        || is_between_own_lines(lines)
        || is_of_passing_go_test(lines)
        || is_of_retried_test(lines)
        || is_before_tap_ok(lines)
        || is_to_do(lines)
        || is_in_section_of_passes(lines)
}

/// Recognizes `test_a ... ERROR x` with `ok` below.
fn is_before_ok(lines: &Surroundings) -> bool {
    let test = |line: &str| TEST.is_match(line);
    let above = || lines.above().take(TEST_LINES).find(|line| test(line) || line.is_empty());
    let begins = test(lines.own()) || above().is_some_and(test);
    let end = lines.below().take(TEST_LINES).find(|line| test(line) || *line == "ok");
    begins && end == Some("ok")
}

/// Recognizes a line between `name: ...` and `name: ok`.
fn is_between_own_lines(lines: &Surroundings) -> bool {
    let name = lines.below().next().and_then(|line| line.strip_suffix(": ok"));
    let above = lines.above().next();
    name.zip(above).is_some_and(|(name, above)| {
        above.strip_prefix(name).is_some_and(|rest| rest.starts_with(": "))
    })
}

/// Recognizes a line between `=== RUN   TestA` and `--- PASS: TestA`.
fn is_of_passing_go_test(lines: &Surroundings) -> bool {
    let mut above = lines.above().take(NAME_LINES).take_while(|line| !GO_END.is_match(line));
    let Some(test) = above.find_map(|line| GO_TEST.group(line, 1)) else { return false };
    let end = lines.below().find(|line| GO_END.group(line, 2) == Some(test));
    end.is_some_and(|line| GO_END.group(line, 1) != Some("FAIL"))
}

/// Recognizes the output of a failed attempt, of a test that passed when nextest retried it.
fn is_of_retried_test(lines: &Surroundings) -> bool {
    let tried = lines.above().take(NAME_LINES).find_map(|line| TRY.group(line, 2));
    let passed = |line: &str, test: &str| {
        TRY.group(line, 2) == Some(test) && TRY.group(line, 1) == Some("PASS")
    };
    tried.is_some_and(|test| lines.below().any(|line| passed(line, test)))
}

/// Recognizes a line that a test printed before its verdict, in TAP. The explanation of a verdict
/// stands below it.
fn is_before_tap_ok(lines: &Surroundings) -> bool {
    let explains = lines.own().starts_with(['#', ' ', '\t']) || TAP.is_match(lines.own());
    let above = lines.above().take(TEST_LINES).any(|line| TAP.is_match(line));
    let mut below = lines.below().take(TEST_LINES);
    let next = below.find(|line| TAP.is_match(line) || TAP_END.is_match(line));
    above && !explains && next.is_some_and(|line| line.starts_with("ok "))
}

/// Recognizes a test that is expected to fail: `# TODO` in TAP, a reason behind the time in the
/// report of Node.
fn is_to_do(lines: &Surroundings) -> bool {
    let tap = lines.above().take(DETAIL_LINES).find(|line| TAP.is_match(line));
    let spec = lines.above().take(4).find(|line| SPEC.is_match(line));
    tap.is_some_and(|line| TO_DO.is_match(line)) || spec.is_some_and(|line| line.contains(") # "))
}

// pytest repeats what passing tests printed, and lists warnings, in sections of their own.
fn is_in_section_of_passes(lines: &Surroundings) -> bool {
    let section = lines.above().find_map(|line| SECTION.group(line, 1));
    section.is_some_and(|section| matches!(section, "PASSES" | "XPASSES" | "warnings summary"))
}

static TEST: Pattern = Pattern::with(" ... ", r"^\S.* \.\.\. ");
static GO_TEST: Pattern = Pattern::with("=== ", r"^=== (?:RUN|CONT|NAME) +(\S+)$");
static GO_END: Pattern = Pattern::with("--- ", r"^\s*--- (PASS|FAIL|SKIP): (\S+) \(");
static TRY: Pattern = Pattern::with("TRY ", r"^ *TRY \d+ ([A-Z]+) +\[.*?\] (?:\(.*?\) )?(\S.*)$");
static TAP: Pattern = Pattern::with("ok ", r"^\s*(not )?ok \d+\b");
static TAP_END: Pattern = Pattern::new(r"^(Dubious|Bail out|\d+\.\.\d+|# Looks like)|^$");
static TO_DO: Pattern = Pattern::with("# ", r"(?i)# (todo|skip)\b");
static SPEC: Pattern = Pattern::with("ms)", r"^\s*\u{2716} .* \([\d.]+ms\)( #|$)");
static SECTION: Pattern = Pattern::with("===", r"^={3,} (.+?) ={3,}$");

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(text: &str, own: &str) -> bool {
        is_of_passing_test(&Surroundings::of(text, own))
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
