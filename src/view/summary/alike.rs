//! Lines alike: the same but for numbers. Of consecutive lines alike, an excerpt shows the first two
//! and those that deviate.

use std::collections::HashMap;

use ctxfs_core::materialize::LikenessHasher;

// Number of lines alike that are shown.
const SHOWN_LINES: u32 = 2;
// Minimum number of consecutive lines, and of their bytes, that are folded.
const MIN_FOLDED: usize = 3;
const MIN_FOLDED_BYTES: usize = 64;
// A line deviates if it has a number of its own where, of at least this many lines alike, this
// percentage have one and the same.
const MIN_ALIKE: u32 = 10;
const USUAL_PERCENT: u32 = 90;

/// The forms of lines: how many lines of a form were shown, and the usual numbers in each form.
#[derive(Default, Clone)]
pub(super) struct LineForms {
    likeness: LikenessHasher,
    shown: HashMap<u64, u32>,
    usual: HashMap<(u64, usize), u64>,
}

impl LineForms {
    /// Learns the usual numbers of `lines`.
    pub(super) fn of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut forms = Self::default();
        let mut counts: HashMap<(u64, usize), HashMap<u64, u32>> = HashMap::new();
        for line in lines {
            let form = forms.likeness.of(line);
            for (place, number) in numbers(line).enumerate() {
                *counts.entry((form, place)).or_default().entry(number).or_default() += 1;
            }
        }
        for (place, counts) in counts {
            let all: u32 = counts.values().sum();
            let is_usual =
                |count: u32| all >= MIN_ALIKE && count < all && 100 * count >= USUAL_PERCENT * all;
            let usual = counts.into_iter().find(|(_, count)| is_usual(*count));
            forms.usual.extend(usual.map(|(number, _)| (place, number)));
        }
        forms
    }

    /// Returns the number of lines at the start of `lines` that can be folded. Returns 0 if they
    /// are too few.
    pub(super) fn run<'a>(&mut self, lines: impl Iterator<Item = &'a [u8]>) -> usize {
        let (mut count, mut bytes) = (0, 0);
        for line in lines.take_while(|line| self.is_known(line)) {
            count += 1;
            bytes += line.len() + 1;
        }
        if count < MIN_FOLDED || bytes < MIN_FOLDED_BYTES { 0 } else { count }
    }

    pub(super) fn show(&mut self, line: &[u8]) {
        let form = self.likeness.of(line);
        *self.shown.entry(form).or_default() += 1;
        for deviation in self.deviations(form, line) {
            *self.shown.entry(deviation).or_default() += 1;
        }
    }

    /// Returns true if enough lines like `line` were shown.
    pub(super) fn is_known(&mut self, line: &[u8]) -> bool {
        let form = self.likeness.of(line);
        let is_known = |form: u64| self.shown.get(&form).is_some_and(|shown| *shown >= SHOWN_LINES);
        is_known(form) && self.deviations(form, line).into_iter().all(is_known)
    }

    // Returns a key for each unusual number in a line.
    fn deviations(&self, form: u64, line: &[u8]) -> Vec<u64> {
        let unusual = |(place, number): (usize, u64)| {
            let usual = self.usual.get(&(form, place)).filter(|usual| **usual != number)?;
            Some(form.rotate_left(17) ^ usual.rotate_left(31) ^ number)
        };
        if self.usual.is_empty() {
            return Vec::new();
        }
        numbers(line).enumerate().filter_map(unusual).collect()
    }
}

// Returns the numbers in a line, as hashes of their digits.
fn numbers(line: &[u8]) -> impl Iterator<Item = u64> {
    let runs = line.split(|byte| !byte.is_ascii_digit()).filter(|run| !run.is_empty());
    runs.map(|run| {
        let add = |hash: u64, digit: &u8| (hash ^ u64::from(*digit)).wrapping_mul(0x100_0000_01b3);
        run.iter().fold(0xcbf2_9ce4_8422_2325, add)
    })
}

pub(super) fn fold_mark(lines: usize) -> String {
    format!("[... {} lines like these ...]", crate::number::grouped(lines as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str) -> Vec<String> {
        let lines: Vec<&[u8]> = text.lines().map(str::as_bytes).collect();
        let (mut forms, mut shown, mut at) = (LineForms::of(lines.iter().copied()), Vec::new(), 0);
        while at < lines.len() {
            let run = forms.run(lines[at..].iter().copied());
            if run > 0 {
                shown.push(fold_mark(run));
            } else {
                forms.show(lines[at]);
                shown.push(String::from_utf8(lines[at].to_vec()).unwrap());
            }
            at += run.max(1);
        }
        shown
    }

    #[test]
    fn two_of_a_form_are_shown() {
        let read = |n: usize| format!("read the block number {n}\n");
        let reads: String = (1..=5).map(read).collect();
        let text = format!("start\n{reads}end\nread 6\nread 7\nread 8\nread 9\nread 10\n");
        let shown = [
            "start",
            "read the block number 1",
            "read the block number 2",
            "[... 3 lines like these ...]",
            "end",
            "read 6",
            "read 7",
            "read 8",
            "read 9",
            "read 10",
        ];
        assert_eq!(folded(&text), shown);
        let turns = "open 1\nclose 1\n".repeat(50);
        assert_eq!(folded(&turns).last().unwrap(), "[... 96 lines like these ...]");
    }

    #[test]
    fn lines_that_deviate_are_shown() {
        let line = |n: usize| format!("shard_{n:04}: {} files\n", if n == 268 { 28 } else { 30 });
        let shown = folded(&(0..330).map(line).collect::<String>());
        let want = [
            "shard_0000: 30 files",
            "shard_0001: 30 files",
            "[... 266 lines like these ...]",
            "shard_0268: 28 files",
            "[... 61 lines like these ...]",
        ];
        assert_eq!(shown, want);
        let line = |n: usize| format!("part {n}: {} files\n", n / 20);
        let halves: String = (0..40).map(line).collect();
        assert_eq!(folded(&halves).len(), 3);
    }
}
