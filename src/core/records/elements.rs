//! A walk over the elements of HTML or XML that are records.

use std::io;
use std::ops::ControlFlow;

use crate::records::element::{Element, ElementStack, Step};
use crate::records::kinds::ElementKinds;
use crate::records::markup::{self, Token};
use crate::records::record::{RECORD_BYTES, Record};
use crate::records::window::Window;

/// Maximum number of records directly inside another whose places are kept.
const MAX_INNER: usize = 1024;

/// A record that has not ended, with its depth among the open elements.
struct OpenRecord {
    level: usize,
    line: u64,
    inner: Vec<(u64, u64)>,
}

/// A table, with its depth among the open elements. `header` is its first row with a header cell.
/// `row` is the start of the current row, and `has_cells` is true if this row has other cells.
struct OpenTable {
    level: usize,
    row: u64,
    has_cells: bool,
    header: Option<(u64, u64)>,
}

/// Calls `visit` with each element that is a record. An element that is still open at the end is a
/// record too. Of a record that is longer than [`RECORD_BYTES`], `text` is empty.
pub(super) fn each(
    window: &mut Window<'_>,
    kinds: &ElementKinds,
    visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>,
) -> io::Result<Option<u64>> {
    let mut walk = Walk::default();
    let mut stack = ElementStack::new(kinds.is_html());
    let mut at = 0;
    loop {
        let bytes = window.from(at);
        let Some((token, length)) = markup::token(bytes, 0, stack.raw(), window.ended()) else {
            let keep = walk.keep(at);
            if window.fill(keep)? {
                continue;
            }
            if window.is_late() {
                return Ok(Some(at));
            }
            if window.from(at).is_empty() {
                break;
            }
            continue;
        };
        let end = at + length as u64;
        let mut flow = ControlFlow::Continue(());
        let closes = if matches!(token, Token::Close { .. }) { end } else { at };
        stack.take(bytes, &token, at, |step| {
            if flow.is_break() {
                return;
            }
            match step {
                Step::Opened(element) => walk.open(kinds, element),
                Step::Text => {}
                Step::Closed(element) => {
                    // An element that has no content ends with its start tag.
                    let end = if element.start == at { end } else { closes };
                    flow = walk.close(kinds, element, end, window, visit);
                }
            }
        });
        walk.line += memchr::memchr_iter(b'\n', &bytes[..length]).count() as u64;
        if flow.is_break() {
            return Ok(None);
        }
        at = end;
    }
    while let Some(element) = stack.open.pop() {
        if walk.close(kinds, &element, at, window, visit).is_break() {
            break;
        }
    }
    Ok(None)
}

struct Walk {
    level: usize,
    line: u64,
    number: u64,
    records: Vec<OpenRecord>,
    tables: Vec<OpenTable>,
}

impl Default for Walk {
    fn default() -> Self {
        Self { level: 0, line: 1, number: 0, records: Vec::new(), tables: Vec::new() }
    }
}

impl Walk {
    /// Returns the offset from which on bytes are needed: the last bytes before `at` that a record
    /// may have.
    fn keep(&self, at: u64) -> u64 {
        if self.records.is_empty() { at } else { at.saturating_sub(RECORD_BYTES as u64) }
    }

    fn open(&mut self, kinds: &ElementKinds, element: &Element) {
        self.level += 1;
        match &*element.kind.name {
            b"table" => {
                let (level, row, has_cells) = (self.level, 0, false);
                self.tables.push(OpenTable { level, row, has_cells, header: None });
            }
            b"tr" => {
                if let Some(table) = self.tables.last_mut() {
                    (table.row, table.has_cells) = (element.start, false);
                }
            }
            b"td" => {
                if let Some(table) = self.tables.last_mut() {
                    table.has_cells = true;
                }
            }
            _ => {}
        }
        if kinds.has(&element.kind) {
            let (level, line) = (self.level, self.line);
            self.records.push(OpenRecord { level, line, inner: Vec::new() });
        }
    }

    fn close(
        &mut self,
        kinds: &ElementKinds,
        element: &Element,
        end: u64,
        window: &Window<'_>,
        visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (level, start) = (self.level, element.start);
        self.level = level.saturating_sub(1);
        let name = &*element.kind.name;
        if name == b"table" {
            self.tables.pop_if(|table| table.level == level);
        }
        let header = self.tables.last().and_then(|table| table.header);
        if name == b"th"
            && let Some(table) = self.tables.last_mut().filter(|table| table.header.is_none())
        {
            // The end is set when the row ends.
            table.header = Some((table.row, 0));
        }
        let mut is_header = false;
        if name == b"tr"
            && let Some(table) = self.tables.last_mut()
            && let Some((row, header_end)) = &mut table.header
            && *row == start
            && *header_end == 0
        {
            *header_end = end;
            is_header = !table.has_cells;
            if table.has_cells {
                // Its header cells name its own values.
                table.header = None;
            }
        }
        if !kinds.has(&element.kind) {
            return ControlFlow::Continue(());
        }
        let Some(record) = self.records.pop_if(|record| record.level == level) else {
            return ControlFlow::Continue(());
        };
        let is_long = end - start > RECORD_BYTES as u64;
        let text = if is_long { &[][..] } else { window.between(start, end) };
        // A row that has only header cells is no record.
        if is_header {
            return ControlFlow::Continue(());
        }
        if let Some(around) = self.records.last_mut()
            && around.inner.len() < MAX_INNER
        {
            around.inner.push((start, end));
        }
        self.number += 1;
        visit(&Record {
            number: self.number,
            line: record.line,
            start,
            end,
            text,
            depth: self.records.len(),
            inner: &record.inner,
            header: header.filter(|header| name == b"tr" && header.0 != start && header.1 > 0),
        })
    }
}
