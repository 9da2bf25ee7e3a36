//! Finds the JSON values in a content, also between lines that are not JSON.
//!
//! A line that cannot be JSON costs only itself: the lines of a log before a document, a record of
//! JSON Lines that was cut, and what a program prints behind its report.

use std::io;

use crate::number::grouped;
use crate::scan;
use ctxfs_core::materialize::json::{
    BOM, EVIDENCE_TOKENS, Events, JsonKind, JsonReader, ScanOutcome, Scanner,
};
use ctxfs_core::model::{Content, Json, LooseJson, Subject};

// Number of bytes that are read at once.
const READ_BYTES: usize = 256 << 10;
// Number of bytes at the start of text in which JSON has to begin.
const SNIFFED_BYTES: u64 = 1 << 20;

/// A cursor over the JSON values of a content. `at` and `line` are its position. It moves forward,
/// except by [`go_to`](Self::go_to). `stop` ends every scan early.
pub(super) struct ValueReader<'a> {
    content: &'a dyn Content,
    stop: &'a dyn Fn() -> bool,
    block: Vec<u8>,
    base: u64,
    pub(super) at: u64,
    pub(super) line: u64,
    // Number of values that ended, and whether all of them had a line of their own.
    pub(super) values: u64,
    is_lines: bool,
    // A line in which every value is followed by values.
    checked: u64,
    // True if a line was passed over. A word or number is then no value.
    among_text: bool,
    pub(super) loose: LooseJson,
}

/// The outcome of scanning a value. `Whole` has the offset of the end of the value. `Long` means
/// that the value exceeds the allowed length. `Broken` has the offset at which valid JSON ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PassedValue {
    Whole(u64),
    Long,
    Broken(u64),
    Stopped,
}

/// The start of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ValueStart {
    pub(super) at: u64,
    pub(super) line: u64,
}

impl<'a> ValueReader<'a> {
    pub(super) fn new(content: &'a dyn Content, stop: &'a dyn Fn() -> bool) -> Self {
        Self {
            content,
            stop,
            block: Vec::new(),
            base: 0,
            at: 0,
            line: 1,
            values: 0,
            is_lines: true,
            checked: 0,
            among_text: false,
            loose: LooseJson::default(),
        }
    }

