//! Unmodified lines: `.head`, `.tail` and `.lines/`.

use std::io;
use std::io::Write;

use crate::number::{counted, grouped, portion};
use crate::scan::LineStart;
use crate::{LineRange, RenderError, Rendered, scan};
use ctxfs_core::model::{Content, Subject};

// Bytes that are reserved for a notice, not counting the two paths in it.
const NOTICE_BYTES: usize = 400;
// Number of characters in one line of the suggested search that shows a long line in parts.
const PART_CHARS: usize = 400;

/// The requested lines that fit: all of them, the first whole ones, or a part of a single line that
/// is too large.
struct Fitted {
    bytes: Vec<u8>,
    extent: FittedExtent,
}

enum FittedExtent {
    All,
    Lines(u64),
    Part,
}

pub(super) fn first(
    subject: &Subject<'_>,
    count: u64,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    forward(subject, 0, (1, count), None, out)
}

pub(super) fn range(
    subject: &Subject<'_>,
    range: LineRange,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    match range {
        LineRange::Last(count) => last(subject, count, out),
        LineRange::Between { first, last } => {
            let note = (first > last).then(|| {
                let (first, last) = (grouped(last), grouped(first));
                format!("# the range is written backwards: lines {first}-{last} follow\n")
            });
            let (first, last) = (first.min(last), first.max(last));
            match scan::line_start(subject.content, first, expired)? {
                LineStart::At(offset) => forward(subject, offset, (first, last), note, out),
                LineStart::Beyond => Err(RenderError::NotFound),
                LineStart::OutOfTime(offset) => Ok(out_of_time(subject, first, offset)),
            }
        }
    }
}

pub(super) fn last(
    subject: &Subject<'_>,
    count: u64,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let mut fitted = fit_last(subject.content, count, subject.view_bytes())?;
    if !matches!(fitted.extent, FittedExtent::All) {
        fitted = fit_last(subject.content, count, budget(subject))?;
    }
    out.write_all(&fitted.bytes)?;
    Ok(match fitted.extent {
        FittedExtent::All => Rendered::plain(),
        FittedExtent::Lines(shown) => Rendered::noted(last_lines_notice(subject, count, shown)?),
        FittedExtent::Part => Rendered::noted(last_part_notice(subject, fitted.bytes.len())?),
    })
}

// `note` comes before all other notices.
fn forward(
    subject: &Subject<'_>,
    offset: u64,
    range: (u64, u64),
    note: Option<String>,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let count = range.1 - range.0 + 1;
    let room = subject.view_bytes().saturating_sub(note.as_ref().map_or(0, String::len));
    let mut fitted = fit_first(subject.content, offset, count, room)?;
    if !matches!(fitted.extent, FittedExtent::All) {
        fitted = fit_first(subject.content, offset, count, budget(subject))?;
    }
    out.write_all(&fitted.bytes)?;
    let rest = match fitted.extent {
        FittedExtent::All => None,
        FittedExtent::Lines(shown) => Some(lines_notice(subject, range, shown)?),
        FittedExtent::Part => Some(part_notice(subject, range.0, fitted.bytes.len())),
    };
    let notice = [note, rest].into_iter().flatten().reduce(|note, rest| note + &rest);
    Ok(Rendered { notice, whole: true })
}

fn fit_first(content: &dyn Content, offset: u64, count: u64, budget: usize) -> io::Result<Fitted> {
    let mut bytes = content.bytes(offset, budget + 1)?;
    let nth = usize::try_from(count - 1).unwrap_or(usize::MAX);
    let end = memchr::memchr_iter(b'\n', &bytes).nth(nth).map_or(bytes.len(), |at| at + 1);
    let (keep, extent) = if end <= budget {
        (end, FittedExtent::All)
    } else if let Some(at) = memchr::memrchr(b'\n', &bytes[..budget]) {
        (at + 1, FittedExtent::Lines(scan::newlines(&bytes[..=at])))
    } else {
        (scan::char_floor(&bytes, budget), FittedExtent::Part)
    };
    bytes.truncate(keep);
    Ok(Fitted { bytes, extent })
}

