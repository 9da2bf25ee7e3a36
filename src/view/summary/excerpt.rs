//! The part of an output that a summary shows: its head, its errors and its tail. Of consecutive
//! lines of the same form, only the first two are shown.

use std::collections::HashMap;
use std::io;

use crate::clean::{Cleaned, clean};
use crate::errors::{Findings, error_line};
use crate::number::grouped;
use crate::scan;
use ctxfs_core::materialize::LikenessHasher;
use ctxfs_core::model::{Json, Limits, Subject};

/// Number of bytes that are read at either end. This is more than fits into an excerpt, even if
/// cleaning removes many bytes.
pub(crate) const READ: usize = 64 << 10;
// Characters that are reserved for the words that mark a cut.
const MARK_CHARS: usize = 48;
// Maximum size in bytes of all error lines.
const ERRORS_BYTES: usize = 2000;
// Maximum number of error lines.
const MAX_ERRORS: usize = 8;
// Maximum number of lines of head and tail after a failure.
const FAILED_HEAD: usize = 5;
const FAILED_TAIL: usize = 25;
// Maximum number of lines of head and tail of a JSON document.
const DOCUMENT_HEAD: usize = 25;
const DOCUMENT_TAIL: usize = 5;
// Number of lines of the same form that are shown, and number of rows of a table that are shown,
// including its header.
const SHOWN_LINES: u32 = 2;
const SHOWN_ROWS: u32 = 3;
// Minimum number of consecutive lines that are folded.
const MIN_FOLDED: usize = 3;
// Separators between the cells of a table row, and the minimum number of separators in a row.
const SEPARATORS: [u8; 4] = *b",;\t|";
const MIN_SEPARATORS: usize = 3;
// Follows the lines that the reader has seen before the summary.
const ABOVE: &str = " (above)";

#[derive(Clone, Copy)]
pub(super) struct ExcerptBudget {
    pub(super) bytes: usize,
    pub(super) lines: usize,
}

/// Head, errors and tail of an output. `lines` is the number of its lines, if they were counted. If
/// they were not, the line numbers of the tail are unknown.
pub(super) struct Excerpt {
    head: ExcerptLines,
    errors: Vec<String>,
    tail: ExcerptLines,
    lines: Option<u64>,
}

/// Consecutive lines at one end of the output. `lines` is the number of output lines that they
/// represent. `above` is true if the reader has seen these lines before the summary, so that it has
/// no text of them. `folded` is true if one of them represents several output lines. If the output has
/// only one line and it is shown in part, `columns` are the byte columns that are shown. `end` is
/// the offset after the last byte of a head.
#[derive(Default)]
struct ExcerptLines {
    text: Vec<String>,
    lines: u64,
    above: bool,
    folded: bool,
    cut: bool,
    columns: Option<(u64, u64)>,
    end: u64,
}

pub(super) fn cleaned_lines(bytes: &[u8]) -> Vec<String> {
    split(bytes).into_iter().map(|line| clean(line, usize::MAX, usize::MAX).text).collect()
}

impl Excerpt {
    pub(super) fn of(
        subject: &Subject<'_>,
        found: &Findings,
        above: &[u8],
        budget: ExcerptBudget,
    ) -> io::Result<Self> {
        let errors = error_lines(found, budget.bytes / 3);
        let taken: usize = errors.iter().map(|text| text.len() + 1).sum();
        let left = ExcerptBudget {
            bytes: budget.bytes - taken,
            lines: budget.lines.saturating_sub(errors.len()),
        };
        let (for_head, for_tail) = shares(subject, left);
        let head =
            if above.is_empty() { head(subject, for_head)? } else { head_above(subject, above)? };
        let tail = tail(subject, for_tail, &head)?;
        let counted = subject.analysis.bytes == subject.content.len();
        let lines = counted.then_some(subject.analysis.lines);
        Ok(Self { head, errors, tail, lines })
    }

    fn head_lines(&self) -> u64 {
        self.head.lines
    }

    fn tail_start(&self) -> Option<u64> {
        self.lines.map(|lines| (lines + 1).saturating_sub(self.tail.lines))
    }

