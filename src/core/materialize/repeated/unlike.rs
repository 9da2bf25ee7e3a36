//! The lines that fit no repeated shape, where most lines do.

use std::collections::HashMap;

use crate::materialize::repeated::{LineGroups, RepeatedLines};
use crate::model::Unlike;

/// The fewest lines of an output with such lines.
const LINES: u64 = 40;
/// The fewest lines of a shape.
const SHAPE: u64 = 5;
/// The least part of the lines that have a shape, in percent.
const SHAPED: u64 = 85;
/// Most lines that follow each other: more are a part of the output rather than odd.
const TOGETHER: u64 = 4;
/// Lines between two that are reported together: what follows an error tells more about it.
const GAP: u64 = 1;
/// Most groups of such lines: if there are more, none of them is odd.
const GROUPS: usize = 12;
/// Bytes of a group that are kept.
const BYTES: u64 = 400;

impl RepeatedLines {
    /// Returns the lines that are like no other, those that follow each other together. None if
    /// not every line was counted, or if most lines are like few others.
    pub(crate) fn unlike(&self) -> Vec<Unlike> {
        self.ended().map_or_else(|| self.counts.unlike(), |counts| counts.unlike())
    }
}

impl LineGroups {
    fn unlike(&self) -> Vec<Unlike> {
        let groups = || self.table.iter().map(|(_, count)| count);
        let all: u64 = groups().map(|count| count.times).sum();
        let shaped = groups().map(|count| count.times).filter(|times| *times >= SHAPE);
        let is_shaped = 100 * shaped.sum::<u64>() >= SHAPED * all;
        let is_exact = self.table.is_complete() && groups().all(|count| !count.value.about);
        if all < LINES || !is_shaped || !is_exact {
            return Vec::new();
        }
        let mut heads: HashMap<u64, u64> = HashMap::new();
        for count in groups() {
            *heads.entry(count.value.head).or_default() += count.times;
        }
        let is_odd = |head: u64| heads.get(&head).is_none_or(|times| *times < SHAPE);
        let single = groups().filter(|count| count.times == 1 && is_odd(count.value.head));
        let single = single.map(|count| {
            let (line, offset, length) =
                (count.value.first, count.value.offset, count.value.length);
            Unlike { line, last: line, column: None, offset, length }
        });
        let mut single: Vec<Unlike> = single.collect();
        single.sort_by_key(|unlike| unlike.line);
        let joined = joined(&single);
        if joined.len() <= GROUPS { joined } else { Vec::new() }
    }
}

fn joined(single: &[Unlike]) -> Vec<Unlike> {
    let mut joined: Vec<Unlike> = Vec::new();
    for unlike in single {
        match joined.last_mut().filter(|before| unlike.line - before.last <= 1 + GAP) {
            Some(before) => {
                let end = unlike.offset + u64::from(unlike.length);
                before.last = unlike.line;
                before.length = u32::try_from((end - before.offset).min(BYTES)).unwrap_or(0);
            }
            None => joined.push(*unlike),
        }
    }
    joined.retain(|unlike| unlike.last - unlike.line < TOGETHER);
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, step: usize) -> Vec<Unlike> {
        let mut lines = RepeatedLines::new();
        text.as_bytes().chunks(step).for_each(|part| lines.push(part));
        lines.unlike()
    }

    fn told(text: &str) -> Vec<String> {
        let tell = |unlike: &Unlike| {
            let start = usize::try_from(unlike.offset).unwrap();
            let text = &text[start..start + unlike.length as usize];
            format!("{}-{} {text}", unlike.line, unlike.last)
        };
        let whole = found(text, text.len());
        for step in [1, 7, 1000] {
            assert_eq!(found(text, step), whole, "in pieces of {step}");
        }
        whole.iter().map(tell).collect()
    }

    /// A log of `lines` lines of two forms, with `odd` in place of line 100.
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
        assert_eq!(told(&log(400, odd)), [format!("100-103 {odd}")]);
        let at_the_end = log(99, "") + "no newline here";
        assert_eq!(told(&at_the_end), ["100-100 no newline here"]);
    }

    #[test]
    fn a_line_that_begins_like_others_is_not_odd() {
        let named =
            |name: &str| format!("controller of this cluster: caches are now synced for {name}\n");
        let names = ["pods", "jobs", "nodes", "events", "leases"].map(named).concat();
        assert_eq!(told(&(log(99, "") + &names + &log(99, ""))), Vec::<String>::new());
    }

    #[test]
    fn where_few_lines_are_alike_none_is_odd() {
        let words = |n: usize| {
            let letters = [n / 676, n / 26 % 26, n % 26].map(|n| char::from(b'a' + n as u8));
            format!("{} of many\n", String::from_iter(letters))
        };
        let prose: String = (0..200).map(words).collect();
        assert_eq!(told(&prose), Vec::<String>::new());
        assert_eq!(told(&(log(400, "odd line here") + &prose)), Vec::<String>::new());
        assert_eq!(told("a line\na line\nodd\n"), Vec::<String>::new());
        assert_eq!(told(&log(400, &prose[..120])), Vec::<String>::new());
    }

    #[test]
    fn in_a_sampled_output_no_line_is_said_to_be_odd() {
        let log = log(120_000, "odd line here");
        assert!(log.len() > 3 << 20);
        assert_eq!(found(&log, log.len()), []);
    }
}
