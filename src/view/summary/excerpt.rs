//! The part of an output that a summary shows: its head, its errors, the lines between that name the
//! most, and its tail. Consecutive lines alike are folded.

use std::cell::OnceCell;
use std::io;

use crate::clean::{Cleaned, TextBudget, clean};
use crate::errors::{Finding, Findings, error_line};
use crate::number::{counted, grouped};
use crate::scan;
use crate::summary::alike::{LineForms, fold_mark};
use crate::summary::between::{ChosenLine, LineNames};
use crate::summary::records::records;
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
// Number of bytes that may stay unused before head and tail get more.
const SPARE_BYTES: usize = 160;
// Follows the lines that the reader has seen before the summary.
const ABOVE: &str = " (above)";

/// Head, errors, lines between, records of JSON, and tail of an output. `lines` is the number of its lines, if they
/// were counted. If they were not, the line numbers of the tail are unknown.
pub(super) struct Excerpt {
    head: ExcerptLines,
    errors: Vec<String>,
    between: Vec<ChosenLine>,
    records: Vec<String>,
    tail: ExcerptLines,
    lines: Option<u64>,
}

/// Consecutive lines at one end of the output. `lines` is the number of output lines that they
/// represent. `above` is true if the reader has seen these lines before the summary, so that it has
/// no text of them. `folded` is true if one of them represents several output lines. If the output has
/// only one line and it is shown in part, `columns` are the byte columns that are shown. `bound` is
/// the offset after the last byte of a head, or of the first byte of a tail.
#[derive(Default)]
struct ExcerptLines {
    text: Vec<String>,
    lines: u64,
    above: bool,
    folded: bool,
    cut: bool,
    columns: Option<(u64, u64)>,
    bound: u64,
}

/// The bytes at both ends of an output of `length` bytes. `from` is the offset of `last`.
struct EndBytes {
    first: Vec<u8>,
    last: Vec<u8>,
    from: u64,
    length: u64,
}

/// The lines at both ends of an output. `names` are found when lines are chosen by them.
struct Ends<'a> {
    bytes: &'a EndBytes,
    lines: Vec<EndLine<'a>>,
    forms: LineForms,
    names: OnceCell<LineNames<'a>>,
}

/// A line that was read, or the part of it that was read, which begins at `offset`. If the number of
/// lines of the output is unknown, lines of the second end have none.
#[derive(Clone, Copy)]
pub(super) struct EndLine<'a> {
    pub(super) number: Option<u64>,
    pub(super) offset: u64,
    pub(super) text: &'a [u8],
    pub(super) is_whole: bool,
}

impl EndBytes {
    fn read(subject: &Subject<'_>) -> io::Result<Self> {
        let length = subject.content.len();
        let first = subject.content.bytes(0, READ)?;
        let from = length.saturating_sub(READ as u64);
        let last = if from == 0 { first.clone() } else { subject.content.bytes(from, READ)? };
        Ok(Self { first, last, from, length })
    }

    // Returns the part of `last` that begins at an offset.
    fn last_from(&self, offset: u64) -> &[u8] {
        let at = usize::try_from(offset.saturating_sub(self.from)).unwrap_or(usize::MAX);
        self.last.get(at..).unwrap_or_default()
    }
}

impl<'a> Ends<'a> {
    fn of(bytes: &'a EndBytes, count: Option<u64>) -> Self {
        let EndBytes { first, from, length, .. } = bytes;
        let is_all = first.len() as u64 == *length;
        let end = memchr::memrchr(b'\n', first).map_or(0, |end| end + 1);
        let end = if is_all { first.len() } else { end };
        let (near, part) = first.split_at(end);
        let far = bytes.last_from(end as u64);
        let from = (end as u64).max(*from);
        let mut lines = Vec::new();
        let mut add = |number, offset, text, is_whole| {
            lines.push(EndLine { number, offset, text, is_whole });
        };
        for (number, text) in (1..).zip(split(near)) {
            add(Some(number), offset_in(first, text), text, true);
        }
        if from > end as u64 {
            add(None, end as u64, part, false);
        }
        let texts = split(far);
        for (after, text) in (1..=texts.len() as u64).rev().zip(texts) {
            let offset = from + offset_in(far, text);
            let number = count.map(|count| (count + 1).saturating_sub(after));
            add(number, offset, text, offset > from || from == end as u64);
        }
        let forms = LineForms::of(lines.iter().map(|line| line.text));
        Self { bytes, lines, forms, names: OnceCell::new() }
    }
}

// Returns the offset of `line` in the bytes that it is a part of.
fn offset_in(bytes: &[u8], line: &[u8]) -> u64 {
    (line.as_ptr() as usize - bytes.as_ptr() as usize) as u64
}