    pub(super) fn has_all(&self) -> bool {
        let part = |part: &ExcerptLines| part.cut || part.folded;
        let meets = self.tail_start().is_some_and(|start| start <= self.head_lines() + 1);
        meets && !part(&self.head) && !part(&self.tail)
    }

    // Formats the line: `shown: lines 1-12 and 8,090-8,112; lines 13-8,089 are not shown`.
    pub(super) fn shown(&self) -> String {
        let above = if self.head.above { ABOVE } else { "" };
        if let Some(first) = self.head.columns.filter(|_| self.lines == Some(1)) {
            let last = self.tail.columns.map(|columns| format!(" and {}", span(columns)));
            let last = last.unwrap_or_default();
            return format!(
                "shown: line 1, byte columns {}{above}{last}; the rest is not shown",
                span(first)
            );
        }
        let cut = if self.head.cut || self.tail.cut { "; long lines are cut" } else { "" };
        let folded = self.head.folded || self.tail.folded;
        let folded = if folded { "; lines alike are folded" } else { "" };
        format!("shown: {}{folded}{cut}", self.shown_lines(above))
    }

    fn shown_lines(&self, above: &str) -> String {
        let head = self.head_lines();
        let (Some(start), Some(lines)) = (self.tail_start(), self.lines) else {
            let (head, tail) = (named((1, head)), last(self.tail.lines));
            return format!("{head}{above} and {tail}; what is between is not shown");
        };
        if start <= head + 1 {
            let all = || format!("all {} lines", grouped(lines));
            return if lines == 1 { "its only line".to_owned() } else { all() };
        }
        let hidden = match (head + 1, start - 1) {
            (first, last) if first == last => format!("line {} is not shown", grouped(first)),
            hidden => format!("lines {} are not shown", span(hidden)),
        };
        if self.tail.text.is_empty() {
            return format!("{}{above}; {hidden}", named((1, head)));
        }
        format!("lines {}{above} and {}; {hidden}", span((1, head)), span((start, lines)))
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        let head = format!("--- head: {} ---", self.head.name((1, self.head_lines())));
        let tail = match (self.tail_start(), self.lines) {
            (Some(start), Some(lines)) => self.tail.name((start, lines)),
            _ => last(self.tail.lines),
        };
        let tail = (!self.tail.text.is_empty()).then(|| format!("--- tail: {tail} ---"));
        let errors = (!self.errors.is_empty()).then(|| "--- errors ---".to_owned());
        let head = (!self.head.above).then_some(head).into_iter().chain(self.head.text);
        let errors = errors.into_iter().chain(self.errors);
        head.chain(errors).chain(tail).chain(self.tail.text).collect()
    }
}

impl ExcerptLines {
    // Adds a mark that replaces lines. Returns its size in bytes.
    fn fold(&mut self, lines: usize, first: bool) -> usize {
        let mark = fold_mark(lines);
        let bytes = mark.len() + 1;
        let at = if first { 0 } else { self.text.len() };
        self.text.insert(at, mark);
        self.lines += lines as u64;
        self.folded = true;
        bytes
    }

    fn name(&self, lines: (u64, u64)) -> String {
        match self.columns {
            Some(columns) => format!("line {}, byte columns {}", grouped(lines.0), span(columns)),
            None => named(lines),
        }
    }
}

/// Returns the budgets of head and tail, which are usually half each. After a failure the head gets
/// less, because the errors and the end are more informative. In a document the tail gets less.
fn shares(subject: &Subject<'_>, budget: ExcerptBudget) -> (ExcerptBudget, ExcerptBudget) {
    let limits = subject.limits;
    let bytes = budget.bytes.min(2 * limits.snippet_bytes);
    let lines = budget.lines.min(2 * limits.snippet_lines).max(2);
    let failed = subject.record.provenance.exit_code.is_some_and(|code| code != 0);
    if failed {
        let head = ExcerptBudget { bytes: bytes / 4, lines: (lines / 4).clamp(1, FAILED_HEAD) };
        let tail = ExcerptBudget { bytes: bytes / 2, lines: (lines / 2).min(FAILED_TAIL) };
        return (head, tail);
    }
    if matches!(subject.analysis.json, Json::Document { .. }) {
        let head = ExcerptBudget { bytes: bytes / 2, lines: lines.min(DOCUMENT_HEAD) };
        return (head, ExcerptBudget { bytes: bytes / 8, lines: lines.min(DOCUMENT_TAIL) });
    }
    let head = ExcerptBudget { bytes: bytes / 2, lines: (lines / 2).max(1) };
    (head, ExcerptBudget { bytes: bytes - head.bytes, lines: lines - head.lines })
}

