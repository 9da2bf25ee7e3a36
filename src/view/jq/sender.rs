//! Finds the input values of a filter, and sends them.
//!
//! The scanner passes over each value to check that it is valid JSON. Then the value is sent. If
//! the filter begins with a path, only the part of a long value that the path selects is sent.

use std::io;
use std::io::Write;

use crate::jq::path::{PathSelector, PathStep, SelectedRange, Selection};
use crate::jq::protocol;
use crate::scan;
use ctxfs_core::materialize::json::{Events, ScanOutcome, Scanner};
use ctxfs_core::model::Content;

// Maximum size in bytes of a value that is sent. In memory it can be thirty times as large.
pub(super) const MAX_VALUE_BYTES: u64 = 16 << 20;
// A value above this size is not sent whole if there is a path to follow.
const LONG_VALUE_BYTES: u64 = 1 << 20;
// Number of bytes that are read at once.
const READ_BYTES: usize = 256 << 10;

pub(super) struct ValueSender<'a> {
    content: &'a dyn Content,
    steps: &'a [PathStep],
    stop: &'a dyn Fn() -> bool,
    out: &'a mut dyn Write,
    block: Vec<u8>,
    base: u64,
    at: u64,
    line: u64,
}

/// The outcome of scanning a value. `Whole` has the offset of the end of the value. `Long` means
/// that the value exceeds the allowed length. `Broken` has the offset at which valid JSON ends.
enum PassedValue {
    Whole(u64),
    Long,
    Broken(u64),
    Stopped,
}

impl<'a> ValueSender<'a> {
    pub(super) fn new(
        content: &'a dyn Content,
        steps: &'a [PathStep],
        stop: &'a dyn Fn() -> bool,
        out: &'a mut dyn Write,
    ) -> Self {
        Self { content, steps, stop, out, block: Vec::new(), base: 0, at: 0, line: 1 }
    }

    /// Sends all values from `line` on. Returns the offset up to which the content was read, even
    /// on failure.
    pub(super) fn run(mut self, line: u64) -> (u64, io::Result<()>) {
        let sent = self.values(line).and_then(|()| self.out.flush());
        (self.at, sent)
    }

    fn values(&mut self, line: u64) -> io::Result<()> {
        match scan::line_start(self.content, line, self.stop)? {
            scan::LineStart::At(start) => (self.at, self.line) = (start, line),
            scan::LineStart::Beyond => return Ok(()),
            scan::LineStart::OutOfTime(offset) => {
                self.at = offset;
                return Ok(());
            }
        }
        while self.skip_space()? {
            let (start, line) = (self.at, self.line);
            let whole = if self.steps.is_empty() { MAX_VALUE_BYTES } else { LONG_VALUE_BYTES };
            let passed = match self.pass(&mut IgnoredEvents, whole, |_, _| Ok(()))? {
                PassedValue::Whole(end) => {
                    self.send(
                        Selection { depth: 0, range: SelectedRange::Value(start, end) },
                        line,
                    )?;
                    continue;
                }
                PassedValue::Long if self.steps.is_empty() => {
                    protocol::leave_out(self.out, line)?;
                    (self.at, self.line) = (start, line);
                    self.pass(&mut IgnoredEvents, u64::MAX, |_, _| Ok(()))?
                }
                PassedValue::Long => {
                    (self.at, self.line) = (start, line);
                    self.select(line)?
                }
                other => other,
            };
            match passed {
                PassedValue::Whole(_) | PassedValue::Long => {}
                PassedValue::Broken(at) => return protocol::break_off(self.out, at, self.line),
                PassedValue::Stopped => return Ok(()),
            }
        }
        Ok(())
    }

    fn select(&mut self, line: u64) -> io::Result<PassedValue> {
        let mut select = PathSelector::new(self.steps);
        self.pass(&mut select, u64::MAX, |sender, select| {
            select.found.drain(..).try_for_each(|found| sender.send(found, line))
        })
    }

    /// Scans the value at the current position, or gives up with `Long` if it has more than `most`
    /// bytes. Calls `after` after each block.
    fn pass<E: Events>(
        &mut self,
        events: &mut E,
        most: u64,
        mut after: impl FnMut(&mut Self, &mut E) -> io::Result<()>,
    ) -> io::Result<PassedValue> {
        let start = self.at;
        let mut scanner = Scanner::default();
        loop {
            if (self.stop)() {
                return Ok(PassedValue::Stopped);
            }
            let ended = self.is_at_end()?;
            events.block(self.at);
            let bytes = if ended { b"\n" } else { &self.block[self.inside()..] };
            let stop = scanner.push(bytes, events);
            let used = match stop {
                ScanOutcome::More if ended => return Ok(PassedValue::Broken(self.at)),
                ScanOutcome::More => bytes.len(),
                ScanOutcome::Done(used) | ScanOutcome::Wrong(used) => used,
            };
            self.line += scan::newlines(&bytes[..used]);
            self.at += if ended { 0 } else { used as u64 };
            if matches!(stop, ScanOutcome::Wrong(_)) {
                return Ok(PassedValue::Broken(self.at));
            }
            after(self, events)?;
            match stop {
                ScanOutcome::Done(_) if self.at - start > most => return Ok(PassedValue::Long),
                ScanOutcome::Done(_) => return Ok(PassedValue::Whole(self.at)),
                _ if self.at - start > most => return Ok(PassedValue::Long),
                _ => {}
            }
        }
    }

