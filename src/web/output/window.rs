//! The requested view of an output, and the window of its lines.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use maud::{Markup, html};
use serde::Deserialize;

use crate::{Result, Site, address, display};
use ctxfs_core::materialize::{SNIFFED, is_binary as is_binary_start, reading, strip_escapes};
use ctxfs_core::model::{Component, Json};
use ctxfs_engine::{LineRow, LineWindow, Look, LookFacts};

// Time limit for finding a line whose offset is not known.
const PATIENCE: Duration = Duration::from_millis(1500);
// Time limit for counting lines, so that rows can show line numbers.
const MOMENT: Duration = Duration::from_millis(8);

/// The query parameters: the view, the search, the open JSON node, and the wanted position. The
/// window starts at the line `line`, at the row that contains the byte `at`, or at the offset
/// `from`. It ends at the offset `before`, or at the end of the output if `end` is `1`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct OutputQuery {
    pub(super) view: String,
    pub(super) line: String,
    pub(super) at: String,
    pub(super) from: String,
    pub(super) before: String,
    pub(super) end: String,
    pub(super) q: String,
    pub(super) json: String,
    // The part of the page that is requested. The stand-in and the error lines are plain text.
    pub(crate) part: String,
}

// An output, and the request for it.
pub(super) struct RequestedOutput<'a> {
    pub(super) site: &'a Arc<Site>,
    pub(super) id: &'a Component,
    pub(super) look: Look,
    pub(super) facts: LookFacts,
    pub(super) query: &'a OutputQuery,
}

