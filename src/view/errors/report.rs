//! Prints the errors of an output, either in context as ripgrep prints matches, or each on one
//! line.

use std::collections::BTreeMap;
use std::io;
use std::io::Write;

use bstr::ByteSlice as _;

use crate::clean::clean;
use crate::errors::context::{ContextReader, Nearby, NearbyLine};
use crate::errors::{Finding, Findings, context};
use crate::grep::page;
use crate::number::grouped;
use crate::range::TextPosition;
use ctxfs_core::materialize::error_lines;
use ctxfs_core::model::Content;

// Maximum size in bytes up to which further errors after the first one are shown in context.
const CONTEXT_BYTES: usize = 5000;
// Maximum size in bytes of all errors, without notices.
const TOTAL_BYTES: usize = 7500;
const GAP: &str = "--\n";
const LINE_BYTES: usize = 480;
const LINE_CHARS: usize = 240;
const CUT: &str = "...";

/// The errors that fit, in line order. `rest` has one line for each kind whose context did not fit.
/// `left_out` counts the kinds for which not even one line fit.
#[derive(Default)]
pub(super) struct ErrorReport {
    lines: BTreeMap<u64, PrintedLine>,
    size: usize,
    rest: Vec<String>,
    left_out: usize,
    // The first line that is shown only as a window.
    pub(super) windowed: Option<TextPosition>,
}

struct PrintedLine {
    above: String,
    text: Vec<u8>,
    below: String,
}

impl ErrorReport {
    pub(super) fn of(content: &dyn Content, found: &Findings) -> io::Result<Self> {
        let (mut report, mut reader) = (Self::default(), ContextReader::new(content));
        for finding in &found.shown {
            if report.rest.is_empty() && report.add(&mut reader, found, finding)? {
                continue;
            }
            report.add_rest(finding);
        }
        for finding in &found.lesser {
            if !report.lines.contains_key(&finding.at.line) {
                report.add_rest(finding);
            }
        }
        Ok(report)
    }

    fn add(
        &mut self,
        reader: &mut ContextReader<'_>,
        found: &Findings,
        finding: &Finding,
    ) -> io::Result<bool> {
        let Nearby { lines, continues } = context::nearby(reader, &finding.at)?;
        let is_first = self.lines.is_empty();
        let room = if is_first { TOTAL_BYTES } else { CONTEXT_BYTES };
        let new = |line: &&NearbyLine| !self.lines.contains_key(&line.number);
        let mut printed: Vec<(u64, PrintedLine)> =
            lines.iter().filter(new).map(|line| (line.number, print(line, found))).collect();
        let size = |printed: &[(u64, PrintedLine)]| -> usize {
            printed.iter().map(|(_, line)| line.size()).sum::<usize>() + GAP.len()
        };
        while is_first && size(&printed) > room {
            printed.pop();
        }
        if self.size + size(&printed) > room {
            return Ok(false);
        }
        self.size += size(&printed);
        self.lines.extend(printed);
        self.remark(finding, &lines, continues);
        self.note_window(&lines, finding);
        Ok(true)
    }

    // Adds the facts that `lines` do not show, and a remark if the trace `continues` below them.
    fn remark(&mut self, finding: &Finding, lines: &[NearbyLine], continues: bool) {
        let above = heading(finding, lines).map(|text| format!("# {text}\n"));
        if let Some((above, line)) = above.zip(self.lines.get_mut(&finding.at.line)) {
            self.size += above.len();
            line.above = above;
        }
        let last = lines.last().map(|line| line.number).filter(|_| continues);
        if let Some((last, line)) = last.and_then(|last| Some((last, self.lines.get_mut(&last)?))) {
            line.below = format!("# the trace goes on at line {}\n", last + 1);
            self.size += line.below.len();
        }
    }

    fn note_window(&mut self, lines: &[NearbyLine], finding: &Finding) {
        let long = lines.iter().find(|line| !line.ends || page::is_long(&line.text));
        let at = long.map(|line| window_position(line, line.number == finding.at.line));
        self.windowed = self.windowed.into_iter().chain(at).min();
    }

