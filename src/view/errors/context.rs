//! The lines around an error: as bytes to show ([`Nearby`]), and as text that is used to classify
//! the error ([`ErrorContext`]).

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use crate::errors::quoted::TextForm;
use ctxfs_core::materialize::{Pattern, bare};
use ctxfs_core::model::{Content, ErrorLine};

const SIDE_BYTES: usize = 32 << 10;
// Maximum length of content that is read whole at the first error.
const SHARED_BYTES: u64 = 128 << 10;
const JUDGED_BYTES: usize = 4096;
const CONTEXT_LINES: usize = 3;
const MAX_LINES_BELOW: usize = 24;
// Maximum length, in lines, of a trace that is joined to its error line.
pub(crate) const LONGEST_TRACE: usize = 60;

/// Reads the lines around error lines. Errors that are near each other share what was read.
pub(crate) struct ContextReader<'a> {
    content: &'a dyn Content,
    last: Option<Rc<ContextLines>>,
}

/// The lines that begin in the bytes `range` of the content: the bytes, and a text for classifying
/// errors. In the text, bytes that are not UTF-8 are replaced by U+FFFD, and a long line is
/// truncated. If `range` begins inside a line, that line is left out.
struct ContextLines {
    range: Range<u64>,
    bytes: Vec<u8>,
    text: String,
    lines: Vec<ContextLine>,
}

/// A line: its offset in the content, and its ranges in the text: of the whole line, and of the part
/// without what other programs put before and after it. `form` is set when the line is first
/// classified, because errors that are near each other have lines in common.
struct ContextLine {
    offset: u64,
    whole: Range<usize>,
    bare: Range<usize>,
    form: Cell<Option<TextForm>>,
}

/// An error line, number `own` of `lines`, with the lines above and below it that were read whole.
pub(crate) struct ErrorContext {
    lines: Rc<ContextLines>,
    first: usize,
    own: usize,
    end: usize,
}

impl<'a> ContextReader<'a> {
    pub(crate) fn new(content: &'a dyn Content) -> Self {
        Self { content, last: None }
    }

    pub(crate) fn read(&mut self, at: &ErrorLine) -> io::Result<ErrorContext> {
        let (length, side) = (self.content.len(), SIDE_BYTES as u64);
        let wanted = at.offset.saturating_sub(side)..length.min(at.offset.saturating_add(side));
        let has = |lines: &Rc<ContextLines>| {
            lines.range.start <= wanted.start && wanted.end <= lines.range.end
        };
        let lines = match self.last.take().filter(has) {
            Some(lines) => lines,
            None if length <= SHARED_BYTES => Rc::new(ContextLines::read(self.content, 0..length)?),
            None => Rc::new(ContextLines::read(self.content, wanted.clone())?),
        };
        self.last = Some(Rc::clone(&lines));
        let after = |offset: u64| lines.lines.partition_point(|line| line.offset <= offset);
        let own = after(at.offset).saturating_sub(1);
        let first = lines.lines.partition_point(|line| line.offset < wanted.start).min(own);
        // The last line that begins in the wanted bytes may go on after them.
        let part = usize::from(wanted.end < length);
        let end = after(wanted.end).saturating_sub(part).max(own + 1);
        Ok(ErrorContext { lines, first, own, end })
    }
}

impl ContextLines {
    fn read(content: &dyn Content, range: Range<u64>) -> io::Result<Self> {
        let bytes = content.bytes(range.start, (range.end - range.start) as usize)?;
        let end = range.start + bytes.len() as u64;
        let begins = range.start == 0 || content.bytes(range.start - 1, 1)? == b"\n";
        let mut text = String::with_capacity(bytes.len());
        let (mut lines, mut at) = (Vec::new(), 0);
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let offset = range.start + at as u64;
            at += line.len();
            if offset == range.start && !begins {
                continue;
            }
            let line = String::from_utf8_lossy(line.strip_suffix(b"\n").unwrap_or(line));
            let line = line.strip_suffix('\r').unwrap_or(&line);
            let line = &line[..line.floor_char_boundary(JUDGED_BYTES)];
            let own = bare(line.as_bytes());
            let skipped = (own.as_ptr() as usize).wrapping_sub(line.as_ptr() as usize);
            let own = if own.is_empty() { 0..0 } else { skipped..skipped + own.len() };
            let own = if line.get(own.clone()).is_some() { own } else { 0..line.len() };
            let start = text.len();
            text.push_str(line);
            let (whole, bare) = (start..text.len(), start + own.start..start + own.end);
            lines.push(ContextLine { offset, whole, bare, form: Cell::default() });
            text.push('\n');
        }
        if lines.is_empty() {
            let (offset, form) = (range.start, Cell::default());
            lines.push(ContextLine { offset, whole: 0..0, bare: 0..0, form });
        }
        Ok(Self { range: range.start..end, bytes, text, lines })
    }

    // Returns the bytes of a line, as far as they were read.
    fn raw(&self, line: usize) -> &[u8] {
        let from = |line: &ContextLine| (line.offset - self.range.start) as usize;
        let end = self.lines.get(line + 1).map_or(self.bytes.len(), from);
        let bytes = &self.bytes[from(&self.lines[line]).min(end)..end];
        bytes.strip_suffix(b"\n").unwrap_or(bytes)
    }
}

