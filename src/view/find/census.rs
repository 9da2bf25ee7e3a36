//! The first pass of `.find`. It counts how often each word occurs. For a word that does not occur,
//! it finds the nearest word that does.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;

use crate::find::matcher::{Finder, Hit, Matcher};
use crate::find::parts::WordParts;
use crate::find::scan::{LineSegment, PassExtent};
use crate::find::stretches::{ContentSlice, Stretch, Stretches};
use crate::find::{scan, stretches, words};
use ctxfs_core::model::Content;

// Maximum number of bytes in which words are counted, which takes about a second. Words are assumed
// to be as frequent in the rest of the content.
pub(super) const MAX_CENSUS_BYTES: u64 = 512 << 20;
// The census is divided into this many parts. Words that occur in the first part are not counted in
// the others.
const FIRST_PART: u64 = 16;
// A long line counts as one unit for each of this many bytes.
const UNIT_BYTES: u64 = 512;
// Maximum number of bytes in which near words are searched, which takes about a second. Of a larger
// content, evenly spaced samples are read.
pub(super) const MAX_NEAREST_BYTES: u64 = 64 << 20;
const SAMPLE_BYTES: u64 = 256 << 10;
// Maximum number of equally near words that are kept for each missing word.
const MAX_KEPT_WORDS: usize = 64;
// A missing word may be replaced by one of its prefixes if that has at least this length: `auth`
// for `authentication`.
const MIN_PREFIX: usize = 4;
// The distance of a prefix of the missing word. It is greater than the distance of any misspelling.
const PREFIX_DISTANCE: usize = 8;
// Greater than every other distance.
const FAR_DISTANCE: usize = 9;

/// The occurrences of one word, counted in lines.
///
/// `joint` is the byte between the parts of a name, or `Varies`; it is `None` if the word does not
/// occur. `prefix` is the common beginning, in lower case, of all forms of the word; it is `None`
/// if not all forms were seen.
#[derive(Debug, Clone, Default)]
pub(super) struct TermCount {
    pub(super) lines: u64,
    pub(super) joint: Option<Joint>,
    pub(super) prefix: Option<Vec<u8>>,
    unit: Option<(u64, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joint {
    Always(u8),
    Varies,
}

/// The occurrences of all words. `units` counts lines, where a long line counts as several.
/// `is_whole` is false if a part of the content was not read.
#[derive(Debug, Clone, Default)]
pub(super) struct Census {
    pub(super) units: u64,
    pub(super) tallies: Vec<TermCount>,
    pub(super) is_whole: bool,
}

impl Census {
    pub(super) fn new(terms: usize) -> Self {
        Self { units: 0, tallies: vec![TermCount::default(); terms], is_whole: true }
    }

    /// Counts the words of `matcher` in the first `most` bytes of `content`. Words that occur in
    /// the first part of these bytes are assumed to be as frequent in the rest, where only the
    /// other words are counted.
    pub(super) fn take(
        content: &dyn Content,
        matcher: &Matcher,
        escaped: bool,
        most: u64,
        expired: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let whole = ContentSlice { content, start: 0, end: content.len().min(most) };
        let first = ContentSlice { end: whole.end.min(most / FIRST_PART), ..whole };
        let mut census = Self::new(matcher.terms.len());
        let extent = census.count(&first, matcher, escaped, expired)?;
        census.units = extent.newlines + extent.bytes / UNIT_BYTES + 1;
        census.is_whole = content.len() <= most && !extent.out_of_time;
        if first.end < whole.end && !extent.out_of_time {
            census.rest(
                &ContentSlice { start: first.end, ..whole },
                &first,
                matcher,
                escaped,
                expired,
            )?;
        }
        for tally in &mut census.tallies {
            tally.unit = None;
        }
        Ok(census)
    }

    fn rest(
        &mut self,
        rest: &ContentSlice<'_>,
        first: &ContentSlice<'_>,
        matcher: &Matcher,
        escaped: bool,
        expired: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let times = (rest.len() + first.len()) / first.len().max(1);
        let mut new = Vec::new();
        for (number, tally) in self.tallies.iter_mut().enumerate() {
            if tally.lines == 0 {
                new.push(number);
            }
            tally.lines *= times;
            // The rest of the content may have other forms of the word.
            tally.prefix = None;
            tally.joint = tally.joint.map(|_| Joint::Varies);
        }
        self.units *= times;
        if new.is_empty() {
            return Ok(());
        }
        let terms = new.iter().map(|number| matcher.terms[*number].clone()).collect();
        let mut later = Self::new(new.len());
        let extent = later.count(rest, &Matcher::new(terms), escaped, expired)?;
        self.is_whole &= !extent.out_of_time;
        for (number, tally) in new.into_iter().zip(later.tallies) {
            self.tallies[number] = tally;
        }
        Ok(())
    }

    fn count(
        &mut self,
        content: &dyn Content,
        matcher: &Matcher,
        escaped: bool,
        expired: &dyn Fn() -> bool,
    ) -> io::Result<PassExtent> {
        let terms = matcher.terms.len();
        let count = |finder: &mut Finder, stretch: &Stretch<'_>, stop: &dyn Fn() -> bool| {
            let mut census = Self::new(terms);
            let extent =
                scan::scan(stretch.lines(), Some(matcher), stop, scan::BLOCK_BYTES, |segment| {
                    for hit in matcher.find(finder, segment.text, escaped) {
                        census.tallies[hit.term].add(segment, hit);
                    }
                })?;
            Ok((census, extent))
        };
        let stretches = Stretches::of(content, stretches::STRETCH_BYTES);
        stretches.each(expired, Finder::default, count, |_, census| self.add(&census))
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.units += other.units;
        self.is_whole &= other.is_whole;
        for (tally, more) in self.tallies.iter_mut().zip(&other.tallies) {
            tally.lines += more.lines;
            if let Some(prefix) = &more.prefix {
                tally.narrow(prefix);
            }
            tally.joint = match (tally.joint, more.joint) {
                (Some(one), Some(other)) if one != other => Some(Joint::Varies),
                (one, other) => one.or(other),
            };
        }
    }
}

impl TermCount {
    fn narrow(&mut self, form: &[u8]) {
        let Some(known) = &mut self.prefix else {
            self.prefix = Some(form.to_ascii_lowercase());
            return;
        };
        let same =
            known.iter().zip(form).take_while(|(one, other)| one.eq_ignore_ascii_case(other));
        let length = same.count();
        known.truncate(length);
    }