fn head(subject: &Subject<'_>, budget: ExcerptBudget) -> io::Result<ExcerptLines> {
    let bytes = subject.content.bytes(0, READ)?;
    // Lines in the second half are left to the tail.
    let half = bytes.len().min((subject.content.len() / 2) as usize);
    let (mut part, mut fold) = (ExcerptLines::default(), LineFold::default());
    let mut left = budget.bytes;
    let mut at = 0;
    while at < bytes.len() && part.text.len() < budget.lines {
        let folded = fold.run(whole_lines(&bytes[at..half.max(at)]));
        if folded > 0 && left > MARK_CHARS {
            left -= part.fold(folded, false);
            at += memchr::memchr_iter(b'\n', &bytes[at..]).nth(folded - 1).map_or(0, |end| end + 1);
            continue;
        }
        let line = &bytes[at..];
        let end = memchr::memchr(b'\n', line).map(|end| at + end + 1);
        let is_cut = end.is_none() && (bytes.len() as u64) < subject.content.len();
        if (at > 0 && is_cut) || (part.folded && end.is_none_or(|end| end > half)) {
            break;
        }
        let line = without_return(&line[..end.map_or(line.len(), |end| end - at - 1)]);
        let (text, used) = start_of(line, left, at == 0);
        let Some(text) = text else { break };
        left -= (text.len() + 1).min(left);
        fold.show(line);
        part.text.push(text);
        part.lines += 1;
        let cut = used < line.len();
        part.cut |= cut;
        let last = end.is_none_or(|end| end as u64 == subject.content.len());
        if cut && last {
            part.columns = (at == 0).then_some((1, used as u64));
            part.end = (at + used) as u64;
            return Ok(part);
        }
        at = end.unwrap_or(bytes.len());
    }
    part.end = at as u64;
    Ok(part)
}

/// Returns the head of the part after the bytes `above`, which the reader has seen. The content lacks
/// the escape sequences of `above`, but has the same lines.
fn head_above(subject: &Subject<'_>, above: &[u8]) -> io::Result<ExcerptLines> {
    let bytes = subject.content.bytes(0, READ)?;
    let whole = memchr::memchr_iter(b'\n', above).count();
    let starts = memchr::memchr_iter(b'\n', &bytes).map(|end| end + 1);
    let at = [0].into_iter().chain(starts).nth(whole).unwrap_or(bytes.len());
    let begun = above.len() - memchr::memrchr(b'\n', above).map_or(0, |end| end + 1);
    let used = begun.min(bytes.len() - at);
    Ok(ExcerptLines {
        lines: whole as u64 + u64::from(used > 0),
        above: true,
        cut: used > 0,
        columns: (whole == 0).then_some((1, used as u64)),
        end: (at + used) as u64,
        ..ExcerptLines::default()
    })
}

/// Returns the whole line if it fits. Otherwise, returns the longest start of the line that leaves
/// room for a mark, followed by the mark. Also returns the number of bytes of the line that are
/// shown. Returns `None` if a start of the usual length does not fit and the line is not `needed`.
fn start_of(line: &[u8], bytes: usize, needed: bool) -> (Option<String>, usize) {
    let whole = clean(line, Limits::LINE_CHARS, bytes.saturating_sub(1));
    if whole.used == line.len() {
        return (Some(whole.text), whole.used);
    }
    let chars = Limits::LINE_CHARS - MARK_CHARS;
    let budget = bytes.saturating_sub(MARK_CHARS);
    let Cleaned { text, used } = clean(line, chars, budget);
    if !needed && text.chars().count() < chars {
        return (None, 0);
    }
    let mark = format!(" [cut at byte column {}]", grouped(used as u64 + 1));
    (Some(text + &mark), used)
}

