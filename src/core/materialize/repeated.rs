//! Finds the lines that are repeated often (numbers may differ), and the lines that resemble no
//! other line.
//!
//! All lines that begin in the first 2 MiB are counted. After that, only lines that begin in the
//! first 8 KiB of each 256 KiB (by absolute offset) are counted, and each counts as 32 lines.
//! Counting every line would take longer than all other analysers together.

use std::collections::HashMap;

use crate::materialize::frequent::{Count, Frequent};
use crate::materialize::likeness::{LikenessHasher, exact};
use crate::model::{Repeated, Unlike};

const EXACT_BYTES: u64 = 2 << 20;
const STRIDE_BYTES: u64 = 256 << 10;
// Size in bytes of the sample at the start of each stride. A sample consists of the lines that
// begin in these bytes.
const SAMPLE_BYTES: u64 = 8 << 10;
// Maximum length in bytes of a counted line. A longer line usually contains more than one
// statement.
const LINE_BYTES: usize = 1024;
// Maximum number of groups that are counted at a time. This many groups fill a hash table of 4,096
// slots, about 300 KB.
const ROOM: usize = 3584;
// Minimum number of occurrences of a reported line.
const FEWEST: u64 = 5;
// Minimum share of a reported line, as a divisor: at least one line in 50 must be like it.
const SHARE: u64 = 50;
const SHORTEST: usize = 4;
const REPORTED: usize = 8;

/// Counts the repeated lines of a stream. The result does not depend on how the stream was split.
#[derive(Debug, Clone)]
pub(super) struct RepeatedLines {
    offset: u64,
    line: u64,
    inside: SamplingState,
    counts: LineGroups,
}

#[derive(Debug, Clone)]
enum SamplingState {
    Nothing,
    Line(Vec<u8>),
    // In a gap between samples. The gap ends at the first newline after this many further bytes.
    Gap(u64),
}

#[derive(Debug, Clone)]
struct LineGroups {
    likeness: LikenessHasher,
    table: Frequent<u64, LineGroup>,
}

/// A group of similar lines. `exact` is a hash of its first line, and `head` a hash of the
/// beginning of that line without numbers. `equal` is true if all lines are equal. `about` is true
/// if the count includes samples.
#[derive(Debug, Clone, Copy)]
struct LineGroup {
    exact: u64,
    head: u64,
    equal: bool,
    about: bool,
    first: u64,
    last: u64,
    offset: u64,
    length: u32,
}

impl RepeatedLines {
    pub(super) fn new() -> Self {
        let counts = LineGroups { likeness: LikenessHasher::default(), table: Frequent::new(ROOM) };
        Self { offset: 0, line: 0, inside: SamplingState::Nothing, counts }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let used = match std::mem::replace(&mut self.inside, SamplingState::Nothing) {
                SamplingState::Nothing => self.begin(rest),
                SamplingState::Line(line) => self.go_on(line, rest),
                SamplingState::Gap(length) => self.pass(length, rest),
            };
            self.offset += used as u64;
            rest = &rest[used..];
        }
    }

    /// Returns the repeated lines, most frequent first. Counts an unfinished last line too. `lines`
    /// is the total number of lines.
    pub(super) fn finish(&self, lines: u64) -> Vec<Repeated> {
        self.ended().map_or_else(|| self.counts.best(lines), |counts| counts.best(lines))
    }

    fn ended(&self) -> Option<LineGroups> {
        let SamplingState::Line(line) = &self.inside else { return None };
        let mut counts = self.counts.clone();
        counts.add(line, self.line + 1, self.offset - line.len() as u64);
        Some(counts)
    }

    fn begin(&mut self, bytes: &[u8]) -> usize {
        let wait = wait(self.offset);
        if wait > 0 {
            // The byte before the next sample may be a newline.
            self.inside = SamplingState::Gap(wait - 1);
            return 0;
        }
        let Some(end) = memchr::memchr(b'\n', bytes) else {
            self.inside = SamplingState::Line(start(bytes).to_vec());
            return bytes.len();
        };
        self.counts.add(&bytes[..end], self.line + 1, self.offset);
        self.line += 1;
        end + 1
    }

    fn go_on(&mut self, mut line: Vec<u8>, bytes: &[u8]) -> usize {
        let end = memchr::memchr(b'\n', bytes);
        let before = line.len() as u64;
        line.extend_from_slice(start(&bytes[..end.unwrap_or(bytes.len())]));
        line.truncate(LINE_BYTES + 1);
        let Some(end) = end else {
            self.inside = SamplingState::Line(line);
            return bytes.len();
        };
        // The line may be incomplete if it is too long. `add` does not count such a line.
        self.counts.add(&line, self.line + 1, self.offset.saturating_sub(before));
        self.line += 1;
        end + 1
    }

    fn pass(&mut self, length: u64, bytes: &[u8]) -> usize {
        let gap = usize::try_from(length).unwrap_or(usize::MAX).min(bytes.len());
        self.line += memchr::memchr_iter(b'\n', &bytes[..gap]).count() as u64;
        let Some(end) = memchr::memchr(b'\n', &bytes[gap..]) else {
            self.inside = SamplingState::Gap(length - gap as u64);
            return bytes.len();
        };
        self.line += 1;
        gap + end + 1
    }
}

