//! Finds the values that a filter is to read, and sends them.
//!
//! Values are passed by the scanner, which sees to it that they are JSON, and sent one by one. One
//! that is long is not sent whole where the filter begins with a path: what the path leads to is.

use std::io;
use std::io::Write;

use crate::materialize::json::Events;
use crate::materialize::json::Scalar;
use crate::materialize::json::Scanner;
use crate::materialize::json::ScanOutcome;
use crate::model::Content;
use crate::view::jq::path::Step;
use crate::view::jq::select::Found;
use crate::view::jq::select::Select;
use crate::view::jq::select::What;
use crate::view::jq::wire;
use crate::view::scan;

/// Most bytes of a value that is sent: in memory it can be thirty times as large.
pub(super) const LARGEST: u64 = 16 << 20;
/// Bytes from which on a value is not sent whole, if there is a path to follow.
const LONG: u64 = 1 << 20;
/// Bytes read at once.
const BLOCK: usize = 256 << 10;

/// Reads values and sends them on.
pub(super) struct Feeder<'a> {
    content: &'a dyn Content,
    steps: &'a [Step],
    stop: &'a dyn Fn() -> bool,
    out: &'a mut dyn Write,
    block: Vec<u8>,
    /// Offset of the block.
    base: u64,
    at: u64,
    line: u64,
}

/// How a value ended.
enum Passed {
    /// Before this byte.
    Whole(u64),
    /// It is longer than asked.
    Long,
    /// It is no JSON from this byte on.
    Broken(u64),
    Stopped,
}

impl<'a> Feeder<'a> {
    pub(super) fn new(
        content: &'a dyn Content,
        steps: &'a [Step],
        stop: &'a dyn Fn() -> bool,
        out: &'a mut dyn Write,
    ) -> Self {
        Self { content, steps, stop, out, block: Vec::new(), base: 0, at: 0, line: 1 }
    }

    /// Sends all values from `line` on; says how many bytes were passed, also where it failed.
    pub(super) fn run(mut self, line: u64) -> (u64, io::Result<()>) {
        let sent = self.values(line).and_then(|()| self.out.flush());
        (self.at, sent)
    }

    fn values(&mut self, line: u64) -> io::Result<()> {
        match scan::line_start(self.content, line, self.stop)? {
            scan::Found::At(start) => (self.at, self.line) = (start, line),
            scan::Found::Beyond => return Ok(()),
            scan::Found::OutOfTime(offset) => {
                self.at = offset;
                return Ok(());
            }
        }
        while self.skip_space()? {
            let (start, line) = (self.at, self.line);
            let whole = if self.steps.is_empty() { LARGEST } else { LONG };
            let passed = match self.pass(&mut Unheard, whole, |_, _| Ok(()))? {
                Passed::Whole(end) => {
                    self.send(Found { depth: 0, what: What::Value(start, end) }, line)?;
                    continue;
                }
                Passed::Long if self.steps.is_empty() => {
                    wire::leave_out(self.out, line)?;
                    (self.at, self.line) = (start, line);
                    self.pass(&mut Unheard, u64::MAX, |_, _| Ok(()))?
                }
                Passed::Long => {
                    (self.at, self.line) = (start, line);
                    self.select(line)?
                }
                other => other,
            };
            match passed {
                Passed::Whole(_) | Passed::Long => {}
                Passed::Broken(at) => return wire::break_off(self.out, at, self.line),
                Passed::Stopped => return Ok(()),
            }
        }
        Ok(())
    }

    /// Passes one value and sends what the path leads to.
    fn select(&mut self, line: u64) -> io::Result<Passed> {
        let mut select = Select::new(self.steps);
        self.pass(&mut select, u64::MAX, |feeder, select| {
            select.found().try_for_each(|found| feeder.send(found, line))
        })
    }

    /// Passes the value that begins here, if it has at most `most` bytes. After each block calls
    /// `after`.
    fn pass<E: Positioned>(
        &mut self,
        events: &mut E,
        most: u64,
        mut after: impl FnMut(&mut Self, &mut E) -> io::Result<()>,
    ) -> io::Result<Passed> {
        let start = self.at;
        let mut scanner = Scanner::default();
        loop {
            if (self.stop)() {
                return Ok(Passed::Stopped);
            }
            let ended = self.is_at_end()?;
            events.stand_at(self.at);
            let bytes = if ended { b"\n" } else { &self.block[self.inside()..] };
            let stop = scanner.push(bytes, events);
            let used = match stop {
                ScanOutcome::More if ended => return Ok(Passed::Broken(self.at)),
                ScanOutcome::More => bytes.len(),
                ScanOutcome::Done(used) | ScanOutcome::Wrong(used) => used,
            };
            self.line += newlines(&bytes[..used]);
            self.at += if ended { 0 } else { used as u64 };
            if matches!(stop, ScanOutcome::Wrong(_)) {
                return Ok(Passed::Broken(self.at));
            }
            after(self, events)?;
            match stop {
                ScanOutcome::Done(_) if self.at - start > most => return Ok(Passed::Long),
                ScanOutcome::Done(_) => return Ok(Passed::Whole(self.at)),
                _ if self.at - start > most => return Ok(Passed::Long),
                _ => {}
            }
        }
    }