    fn skip_space(&mut self) -> io::Result<bool> {
        while !self.is_at_end()? {
            if (self.stop)() {
                return Ok(false);
            }
            let left = &self.block[self.inside()..];
            let space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
            let spaces = left.iter().take_while(|byte| space(byte)).count();
            self.line += scan::newlines(&left[..spaces]);
            let found = spaces < left.len();
            self.at += spaces as u64;
            if found {
                return Ok(true);
            }
        }
        Ok(false)
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

    fn send(&mut self, Selection { depth, range }: Selection, line: u64) -> io::Result<()> {
        let (start, end, around) = match range {
            SelectedRange::Value(start, end) => (start, end, ["", ""]),
            SelectedRange::Items(start, end) => (start, end, ["[", "]"]),
            SelectedRange::Null => (0, 0, ["null", ""]),
        };
        if end - start > MAX_VALUE_BYTES {
            return protocol::leave_out(self.out, line);
        }
        let [before, behind] = around;
        let length = end - start + (before.len() + behind.len()) as u64;
        protocol::announce(self.out, (depth, line), length)?;
        self.out.write_all(before.as_bytes())?;
        self.copy(start, end)?;
        self.out.write_all(behind.as_bytes())
    }

    fn copy(&mut self, start: u64, end: u64) -> io::Result<()> {
        let place = |at: u64| usize::try_from(at.checked_sub(self.base)?).ok();
        let range = place(start).zip(place(end)).map(|(start, end)| start..end);
        if let Some(bytes) = range.and_then(|range| self.block.get(range)) {
            return self.out.write_all(bytes);
        }
        let mut at = start;
        while at < end {
            let most = usize::try_from(end - at).map_or(READ_BYTES, |left| left.min(READ_BYTES));
            let bytes = self.content.bytes(at, most)?;
            if bytes.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.out.write_all(&bytes)?;
            at += bytes.len() as u64;
        }
        Ok(())
    }
}

struct IgnoredEvents;

impl Events for IgnoredEvents {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jq::path::leading;
    use crate::jq::protocol::FilterInput;

    /// Returns the inputs that are sent for `filter`, starting at `line`.
    fn feed(filter: &str, text: &str, line: u64) -> Vec<FilterInput> {
        let content = text.as_bytes().to_vec();
        let steps = leading(filter).steps;
        let mut sent = Vec::new();
        let (_, done) = ValueSender::new(&content, &steps, &|| false, &mut sent).run(line);
        done.unwrap();
        let mut input = sent.as_slice();
        std::iter::from_fn(|| protocol::read_input(&mut input).unwrap()).collect()
    }

    fn value(depth: usize, line: u64, text: &str) -> FilterInput {
        FilterInput::Value { depth, line, text: text.into() }
    }

    #[test]
    fn values_are_sent_with_their_lines() {
        let text = "{\"a\":1}\n\n[\n2] 3\n\"x\"\ntrue";
        let all = [
            value(0, 1, "{\"a\":1}"),
            value(0, 3, "[\n2]"),
            value(0, 4, "3"),
            value(0, 5, "\"x\""),
            value(0, 6, "true"),
        ];
        assert_eq!(feed(".a", text, 1), all);
        assert_eq!(feed(".a", text, 5), all[3..]);
        assert_eq!(feed(".a", text, 7), []);
        assert_eq!(feed(".", " \n ", 1), []);
        assert_eq!(feed(".", "42", 1), [value(0, 1, "42")]);
    }

    #[test]
    fn what_is_not_json_ends_it() {
        let broken = |offset, line| FilterInput::Broken { offset, line };
        assert_eq!(feed(".", "[1]\n[2,\n 3}\n[4]", 1), [value(0, 1, "[1]"), broken(10, 3)]);
        assert_eq!(feed(".", "plain text", 1), [broken(0, 1)]);
        assert_eq!(feed(".", "[1, 2", 1), [broken(5, 1)]);
        assert_eq!(feed(".", "-", 1), [broken(1, 1)]);
    }

    #[test]
    fn a_long_value_is_followed_along_the_path() {
        let item = |n: usize| format!("{{\"n\":{n},\"text\":\"{}\"}}", "x".repeat(1000));
        let items: Vec<String> = (0..3000).map(item).collect();
        let text =
            format!("{{\"items\":[{}],\n\"last\":[7]}}\n{{\"items\":[]}}\n", items.join(","));
        let sent = feed(".items[] | .n", &text, 1);
        assert_eq!(sent.len(), 3001);
        assert!(sent[2999] == value(2, 1, &items[2999]));
        assert_eq!(sent[3000], value(0, 3, "{\"items\":[]}"));
        assert_eq!(feed(".last[0]", &text, 1)[0], value(2, 1, "7"));
        assert!(
            feed(".items[5:7]", &text, 1)[0]
                == value(2, 1, &format!("[{}]", items[5..7].join(",")))
        );
        assert_eq!(feed(".items[3:3]", &text, 1)[0], value(2, 1, "[]"));
        assert_eq!(feed(".none.x", &text, 1)[0], value(1, 1, "null"));
        let first = text.rsplit_once("\n{").unwrap().0;
        assert!(feed("length", &text, 1)[0] == value(0, 1, first));
    }

    #[test]
    fn what_is_too_large_is_passed_over() {
        let large = format!("[\"{}\"]", "x".repeat(17 << 20));
        let text = format!("1\n{large}\n2\n{large}\n");
        let large = |line| FilterInput::Large { line };
        for filter in ["length", ".[0]"] {
            let sent = feed(filter, &text, 1);
            assert_eq!(sent, [value(0, 1, "1"), large(2), value(0, 3, "2"), large(4)]);
        }
    }

    #[test]
    fn it_can_be_stopped() {
        let content = b"[1]\n".repeat(10);
        let mut sent = Vec::new();
        let (passed, done) = ValueSender::new(&content, &[], &|| true, &mut sent).run(1);
        done.unwrap();
        assert_eq!((sent.len(), passed), (0, 0));
    }
}
