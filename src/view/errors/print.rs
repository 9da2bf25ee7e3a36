//! Error lines, printed as ripgrep prints matches in their context.

use std::io;
use std::io::Write;

use crate::materialize::ErrorMatch;
use crate::model::Content;
use crate::view::errors::index::ErrorIndex;
use crate::view::errors::index::LineKind;
use crate::view::errors::nearby;
use crate::view::errors::nearby::NearbyLine;
use crate::view::grep::page::Page;
use crate::view::grep::window;
use crate::view::number::grouped;
use crate::view::position::TextPosition;

/// Prints paragraphs to a page: error lines, in order, with the lines around them.
pub(super) struct ParagraphPrinter<'a, 'o> {
    content: &'a dyn Content,
    index: &'a ErrorIndex,
    pub(super) page: Page<'o>,
    /// The first line that is shown only in a window.
    pub(super) windowed: Option<TextPosition>,
    /// The last line that was printed.
    printed: u64,
    /// Kinds whose first line was shown.
    kinds: u64,
    /// Remarks for the end of the paragraph: kinds with more lines, and the line at which a trace
    /// continues.
    alike: Vec<LineKind>,
    next: Option<u64>,
}

impl<'a, 'o> ParagraphPrinter<'a, 'o> {
    pub(super) fn new(
        content: &'a dyn Content,
        index: &'a ErrorIndex,
        out: &'o mut dyn Write,
    ) -> Self {
        Self {
            content,
            index,
            page: Page::new(out, false),
            windowed: None,
            printed: 0,
            kinds: 0,
            alike: Vec::new(),
            next: None,
        }
    }

    /// Prints an error line, which stands for a kind or for itself.
    pub(super) fn show(&mut self, seen: &ErrorMatch, kind: Option<LineKind>) -> io::Result<()> {
        if self.page.is_full() {
            return Ok(());
        }
        let nearby = nearby::around(self.content, seen)?;
        let first = nearby.lines.first().map_or(seen.at.line, |line| line.number);
        let apart = first > self.printed + 1 && self.printed > 0;
        if apart {
            self.end_paragraph()?;
        }
        if seen.at.line > self.printed {
            let from = TextPosition { line: seen.at.line, column: 1 };
            self.page.cut(from, self.kinds, first <= self.printed);
        }
        if apart {
            self.page.push(b"--\n")?;
        }
        for line in &nearby.lines {
            self.print(line, seen)?;
        }
        self.kinds += u64::from(kind.is_some());
        self.alike.extend(kind.filter(|kind| kind.count > 1));
        self.next = nearby.continues.then_some(self.printed + 1).or(self.next);
        Ok(())
    }

    /// Ends the paragraph with its remarks.
    pub(super) fn end_paragraph(&mut self) -> io::Result<()> {
        let alike = std::mem::take(&mut self.alike);
        for (at, LineKind { count, first, last, .. }) in alike.iter().enumerate() {
            // The lines of one trace are repeated together: the last one describes them best.
            if alike[at + 1..].iter().all(|later| later.count != *count) {
                let more = grouped(count - 1);
                let line = format!("# like line {first}: {more} more, the last on line {last}\n");
                self.page.push(line.as_bytes())?;
            }
        }
        match self.next.take().filter(|next| *next > self.printed) {
            Some(next) => {
                self.page.push(format!("# the trace goes on at line {next}\n").as_bytes())
            }
            None => Ok(()),
        }
    }

    /// Prints a line, once.
    fn print(&mut self, line: &NearbyLine, seen: &ErrorMatch) -> io::Result<()> {
        if line.number <= self.printed {
            return Ok(());
        }
        self.printed = line.number;
        let mark = if self.index.knows(line.number) { b':' } else { b'-' };
        if line.ends && !window::is_long(&line.text) {
            return self.page.push_line(line.number, mark, &line.text);
        }
        let at = if line.number == seen.at.line { seen.place } else { 0 };
        let text = window::shown(&line.text, &window::around(&line.text, at), false, line.ends);
        let position = TextPosition { line: line.number, column: at as u64 + 1 };
        self.windowed.get_or_insert(position);
        self.page.push_line(format_args!("{}@{}", position.line, position.column), mark, &text)
    }
}
