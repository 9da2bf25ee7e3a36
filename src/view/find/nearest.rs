use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;

use crate::find::parts::Parts;
use crate::find::words;
use ctxfs_core::model::Content;

// About a second of reading. Of a larger content, evenly spaced samples are read.
pub(super) const MOST_BYTES: u64 = 64 << 20;
const SAMPLE: u64 = 256 << 10;
// Words that are remembered for each missing word.
const KEPT: usize = 64;
// A missing word may be replaced by a word of this length that it begins with: `auth` for
// `authentication`.
const BEGINNING: usize = 4;

/// Looks for the words that are nearest to words that do not occur, and counts them.
#[derive(Debug, Clone)]
pub(super) struct NearestWords {
    missing: Vec<Missing>,
}

#[derive(Debug, Clone)]
struct Missing {
    word: String,
    letters: u32,
    characters: usize,
    nearest: BTreeMap<String, u64>,
    distance: usize,
}

// The distance of a word that the missing one begins with: farther than any misspelling.
const OF_BEGINNING: usize = 8;
// Farther than all others.
const FAR: usize = 9;

impl NearestWords {
    /// Looks for words near `missing`, which have to be folded.
    pub(super) fn new<'w>(missing: impl IntoIterator<Item = &'w str>) -> Self {
        let missing = missing.into_iter().map(|word| Missing {
            word: word.to_owned(),
            letters: letters(word),
            characters: word.chars().count(),
            nearest: BTreeMap::new(),
            distance: FAR,
        });
        Self { missing: missing.collect() }
    }

    /// Reads the words of `content`, or of samples of it of about `most` bytes together.
    pub(super) fn read(
        &mut self,
        content: &dyn Content,
        escaped: bool,
        most: u64,
        expired: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let length = content.len();
        let count = length.min(most).div_ceil(SAMPLE).max(1);
        let step = if length <= count * SAMPLE { SAMPLE } else { length / count };
        let mut parts = Parts::default();
        for offset in (0..count).map(|number| number * step) {
            if expired() {
                break;
            }
            let bytes = content.bytes(offset, SAMPLE as usize)?;
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

    /// Returns the nearest word for each missing one, and how often it was seen.
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

impl Missing {
    // The most mistakes that are forgiven.
    fn most(&self) -> usize {
        match self.characters {
            0..4 => 0,
            4..8 => 1,
            _ => 2,
        }
    }

    fn distance_of(&self, word: &str, set: u32) -> Option<usize> {
        if word.len() >= BEGINNING && self.word.starts_with(word) {
            return (!words::is_question_word(word)).then_some(OF_BEGINNING);
        }
        let most = self.most().min(self.distance);
        let strange = word.len().abs_diff(self.word.len()) > 2 * most;
        if strange || (set ^ self.letters).count_ones() as usize > 2 * most {
            return None;
        }
        let distance = strsim::osa_distance(&self.word, word);
        // Few begin a word with a mistake, and then make another.
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
        } else if self.nearest.len() < KEPT {
            self.nearest.insert(word.to_owned(), times);
        }
    }
}

// A bit for each letter.
fn letters(word: &str) -> u32 {
    word.bytes().fold(0, |set, byte| set | 1 << (byte & 31))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearest(word: &str, text: &str) -> Option<String> {
        let mut nearest = NearestWords::new([word]);
        nearest.read(&text.as_bytes().to_vec(), false, MOST_BYTES, &|| false).unwrap();
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
