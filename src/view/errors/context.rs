//! The lines around an error: as bytes to show ([`Nearby`]), and as text that is used to classify
//! the error ([`ErrorContext`]).

use std::io;

use ctxfs_core::materialize::{Pattern, bare};
use ctxfs_core::model::{Content, ErrorLine};

const SIDE_BYTES: usize = 32 << 10;
const JUDGED_BYTES: usize = 4096;
const CONTEXT_LINES: usize = 3;
const MAX_LINES_BELOW: usize = 24;
// Maximum length, in lines, of a trace that is joined to its error line.
pub(crate) const LONGEST_TRACE: usize = 60;

/// A line of the content and its neighbours. `above` has the lines before it, and is `None` for the
/// first line. `below` has the line itself and the lines after it. A neighbour that was read only
/// in part is left out. `ends` is true if the line itself was read to its end.
struct LinesAround {
    above: Option<Vec<u8>>,
    below: Vec<u8>,
    ends: bool,
}

impl LinesAround {
    fn read(content: &dyn Content, offset: u64) -> io::Result<Self> {
        let start = offset.saturating_sub(SIDE_BYTES as u64);
        let length = usize::try_from(offset - start).unwrap_or(SIDE_BYTES);
        let above = whole_above(&content.bytes(start, length)?, start > 0);
        let mut below = content.bytes(offset, SIDE_BYTES)?;
        let complete = offset + below.len() as u64 == content.len();
        let last = memchr::memrchr(b'\n', &below);
        if let Some(last) = last.filter(|last| !complete || last + 1 == below.len()) {
            below.truncate(last);
        }
        Ok(Self { above, below, ends: complete || last.is_some() })
    }
}

fn whole_above(bytes: &[u8], cut: bool) -> Option<Vec<u8>> {
    let bytes = bytes.strip_suffix(b"\n")?;
    let from = if cut { memchr::memchr(b'\n', bytes)? + 1 } else { 0 };
    Some(bytes[from..].to_vec())
}

/// An error line with the lines above and below it, as text for classifying the error. `below`
/// begins with the error line. Bytes that are not UTF-8 are replaced by U+FFFD, and a long line is
/// truncated.
pub(crate) struct ErrorContext {
    above: Option<String>,
    below: String,
}

impl ErrorContext {
    pub(crate) fn read(content: &dyn Content, at: &ErrorLine) -> io::Result<Self> {
        let LinesAround { above, below, .. } = LinesAround::read(content, at.offset)?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Self { above: above.map(text), below: text(below) })
    }

    #[cfg(test)]
    pub(super) fn of(text: &str, own: &str) -> Self {
        let at = text.find(own).unwrap_or_else(|| panic!("{own:?} in {text}"));
        let offset = text[..at].rfind('\n').map_or(0, |newline| newline + 1) as u64;
        let rank = ctxfs_core::model::ErrorRank::Cause;
        let at = ErrorLine { line: 1, offset, length: 1, rank, times: 1, last: None };
        Self::read(&text.as_bytes().to_vec(), &at).unwrap()
    }

    pub(crate) fn own(&self) -> &str {
        self.below.split('\n').next().map_or("", judged)
    }

    // The error line, with the prefixes and suffixes that other programs add to it.
    pub(crate) fn whole(&self) -> &str {
        self.below.split('\n').next().map_or("", cut)
    }

    pub(crate) fn above(&self) -> impl Iterator<Item = &str> {
        self.above.iter().flat_map(|above| above.rsplit('\n')).map(judged)
    }

    pub(crate) fn below(&self) -> impl Iterator<Item = &str> {
        self.below.split('\n').skip(1).map(judged)
    }
}

fn judged(line: &str) -> &str {
    let line = cut(line);
    str::from_utf8(bare(line.as_bytes())).unwrap_or(line)
}

fn cut(line: &str) -> &str {
    let line = line.strip_suffix('\r').unwrap_or(line);
    &line[..line.floor_char_boundary(JUDGED_BYTES)]
}

// A line without its newline. `ends` is false if `text` is only the beginning of the line.
pub(super) struct NearbyLine {
    pub(super) number: u64,
    pub(super) text: Vec<u8>,
    pub(super) ends: bool,
}