impl Excerpt {
    pub(super) fn of(
        subject: &Subject<'_>,
        found: &Findings,
        above: &[u8],
        budget: TextBudget,
    ) -> io::Result<Self> {
        let errors = error_lines(found, budget.bytes / 3);
        let taken: usize = errors.iter().map(|text| text.len() + 1).sum();
        let left = TextBudget {
            bytes: budget.bytes - taken,
            lines: budget.lines.saturating_sub(errors.len()),
        };
        let counted = subject.analysis.bytes == subject.content.len();
        let lines = counted.then_some(subject.analysis.lines);
        let bytes = EndBytes::read(subject)?;
        let ends = Ends::of(&bytes, lines);
        let eighths = eighths(subject);
        let shares = eighths.map(|eighths| eighths * left.bytes / 8);
        let excerpt = Self::within((subject, found), (&ends, lines), above, left, shares)?;
        let spare = left.bytes.saturating_sub(excerpt.size());
        if spare < SPARE_BYTES || excerpt.has_all() {
            return Ok(Self { errors, ..excerpt });
        }
        let sum: usize = eighths.iter().sum();
        let used = [&excerpt.head, &excerpt.tail].map(|part| size(&part.text));
        let shares = [0, 1].map(|end| used[end] + eighths[end] * spare / sum);
        let excerpt = Self::within((subject, found), (&ends, lines), above, left, shares)?;
        Ok(Self { errors, ..excerpt })
    }