// Returns the number of bytes until the next sample, or 0 inside a sample.
fn wait(offset: u64) -> u64 {
    let into = offset % STRIDE_BYTES;
    if offset < EXACT_BYTES || into < SAMPLE_BYTES { 0 } else { STRIDE_BYTES - into }
}

// Returns the beginning of a line, up to the byte that makes it too long.
fn start(line: &[u8]) -> &[u8] {
    &line[..line.len().min(LINE_BYTES + 1)]
}

impl LineGroups {
    fn add(&mut self, line: &[u8], number: u64, offset: u64) {
        let text = line.trim_ascii();
        let tells = text.iter().any(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii());
        if line.len() > LINE_BYTES || text.len() < SHORTEST || !tells {
            return;
        }
        let sampled = offset >= EXACT_BYTES;
        let exact = exact(text);
        let at = offset + (line.len() - line.trim_ascii_start().len()) as u64;
        let likeness = self.likeness.of(text);
        let hasher = &self.likeness;
        let kind = || LineGroup {
            exact,
            head: hasher.head(),
            equal: true,
            about: sampled,
            first: number,
            last: number,
            offset: at,
            length: u32::try_from(text.len()).unwrap_or(u32::MAX),
        };
        let times = if sampled { STRIDE_BYTES / SAMPLE_BYTES } else { 1 };
        let Count { value, .. } = self.table.add(&likeness, times, kind);
        value.equal &= value.exact == exact;
        value.about |= sampled;
        value.last = number;
    }

    fn best(&self, lines: u64) -> Vec<Repeated> {
        let fewest = FEWEST.max(lines.div_ceil(SHARE));
        let counts = self.table.counts().values();
        let mut best: Vec<Repeated> =
            counts.filter(|count| count.times >= fewest).map(Count::repeated).collect();
        best.sort_by_key(|repeated| (u64::MAX - repeated.count, repeated.first));
        best.truncate(REPORTED);
        best
    }
}

impl Count<LineGroup> {
    fn repeated(&self) -> Repeated {
        let LineGroup { equal, about, first, last, offset, length, .. } = self.value;
        let about = about || self.missed > 0;
        Repeated { count: self.times, about, equal, first, last, offset, length }
    }
}

// Minimum number of lines of an output that is searched for odd lines. A line is odd if it
// resembles no other line.
const UNLIKE_LINES: u64 = 40;
// Minimum number of lines with the same shape.
const SHAPE_LINES: u64 = 5;
// Minimum percentage of lines that have a shape.
const SHAPED_PERCENT: u64 = 85;
// Maximum number of consecutive odd lines. More consecutive lines are a normal part of the output.
const MOST_TOGETHER: u64 = 4;
// Maximum number of other lines between two odd lines that are reported as one passage.
const UNLIKE_GAP: u64 = 1;
// Maximum number of groups of odd lines. With more groups, no line is odd.
const UNLIKE_GROUPS: usize = 12;
const UNLIKE_BYTES: u64 = 400;