    /// Goes on to the next value; says whether there is one.
    fn skip_space(&mut self) -> io::Result<bool> {
        while !self.is_at_end()? {
            if (self.stop)() {
                return Ok(false);
            }
            let left = &self.block[self.inside()..];
            let space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
            let spaces = left.iter().take_while(|byte| space(byte)).count();
            self.line += newlines(&left[..spaces]);
            let found = spaces < left.len();
            self.at += spaces as u64;
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sees to it that the block holds the byte that comes next; says whether there is none.
    fn is_at_end(&mut self) -> io::Result<bool> {
        let inside = self.at.checked_sub(self.base).is_some_and(|at| at < self.block.len() as u64);
        if !inside {
            self.block.resize(BLOCK, 0);
            let got = self.content.read_at(self.at, &mut self.block)?;
            self.block.truncate(got);
            self.base = self.at;
        }
        Ok(self.block.is_empty())
    }

    /// Where in the block the next byte is.
    fn inside(&self) -> usize {
        usize::try_from(self.at - self.base).unwrap_or(usize::MAX)
    }

    fn send(&mut self, Found { depth, what }: Found, line: u64) -> io::Result<()> {
        let (start, end, around) = match what {
            What::Value(start, end) => (start, end, ["", ""]),
            What::Items(start, end) => (start, end, ["[", "]"]),
            What::Null => (0, 0, ["null", ""]),
        };
        if end - start > LARGEST {
            return wire::leave_out(self.out, line);
        }
        let [before, behind] = around;
        let length = end - start + (before.len() + behind.len()) as u64;
        wire::announce(self.out, (depth, line), length)?;
        self.out.write_all(before.as_bytes())?;
        self.copy(start, end)?;
        self.out.write_all(behind.as_bytes())
    }

    /// Writes bytes of the content: of the block, where it has them.
    fn copy(&mut self, start: u64, end: u64) -> io::Result<()> {
        let place = |at: u64| usize::try_from(at.checked_sub(self.base)?).ok();
        let range = place(start).zip(place(end)).map(|(start, end)| start..end);
        if let Some(bytes) = range.and_then(|range| self.block.get(range)) {
            return self.out.write_all(bytes);
        }
        let mut at = start;
        while at < end {
            let most = usize::try_from(end - at).map_or(BLOCK, |left| left.min(BLOCK));
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

fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

/// Events that want to know where they are in the content.
trait Positioned: Events {
    fn stand_at(&mut self, offset: u64);
}

impl Positioned for Select<'_> {
    fn stand_at(&mut self, offset: u64) {
        self.at(offset);
    }
}

/// Nobody is told.
struct Unheard;

impl Positioned for Unheard {
    fn stand_at(&mut self, _: u64) {}
}

impl Events for Unheard {
    const KEY_BYTES: usize = 0;

    fn scalar(&mut self, _: Scalar, _: &[u8]) {}
    fn text(&mut self, _: &[u8], _: u64) {}
    fn begin_object(&mut self) {}
    fn begin_array(&mut self) {}
    fn key(&mut self, _: &[u8]) {}
    fn end(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::jq::path::leading;
    use crate::view::jq::wire::Input;

    /// What is sent for `filter`, from `line` on.
    fn feed(filter: &str, text: &str, line: u64) -> Vec<Input> {
        let content = text.as_bytes().to_vec();
        let steps = leading(filter).steps;
        let mut sent = Vec::new();
        let (_, done) = Feeder::new(&content, &steps, &|| false, &mut sent).run(line);
        done.unwrap();
        let mut input = sent.as_slice();
        std::iter::from_fn(|| wire::read_input(&mut input).unwrap()).collect()
    }

    fn value(depth: usize, line: u64, text: &str) -> Input {
        Input::Value { depth, line, text: text.into() }
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
        let broken = |offset, line| Input::Broken { offset, line };
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
        let large = |line| Input::Large { line };
        for filter in ["length", ".[0]"] {
            let sent = feed(filter, &text, 1);
            assert_eq!(sent, [value(0, 1, "1"), large(2), value(0, 3, "2"), large(4)]);
        }
    }

    #[test]
    fn it_can_be_stopped() {
        let content = b"[1]\n".repeat(10);
        let mut sent = Vec::new();
        let (passed, done) = Feeder::new(&content, &[], &|| true, &mut sent).run(1);
        done.unwrap();
        assert_eq!((sent.len(), passed), (0, 0));
    }
}
