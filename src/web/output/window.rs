//! A window over the lines of an output, with the number of each.

use std::time::{Duration, Instant};

use maud::{Markup, html};

use crate::address::query;
use crate::error::WebError;
use crate::output::{Output, View};
use crate::{quantity, shown};
use ctxfs_core::materialize::strip_escapes;
use ctxfs_engine::{LineRow, LineWindow};

/// The time for finding a line whose place is not known.
const PATIENCE: Duration = Duration::from_millis(1500);
/// The time for counting lines so that rows have numbers.
const MOMENT: Duration = Duration::from_millis(8);

/// The place that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// From the row that begins at this offset on.
    From(u64),
    /// From the row that shows this byte on.
    At(u64),
    /// Up to this offset.
    Before(u64),
    /// From this line on.
    Line(u64),
    /// The end.
    End,
}

/// A window.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) rows: Vec<LineRow>,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The number of the line of the first row, if it is known.
    first: Option<u64>,
    /// The lines of the whole output, if they are known.
    pub(crate) lines: Option<u64>,
    size: u64,
    /// What the reader is to know of it.
    pub(super) notice: Option<String>,
}

/// A row as it is shown.
pub(super) struct ShownRow {
    pub(super) offset: u64,
    pub(super) line: Option<u64>,
    pub(super) column: Option<u64>,
    pub(super) text: Markup,
}

impl Place {
    fn asked(output: &Output<'_>) -> Self {
        let given = output.query;
        let number = |text: &str| text.parse::<u64>().ok();
        if given.end == "1" {
            return Self::End;
        }
        let places = [
            number(&given.from).map(Self::From),
            number(&given.before).map(Self::Before),
            number(&given.at).map(Self::At),
            number(&given.line).map(|line| Self::Line(line.max(1))),
        ];
        places.into_iter().flatten().next().unwrap_or(Self::From(0))
    }
}

impl Window {
    /// Returns the window that a request asks for.
    pub(super) fn of(output: &Output<'_>) -> Result<Self, WebError> {
        Self::at(output, Place::asked(output))
    }

    /// Returns the window at `place`.
    pub(super) fn at(output: &Output<'_>, place: Place) -> Result<Self, WebError> {
        let look = &output.look;
        let mut notice = None;
        let LineWindow { rows, start, end } = match place {
            Place::From(offset) => look.rows_from(offset)?,
            Place::At(offset) => look.rows_from(look.row_start(offset)?)?,
            Place::Before(offset) => look.rows_before(offset)?,
            Place::End => look.rows_before(look.size())?,
            Place::Line(line) => match offset_of(output, line)? {
                Some(offset) if offset < look.size() => look.rows_from(offset)?,
                Some(_) => look.rows_before(look.size())?,
                None => {
                    let counted = look.counted();
                    notice = Some(format!(
                        "Line {} is not found yet: lines are counted up to {} of {}. Load this page again in a moment.",
                        quantity::grouped(line),
                        quantity::short_size(counted.bytes),
                        quantity::short_size(look.size()),
                    ));
                    look.rows_from(look.row_start(counted.bytes)?)?
                }
            },
        };
        let began = Instant::now();
        if !look.is_counted() && look.counted().bytes < start {
            look.count_on(&|| began.elapsed() > MOMENT)?;
        }
        let mut first = look.line_at(start)?;
        if first.is_none()
            && let Place::Line(line) = place
            && notice.is_none()
        {
            first = Some(line);
        }
        let lines = lines_of(output);
        Ok(Self { rows, start, end, first, lines, size: look.size(), notice })
    }

    /// Returns true if it is the whole output.
    pub(super) fn is_whole(&self) -> bool {
        self.start == 0 && self.end >= self.size
    }