    pub(super) fn content(&self) -> &'a dyn Content {
        self.content
    }

    pub(super) fn start(&self) -> ValueStart {
        ValueStart { at: self.at, line: self.line }
    }

    pub(super) fn go_to(&mut self, start: ValueStart) {
        (self.at, self.line) = (start.at, start.line);
    }

    /// Scans the value at the current position, or gives up with `Long` if it has more than `most`
    /// bytes. Calls `after` after each block.
    pub(super) fn pass<E: Events>(
        &mut self,
        events: &mut E,
        most: u64,
        mut after: impl FnMut(&mut Self, &mut E) -> io::Result<()>,
    ) -> io::Result<PassedValue> {
        let start = self.start();
        let mut scanner = Scanner::default();
        loop {
            if (self.stop)() {
                return Ok(PassedValue::Stopped);
            }
            let ended = self.is_at_end()?;
            events.block(self.at);
            let bytes = if ended { b"\n" } else { &self.block[self.inside()..] };
            let outcome = scanner.push(bytes, events);
            let used = match outcome {
                ScanOutcome::More if ended => return Ok(PassedValue::Broken(self.at)),
                ScanOutcome::More => bytes.len(),
                ScanOutcome::Done(used) | ScanOutcome::Wrong(used) => used,
            };
            self.line += scan::newlines(&bytes[..used]);
            self.at += if ended { 0 } else { used as u64 };
            if matches!(outcome, ScanOutcome::Wrong(_)) {
                return Ok(PassedValue::Broken(self.at));
            }
            after(self, events)?;
            match outcome {
                _ if self.at - start.at > most => return Ok(PassedValue::Long),
                ScanOutcome::Done(_) => {
                    self.loose = self.loose.or(scanner.loose());
                    return Ok(PassedValue::Whole(self.at));
                }
                _ => {}
            }
        }
    }

    /// Passes over white space and comments. Returns false at the end, or if time ran out.
    pub(super) fn skip_space(&mut self) -> io::Result<bool> {
        while !self.is_at_end()? {
            if (self.stop)() {
                return Ok(false);
            }
            if self.at == 0 && self.block.starts_with(BOM) {
                self.at = BOM.len() as u64;
                self.loose.mark = true;
                continue;
            }
            let left = &self.block[self.inside()..];
            let space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
            let spaces = left.iter().take_while(|byte| space(byte)).count();
            self.line += scan::newlines(&left[..spaces]);
            let found = spaces < left.len();
            self.at += spaces as u64;
            if found && !self.skip_comment()? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    // Passes over a comment at the current position. Returns false if there is none.
    fn skip_comment(&mut self) -> io::Result<bool> {
        if self.block[self.inside()] != b'/' {
            return Ok(false);
        }
        match self.content.bytes(self.at, 2)?.as_slice() {
            b"//" => self.skip_line()?,
            b"/*" => {
                let (mut before, mut ended) = (b' ', false);
                self.at += 2;
                while !ended && !self.is_at_end()? && !(self.stop)() {
                    let left = &self.block[self.inside()..];
                    let end = left.iter().position(|byte| {
                        let ends = before == b'*' && *byte == b'/';
                        before = *byte;
                        ends
                    });
                    ended = end.is_some();
                    let used = end.map_or(left.len(), |end| end + 1);
                    self.line += scan::newlines(&left[..used]);
                    self.at += used as u64;
                }
            }
            _ => return Ok(false),
        }
        self.loose.comments = true;
        Ok(true)
    }

    /// Counts the value that began at `start` and has ended. Returns false, and counts nothing, if text
    /// follows in its line: `[12] done`.
    pub(super) fn is_value(&mut self, start: ValueStart) -> io::Result<bool> {
        let end = self.start();
        let rest = self.rest_of_line(end)?;
        self.go_to(end);
        match rest {
            LineRest::Empty => self.is_lines &= start.line == end.line,
            LineRest::Values => {
                (self.is_lines, self.loose.joined) = (false, true);
                self.checked = end.line;
            }
            LineRest::Text => return Ok(false),
        }
        self.loose.joined |= start.line != end.line && self.values > 0;
        self.values += 1;
        Ok(true)
    }

    // Examines the rest of the line behind a value.
    fn rest_of_line(&mut self, end: ValueStart) -> io::Result<LineRest> {
        let mut rest = LineRest::Empty;
        loop {
            if !self.skip_space()? || self.line > end.line {
                return Ok(rest);
            }
            if self.checked == end.line {
                return Ok(LineRest::Values);
            }
            match self.pass(&mut IgnoredEvents, READ_BYTES as u64, |_, _| Ok(()))? {
                PassedValue::Whole(_) if self.line == end.line => rest = LineRest::Values,
                PassedValue::Broken(_) if self.line == end.line => return Ok(LineRest::Text),
                _ => return Ok(LineRest::Values),
            }
        }
    }

    /// Returns true if the byte at the current position can begin a value here.
    pub(super) fn may_begin(&mut self) -> io::Result<bool> {
        let ended = self.is_at_end()?;
        Ok(!ended && (!self.among_text || matches!(self.block[self.inside()], b'{' | b'[')))
    }

    /// Goes on behind a line that is not JSON, in which a value seemed to begin at `start`. The
    /// current position is where it broke. Returns the number of lines that are passed over, or
    /// `None` if the value has several lines and cannot be told from what follows.
    pub(super) fn recover(&mut self, start: ValueStart) -> io::Result<Option<u64>> {
        let broken = self.start();
        let begins_line = broken.line > start.line && {
            let around = self.content.bytes(broken.at - 1, 2)?;
            matches!(around.as_slice(), [b'\n', b'{' | b'['])
        };
        let has_lines = self.values > 0 && self.is_lines;
        if broken.line != start.line && !begins_line && !has_lines {
            return Ok(None);
        }
        self.go_to(start);
        self.among_text = true;
        self.skip_line()?;
        Ok(Some(1))
    }

    /// Moves to the start of the next line.
    pub(super) fn skip_line(&mut self) -> io::Result<()> {
        while !self.is_at_end()? && !(self.stop)() {
            let left = &self.block[self.inside()..];
            let end = memchr::memchr(b'\n', left);
            self.at += end.map_or(left.len(), |end| end + 1) as u64;
            if end.is_some() {
                self.line += 1;
                break;
            }
        }
        Ok(())
    }

    // Makes the next byte available in the block. Returns true if there is none.
    fn is_at_end(&mut self) -> io::Result<bool> {
        let inside = self.at.checked_sub(self.base).is_some_and(|at| at < self.block.len() as u64);
        if !inside {
            self.block.resize(READ_BYTES, 0);
            let got = self.content.read_at(self.at, &mut self.block)?;
            self.block.truncate(got);
            self.base = self.at;
        }
        Ok(self.block.is_empty())
    }

    fn inside(&self) -> usize {
        usize::try_from(self.at - self.base).unwrap_or(usize::MAX)
    }

    /// Returns the bytes from `start` to `end` if they are in memory.
    pub(super) fn held(&self, start: u64, end: u64) -> Option<&[u8]> {
        let place = |at: u64| usize::try_from(at.checked_sub(self.base)?).ok();
        self.block.get(place(start)?..place(end)?)
    }
}

// What follows a value in its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineRest {
    Empty,
    Values,
    Text,
}

