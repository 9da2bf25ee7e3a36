//! Lines alike: the same but for numbers. Of consecutive lines alike, an excerpt shows the first two
//! and those that deviate. A mark in place of the others has the numbers that differ.

use std::collections::HashMap;

use crate::clean::shortened;
use crate::number::grouped;
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
// If a number has at most this many values that come again, as a status has, each value is shown.
const MAX_CHOICES: usize = 6;
// Maximum number of characters of the words that differ, and of one of them. Of a number with more
// values, the least and the greatest are told.
const DIFFERENCES_CHARS: usize = 120;
const DIFFERENCE_CHARS: usize = 60;
const LISTED_VALUES: usize = 3;

/// The forms of lines: how many lines of a form were shown, and the places of numbers that matter.
#[derive(Default, Clone)]
pub(super) struct LineForms {
    likeness: LikenessHasher,
    shown: HashMap<u64, u32>,
    telling: HashMap<(u64, usize), TellingNumbers>,
}

// Which numbers at a place matter: all but the usual one, or each.
#[derive(Clone, Copy)]
enum TellingNumbers {
    AllBut(u64),
    Each,
}

// The numbers at one place of a form. `falls` is true if one is less than the one before it, which
// times and counters are not.
#[derive(Default)]
struct PlaceNumbers {
    counts: HashMap<u64, u32>,
    last: u64,
    falls: bool,
}

impl PlaceNumbers {
    fn add(&mut self, number: u64) {
        *self.counts.entry(number).or_default() += 1;
        self.falls |= number < self.last;
        self.last = number;
    }

    fn telling(self) -> Option<TellingNumbers> {
        let all: u32 = self.counts.values().sum();
        if all < MIN_ALIKE || self.counts.len() < 2 {
            return None;
        }
        let is_choice = self.falls && self.counts.len() <= MAX_CHOICES;
        let is_usual = |count: u32| 100 * count >= USUAL_PERCENT * all;
        let usual = self.counts.into_iter().find(|(_, count)| is_usual(*count));
        let usual = usual.map(|(number, _)| TellingNumbers::AllBut(number));
        usual.or(is_choice.then_some(TellingNumbers::Each))
    }
}

impl LineForms {
    /// Learns which numbers of `lines` matter.
    pub(super) fn of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut forms = Self::default();
        let mut places: HashMap<(u64, usize), PlaceNumbers> = HashMap::new();
        for line in lines {
            let form = forms.likeness.of(line);
            for (place, number) in numbers(line).enumerate() {
                places.entry((form, place)).or_default().add(number);
            }
        }
        let telling = |(place, numbers): (_, PlaceNumbers)| Some((place, numbers.telling()?));
        forms.telling = places.into_iter().filter_map(telling).collect();
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

    // Returns a key for each number in a line that matters.
    fn deviations(&self, form: u64, line: &[u8]) -> Vec<u64> {
        let deviation = |(place, number): (usize, u64)| {
            let key = match *self.telling.get(&(form, place))? {
                TellingNumbers::AllBut(usual) if usual == number => return None,
                TellingNumbers::AllBut(usual) => usual,
                TellingNumbers::Each => !(place as u64),
            };
            Some(form.rotate_left(17) ^ key.rotate_left(31) ^ number)
        };
        if self.telling.is_empty() {
            return Vec::new();
        }
        numbers(line).enumerate().filter_map(deviation).collect()
    }
}

// Returns the numbers in a line. Those of more than 64 bits are reduced to these.
fn numbers(line: &[u8]) -> impl Iterator<Item = u64> {
    let runs = line.split(|byte| !byte.is_ascii_digit()).filter(|run| !run.is_empty());
    let add =
        |number: u64, digit: &u8| number.wrapping_mul(10).wrapping_add(u64::from(*digit - b'0'));
    runs.map(move |run| run.iter().fold(0, add))
}

