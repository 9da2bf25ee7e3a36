//! The text of an error: its line and the lines below that complete it.

use std::borrow::Cow;

use crate::errors::context::ErrorContext;
use crate::errors::json;
use ctxfs_core::materialize::{COMPARISON, Pattern, SIDE};

const MAX_DETAILS: usize = 3;
// Number of lines that are searched for the two sides of a failed comparison.
const SIDES_LINES: usize = 8;
const REPORT_LINES: usize = 60;
const BYTES_BEFORE: usize = 120;
// Of a line of more than this many bytes, the start is left out if the first word about an error
// comes late.
const LONG_LINE: usize = 240;
const LINE_JOINT: &str = " | ";

/// Joins an error line and its details to one line. The details are the message below `panicked
/// at`, the two sides of a comparison, or the reason below a line that ends with a colon.
pub(crate) fn message(lines: &ErrorContext) -> String {
    if let Some(message) = json::line_message(lines.whole()) {
        return message;
    }
    let own = of_task(telling(lines.own().trim()));
    let details = details(lines);
    let all = std::iter::once(own.as_ref()).chain(details.iter().map(|line| line.trim()));
    all.collect::<Vec<&str>>().join(LINE_JOINT)
}

fn of_task(line: &str) -> Cow<'_, str> {
    match (TASK.group(line, 1), TASK.group(line, 2)) {
        (Some(task), Some(message)) => Cow::Owned(format!("{task} {message}")),
        _ => Cow::Borrowed(line),
    }
}

fn telling(line: &str) -> &str {
    let word = TELLING.start(line).unwrap_or(0);
    if line.len() <= LONG_LINE || word <= LONG_LINE / 2 {
        return line;
    }
    let from = line.floor_char_boundary(word - BYTES_BEFORE);
    &line[from..]
}

fn details(lines: &ErrorContext) -> Vec<&str> {
    let mut details: Vec<&str> = Vec::new();
    let mut last = lines.own().trim_end();
    for line in lines.below().take(MAX_DETAILS + 2).filter(|line| is_filled(line)) {
        if details.len() == MAX_DETAILS || !(ANNOUNCES.is_match(last) || REASON.is_match(line)) {
            break;
        }
        details.push(line);
        last = line;
    }
    if COMPARISON.is_match(last) {
        let sides = lines.below().take(SIDES_LINES).filter(|line| SIDE.is_match(line));
        details.extend(sides.take(2));
    }
    details.extend(output_of_command(lines));
    details
}

// Returns the last line that a command printed, taken from terraform's report of its failure.
fn output_of_command(lines: &ErrorContext) -> Option<&str> {
    if !PROVISIONER.is_match(lines.own()) {
        return None;
    }
    let report = lines.below().take(REPORT_LINES);
    let mut output = report.skip_while(|line| !OUTPUT.is_match(line));
    output.next()?;
    output.take_while(|line| is_filled(line)).last()
}

fn is_filled(line: &str) -> bool {
    line.chars().any(char::is_alphanumeric)
}

static TASK: Pattern =
    Pattern::with("]: ", r#"^((?:fatal|failed): \[.+?\].*?: \w+!) => .*"msg": "((?:[^"\\]|\\.)*)"#);
static TELLING: Pattern = Pattern::new(
    r#"[Ee]rror\b|ERROR|[Ee]xception|[Ff]ail|FAIL|[Tt]imed? ?out|status"?[:=] ?"?5\d\d|[Cc]annot|refused|denied|panic"#,
);
// Matches a line that only announces the next one.
static ANNOUNCES: Pattern =
    Pattern::new(r"([^\d\s]|panicked at \S+):( [|>]-?)?\s*$|^ERROR in \S+( \d\S*)?$");
// Matches a line that gives the reason for the line above.
static REASON: Pattern =
    Pattern::new(r"^\s+([^\w\s]+ )?([Cc]aused? ?by|[Cc]ause|[Rr]eason|[Bb]ecause)\b");
static PROVISIONER: Pattern = Pattern::with("provisioner error", r"^Error: \S+ provisioner error$");
static OUTPUT: Pattern = Pattern::with("Output:", r"exit status \d+\. Output:");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_below_complete_a_message() {
        for (text, says) in [
            ("error: no x\n  help: try y\n", "error: no x"),
            (
                "error: no solution\n  cause: Because a>=2\n         And because b\n",
                "error: no solution | cause: Because a>=2",
            ),
            (
                "error: no solution\n  \u{2570}\u{2500}\u{25b6} Because a>=2\n",
                "error: no solution | \u{2570}\u{2500}\u{25b6} Because a>=2",
            ),
            (
                "  error: |-\n    Expected equal:\n    \n    2 !== 3\n  code: 'E'\n",
                "error: |- | Expected equal: | 2 !== 3",
            ),
            ("error during build:\nno x\nnext\n", "error during build: | no x"),
            ("tls.c:1889:\nCONNECTED\n", "tls.c:1889:"),
            ("thread 'a' panicked at a.rs:1:2:\nno x\n", "thread 'a' panicked at a.rs:1:2: | no x"),
            (
                "assertion `left == right` failed\n  left: 1\n right: 2\nleft: 3\n",
                "assertion `left == right` failed | left: 1 | right: 2",
            ),
            (
                "Failure/Error: expect(a).to eq(1)\n\n  expected: 1\n       got: 2\n",
                "Failure/Error: expect(a).to eq(1) | expected: 1 | got: 2",
            ),
            (
                "Error: remote-exec provisioner error\n\n  with a.b,\n\nError running command 'x': exit status 7. Output: start\nno cert\n\nnext\n",
                "Error: remote-exec provisioner error | no cert",
            ),
            (
                r#"fatal: [a]: FAILED! => {"changed": false, "msg": "no \"x\""}"#,
                r#"fatal: [a]: FAILED! no \"x\""#,
            ),
            (r#"{"level":"error","msg":"no x"}"#, "no x"),
        ] {
            assert_eq!(message(&ErrorContext::of(text, text.lines().next().unwrap())), says);
        }
    }
}