    /// Returns the rows with the numbers of their lines, each shown by `show`.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (&LineRow, Option<u64>)> {
        let mut line = self.first;
        self.rows.iter().map(move |row| {
            let own = line;
            if row.ends_line {
                line = line.map(|line| line + 1);
            }
            (row, own)
        })
    }

    /// Returns the rows as text; without escape sequences if they are `for_terminal`.
    pub(super) fn text_rows(&self, for_terminal: bool) -> Vec<ShownRow> {
        let shown = |(row, line): (&LineRow, Option<u64>)| {
            let bytes = row.bytes.strip_suffix(b"\r").unwrap_or(&row.bytes);
            let text = if for_terminal {
                shown::bytes(&strip_escapes(bytes))
            } else {
                shown::bytes(bytes)
            };
            ShownRow { offset: row.offset, line, column: row.column, text }
        };
        self.numbered().map(shown).collect()
    }

    /// Returns the rows as the part of a page that a browser replaces.
    pub(super) fn section(&self, rows: &[ShownRow], view: View, size: u64) -> Markup {
        let last = self.numbered().last().and_then(|(_, line)| line);
        html! {
            div #lines data-first=[self.first] data-last=[last] data-start=(self.start)
                data-end=(self.end) data-at-end=(self.end >= size) data-size=(size)
                data-lines=[self.lines] {
                @for row in rows { (row.markup(view)) }
            }
        }
    }

    /// Returns links to the windows around it, which keep the search.
    pub(super) fn pager(&self, view: View, search: &str) -> Markup {
        let kept = [("view", view.name()), ("q", search)];
        let to = |pairs: &[(&str, &str)]| query(&[&kept, pairs].concat());
        let (start, end) = (self.start.to_string(), self.end.to_string());
        html! {
            nav.pager aria-label="Windows" {
                @if self.start > 0 {
                    a.first href=(to(&[("line", "1")])) { "Beginning" } " "
                    a.previous href=(to(&[("before", &start)])) { "Before" } " "
                }
                span.where { (self.text()) }
                @if self.end < self.size {
                    " " a.next href=(to(&[("from", &end)])) { "After" }
                    " " a.last href=(to(&[("end", "1")])) { "End" }
                }
            }
        }
    }

    /// Returns where it is: `lines 4,400-4,599 of 8,112`.
    fn text(&self) -> String {
        let last = self.numbered().last().and_then(|(_, line)| line);
        match (self.first.zip(last), self.lines) {
            (Some((first, last)), Some(lines)) => format!(
                "lines {}-{} of {}",
                quantity::grouped(first),
                quantity::grouped(last),
                quantity::grouped(lines)
            ),
            (Some((first, last)), None) => {
                format!("lines {}-{}", quantity::grouped(first), quantity::grouped(last))
            }
            (None, _) => format!(
                "bytes {}-{} of {}",
                quantity::grouped(self.start),
                quantity::grouped(self.end),
                quantity::grouped(self.size)
            ),
        }
    }
}

impl ShownRow {
    fn markup(&self, view: View) -> Markup {
        let is_start = self.column == Some(0);
        let line = self.line.filter(|_| is_start);
        let id = line.map(|line| format!("L{line}"));
        let column = self.column.filter(|column| *column > 0);
        html! {
            div.line id=[id] data-line=[self.line] data-offset=(self.offset) data-column=[column] {
                @match (line, column) {
                    (Some(line), _) => {
                        a.number href={ "?view=" (view.name()) "&line=" (line) "#L" (line) } { (line) }
                    }
                    (None, Some(column)) => {
                        a.number.part href={ "?view=" (view.name()) "&from=" (self.offset) } {
                            "+" (quantity::short_size(column))
                        }
                    }
                    (None, None) => {
                        a.number.part href={ "?view=" (view.name()) "&at=" (self.offset) } {
                            "@" (quantity::short_size(self.offset))
                        }
                    }
                }
                code { (self.text) }
            }
        }
    }
}

/// Returns the offset of a line: by what is counted, by what the analysis knows, or by counting on.
pub(super) fn offset_of(output: &Output<'_>, line: u64) -> Result<Option<u64>, WebError> {
    let look = &output.look;
    if let Some(offset) = look.line_offset(line)? {
        return Ok(Some(offset));
    }
    if let Some(analysis) = &output.facts.analysis
        && let Some(offset) = look.line_offset_by(analysis, line)?
    {
        return Ok(Some(offset));
    }
    let began = Instant::now();
    let newlines = line.saturating_sub(1);
    while !look.is_counted() && look.counted().newlines < newlines && began.elapsed() < PATIENCE {
        // One step, unless it has ended meanwhile.
        let before = look.counted();
        let step = std::cell::Cell::new(0);
        look.count_on(&|| step.replace(step.get() + 1) > 0)?;
        if look.counted() == before {
            break;
        }
    }
    match look.line_offset(line)? {
        None if look.is_counted() => Ok(Some(look.size())),
        found => Ok(found),
    }
}

/// Returns the number of lines, by the analysis or by what is counted.
fn lines_of(output: &Output<'_>) -> Option<u64> {
    let (look, size) = (&output.look, output.look.size());
    let analysis = output.facts.analysis.as_ref().filter(|found| found.bytes == size);
    if let Some(found) = analysis {
        return Some(found.lines);
    }
    if !look.is_counted() {
        return None;
    }
    let last = look.bytes(size.saturating_sub(1), 1).ok()?;
    Some(look.counted().newlines + u64::from(last.first().is_some_and(|last| *last != b'\n')))
}
