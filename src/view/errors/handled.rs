//! Errors of which a reader need not care: a program logged, ignored, retried or caught them, or a
//! test that passed printed them.

use crate::errors::surroundings::Surroundings;
use ctxfs_core::materialize::Pattern;

const PANIC_LINES: usize = 400;
const CHECK_LINES: usize = 60;
const REQUEST_LINES: usize = 40;

/// Returns true for an error that was handled, or that comes from a test that passed.
pub(super) fn is_handled(lines: &Surroundings) -> bool {
    entry_above(lines).is_some_and(|entry| REMARK.is_match(entry) || HANDLED.is_match(entry))
        || is_ignored_task(lines)
        || is_tried_again(lines)
        || is_on_console(lines)
        || is_caught_panic(lines)
        || is_answered_later(lines)
        || is_of_check(lines)
}

pub(super) fn is_logged(lines: &Surroundings) -> bool {
    entry_above(lines).is_some_and(|entry| ENTRY.is_match(entry) || is_level(entry))
}

pub(super) fn is_entry(line: &str) -> bool {
    ENTRY.is_match(line)
}

fn is_level(entry: &str) -> bool {
    LEVEL.is_match(entry) && !entry.contains("Time elapsed")
}

/// Returns the log line above the stack trace that the line belongs to.
fn entry_above(lines: &Surroundings) -> Option<&str> {
    let is_trace = |line: &str| TRACE.is_match(line);
    let has_frames = lines.above().next().is_some_and(is_trace)
        || lines.below().next().is_some_and(|line| FRAME.is_match(line));
    let entry = lines.above().find(|line| !is_trace(line));
    entry.filter(|_| has_frames && is_trace(lines.own()))
}

/// Recognizes a failed task of Ansible that is ignored, or rescued: then its host has further
/// tasks.
fn is_ignored_task(lines: &Surroundings) -> bool {
    let Some(host) = TASK.group(lines.own(), 1) else { return false };
    let is_heading = |line: &&str| TASKS.is_match(line);
    let further = lines.below().skip_while(|line| !is_heading(line));
    let mut of_play = further.take_while(|line| !line.starts_with("PLAY "));
    lines.below().next() == Some("...ignoring")
        || of_play.any(|line| RESULT.group(line, 1) == Some(host))
}

fn is_tried_again(lines: &Surroundings) -> bool {
    let next = lines.below().find(|line| !TRACE.is_match(line) && !line.is_empty());
    !is_entry(lines.own()) && next.is_some_and(|line| RETRY.is_match(line))
}

fn is_on_console(lines: &Surroundings) -> bool {
    lines.above().take(2).find(|line| !line.is_empty()).is_some_and(|line| CONSOLE.is_match(line))
}

/// Recognizes a panic in a test that panicked again later in the same thread, so that the first was
/// caught.
fn is_caught_panic(lines: &Surroundings) -> bool {
    let mut near = std::iter::once(lines.own()).chain(lines.above().take(3));
    let thread = near.find_map(|line| PANICKED.group(line, 1));
    let heading = || lines.above().take(PANIC_LINES).find_map(|line| STDOUT.group(line, 1));
    let Some(test) = thread.filter(|thread| heading() == Some(thread)) else { return false };
    let of_test = || lines.below().take_while(|line| !STDOUT.is_match(line));
    of_test().any(|line| PANICKED.group(line, 1) == Some(test))
        && !of_test().any(|line| TWICE.is_match(line))
}

/// Recognizes the failed response to a request that curl repeated successfully.
fn is_answered_later(lines: &Surroundings) -> bool {
    let failed = ANSWER.group(lines.own(), 1) == Some("5");
    let mut above = lines.above().take(REQUEST_LINES).filter(|_| failed);
    let Some(request) = above.find(|line| REQUEST.is_match(line)) else { return false };
    let mut below = lines.below();
    while below.by_ref().any(|line| line == request) {
        if below.by_ref().find_map(|line| ANSWER.group(line, 1)) == Some("2") {
            return true;
        }
    }
    false
}

fn is_of_check(lines: &Surroundings) -> bool {
    let is_check = |line: &str| CHECK.is_match(line);
    !lines.own().starts_with("configure:") && lines.above().take(CHECK_LINES).any(is_check)
}

// The time at the beginning of a log line.
static ENTRY: Pattern = Pattern::new(
    r"^\W{0,3}(\d{4}[-/]\d\d[-/]\d\d[ T]|\d\d:\d\d:\d\d|[A-Z][a-z]{2} [ \d]\d \d\d:|\d+:[A-Z] \d\d )",
);
// The level of a log line without a time.
static LEVEL: Pattern = Pattern::with("R", r"^(.* )?\[?(ERROR|CRITICAL|SEVERE)[:\] ]");
static TRACE: Pattern = Pattern::new(
    r"^\s+at |^\s+\.\.\. \d+ more|^\s*Caused by: |^\s+File |^\s{4}|^\s*\+ Exception Group |^\s*\+-|^Traceback |^\s*\[cause\]: |^\s+[\w']+: \S|^([a-zA-Z_]\w*\.)*([A-Z]\w*)?(Error|Exception|ExceptionGroup)\b",
);
static FRAME: Pattern = Pattern::new(r"^\s+(at|File) ");
static REMARK: Pattern = Pattern::new(r"^.{0,60}?\b(WARN|WARNING|DEBUG|TRACE)\b|^W\d{4} \d\d:");
// Words of a log line about an error that does no harm.
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
// A panic while another one unwinds: the first one was not caught.
static TWICE: Pattern = Pattern::with("panic", r"while processing panic|in a destructor during");
static ANSWER: Pattern = Pattern::with("< HTTP/", r"^< HTTP/[\d.]+ (\d)\d\d\b");
static REQUEST: Pattern = Pattern::with(" HTTP/", r"^> [A-Z]+ \S+ HTTP/");
static CHECK: Pattern = Pattern::with("configure:", r"^configure:\d+: ");

#[cfg(test)]
mod tests {
    use super::*;

    fn handled(text: &str, own: &str) -> bool {
        is_handled(&Surroundings::of(text, own))
    }

    const TRACE: &str =
        "Traceback (most recent call last):\n  File \"a.py\", line 3, in f\n    g()\nKeyError: 1\n";

    #[test]
    fn what_was_dealt_with_is_no_error() {
        let test = "---- a stdout ----\n\nthread 'a' panicked at a.rs:1:2:\nfirst\n";
        let again = format!("{test}\nthread 'a' panicked at a.rs:3:4:\nsecond\n");
        let warned = format!("12:00:01 WARNING job failed\n{TRACE}");
        let skipped = format!("ERROR:feed:page 3 skipped\n{TRACE}");
        let retried = format!("ERROR page 3\n{TRACE}12:00:01 WARNING attempt 1 failed, retrying\n");
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
        let logged = format!("12:00:01 ERROR job failed\n{TRACE}");
        let warned = format!("12:00:01 WARNING unused\nok\n{TRACE}");
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
}