    fn add(&mut self, segment: &LineSegment<'_>, hit: &Hit) {
        let unit = (segment.line, (segment.column + hit.start as u64) / UNIT_BYTES);
        self.lines += u64::from(self.unit.replace(unit) != Some(unit));
        let text = &segment.text[hit.start..hit.end];
        self.narrow(text);
        let joint = text.iter().find(|byte| byte.is_ascii() && !byte.is_ascii_alphanumeric());
        let joint = joint.map_or(Joint::Varies, |byte| Joint::Always(*byte));
        match self.joint {
            None => self.joint = Some(joint),
            Some(known) if known != joint => self.joint = Some(Joint::Varies),
            Some(_) => {}
        }
    }
}

/// Finds the nearest word to each word that does not occur. A near word has a small edit distance;
/// if there is none, prefixes of the missing word are considered. Of equally near words, the most
/// frequent one is used.
#[derive(Debug, Clone)]
pub(super) struct NearestWords {
    missing: Vec<MissingWord>,
}

#[derive(Debug, Clone)]
struct MissingWord {
    word: String,
    letters: u32,
    characters: usize,
    nearest: BTreeMap<String, u64>,
    distance: usize,
}

impl NearestWords {
    // Searches for words near the words in `missing`, which must be folded.
    pub(super) fn new<'w>(missing: impl IntoIterator<Item = &'w str>) -> Self {
        let missing = missing.into_iter().map(|word| MissingWord {
            word: word.to_owned(),
            letters: letters(word),
            characters: word.chars().count(),
            nearest: BTreeMap::new(),
            distance: FAR_DISTANCE,
        });
        Self { missing: missing.collect() }
    }

    pub(super) fn read(
        &mut self,
        content: &dyn Content,
        escaped: bool,
        most: u64,
        expired: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let length = content.len();
        let count = length.min(most).div_ceil(SAMPLE_BYTES).max(1);
        let step = if length <= count * SAMPLE_BYTES { SAMPLE_BYTES } else { length / count };
        let mut parts = WordParts::default();
        for offset in (0..count).map(|number| number * step) {
            if expired() {
                break;
            }
            let bytes = content.bytes(offset, SAMPLE_BYTES as usize)?;
            parts.split(&bytes, escaped);
            for part in &parts.parts {
                self.add(parts.text(part));
            }
        }
        Ok(())
    }

    pub(super) fn merge(&mut self, other: Self) {
        for (missing, more) in self.missing.iter_mut().zip(other.missing) {
            for (word, times) in more.nearest {
                missing.keep(more.distance, &word, times);
            }
        }
    }