impl RepeatedLines {
    /// Returns the odd lines: lines that resemble no other line. Odd lines that are close together
    /// form one passage. Returns nothing in two cases: not every line was counted, or few lines are
    /// similar to each other.
    pub(super) fn unlike(&self) -> Vec<Unlike> {
        self.ended().map_or_else(|| self.counts.unlike(), |counts| counts.unlike())
    }
}

impl LineGroups {
    fn unlike(&self) -> Vec<Unlike> {
        let groups = || self.table.counts().values();
        let all: u64 = groups().map(|count| count.times).sum();
        let shaped = groups().map(|count| count.times).filter(|times| *times >= SHAPE_LINES);
        let is_shaped = 100 * shaped.sum::<u64>() >= SHAPED_PERCENT * all;
        let is_exact = self.table.is_complete() && groups().all(|count| !count.value.about);
        if all < UNLIKE_LINES || !is_shaped || !is_exact {
            return Vec::new();
        }
        let mut heads: HashMap<u64, u64> = HashMap::new();
        for count in groups() {
            *heads.entry(count.value.head).or_default() += count.times;
        }
        let is_odd = |head: u64| heads.get(&head).is_none_or(|times| *times < SHAPE_LINES);
        let single = groups().filter(|count| count.times == 1 && is_odd(count.value.head));
        let single = single.map(|count| {
            let (line, offset, length) =
                (count.value.first, count.value.offset, count.value.length);
            Unlike { line, last: line, column: None, offset, length }
        });
        let mut single: Vec<Unlike> = single.collect();
        single.sort_by_key(|unlike| unlike.line);
        let joined = joined(&single);
        if joined.len() <= UNLIKE_GROUPS { joined } else { Vec::new() }
    }
}