/// An error line, a few lines before it, and the lines after it that belong to it. `continues` is
/// true if more lines belong to it than are shown.
pub(super) struct Nearby {
    pub(super) lines: Vec<NearbyLine>,
    pub(super) continues: bool,
}

/// Reads the lines around the error line `at`. Stops at a line that does not end within the bytes
/// that were read.
pub(super) fn nearby(content: &dyn Content, at: &ErrorLine) -> io::Result<Nearby> {
    let LinesAround { above, below, ends } = LinesAround::read(content, at.offset)?;
    let mut above: Vec<&[u8]> =
        above.iter().flat_map(|above| above.split(|byte| *byte == b'\n')).collect();
    let above = above.split_off(above.len().saturating_sub(CONTEXT_LINES));
    let mut below = below.split(|byte| *byte == b'\n');
    let own = below.next().unwrap_or_default();
    let after: Vec<&[u8]> = below.collect();
    let belong = trace_length(after.iter().copied());
    let shown = belong.clamp(paragraph(&after), MAX_LINES_BELOW);
    let first = at.line - above.len() as u64;
    let all = above.into_iter().chain([own]).chain(after.into_iter().take(shown));
    let line = |(number, text): (u64, &[u8])| {
        let ends = ends || number != at.line;
        NearbyLine { number, text: text.to_vec(), ends }
    };
    Ok(Nearby {
        lines: (first..).zip(all).map(line).collect(),
        continues: belong > MAX_LINES_BELOW,
    })
}

/// Returns the number of lines to show after an error without a trace: at most `CONTEXT_LINES`
/// lines, across at most one blank line.
fn paragraph(after: &[&[u8]]) -> usize {
    let blank = |line: &&[u8]| line.trim_ascii().is_empty();
    let (mut length, mut blanks) = (0, 0);
    for (line, at) in after.iter().zip(1..=CONTEXT_LINES + 1) {
        blanks += usize::from(blank(line));
        if blanks > 1 || at - blanks > CONTEXT_LINES {
            break;
        }
        length = if blank(line) { length } else { at };
    }
    length
}

/// Returns the number of leading `lines` that belong to the error line before them: stack frames,
/// quoted source, causes. A blank line is included if the trace continues after it.
pub(crate) fn trace_length<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> usize {
    let mut length = 0;
    let mut blank = false;
    for (count, line) in (1..).zip(lines) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() && !blank {
            blank = true;
        } else if !line.is_empty() && (RESUMES.is_match(line) || (!blank && continues_trace(line)))
        {
            blank = false;
            length = count;
        } else {
            break;
        }
    }
    length
}

fn continues_trace(line: &[u8]) -> bool {
    line.first().is_some_and(|first| matches!(first, b' ' | b'\t')) || CONTINUES.is_match(line)
}

// Unindented lines of a trace: quoted source, Go calls, explanations of pytest.
static CONTINUES: Pattern =
    Pattern::new(r"^(\d+ \||-->|=== |[\w./*()\[\]{}-]+\(.*\)$|\.\.\. \d+ more|[>E|] |[-+] )");

// Lines that continue a trace even after a blank line.
static RESUMES: Pattern = Pattern::new(
    r"^(Caused by:|goroutine \d+ \[|created by |exit status|stack backtrace:|Stack (backtrace|trace):|note: |help: |The above exception|During handling|Traceback|\s+(Expected|Received|at )|\s+(> )?\d+ \||E {3,}\S)",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_lines_come_first() {
        let lines = ErrorContext::of("a\nb\r\nc\nd\n\ne", "c");
        assert_eq!(lines.own(), "c");
        assert_eq!(lines.above().collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(lines.below().collect::<Vec<_>>(), ["d", "", "e"]);
        let lines = ErrorContext::of("a\n", "a");
        assert_eq!((lines.own(), lines.above().count(), lines.below().count()), ("a", 0, 0));
    }

    #[test]
    fn lines_of_which_only_a_part_was_read_are_left_out() {
        let long = format!("{}\nb\nc\n{}", "x".repeat(40_000), "y".repeat(40_000));
        let lines = ErrorContext::of(&long, "c");
        assert_eq!(lines.above().collect::<Vec<_>>(), ["b"]);
        assert_eq!(lines.below().count(), 0);
    }

    fn length_of(text: &str) -> usize {
        trace_length(text.lines().map(str::as_bytes))
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