/// Returns a mark of at most `bytes` bytes in place of lines, with the words that differ between them:
/// `[... 12 lines like these: shard_{3-14} {200,503} ...]`. `these` tells where lines alike are shown.
pub(super) fn fold_mark(lines: &[&[u8]], these: &str, bytes: usize) -> String {
    let mark = |differences: &str| {
        format!("[... {} lines like {these}{differences} ...]", grouped(lines.len() as u64))
    };
    let room = bytes.saturating_sub(mark(": ").len()).min(DIFFERENCES_CHARS);
    let differences = differences(lines, room);
    let colon = if differences.is_empty() { "" } else { ": " };
    mark(&format!("{colon}{differences}"))
}

// Returns the words that differ between lines, with the values of their numbers. Of words that differ
// in more than numbers, and of lines of another form than the first, it tells nothing.
fn differences(lines: &[&[u8]], room: usize) -> String {
    let mut likeness = LikenessHasher::default();
    let form = lines.first().map(|line| likeness.of(line));
    let alike = lines.iter().filter(|line| Some(likeness.of(line)) == form);
    let words: Vec<Vec<&[u8]>> =
        alike.map(|line| line.split(|byte| *byte == b' ').collect()).collect();
    let Some(first) = words.first() else { return String::new() };
    let mut told = String::new();
    for (at, own) in first.iter().enumerate() {
        let column: Vec<&[u8]> = words.iter().filter_map(|words| words.get(at).copied()).collect();
        if column.iter().all(|word| word == own) {
            continue;
        }
        let Some(word) = difference(&column) else { continue };
        let gap = if told.is_empty() { "" } else { " " };
        if told.len() + word.len() + gap.len() + " ...".len() > room {
            let dots = if told.is_empty() { "" } else { " ..." };
            return told + dots;
        }
        told.push_str(gap);
        told.push_str(&word);
    }
    told
}

// Returns a word with the values of its numbers in braces. Returns `None` if the words differ in more.
fn difference(words: &[&[u8]]) -> Option<String> {
    let mut parts = words.iter().map(|word| parts(word));
    let mut places: Vec<Vec<&[u8]>> = parts.next()?.into_iter().map(|part| vec![part]).collect();
    for word in parts {
        if word.len() != places.len() {
            return None;
        }
        places.iter_mut().zip(word).for_each(|(place, part)| place.push(part));
    }
    let mut told = String::new();
    for place in &mut places {
        place.sort_unstable_by_key(|part| (part.len(), *part));
        place.dedup();
        let is_number = place.iter().all(|part| part[0].is_ascii_digit());
        let text = |part: &&[u8]| shortened(part, DIFFERENCE_CHARS);
        match place.as_slice() {
            [one] => told += &text(one),
            _ if !is_number => return None,
            few if few.len() <= LISTED_VALUES => {
                told += &["{", &few.iter().map(text).collect::<Vec<_>>().join(","), "}"].concat();
            }
            [least, .., greatest] => {
                told += &["{", &text(least), "-", &text(greatest), "}"].concat();
            }
            [] => {}
        }
    }
    (told.len() <= DIFFERENCE_CHARS).then_some(told)
}

// Divides a word into numbers and what is between them.
fn parts(word: &[u8]) -> Vec<&[u8]> {
    word.chunk_by(|one, next| one.is_ascii_digit() == next.is_ascii_digit()).collect()
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
                shown.push(fold_mark(&lines[at..at + run], "these", 200));
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
            "[... 3 lines like these: {3,4,5} ...]",
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
            "[... 266 lines like these: shard_{0002-0267}: ...]",
            "shard_0268: 28 files",
            "[... 61 lines like these: shard_{0269-0329}: ...]",
        ];
        assert_eq!(shown, want);
        let line = |n: usize| format!("part {n}: {} files\n", n / 20);
        let halves: String = (0..40).map(line).collect();
        assert_eq!(folded(&halves).len(), 3);
    }
}
