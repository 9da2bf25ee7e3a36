use ctxfs_core::materialize::Pattern;

// The longest trace that is joined to its error line.
pub(crate) const LONGEST: usize = 60;

/// Returns how many of `lines`, which follow an error line, belong to it: stack frames, quoted
/// source, causes. A blank line belongs to it if the trace continues after it.
pub(crate) fn length<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> usize {
    let mut length = 0;
    let mut blank = false;
    for (count, line) in (1..).zip(lines) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() && !blank {
            blank = true;
        } else if !line.is_empty() && (RESUMES.is_match(line) || (!blank && continues(line))) {
            blank = false;
            length = count;
        } else {
            break;
        }
    }
    length
}

fn continues(line: &[u8]) -> bool {
    line.first().is_some_and(|first| matches!(first, b' ' | b'\t')) || CONTINUES.is_match(line)
}

// Lines of a trace that are not indented: quoted source, calls of Go, explanations of pytest.
static CONTINUES: Pattern =
    Pattern::new(r"^(\d+ \||-->|=== |[\w./*()\[\]{}-]+\(.*\)$|\.\.\. \d+ more|[>E|] |[-+] )");

// Lines that continue a trace even after a blank line.
static RESUMES: Pattern = Pattern::new(
    r"^(Caused by:|goroutine \d+ \[|created by |exit status|stack backtrace:|Stack (backtrace|trace):|note: |help: |The above exception|During handling|Traceback|\s+(Expected|Received|at )|\s+(> )?\d+ \||E {3,}\S)",
);

#[cfg(test)]
mod tests {
    use super::*;

    fn length_of(text: &str) -> usize {
        length(text.lines().map(str::as_bytes))
    }

    #[test]
    fn frames_belong_to_what_they_explain() {
        let cases = [
            ("", 0),
            ("next line\n", 0),
            ("\nnext paragraph\n", 0),
            ("\tat a.B.c(B.java:1)\n\t... 3 more\nINFO next\n", 2),
            ("\tat a.B.c(B.java:1)\nCaused by: x.Y: z\n\tat d\nnext\n", 3),
            ("  File \"x.py\", line 3, in f\n    f()\nKeyError: 1\n", 2),
            (" --> src/main.rs:3:9\n  |\n3 |     let x = 1;\n  |         ^ here\n\nerror\n", 4),
            ("\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:3 +0x1d\nexit status 2\nFAIL\n", 5),
            ("\n\ngoroutine 1 [running]:\n", 0),
            ("   0: std::panicking\n             at /rustc/x.rs:1:2\nnote: Some details\n\n\n", 3),
            (
                "\n    > 5 |   expect(7)\n        |          ^\n\n      at Object (a.js:5:24)\n\nend\n",
                5,
            ),
            ("\r\n    Expected: 8\r\n    Received: 7\r\n\r\nnext\r\n", 3),
        ];
        for (text, length) in cases {
            assert_eq!(length_of(text), length, "{text}");
        }
    }
}
