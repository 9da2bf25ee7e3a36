//! Lines alike: the same but for numbers. Of consecutive lines alike, an excerpt shows the first two
//! and those that deviate. A mark in place of the others has the numbers that differ.

use std::rc::Rc;

use foldhash::HashMap;

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
// Maximum number of values of a number that are counted. Of one with more, the usual value is known if
// it is among the first.
const MAX_COUNTED: usize = 32;

/// The forms of lines: how many lines of a form were shown, and the places of numbers that matter.
#[derive(Default, Clone)]
pub(super) struct LineForms {
    likeness: LikenessHasher,
    shown: HashMap<u64, u32>,
    telling: Rc<HashMap<u64, Vec<(usize, TellingNumbers)>>>,
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
    counts: Vec<(u64, u32)>,
    all: u32,
    last: u64,
    falls: bool,
}

impl PlaceNumbers {
    fn clear(&mut self) {
        let mut counts = std::mem::take(&mut self.counts);
        counts.clear();
        *self = Self { counts, ..Self::default() };
    }

    fn add(&mut self, number: u64) {
        match self.counts.iter().position(|(known, _)| *known == number) {
            Some(at) => self.counts[at].1 += 1,
            None if self.counts.len() < MAX_COUNTED => self.counts.push((number, 1)),
            None => {}
        }
        self.all += 1;
        self.falls |= number < self.last;
        self.last = number;
    }

    fn telling(&self) -> Option<TellingNumbers> {
        if self.all < MIN_ALIKE || self.counts.len() < 2 {
            return None;
        }
        let is_choice = self.falls && self.counts.len() <= MAX_CHOICES;
        let is_usual = |count: u32| 100 * count >= USUAL_PERCENT * self.all;
        let usual = self.counts.iter().find(|(_, count)| is_usual(*count));
        let usual = usual.map(|(number, _)| TellingNumbers::AllBut(*number));
        usual.or(is_choice.then_some(TellingNumbers::Each))
    }
}

impl LineForms {
    /// Learns which numbers of `lines` matter.
    pub(super) fn of<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut forms = Self::default();
        let lines: Vec<&[u8]> = lines.collect();
        let mut order: Vec<(u64, usize)> =
            lines.iter().map(|line| forms.likeness.of(line)).zip(0..).collect();
        order.sort_unstable();
        let mut telling = HashMap::default();
        let mut places: Vec<PlaceNumbers> = Vec::new();
        for alike in order.chunk_by(|one, next| one.0 == next.0) {
            if alike.len() < MIN_ALIKE as usize {
                continue;
            }
            places.iter_mut().for_each(PlaceNumbers::clear);
            for (_, at) in alike {
                for (place, number) in numbers(lines[*at]).enumerate() {
                    if place == places.len() {
                        places.push(PlaceNumbers::default());
                    }
                    places[place].add(number);
                }
            }
            let told =
                places.iter().enumerate().filter_map(|(place, it)| Some((place, it.telling()?)));
            let told: Vec<_> = told.collect();
            if !told.is_empty() {
                telling.insert(alike[0].0, told);
            }
        }
        Self { telling: Rc::new(telling), ..forms }
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
        let Some(telling) = self.telling.get(&form) else { return Vec::new() };
        let deviation = |(place, number): (usize, u64)| {
            let (_, telling) = telling.iter().find(|(telling, _)| *telling == place)?;
            let key = match *telling {
                TellingNumbers::AllBut(usual) if usual == number => return None,
                TellingNumbers::AllBut(usual) => usual,
                TellingNumbers::Each => !(place as u64),
            };
            Some(form.rotate_left(17) ^ key.rotate_left(31) ^ number)
        };
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
fn differences<'a>(lines: &[&'a [u8]], room: usize) -> String {
    let mut likeness = LikenessHasher::default();
    let Some((first, rest)) = lines.split_first() else { return String::new() };
    let form = likeness.of(first);
    let words = |line: &'a [u8]| line.split(|byte| *byte == b' ');
    let own: Vec<&[u8]> = words(first).collect();
    let mut others: Vec<Vec<&[u8]>> = vec![Vec::new(); own.len()];
    for line in rest.iter().filter(|line| likeness.of(line) == form) {
        let same_place = words(line).zip(&own).zip(&mut others);
        same_place.filter(|((word, own), _)| word != *own).for_each(|((word, _), others)| {
            others.push(word);
        });
    }
    let mut told = String::new();
    for (own, others) in own.iter().zip(&others).filter(|(_, others)| !others.is_empty()) {
        let Some(word) = difference(own, others) else { continue };
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

// Values in ascending order: all of them, or if there are more than are listed, with the least at the
// start and the greatest at the end.
struct Values<'a>(Vec<&'a [u8]>);

impl<'a> Values<'a> {
    fn add(&mut self, value: &'a [u8]) {
        let Self(known) = self;
        match known.binary_search_by_key(&(value.len(), value), |known| (known.len(), *known)) {
            Err(at) if known.len() <= LISTED_VALUES => known.insert(at, value),
            Err(0) => known[0] = value,
            Err(at) if at == known.len() => known[at - 1] = value,
            _ => {}
        }
    }
}

// Returns a word with the values of its numbers in braces. Returns `None` if the words differ in more.
fn difference(own: &[u8], others: &[&[u8]]) -> Option<String> {
    let mut places: Vec<Values<'_>> = parts(own).map(|part| Values(vec![part])).collect();
    let own: Vec<&[u8]> = parts(own).collect();
    for word in others {
        let mut parts = parts(word);
        for (own, values) in own.iter().zip(&mut places) {
            let part = parts.next()?;
            if part != *own {
                if !(part[0].is_ascii_digit() && own[0].is_ascii_digit()) {
                    return None;
                }
                values.add(part);
            }
        }
        if parts.next().is_some() {
            return None;
        }
    }
    let text = |part: &&[u8]| shortened(part, DIFFERENCE_CHARS);
    let mut told = String::new();
    for Values(values) in &places {
        match values.as_slice() {
            [one] => told += &text(one),
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
fn parts(word: &[u8]) -> impl Iterator<Item = &[u8]> {
    word.chunk_by(|one, next| one.is_ascii_digit() == next.is_ascii_digit())
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