#[derive(Debug, Default)]
pub(super) struct IgnoredEvents;

impl Events for IgnoredEvents {}

/// Returns the notice about a number of lines that are not JSON, the first of which is `line`.
pub(super) fn left_out(lines: u64, line: u64) -> Option<String> {
    let line = grouped(line);
    match lines {
        0 => None,
        1 => Some(format!("line {line} is not JSON, and left out")),
        more => Some(format!(
            "{} lines are not JSON, and left out; the first is line {line}",
            grouped(more)
        )),
    }
}

/// Returns true if the content is JSON, or text in which JSON begins with a line.
pub(super) fn has_values(subject: &Subject<'_>) -> io::Result<bool> {
    if subject.analysis.json != Json::No {
        return Ok(true);
    }
    let start = subject.content.bytes(0, SNIFFED_BYTES as usize)?;
    let mut detector = JsonReader::<IgnoredEvents>::default();
    detector.push(&start);
    if detector.finish().0 != JsonKind::No {
        return Ok(true);
    }
    let mut reader = ValueReader::new(subject.content, &|| false);
    let mut scanned = 0;
    while reader.at < SNIFFED_BYTES && scanned < 2 * SNIFFED_BYTES && reader.skip_space()? {
        let start = reader.start();
        let mut tokens = TokenCount(0);
        if matches!(reader.block[reader.inside()], b'{' | b'[') {
            match reader.pass(&mut tokens, SNIFFED_BYTES, |_, _| Ok(()))? {
                _ if tokens.0 < EVIDENCE_TOKENS => {}
                PassedValue::Long => return Ok(true),
                PassedValue::Whole(_) if reader.is_value(start)? => return Ok(true),
                // The end of the last value is missing.
                PassedValue::Broken(at) if at == subject.content.len() => return Ok(true),
                _ => {}
            }
        }
        scanned += reader.at - start.at;
        reader.go_to(start);
        reader.skip_line()?;
    }
    Ok(false)
}

// Counts keys, values and closing brackets.
struct TokenCount(u64);

impl Events for TokenCount {
    fn ends(&mut self, _: usize) {
        self.0 += 1;
    }

    fn key(&mut self, _: &[u8]) {
        self.0 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    fn has(text: &str) -> bool {
        let fixture = Fixture::analysed(text);
        has_values(&fixture.subject()).unwrap()
    }

    #[test]
    fn text_has_json_if_a_line_begins_it() {
        for text in [
            "{\"a\":1}",
            "12:00 start\n{\"a\":1}\nend\n",
            "[INFO] start\n[1,2]\n",
            "x\n{\n\"a\": 1\n}\n",
            "x\n{\"a\": [1, {\"b\"",
            "\u{feff}{}",
            "\"text\"",
        ] {
            assert!(has(text), "{text}");
        }
        for text in [
            "",
            "plain",
            "[INFO] start\n[12] done\n[12]\n",
            "12\n13\n",
            "text {\"a\":1}\n",
            "{ x }\n{}\n[]\n",
            "[2026-11-30] [12:00:01] x\n",
        ] {
            assert!(!has(text), "{text}");
        }
        assert!(!has(&format!("x\n{}", "[\n".repeat(300_000))));
    }
}