impl ErrorContext {
    #[cfg(test)]
    pub(super) fn of(text: &str, own: &str) -> Self {
        let at = text.find(own).unwrap_or_else(|| panic!("{own:?} in {text}"));
        let offset = text[..at].rfind('\n').map_or(0, |newline| newline + 1) as u64;
        let rank = ctxfs_core::model::ErrorRank::Cause;
        let at = ErrorLine { line: 1, offset, length: 1, rank, times: 1, last: None };
        ContextReader::new(&text.as_bytes().to_vec()).read(&at).unwrap()
    }

    pub(super) fn bare(&self, line: usize) -> &str {
        &self.lines.text[self.lines.lines[line].bare.clone()]
    }

    pub(crate) fn own(&self) -> &str {
        &self.lines.text[self.lines.lines[self.own].bare.clone()]
    }

    // The error line, with the prefixes and suffixes that other programs add to it.
    pub(crate) fn whole(&self) -> &str {
        &self.lines.text[self.lines.lines[self.own].whole.clone()]
    }

    pub(crate) fn above(&self) -> impl Iterator<Item = &str> {
        (self.first..self.own).rev().map(|line| self.bare(line))
    }

    pub(crate) fn below(&self) -> impl Iterator<Item = &str> {
        (self.own + 1..self.end).map(|line| self.bare(line))
    }

    /// Returns the numbers of the lines that are not blank among up to `count` lines above, and among
    /// up to `count` lines below the error.
    pub(super) fn filled(&self, count: usize) -> [Vec<usize>; 2] {
        let is_filled = |line: &usize| !self.bare(*line).trim().is_empty();
        let above = (self.first..self.own).rev().take(count).filter(is_filled);
        let below = (self.own + 1..self.end).take(count).filter(is_filled);
        [above.collect(), below.collect()]
    }

    pub(super) fn form(&self, line: usize) -> TextForm {
        let known = &self.lines.lines[line].form;
        let form = known.get().unwrap_or_else(|| TextForm::of(self.bare(line)));
        known.set(Some(form));
        form
    }

    /// Returns the offset and the length of the line that is `distance` lines above the error.
    pub(super) fn place_above(&self, distance: usize) -> (u64, u32) {
        let line = &self.lines.lines[self.own - distance];
        (line.offset, line.whole.len() as u32)
    }

    /// Returns the text of up to `count` lines above or below the error.
    pub(super) fn text(&self, is_above: bool, count: usize) -> &str {
        let lines = if is_above {
            self.own.saturating_sub(count).max(self.first)..self.own
        } else {
            self.own + 1..self.end.min(self.own + 1 + count)
        };
        let range = self
            .lines
            .lines
            .get(lines)
            .and_then(|lines| Some(lines.first()?.whole.start..lines.last()?.whole.end));
        &self.lines.text[range.unwrap_or(0..0)]
    }
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

/// Returns the lines around the error line `at`, as far as they were read whole.
pub(super) fn nearby(reader: &mut ContextReader<'_>, at: &ErrorLine) -> io::Result<Nearby> {
    let ErrorContext { lines, first, own, end } = reader.read(at)?;
    let after: Vec<&[u8]> = (own + 1..end).map(|line| lines.raw(line)).collect();
    let belong = trace_length(after.iter().copied());
    let shown = belong.clamp(paragraph(&after), MAX_LINES_BELOW);
    let is_whole = own + 1 < lines.lines.len() || lines.range.end == reader.content.len();
    let above = own.saturating_sub(CONTEXT_LINES).max(first);
    let line = |index: usize| NearbyLine {
        number: at.line + index as u64 - own as u64,
        text: lines.raw(index).to_vec(),
        ends: is_whole || index != own,
    };
    let below = end.min(own + 1 + shown);
    Ok(Nearby { lines: (above..below).map(line).collect(), continues: belong > MAX_LINES_BELOW })
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