    fn within(
        (subject, found): (&Subject<'_>, &Findings),
        (ends, lines): (&Ends<'_>, Option<u64>),
        above: &[u8],
        budget: TextBudget,
        shares: [usize; 2],
    ) -> io::Result<Self> {
        let bytes = ends.bytes;
        let most = (budget.lines / 2).min(subject.limits.snippet_lines).max(1);
        let share = |share: usize| share.min(subject.limits.snippet_bytes);
        let [for_head, for_tail] =
            shares.map(|bytes| TextBudget { bytes: share(bytes), lines: most });
        let (mut forms, mut last_forms) = (ends.forms.clone(), ends.forms.clone());
        let head = if above.is_empty() {
            head(bytes, for_head, &mut forms)
        } else {
            head_above(bytes, above)
        };
        let tail = tail(subject, bytes, for_tail, &head, &mut last_forms)?;
        let mut excerpt = Self {
            head,
            errors: Vec::new(),
            between: Vec::new(),
            records: Vec::new(),
            tail,
            lines,
        };
        let left = TextBudget {
            bytes: budget.bytes.saturating_sub(excerpt.size()),
            lines: budget.lines.saturating_sub(excerpt.head.text.len() + excerpt.tail.text.len()),
        };
        if excerpt.has_all() {
            return Ok(excerpt);
        }
        // Also of JSON with a line of another kind behind it.
        if !matches!(subject.analysis.json, Json::No) {
            excerpt.records = records(&bytes.first, left);
        }
        if excerpt.records.is_empty() {
            let names = ends.names.get_or_init(|| LineNames::of(&ends.lines));
            let hidden = excerpt.head.bound..excerpt.tail.bound;
            let is_error = |line| shown_errors(found).any(|finding| Some(finding.at.line) == line);
            excerpt.between = names.chosen(&hidden, &is_error, &mut forms, left);
        }
        Ok(excerpt)
    }

    fn size(&self) -> usize {
        let between: usize = self.between.iter().map(|chosen| chosen.text.len() + 1).sum();
        between + size(&self.head.text) + size(&self.records) + size(&self.tail.text)
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
            let between = match self.between.len() {
                0 => "; what is between is not shown".to_owned(),
                some => format!(", and {} between", counted(some as u64, "line")),
            };
            return format!("{head}{above} and {tail}{between}");
        };
        if start <= head + 1 {
            let all = || format!("all {} lines", grouped(lines));
            return if lines == 1 { "its only line".to_owned() } else { all() };
        }
        let hidden = match (head + 1, start - 1) {
            (first, last) if first == last => format!("line {} is not shown", grouped(first)),
            hidden => format!("lines {} are not shown", span(hidden)),
        };
        let some = self.between.len() as u64;
        let hidden = if some > 0 {
            format!(", and {} of lines {}", grouped(some), span((head + 1, start - 1)))
        } else {
            format!("; {hidden}")
        };
        if self.tail.text.is_empty() {
            return format!("{}{above}{hidden}", named((1, head)));
        }
        format!("lines {}{above} and {}{hidden}", span((1, head)), span((start, lines)))
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
        let some = !self.between.is_empty();
        let between = some.then(|| "--- between: more lines with names ---".to_owned());
        let records = (!self.records.is_empty()).then(|| "--- records: id and name ---".to_owned());
        let between = between
            .into_iter()
            .chain(records)
            .chain(self.records)
            .chain(self.between.into_iter().map(|chosen| chosen.text));
        head.chain(errors).chain(between).chain(tail).chain(self.tail.text).collect()
    }
}

fn size(lines: &[String]) -> usize {
    lines.iter().map(|line| line.len() + 1).sum()
}

impl ExcerptLines {
    // Adds a mark that replaces lines, and has no more than `room` bytes. Returns its size in bytes.
    fn fold(&mut self, lines: &[&[u8]], first: bool, room: usize) -> usize {
        let these = if first { "these below" } else { "these" };
        let mark = fold_mark(lines, these, room.saturating_sub(1));
        let bytes = mark.len() + 1;
        let at = if first { 0 } else { self.text.len() };
        self.text.insert(at, mark);
        self.lines += lines.len() as u64;
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

/// Returns the shares of head and tail in eighths of the budget: half of it, as the lines between have
/// more names. After a failure the head gets less, because the end is more informative. In a document
/// the tail gets less.
fn eighths(subject: &Subject<'_>) -> [usize; 2] {
    let failed = subject.record.provenance.exit_code.is_some_and(|code| code != 0);
    match subject.analysis.json {
        Json::Document { .. } => [3, 1],
        _ if failed => [1, 3],
        _ => [2, 2],
    }
}

fn head(ends: &EndBytes, budget: TextBudget, forms: &mut LineForms) -> ExcerptLines {
    let bytes = &ends.first;
    // Lines in the second half are left to the tail.
    let half = bytes.len().min((ends.length / 2) as usize);
    let mut part = ExcerptLines::default();
    let mut left = budget.bytes;
    let mut at = 0;
    while at < bytes.len() && part.text.len() < budget.lines {
        let folded = forms.run(whole_lines(&bytes[at..half.max(at)]));
        if folded > 0 && left > MARK_CHARS {
            let lines: Vec<&[u8]> = whole_lines(&bytes[at..half]).take(folded).collect();
            left -= part.fold(&lines, false, left);
            at += memchr::memchr_iter(b'\n', &bytes[at..]).nth(folded - 1).map_or(0, |end| end + 1);
            continue;
        }
        let line = &bytes[at..];
        let end = memchr::memchr(b'\n', line).map(|end| at + end + 1);
        let is_cut = end.is_none() && (bytes.len() as u64) < ends.length;
        if (at > 0 && is_cut) || (part.folded && end.is_none_or(|end| end > half)) {
            break;
        }
        let line = without_return(&line[..end.map_or(line.len(), |end| end - at - 1)]);
        let (text, used) = start_of(line, left, at == 0);
        let Some(text) = text else { break };
        left -= (text.len() + 1).min(left);
        forms.show(line);
        part.text.push(text);
        part.lines += 1;
        let cut = used < line.len();
        part.cut |= cut;
        let last = end.is_none_or(|end| end as u64 == ends.length);
        if cut && last {
            part.columns = (at == 0).then_some((1, used as u64));
            part.bound = (at + used) as u64;
            return part;
        }
        at = end.unwrap_or(bytes.len());
    }
    part.bound = at as u64;
    part
}

/// Returns the head of the part after the bytes `above`, which the reader has seen. The content lacks
/// the escape sequences of `above`, but has the same lines.
fn head_above(ends: &EndBytes, above: &[u8]) -> ExcerptLines {
    let bytes = &ends.first;
    let whole = memchr::memchr_iter(b'\n', above).count();
    let starts = memchr::memchr_iter(b'\n', bytes).map(|end| end + 1);
    let at = [0].into_iter().chain(starts).nth(whole).unwrap_or(bytes.len());
    let begun = above.len() - memchr::memrchr(b'\n', above).map_or(0, |end| end + 1);
    let used = begun.min(bytes.len() - at);
    ExcerptLines {
        lines: whole as u64 + u64::from(used > 0),
        above: true,
        cut: used > 0,
        columns: (whole == 0).then_some((1, used as u64)),
        bound: (at + used) as u64,
        ..ExcerptLines::default()
    }
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
    ends: &EndBytes,
    budget: TextBudget,
    head: &ExcerptLines,
    forms: &mut LineForms,
) -> io::Result<ExcerptLines> {
    let from = head.bound.max(ends.from);
    let bytes = ends.last_from(from);
    let lines = split(bytes);
    let begins = from == 0 || subject.content.bytes(from - 1, 1)? == b"\n";
    let mut part = ExcerptLines::default();
    let mut left = budget.bytes;
    let mut rest = lines.len();
    while rest > 0 && part.text.len() < budget.lines {
        let first = usize::from(!begins);
        let folded = forms.run(lines[first.min(rest)..rest].iter().rev().copied());
        if folded > 0 && left > MARK_CHARS {
            left -= part.fold(&lines[rest - folded..rest], true, left);
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
        forms.show(line);
        part.text.insert(0, text);
        part.lines += 1;
    }
    // The newlines before the tail.
    let before = lines.len() - part.lines as usize;
    let mut starts = [0].into_iter().chain(memchr::memchr_iter(b'\n', bytes).map(|end| end + 1));
    part.bound = from + starts.nth(before).unwrap_or(bytes.len()) as u64;
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

fn shown_errors(found: &Findings) -> impl Iterator<Item = &Finding> {
    found.shown.iter().take(MAX_ERRORS)
}

pub(super) fn error_lines(found: &Findings, bytes: usize) -> Vec<String> {
    let mut left = bytes.min(ERRORS_BYTES);
    let mut lines = shown_errors(found).map(error_line).collect::<Vec<String>>();
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

pub(super) fn split(bytes: &[u8]) -> Vec<&[u8]> {
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