fn fit_last(content: &dyn Content, count: u64, budget: usize) -> io::Result<Fitted> {
    let from = content.len().saturating_sub(budget as u64 + 1);
    let mut bytes = content.bytes(from, budget + 1)?;
    // A newline at the very end terminates the last line and does not begin another one.
    let inner = &bytes[..bytes.len().saturating_sub(1)];
    let nth = usize::try_from(count - 1).unwrap_or(usize::MAX);
    let start = memchr::memrchr_iter(b'\n', inner).nth(nth).map(|at| at + 1);
    let (start, extent) = match start {
        Some(start) if start > 0 => (start, FittedExtent::All),
        _ if bytes.len() <= budget => (0, FittedExtent::All),
        _ => match memchr::memchr(b'\n', inner) {
            Some(at) => (at + 1, FittedExtent::Lines(scan::newlines(&inner[at + 1..]) + 1)),
            None => (scan::char_ceiling(&bytes, 1), FittedExtent::Part),
        },
    };
    bytes.drain(..start);
    Ok(Fitted { bytes, extent })
}

// Returns the number of bytes that remain beside a notice.
fn budget(subject: &Subject<'_>) -> usize {
    subject.view_bytes().saturating_sub(NOTICE_BYTES + 2 * subject.place.file().len())
}

fn lines_notice(
    subject: &Subject<'_>,
    (first, last): (u64, u64),
    shown: u64,
) -> io::Result<String> {
    let next = first + shown;
    let last = scan::count_lines(subject, &|| false)?.map_or(last, |lines| last.min(lines));
    Ok(format!(
        "# {}; more would pass 48 KiB. Go on: {}.lines/{next}-{last}\n",
        following(first, next - 1),
        subject.place.file(),
    ))
}

fn part_notice(subject: &Subject<'_>, line: u64, shown: usize) -> String {
    let file = subject.place.file();
    let shown = shown as u64;
    format!(
        "# the first {} of line {} follow; all of it would pass 48 KiB. \
         Go on: {file}.grep/--from={line}@{} -o .{{1,{PART_CHARS}}}\n",
        counted(shown, "byte"),
        grouped(line),
        shown + 1,
    )
}

fn last_lines_notice(subject: &Subject<'_>, asked: u64, shown: u64) -> io::Result<String> {
    let file = subject.place.file();
    let Some(lines) = scan::count_lines(subject, &|| false)? else {
        let verb = if shown == 1 { "follows" } else { "follow" };
        return Ok(format!(
            "# the last {} {verb}; more would pass 48 KiB. All: {file}\n",
            counted(shown, "line")
        ));
    };
    let first = lines.saturating_sub(shown) + 1;
    let earliest = lines.saturating_sub(asked) + 1;
    Ok(format!(
        "# {}, the last of {}; more would pass 48 KiB. Before them: {file}.lines/{earliest}-{}\n",
        following(first, lines),
        grouped(lines),
        first - 1,
    ))
}

fn last_part_notice(subject: &Subject<'_>, shown: usize) -> io::Result<String> {
    let file = subject.place.file();
    let offset = subject.content.len() - shown as u64;
    let bytes = counted(shown as u64, "byte");
    let start = scan::start_of_last(subject, offset)?;
    Ok(match (start, scan::count_lines(subject, &|| false)?) {
        (Some(start), Some(line)) => format!(
            "# the last {bytes} of line {} follow, from byte column {} on; all of it would pass 48 KiB. \
             All of it in parts: {file}.grep/--from={line} -o .{{1,{PART_CHARS}}}\n",
            grouped(line),
            grouped(offset - start + 1),
        ),
        _ => format!(
            "# the last {bytes} of a long line follow, from byte {} of the file on; \
             all of it would pass 48 KiB. All: {file}\n",
            grouped(offset + 1),
        ),
    })
}

fn out_of_time(subject: &Subject<'_>, first: u64, offset: u64) -> Rendered {
    let notice = format!(
        "# out of time after {}, before line {}; nothing follows. The end: {}.tail\n",
        portion(offset, subject.content.len()),
        grouped(first),
        subject.place.file(),
    );
    Rendered { notice: Some(notice), whole: false }
}

// Formats a range: `lines 8,090-8,112 follow`, `line 7 follows`.
fn following(first: u64, last: u64) -> String {
    if first == last {
        format!("line {} follows", grouped(first))
    } else {
        format!("lines {}-{} follow", grouped(first), grouped(last))
    }
}

#[cfg(test)]
mod tests;