fn tail(
    subject: &Subject<'_>,
    budget: ExcerptBudget,
    head: &ExcerptLines,
) -> io::Result<ExcerptLines> {
    let length = subject.content.len();
    let from = head.end.max(length.saturating_sub(READ as u64));
    let bytes = subject.content.bytes(from, READ)?;
    let lines = split(&bytes);
    let begins = from == 0 || subject.content.bytes(from - 1, 1)? == b"\n";
    let (mut part, mut fold) = (ExcerptLines::default(), LineFold::default());
    let mut left = budget.bytes;
    let mut rest = lines.len();
    while rest > 0 && part.text.len() < budget.lines {
        let first = usize::from(!begins);
        let folded = fold.run(lines[first.min(rest)..rest].iter().rev().copied());
        if folded > 0 && left > MARK_CHARS {
            left -= part.fold(folded, true);
            rest -= folded;
            continue;
        }
        rest -= 1;
        let (line, is_last) = (lines[rest], rest + 1 == lines.len());
        let partial = rest == 0 && !begins;
        if partial && !is_last {
            break;
        }
        let whole = clean(line, Limits::LINE_CHARS, left.saturating_sub(1));
        let fits = whole.used == line.len() && !partial;
        let text = if fits {
            whole.text
        } else if is_last {
            part.cut = true;
            end_of(subject, line, left, &mut part)?
        } else if let (Some(text), _) = start_of(line, left, false) {
            part.cut = true;
            text
        } else {
            break;
        };
        left -= (text.len() + 1).min(left);
        fold.show(line);
        part.text.insert(0, text);
        part.lines += 1;
    }
    Ok(part)
}

/// Returns a mark and the end of the last line. The mark states the column at which this end
/// begins. Sets the columns of `part`. `line` is the part of the last line that was read.
fn end_of(
    subject: &Subject<'_>,
    line: &[u8],
    bytes: usize,
    part: &mut ExcerptLines,
) -> io::Result<String> {
    let budget = bytes.saturating_sub(MARK_CHARS);
    let mut chars = Limits::LINE_CHARS - MARK_CHARS;
    let mut start = last_chars(line, chars);
    while clean(&line[start..], chars, budget).used < line.len() - start && chars > 1 {
        chars /= 2;
        start = last_chars(line, chars);
    }
    let text = clean(&line[start..], chars, budget).text;
    let end = subject.content.len();
    let newline = u64::from(subject.content.bytes(end - 1, 1)? == b"\n");
    let shown = (line.len() - start) as u64;
    let offset = end - newline - shown;
    let Some(begin) = scan::start_of_last(subject, offset)? else {
        return Ok(format!("[from byte {} of the file on] {text}", grouped(offset + 1)));
    };
    let column = offset - begin + 1;
    part.columns = Some((column, column + shown - 1));
    Ok(format!("[from byte column {} on] {text}", grouped(column)))
}

// Returns the offset of the last `chars` characters of `line`.
fn last_chars(line: &[u8], chars: usize) -> usize {
    let from = line.len().saturating_sub(4 * chars);
    let starts = (from..line.len()).rev().filter(|at| line[*at] & 0xc0 != 0x80);
    starts.take(chars).last().unwrap_or(from)
}

fn error_lines(found: &Findings, bytes: usize) -> Vec<String> {
    let mut left = bytes.min(ERRORS_BYTES);
    let mut lines = found.shown.iter().take(MAX_ERRORS).map(error_line).collect::<Vec<String>>();
    lines.retain(|line| {
        let fits = line.len() < left;
        left -= if fits { line.len() + 1 } else { 0 };
        fits
    });
    lines
}

// Returns the lines that end in `bytes`.
fn whole_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let last = memchr::memrchr(b'\n', bytes).unwrap_or(0);
    let lines = bytes[..last].split(|byte| *byte == b'\n').map(without_return);
    lines.take(if last > 0 { usize::MAX } else { 0 })
}