impl RequestedOutput<'_> {
    pub(super) fn address(&self) -> String {
        address::output(self.id, self.look.path())
    }

    /// Returns the requested view if it fits the output, or else the view that fits best. For a
    /// link to a line, a view with lines fits better than a tree.
    pub(super) fn view(&self) -> OutputView {
        let mut named = OutputView::ALL.into_iter().filter(|view| view.name() == self.query.view);
        if let Some(asked) = named.find(|view| view.fits(self)) {
            return asked;
        }
        let mut fitting = OutputView::ALL.into_iter().filter(|view| view.fits(self));
        let first = fitting.next().unwrap_or(OutputView::Hex);
        let wants_lines = self.names_a_place() && first == OutputView::Json;
        if wants_lines { fitting.next().unwrap_or(first) } else { first }
    }

    fn names_a_place(&self) -> bool {
        let OutputQuery { line, at, from, before, end, q, .. } = self.query;
        [line, at, from, before, end, q].iter().any(|given| !given.is_empty())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WindowPosition {
    // Starts at the row at this offset.
    From(u64),
    // Starts at the row that contains this byte.
    At(u64),
    // Ends at this offset.
    Before(u64),
    // Starts at this line.
    Line(u64),
    End,
}

/// A window of the rows of an output. If the lines have not been counted yet, line numbers are
/// missing and rows are shown with offsets.
#[derive(Debug)]
pub(crate) struct RowWindow {
    pub(crate) rows: Vec<LineRow>,
    pub(crate) start: u64,
    pub(crate) end: u64,
    first: Option<u64>,
    pub(crate) lines: Option<u64>,
    size: u64,
    pub(super) notice: Option<String>,
}

pub(super) struct ShownRow {
    pub(super) offset: u64,
    pub(super) line: Option<u64>,
    pub(super) column: Option<u64>,
    pub(super) text: Markup,
}

impl WindowPosition {
    fn requested(given: &OutputQuery) -> Self {
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

impl RowWindow {
    pub(super) fn of(output: &RequestedOutput<'_>) -> Result<Self> {
        let (look, place) = (&output.look, WindowPosition::requested(output.query));
        let mut notice = None;
        let LineWindow { rows, start, end } = match place {
            WindowPosition::From(offset) => look.rows_from(offset)?,
            WindowPosition::At(offset) => look.rows_from(look.row_start(offset)?)?,
            WindowPosition::Before(offset) => look.rows_before(offset)?,
            WindowPosition::End => look.rows_before(look.text_size())?,
            WindowPosition::Line(line) => match offset_of(output, line)? {
                Some(offset) if offset < look.text_size() => look.rows_from(offset)?,
                Some(_) => look.rows_before(look.text_size())?,
                None => {
                    let counted = look.counted();
                    notice = Some(format!(
                        "Line {} is not found yet: lines are counted up to {} of {}. Load this page again in a moment.",
                        display::grouped(line),
                        display::short_size(counted.bytes),
                        display::short_size(look.text_size()),
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
            && let WindowPosition::Line(line) = place
            && notice.is_none()
        {
            first = Some(line);
        }
        let lines = lines_of(output);
        Ok(Self { rows, start, end, first, lines, size: look.text_size(), notice })
    }

    pub(super) fn is_whole(&self) -> bool {
        self.start == 0 && self.end >= self.size
    }

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

    pub(super) fn text_rows(&self, for_terminal: bool) -> Vec<ShownRow> {
        let shown = |(row, line): (&LineRow, Option<u64>)| {
            let bytes = row.bytes.strip_suffix(b"\r").unwrap_or(&row.bytes);
            let text = if for_terminal {
                display::bytes(&strip_escapes(bytes))
            } else {
                display::bytes(bytes)
            };
            ShownRow { offset: row.offset, line, column: row.column, text }
        };
        self.numbered().map(shown).collect()
    }

    pub(super) fn section(&self, rows: &[ShownRow], view: OutputView, size: u64) -> Markup {
        let last = self.numbered().last().and_then(|(_, line)| line);
        html! {
            div #lines data-first=[self.first] data-last=[last] data-start=(self.start)
                data-end=(self.end) data-at-end=(self.end >= size) data-size=(size)
                data-lines=[self.lines] {
                @for row in rows { (row.markup(view)) }
            }
        }
    }

    pub(super) fn pager(&self, view: OutputView, search: &str) -> Markup {
        let kept = [("view", view.name()), ("q", search)];
        let to = |pairs: &[(&str, &str)]| address::query(&[&kept, pairs].concat());
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

    // Returns a text such as `lines 4,400-4,599 of 8,112`.
    fn text(&self) -> String {
        let range =
            |(first, last)| format!("{}-{}", display::grouped(first), display::grouped(last));
        let last = self.numbered().last().and_then(|(_, line)| line);
        let shown = self.first.zip(last).map(range);
        match (shown, self.lines) {
            (Some(shown), Some(lines)) => format!("lines {shown} of {}", display::grouped(lines)),
            (Some(shown), None) => format!("lines {shown}"),
            (None, _) => {
                let shown = range((self.start, self.end));
                format!("bytes {shown} of {}", display::grouped(self.size))
            }
        }
    }
}

impl ShownRow {
    fn markup(&self, view: OutputView) -> Markup {
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
                            "+" (display::short_size(column))
                        }
                    }
                    (None, None) => {
                        a.number.part href={ "?view=" (view.name()) "&at=" (self.offset) } {
                            "@" (display::short_size(self.offset))
                        }
                    }
                }
                code { (self.text) }
            }
        }
    }
}

// Returns the offset of a line. It comes from the counted lines, from the analysis, or from
// counting lines for a limited time.
pub(super) fn offset_of(output: &RequestedOutput<'_>, line: u64) -> Result<Option<u64>> {
    let known = known_offset(output, line)?;
    if known.is_some() {
        return Ok(known);
    }
    let look = &output.look;
    let began = Instant::now();
    let newlines = line.saturating_sub(1);
    while !look.is_counted() && look.counted().newlines < newlines && began.elapsed() < PATIENCE {
        // Counts one step, unless counting has ended in the meantime.
        let before = look.counted();
        let step = std::cell::Cell::new(0);
        look.count_on(&|| step.replace(step.get() + 1) > 0)?;
        if look.counted() == before {
            break;
        }
    }
    match look.line_offset(line)? {
        None if look.is_counted() => Ok(Some(look.text_size())),
        found => Ok(found),
    }
}

/// Returns the offset of a line if the analysis or the lines counted so far give it.
pub(super) fn known_offset(output: &RequestedOutput<'_>, line: u64) -> Result<Option<u64>> {
    match (output.look.line_offset(line)?, &output.facts.analysis) {
        (None, Some(analysis)) => Ok(output.look.line_offset_by(analysis, line)?),
        (known, _) => Ok(known),
    }
}

fn lines_of(output: &RequestedOutput<'_>) -> Option<u64> {
    let look = &output.look;
    let analysis = output.facts.analysis.as_ref().filter(|found| found.bytes == look.size());
    if let Some(found) = analysis {
        return Some(found.lines);
    }
    if !look.is_counted() {
        return None;
    }
    let last = look.rows_before(look.text_size()).ok()?.rows.pop();
    Some(look.counted().newlines + u64::from(last.is_some_and(|last| !last.ends_line)))
}

// Image types that browsers show and that cannot contain scripts.
const IMAGES: &[&str] = &["image/png", "image/jpeg", "image/gif", "image/webp"];

/// A view of an output. `Text` shows its lines as plain text, `Screen` as a terminal shows them,
/// and `Raw` as stored. `Json` shows a tree, `Hex` the bytes, and `Image` an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputView {
    Text,
    Screen,
    Raw,
    Json,
    Hex,
    Image,
}

impl OutputView {
    const ALL: [Self; 6] =
        [Self::Image, Self::Json, Self::Screen, Self::Text, Self::Raw, Self::Hex];

    pub(crate) fn name(self) -> &'static str {
        self.name_and_title().0
    }

    fn name_and_title(self) -> (&'static str, &'static str) {
        match self {
            Self::Text => ("text", "Text"),
            Self::Screen => ("screen", "As on the terminal"),
            Self::Raw => ("raw", "With escapes"),
            Self::Json => ("json", "Tree"),
            Self::Hex => ("hex", "Bytes"),
            Self::Image => ("image", "Image"),
        }
    }

    pub(super) fn has_lines(self) -> bool {
        matches!(self, Self::Text | Self::Screen | Self::Raw)
    }

    fn fits(self, output: &RequestedOutput<'_>) -> bool {
        let is_binary = is_binary(output);
        match self {
            Self::Hex => true,
            Self::Image => image_type(&output.facts).is_some(),
            Self::Text => !is_binary,
            Self::Screen | Self::Raw => !is_binary && is_for_terminal(output),
            Self::Json => !is_binary && is_json(output),
        }
    }
}

pub(super) fn links(output: &RequestedOutput<'_>, now: OutputView) -> Markup {
    let address = output.address();
    html! {
        nav #views aria-label="Ways to look" {
            @for view in OutputView::ALL.into_iter().filter(|view| view.fits(output)) {
                a href={ (address) (address::query(&[("view", view.name())])) }
                    aria-current=[(view == now).then_some("page")] { (view.name_and_title().1) }
                " "
            }
        }
    }
}

pub(crate) fn image_type(facts: &LookFacts) -> Option<&'static str> {
    let mime = &facts.analysis.as_ref()?.mime;
    IMAGES.iter().find(|known| *known == mime).copied()
}

pub(super) fn is_for_terminal(output: &RequestedOutput<'_>) -> bool {
    if let Some(found) = &output.facts.analysis {
        return found.text_reading().strips;
    }
    let start = output.look.bytes(0, SNIFFED).unwrap_or_default();
    reading(&start, output.facts.is_log).is_some_and(|reading| reading.strips)
}

fn is_binary(output: &RequestedOutput<'_>) -> bool {
    match &output.facts.analysis {
        Some(found) => found.is_binary(),
        None => is_binary_start(&output.look.bytes(0, SNIFFED).unwrap_or_default()),
    }
}

// Before the analysis, the file name and the first byte decide.
fn is_json(output: &RequestedOutput<'_>) -> bool {
    if let Some(found) = &output.facts.analysis {
        return matches!(found.json, Json::Document { .. } | Json::Lines { .. });
    }
    let start = output.look.bytes(0, 64).unwrap_or_default();
    let first = start.iter().find(|byte| !byte.is_ascii_whitespace());
    let is_named_so = Path::new(output.look.path()).extension().is_some_and(|end| end == "json");
    is_named_so && matches!(first, Some(b'{' | b'['))
}