fn joined(single: &[Unlike]) -> Vec<Unlike> {
    let mut joined: Vec<Unlike> = Vec::new();
    for unlike in single {
        match joined.last_mut().filter(|before| unlike.line - before.last <= 1 + UNLIKE_GAP) {
            Some(before) => {
                let end = unlike.offset + u64::from(unlike.length);
                before.last = unlike.line;
                before.length = u32::try_from((end - before.offset).min(UNLIKE_BYTES)).unwrap_or(0);
            }
            None => joined.push(*unlike),
        }
    }
    joined.retain(|unlike| unlike.last - unlike.line < MOST_TOGETHER);
    joined
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn found(text: &str, step: usize) -> Vec<Repeated> {
        let mut lines = RepeatedLines::new();
        text.as_bytes().chunks(step).for_each(|part| lines.push(part));
        lines.finish(text.lines().count() as u64)
    }

    /// Returns four facts about each group: the count, the first and the last line number, and the
    /// text of the first line.
    fn told(text: &str) -> Vec<(u64, u64, u64, &str)> {
        let text_of = |repeated: &Repeated| {
            let start = usize::try_from(repeated.offset).unwrap();
            &text[start..start + repeated.length as usize]
        };
        let tell = |repeated: &Repeated| {
            (repeated.count, repeated.first, repeated.last, text_of(repeated))
        };
        found(text, text.len()).iter().map(tell).collect()
    }

    #[test]
    fn repeated_lines_have_positions() {
        let mut text = String::from("start of it\n");
        for n in 0..100 {
            text += "GET /health 200\r\n";
            if n % 4 == 0 {
                writeln!(text, "  took {n} ms\n\n}}").unwrap();
            }
        }
        assert_eq!(told(&text), [(100, 2, 176, "GET /health 200"), (25, 3, 171, "took 0 ms")]);
        let found = found(&text, 1000);
        assert!(found[0].equal && !found[1].equal);
        assert!(!found[0].about && !found[1].about);
    }

    #[test]
    fn rare_lines_are_not_reported() {
        let word = |n: usize| char::from(b'a' + (n % 26) as u8).to_string().repeat(4 + n / 26);
        let many = (0..400).map(word).collect::<Vec<_>>().join("\n") + "\n";
        assert_eq!(told(&many), []);
        assert_eq!(told(&format!("{many}{}", "same\n".repeat(8))), []);
        assert_eq!(told("same\nsame\nsame\nsame\n"), []);
        assert_eq!(told("same\nsame\nsame\nsame\nsame"), [(5, 1, 5, "same")]);
        assert_eq!(told(&"}\n----\n\n12345\n".repeat(50)), []);
    }

    #[test]
    fn a_long_line_is_not_counted() {
        let line = |length: usize| format!("{}\n", "x".repeat(length)).repeat(9);
        assert_eq!(told(&line(LINE_BYTES)).len(), 1);
        assert_eq!(told(&line(LINE_BYTES + 1)), []);
    }

    #[test]
    fn a_large_stream_is_sampled_wherever_it_is_cut() {
        let line = |n: u64| {
            format!(
                "{n:07} {} some text to fill the line up\n",
                if n.is_multiple_of(3) { "a" } else { "b" }
            )
        };
        let text: String = (0..700_000).map(line).collect();
        let whole = found(&text, text.len());
        assert_eq!(whole.len(), 2);
        for (repeated, share) in whole.iter().zip([2, 1]) {
            let real = 700_000 * share / 3;
            assert!(repeated.about);
            assert!(repeated.count.abs_diff(real) < real / 50, "{} of {real}", repeated.count);
        }
        for step in [1 << 18, 70_001, 9] {
            assert_eq!(found(&text, step), whole, "{step}");
        }
    }

    fn found_unlike(text: &str, step: usize) -> Vec<Unlike> {
        let mut lines = RepeatedLines::new();
        text.as_bytes().chunks(step).for_each(|part| lines.push(part));
        lines.unlike()
    }

    fn told_unlike(text: &str) -> Vec<String> {
        let tell = |unlike: &Unlike| {
            let start = usize::try_from(unlike.offset).unwrap();
            let text = &text[start..start + unlike.length as usize];
            format!("{}-{} {text}", unlike.line, unlike.last)
        };
        let whole = found_unlike(text, text.len());
        for step in [1, 7, 1000] {
            assert_eq!(found_unlike(text, step), whole, "in pieces of {step}");
        }
        whole.iter().map(tell).collect()
    }

    /// Returns a log of `lines` lines, each in one of two forms, with `odd` in place of line 100.
    fn log(lines: usize, odd: &str) -> String {
        let line = |n: usize| match n {
            100 => format!("{odd}\n"),
            n if n.is_multiple_of(3) => format!("10:00:{n} GET /health took {n} ms\n"),
            n => format!("10:00:{n} worker {n} is idle\n"),
        };
        (1..=lines).map(line).collect()
    }

    #[test]
    fn a_line_that_is_like_no_other_is_found_with_its_details() {
        let odd = "10:00:99 evicted pod web-7: the node is low\n    usage 7.9Gi\n\n    limit 8Gi";
        assert_eq!(told_unlike(&log(400, odd)), [format!("100-103 {odd}")]);
        let at_the_end = log(99, "") + "no newline here";
        assert_eq!(told_unlike(&at_the_end), ["100-100 no newline here"]);
    }

    #[test]
    fn a_line_that_begins_like_others_is_not_odd() {
        let named =
            |name: &str| format!("controller of this cluster: caches are now synced for {name}\n");
        let names = ["pods", "jobs", "nodes", "events", "leases"].map(named).concat();
        assert_eq!(told_unlike(&(log(99, "") + &names + &log(99, ""))), Vec::<String>::new());
    }

    #[test]
    fn where_few_lines_are_alike_none_is_odd() {
        let words = |n: usize| {
            let letters = [n / 676, n / 26 % 26, n % 26].map(|n| char::from(b'a' + n as u8));
            format!("{} of many\n", String::from_iter(letters))
        };
        let prose: String = (0..200).map(words).collect();
        assert_eq!(told_unlike(&prose), Vec::<String>::new());
        assert_eq!(told_unlike(&(log(400, "odd line here") + &prose)), Vec::<String>::new());
        assert_eq!(told_unlike("a line\na line\nodd\n"), Vec::<String>::new());
        assert_eq!(told_unlike(&log(400, &prose[..120])), Vec::<String>::new());
    }

    #[test]
    fn in_a_sampled_output_no_line_is_said_to_be_odd() {
        let log = log(120_000, "odd line here");
        assert!(log.len() > 3 << 20);
        assert_eq!(found_unlike(&log, log.len()), []);
    }
}
