//! Finds the input values of a filter, and sends them.
//!
//! The scanner passes over each value to check that it is valid JSON. Then the value is sent. If
//! the filter begins with a path, only the part of a long value that the path selects is sent.

use std::io;
use std::io::Write;

use crate::jq::path::{PathSelector, PathStep, SelectedRange, Selection};
use crate::jq::protocol;
use crate::scan;
use crate::values::{IgnoredEvents, PassedValue, ValueReader, ValueStart};
use ctxfs_core::model::Content;

// Maximum size in bytes of a value that is sent. In memory it can be thirty times as large.
pub(super) const MAX_VALUE_BYTES: u64 = 16 << 20;
// A value above this size is not sent whole if there is a path to follow.
const LONG_VALUE_BYTES: u64 = 1 << 20;
// Number of bytes that are copied at once.
const READ_BYTES: usize = 256 << 10;

/// Sends values. If `passes_text` is true, lines that are not JSON are passed over. `bad` has the
/// first line that was passed over since the last message, and the number of them.
pub(super) struct ValueSender<'a> {
    reader: ValueReader<'a>,
    steps: &'a [PathStep],
    stop: &'a dyn Fn() -> bool,
    out: &'a mut dyn Write,
    passes_text: bool,
    bad: Option<(u64, u64)>,
}

impl<'a> ValueSender<'a> {
    pub(super) fn new(
        content: &'a dyn Content,
        steps: &'a [PathStep],
        stop: &'a dyn Fn() -> bool,
        out: &'a mut dyn Write,
    ) -> Self {
        let reader = ValueReader::new(content, stop);
        Self { reader, steps, stop, out, passes_text: true, bad: None }
    }

    /// Ends at the first line that is not JSON, unless `passes_text` is true.
    pub(super) fn passing_text(self, passes_text: bool) -> Self {
        Self { passes_text, ..self }
    }

    /// Sends all values from `line` on. Returns the offset up to which the content was read, even
    /// on failure.
    pub(super) fn run(mut self, line: u64) -> (u64, io::Result<()>) {
        let sent = self.values(line).and_then(|()| self.out.flush());
        (self.reader.at, sent)
    }

    fn values(&mut self, line: u64) -> io::Result<()> {
        match scan::line_start(self.reader.content(), line, self.stop)? {
            scan::LineStart::At(at) => self.reader.go_to(ValueStart { at, line }),
            scan::LineStart::Beyond => return Ok(()),
            scan::LineStart::OutOfTime(offset) => {
                self.reader.at = offset;
                return Ok(());
            }
        }
        // Where the first line that is not JSON breaks.
        let mut broken = None;
        while self.reader.skip_space()? {
            let start = self.reader.start();
            let passed = if self.reader.may_begin()? {
                self.value(start)?
            } else {
                PassedValue::Broken(start.at)
            };
            let PassedValue::Broken(at) = passed else {
                if passed == PassedValue::Stopped {
                    return Ok(());
                }
                continue;
            };
            let line = self.reader.line;
            broken.get_or_insert((at, line));
            let lines = if self.passes_text { self.reader.recover(start)? } else { None };
            let Some(lines) = lines else {
                self.tell_bad()?;
                return protocol::break_off(self.out, at, line);
            };
            let (first, count) = self.bad.unwrap_or((start.line, 0));
            self.bad = Some((first, count + lines));
        }
        match broken {
            Some((at, line)) if self.reader.values == 0 => protocol::break_off(self.out, at, line),
            _ => self.tell_bad(),
        }
    }

    // Scans the value at `start`, and sends it or what the path selects of it.
    fn value(&mut self, start: ValueStart) -> io::Result<PassedValue> {
        let whole = if self.steps.is_empty() { MAX_VALUE_BYTES } else { LONG_VALUE_BYTES };
        let line = start.line;
        let passed = self.reader.pass(&mut IgnoredEvents, whole, |_, _| Ok(()))?;
        match passed {
            PassedValue::Whole(end) => {
                let broken = self.reader.start();
                if self.passes_text && !self.reader.is_value(start)? {
                    self.reader.go_to(broken);
                    return Ok(PassedValue::Broken(end));
                }
                self.tell_bad()?;
                let range = SelectedRange::Value(start.at, end);
                send(&self.reader, self.out, Selection { depth: 0, range }, line)?;
            }
            PassedValue::Long => {
                self.tell_bad()?;
                self.reader.values += 1;
                self.reader.go_to(start);
                let passed = if self.steps.is_empty() {
                    protocol::leave_out(self.out, line)?;
                    self.reader.pass(&mut IgnoredEvents, u64::MAX, |_, _| Ok(()))?
                } else {
                    self.select(line)?
                };
                // Parts of it were sent, so it is not left out.
                self.passes_text &= !matches!(passed, PassedValue::Broken(_));
                return Ok(passed);
            }
            PassedValue::Broken(_) | PassedValue::Stopped => {}
        }
        Ok(passed)
    }

    // Sends the number of lines that were passed over.
    fn tell_bad(&mut self) -> io::Result<()> {
        self.bad.take().map_or(Ok(()), |(line, lines)| protocol::pass_over(self.out, line, lines))
    }

    fn select(&mut self, line: u64) -> io::Result<PassedValue> {
        let mut select = PathSelector::new(self.steps);
        let Self { reader, out, .. } = self;
        reader.pass(&mut select, u64::MAX, |reader, select| {
            select.found.drain(..).try_for_each(|found| send(reader, *out, found, line))
        })
    }
}

fn send(
    reader: &ValueReader<'_>,
    out: &mut dyn Write,
    Selection { depth, range }: Selection,
    line: u64,
) -> io::Result<()> {
    let (start, end, around) = match range {
        SelectedRange::Value(start, end) => (start, end, ["", ""]),
        SelectedRange::Items(start, end) => (start, end, ["[", "]"]),
        SelectedRange::Null => (0, 0, ["null", ""]),
    };
    if end - start > MAX_VALUE_BYTES {
        return protocol::leave_out(out, line);
    }
    let [before, behind] = around;
    let length = end - start + (before.len() + behind.len()) as u64;
    protocol::announce(out, (depth, line), length)?;
    out.write_all(before.as_bytes())?;
    copy(reader, out, start, end)?;
    out.write_all(behind.as_bytes())
}

fn copy(reader: &ValueReader<'_>, out: &mut dyn Write, start: u64, end: u64) -> io::Result<()> {
    if let Some(bytes) = reader.held(start, end) {
        return out.write_all(bytes);
    }
    let mut at = start;
    while at < end {
        let most = usize::try_from(end - at).map_or(READ_BYTES, |left| left.min(READ_BYTES));
        let bytes = reader.content().bytes(at, most)?;
        if bytes.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        out.write_all(&bytes)?;
        at += bytes.len() as u64;
    }
    Ok(())
}

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
        let bad = FilterInput::Bad { line: 2, lines: 2 };
        assert_eq!(
            feed(".", "[1]\n[2,\n 3}\n[4]", 1),
            [value(0, 1, "[1]"), bad, value(0, 4, "[4]")]
        );
        assert_eq!(feed(".", "{\n\"a\":1\n}\n{\n\"b\" 2}", 1)[1], broken(16, 5));
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