    // Returns the nearest word for each missing word, and how often it was seen.
    pub(super) fn found(&self) -> impl Iterator<Item = Option<(&str, u64)>> {
        self.missing.iter().map(|missing| {
            let best = missing.nearest.iter().max_by_key(|(word, times)| (**times, Reverse(*word)));
            best.map(|(word, times)| (word.as_str(), *times))
        })
    }

    fn add(&mut self, word: &str) {
        if word.len() < 3 {
            return;
        }
        let set = letters(word);
        for missing in &mut self.missing {
            if let Some(distance) = missing.distance_of(word, set) {
                missing.keep(distance, word, 1);
            }
        }
    }
}

impl MissingWord {
    // Returns the maximum edit distance that is accepted.
    fn most(&self) -> usize {
        match self.characters {
            0..4 => 0,
            4..8 => 1,
            _ => 2,
        }
    }

    fn distance_of(&self, word: &str, set: u32) -> Option<usize> {
        if word.len() >= MIN_PREFIX && self.word.starts_with(word) {
            return (!words::is_question_word(word)).then_some(PREFIX_DISTANCE);
        }
        let most = self.most().min(self.distance);
        let strange = word.len().abs_diff(self.word.len()) > 2 * most;
        if strange || (set ^ self.letters).count_ones() as usize > 2 * most {
            return None;
        }
        let distance = strsim::osa_distance(&self.word, word);
        // Two mistakes are accepted only if the first letter is right, because few people misspell
        // it.
        let alike = distance < 2 || word.chars().next() == self.word.chars().next();
        let is_name = word.contains(|c: char| c.is_ascii_digit());
        (distance <= most && alike && !is_name).then_some(distance)
    }

    fn keep(&mut self, distance: usize, word: &str, times: u64) {
        if distance < self.distance {
            self.nearest.clear();
            self.distance = distance;
        }
        if distance > self.distance {
            return;
        }
        if let Some(known) = self.nearest.get_mut(word) {
            *known += times;
        } else if self.nearest.len() < MAX_KEPT_WORDS {
            self.nearest.insert(word.to_owned(), times);
        }
    }
}

// Returns a set of letters, with one bit for each letter.
fn letters(word: &str) -> u32 {
    word.bytes().fold(0, |set, byte| set | 1 << (byte & 31))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::matcher::Term;

    fn lines(text: &str, most: u64) -> (Vec<u64>, bool) {
        let terms = ["disk", "rare"].iter().map(|word| Term::new(word, 0).unwrap()).collect();
        let matcher = Matcher::new(terms);
        let content = text.as_bytes().to_vec();
        let census = Census::take(&content, &matcher, false, most, &|| false).unwrap();
        (census.tallies.iter().map(|tally| tally.lines).collect(), census.is_whole)
    }

    #[test]
    fn words_are_counted_once_a_line() {
        assert_eq!(lines("disk disks\nrare\n\ndisk\n", MAX_CENSUS_BYTES), (vec![2, 1], true));
    }

    #[test]
    fn what_is_frequent_is_counted_at_the_start_only() {
        let text = "a disk\n".repeat(1600) + "rare\n";
        let most = text.len() as u64;
        assert_eq!(lines(&text, most), (vec![100 * 16, 1], true));
        assert!(!lines(&text, most - 7).1);
        assert_eq!(lines(&text, most / 2), (vec![50 * 16, 0], false));
    }

    fn nearest(word: &str, text: &str) -> Option<String> {
        let mut nearest = NearestWords::new([word]);
        nearest.read(&text.as_bytes().to_vec(), false, MAX_NEAREST_BYTES, &|| false).unwrap();
        nearest.found().next().unwrap().map(|(word, _)| word.to_owned())
    }

    #[test]
    fn misspelt_words_are_found() {
        for (word, text, want) in [
            ("timout", "a Timeout of the time", Some("timeout")),
            ("evcition", "eviction action", Some("eviction")),
            ("authentication", "auth_service", Some("auth")),
            ("recieve", "receive receiver", Some("receive")),
            ("pod", "pid pad", None),
            ("reason", "season season treason", Some("season")),
            ("kubernetes", "something else", None),
            ("port1", "port2", None),
        ] {
            assert_eq!(nearest(word, text).as_deref(), want, "{word}");
        }
    }

    #[test]
    fn the_most_frequent_of_the_nearest_is_taken() {
        assert_eq!(nearest("bitten", "mitten kitten kitten").as_deref(), Some("kitten"));
        assert_eq!(nearest("bitten", "mitten kitten").as_deref(), Some("kitten"));
    }
}