fn split(bytes: &[u8]) -> Vec<&[u8]> {
    if bytes.is_empty() {
        return Vec::new();
    }
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    bytes.split(|byte| *byte == b'\n').map(without_return).collect()
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

// Formats a range: `8,090-8,112`, `7`.
pub(super) fn span((first, last): (u64, u64)) -> String {
    if first == last { grouped(first) } else { format!("{}-{}", grouped(first), grouped(last)) }
}

// Formats a number of last lines: `the last 12`, `the last one`.
fn last(lines: u64) -> String {
    if lines == 1 { "the last one".to_owned() } else { format!("the last {}", grouped(lines)) }
}

// Formats a range of lines: `lines 8,090-8,112`, `line 7`.
fn named(lines: (u64, u64)) -> String {
    format!("{} {}", if lines.0 == lines.1 { "line" } else { "lines" }, span(lines))
}

#[derive(Default)]
struct LineFold {
    likeness: LikenessHasher,
    shown: HashMap<u64, u32>,
}

impl LineFold {
    /// Returns the number of lines at the start of `lines` that can be folded, because enough lines
    /// of their forms were shown. Returns 0 if there are fewer than `MIN_FOLDED`.
    fn run<'a>(&mut self, lines: impl Iterator<Item = &'a [u8]>) -> usize {
        let count = lines.take_while(|line| self.is_known(line)).count();
        if count < MIN_FOLDED { 0 } else { count }
    }

    fn show(&mut self, line: &[u8]) {
        *self.shown.entry(self.likeness.of(line)).or_default() += 1;
        if let Some(row) = row(line) {
            *self.shown.entry(row).or_default() += 1;
        }
    }

    fn is_known(&mut self, line: &[u8]) -> bool {
        let shown = |form: u64| self.shown.get(&form).copied().unwrap_or_default();
        shown(self.likeness.of(line)) >= SHOWN_LINES
            || row(line).is_some_and(|row| shown(row) >= SHOWN_ROWS)
    }
}

// Returns the form of a table row: its separator and how often it occurs. A row begins with
// a letter, a digit or a quote.
fn row(line: &[u8]) -> Option<u64> {
    let cells = |sign: u8| memchr::memchr_iter(sign, line).count();
    let (count, sign) = SEPARATORS.iter().map(|sign| (cells(*sign), *sign)).max()?;
    let begins = line.first().is_some_and(|first| first.is_ascii_alphanumeric() || *first == b'"');
    (begins && count >= MIN_SEPARATORS).then(|| (count as u64) << 8 | u64::from(sign))
}

fn fold_mark(lines: usize) -> String {
    format!("[... {} lines like these ...]", grouped(lines as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str) -> Vec<String> {
        let lines: Vec<&[u8]> = text.lines().map(str::as_bytes).collect();
        let (mut fold, mut shown, mut at) = (LineFold::default(), Vec::new(), 0);
        while at < lines.len() {
            let run = fold.run(lines[at..].iter().copied());
            if run > 0 {
                shown.push(fold_mark(run));
            } else {
                fold.show(lines[at]);
                shown.push(String::from_utf8(lines[at].to_vec()).unwrap());
            }
            at += run.max(1);
        }
        shown
    }

    #[test]
    fn two_of_a_form_are_shown() {
        let text = "start\nread 1\nread 2\nread 3\nread 4\nread 5\nend\nread 6\nread 7\n";
        let shown = [
            "start",
            "read 1",
            "read 2",
            "[... 3 lines like these ...]",
            "end",
            "read 6",
            "read 7",
        ];
        assert_eq!(folded(text), shown);
        let turns = "open 1\nclose 1\n".repeat(50);
        assert_eq!(folded(&turns).last().unwrap(), "[... 96 lines like these ...]");
    }

    #[test]
    fn rows_are_of_one_form() {
        let names = ["Ann", "Bea", "Cy", "Dan", "Eve"];
        let row = |name: &&str| format!("{name},x{name},1,{name}@b.org");
        let rows = names.iter().map(row).collect::<Vec<String>>().join("\n");
        let shown = folded(&format!("name,login,id,mail address\n{rows}"));
        assert_eq!(shown.len(), 4);
        assert_eq!(shown[3], "[... 3 lines like these ...]");
        let prose = "One, two, three, and four.\nRed, green, blue, and grey.\n";
        assert_eq!(folded(prose).len(), 2);
    }
}