    fn add_rest(&mut self, finding: &Finding) {
        let line = error_line(finding) + "\n";
        if self.left_out > 0 || self.size + line.len() > TOTAL_BYTES {
            self.left_out += 1;
            return;
        }
        self.size += line.len();
        self.rest.push(line);
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut before = None;
        for (number, line) in &self.lines {
            if before.is_some_and(|before| before + 1 < *number) {
                out.write_all(GAP.as_bytes())?;
            }
            out.write_all(line.above.as_bytes())?;
            out.write_all(&line.text)?;
            if !self.lines.contains_key(&(number + 1)) {
                out.write_all(line.below.as_bytes())?;
            }
            before = Some(*number);
        }
        self.write_rest(out)
    }

    fn write_rest(&self, out: &mut dyn Write) -> io::Result<()> {
        if !self.rest.is_empty() {
            writeln!(out, "# of the other kinds, the first line")?;
        }
        self.rest.iter().try_for_each(|line| out.write_all(line.as_bytes()))?;
        match self.left_out {
            0 => Ok(()),
            1 => writeln!(out, "# 1 more kind is not shown"),
            kinds => writeln!(out, "# {kinds} more kinds are not shown"),
        }
    }
}

impl PrintedLine {
    fn size(&self) -> usize {
        self.above.len() + self.text.len() + self.below.len()
    }
}

fn print(line: &NearbyLine, found: &Findings) -> PrintedLine {
    let is_error = found.shown.iter().any(|finding| finding.at.line == line.number);
    let mark = if is_error { ':' } else { '-' };
    let mut text = Vec::new();
    if line.ends && !page::is_long(&line.text) {
        text.extend_from_slice(format!("{}{mark}", line.number).as_bytes());
        text.extend_from_slice(&line.text);
    } else {
        let TextPosition { line: number, column } = window_position(line, is_error);
        let around = page::window(&line.text, column as usize - 1);
        text.extend_from_slice(format!("{number}@{column}{mark}").as_bytes());
        text.extend_from_slice(&page::excerpt(&line.text, &around, false, line.ends));
    }
    text.push(b'\n');
    PrintedLine { above: String::new(), text, below: String::new() }
}

/// Returns the position around which the window of a long line is placed: the error in an error
/// line, the start of any other line.
fn window_position(line: &NearbyLine, is_error: bool) -> TextPosition {
    let seen = if is_error { error_lines([line.text.as_slice()]) } else { Vec::new() };
    let place = seen.first().map_or(0, |seen| seen.place);
    TextPosition { line: line.number, column: place as u64 + 1 }
}

/// Formats an error as one line:
/// `117: 93:16 error 'document' is not defined (x 3)  [lint/html.js]`.
pub(crate) fn error_line(finding: &Finding) -> String {
    let owner = finding.owner.as_deref().map(|owner| format!("  [{owner}]")).unwrap_or_default();
    let times = match finding.at.times {
        1 => String::new(),
        times => format!(" (x {})", grouped(times)),
    };
    let number = format!("{}: ", finding.at.line);
    let room = LINE_BYTES.saturating_sub(number.len() + owner.len() + times.len() + CUT.len());
    let message = clean(finding.message.as_bytes(), LINE_CHARS, room);
    let cut = if message.used < finding.message.len() { CUT } else { "" };
    let owner = clean(owner.as_bytes(), LINE_CHARS, LINE_BYTES).text;
    format!("{number}{}{cut}{times}{owner}", message.text)
}

/// Returns the facts about an error that the shown `lines` do not contain: `in lint/html.js, x 3`.
pub(super) fn heading(finding: &Finding, lines: &[NearbyLine]) -> Option<String> {
    let told = |owner: &&str| lines.iter().any(|line| line.text.contains_str(owner));
    let owner = finding.owner.as_deref().filter(|owner| !told(owner));
    let owner =
        owner.map(|owner| format!("in {}", clean(owner.as_bytes(), LINE_CHARS, LINE_BYTES).text));
    let times = finding.at.times;
    let times = (times > 1).then(|| format!("x {}", grouped(times)));
    let parts: Vec<String> = owner.into_iter().chain(times).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
