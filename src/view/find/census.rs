//! The first pass of `.find`: how often each word occurs, and the nearest words to those that do
//! not.

use std::io;

use crate::find::matcher::{Finder, Hit, Matcher};
use crate::find::scan::{Extent, Segment};
use crate::find::stretches::{Slice, Stretch, Stretches};
use crate::find::term::Fit;
use crate::find::{scan, stream, stretches};
use ctxfs_core::model::Content;

// About a second of reading. Words are taken to be as frequent in the rest.
pub(super) const MOST_BYTES: u64 = 512 << 20;
// The first of this many parts of that tells how frequent the words in it are.
const PARTS: u64 = 16;
// Of a long line, this many bytes count as one line.
const UNIT: u64 = 512;

/// The occurrences of one word: lines with the word only inside of others, and lines with the word
/// itself.
///
/// `joint` is the byte between the two parts of a name, if it is the same everywhere. `prefix` is
/// the beginning that all forms of the word share, in lower case.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) inside: u64,
    pub(super) lines: u64,
    pub(super) joint: Option<Joint>,
    pub(super) beginning: Option<Vec<u8>>,
    unit: Option<(u64, u64, bool)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joint {
    Always(u8),
    Varies,
}

/// The occurrences of all words. `units` counts lines, and parts of long lines. `is_whole` is false
/// if a part of the content was not read.
#[derive(Debug, Clone, Default)]
pub(super) struct Census {
    pub(super) units: u64,
    pub(super) tallies: Vec<Tally>,
    pub(super) is_whole: bool,
}

impl Census {
    pub(super) fn new(terms: usize) -> Self {
        Self { units: 0, tallies: vec![Tally::default(); terms], is_whole: true }
    }

    /// Counts the words of `matcher` in the first `most` bytes of `content`. Words that occur in
    /// the first part of these are taken to be as frequent in the rest; only the others are looked
    /// for there.
    pub(super) fn take(
        content: &dyn Content,
        matcher: &Matcher,
        escaped: bool,
        most: u64,
        expired: &dyn Fn() -> bool,
    ) -> io::Result<Self> {
        let whole = Slice { content, start: 0, end: content.len().min(most) };
        let first = Slice { end: whole.end.min(most / PARTS), ..whole };
        let mut census = Self::new(matcher.terms.len());
        let extent = census.count(&first, matcher, escaped, expired)?;
        census.units = extent.newlines + extent.bytes / UNIT + 1;
        census.is_whole = content.len() <= most && !extent.out_of_time;
        if first.end < whole.end && !extent.out_of_time {
            census.rest(&Slice { start: first.end, ..whole }, &first, matcher, escaped, expired)?;
        }
        for tally in &mut census.tallies {
            tally.unit = None;
        }
        Ok(census)
    }

    fn rest(
        &mut self,
        rest: &Slice<'_>,
        first: &Slice<'_>,
        matcher: &Matcher,
        escaped: bool,
        expired: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let times = (rest.len() + first.len()) / first.len().max(1);
        let mut new = Vec::new();
        for (number, tally) in self.tallies.iter_mut().enumerate() {
            if tally.lines + tally.inside == 0 {
                new.push(number);
            }
            tally.lines *= times;
            tally.inside *= times;
            // The rest may have other forms.
            tally.beginning = None;
            tally.joint = tally.joint.map(|_| Joint::Varies);
        }
        self.units *= times;
        if new.is_empty() {
            return Ok(());
        }
        let terms = new.iter().map(|number| matcher.terms[*number].clone()).collect();
        let mut later = Self::new(new.len());
        let extent = later.count(rest, &Matcher::new(terms, |_| true), escaped, expired)?;
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
    ) -> io::Result<Extent> {
        let terms = matcher.terms.len();
        let count = |finder: &mut Finder, stretch: &Stretch<'_>, stop: &dyn Fn() -> bool| {
            let mut census = Self::new(terms);
            let extent =
                scan::scan(stretch.lines(), Some(matcher), stop, stream::BLOCK, |segment| {
                    for hit in matcher.find(finder, segment.text, escaped) {
                        census.tallies[hit.term].add(segment, hit);
                    }
                })?;
            Ok((census, extent))
        };
        let stretches = Stretches::of(content, stretches::STRETCH);
        stretches.each(expired, Finder::default, count, |_, census| self.add(&census))
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.units += other.units;
        self.is_whole &= other.is_whole;
        for (tally, more) in self.tallies.iter_mut().zip(&other.tallies) {
            tally.inside += more.inside;
            tally.lines += more.lines;
            if let Some(beginning) = &more.beginning {
                tally.narrow(beginning);
            }
            tally.joint = match (tally.joint, more.joint) {
                (Some(one), Some(other)) if one != other => Some(Joint::Varies),
                (one, other) => one.or(other),
            };
        }
    }
}

impl Tally {
    fn narrow(&mut self, form: &[u8]) {
        let Some(known) = &mut self.beginning else {
            self.beginning = Some(form.to_ascii_lowercase());
            return;
        };
        let same =
            known.iter().zip(form).take_while(|(one, other)| one.eq_ignore_ascii_case(other));
        let length = same.count();
        known.truncate(length);
    }

    fn add(&mut self, segment: &Segment<'_>, hit: &Hit) {
        let unit = (segment.line, (segment.column + hit.start as u64) / UNIT);
        let inside = hit.fit == Fit::Inside;
        if self.unit != Some((unit.0, unit.1, inside)) {
            self.unit = Some((unit.0, unit.1, inside));
            if inside { self.inside += 1 } else { self.lines += 1 }
        }
        let text = &segment.text[hit.start..hit.end];
        if !inside {
            self.narrow(text);
        }
        let joint = text.iter().find(|byte| byte.is_ascii() && !byte.is_ascii_alphanumeric());
        let joint = joint.map_or(Joint::Varies, |byte| Joint::Always(*byte));
        match self.joint {
            None => self.joint = Some(joint),
            Some(known) if known != joint => self.joint = Some(Joint::Varies),
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::term::Term;

    fn lines(text: &str, most: u64) -> (Vec<u64>, bool) {
        let terms = ["disk", "rare"].iter().map(|word| Term::new(word, 0).unwrap()).collect();
        let matcher = Matcher::new(terms, |_| true);
        let content = text.as_bytes().to_vec();
        let census = Census::take(&content, &matcher, false, most, &|| false).unwrap();
        (census.tallies.iter().map(|tally| tally.lines).collect(), census.is_whole)
    }

    #[test]
    fn words_are_counted_once_a_line() {
        assert_eq!(lines("disk disks\nrare\n\ndisk\n", MOST_BYTES), (vec![2, 1], true));
    }

    #[test]
    fn what_is_frequent_is_counted_at_the_start_only() {
        let text = "a disk\n".repeat(1600) + "rare\n";
        let most = text.len() as u64;
        assert_eq!(lines(&text, most), (vec![100 * 16, 1], true));
        assert!(!lines(&text, most - 7).1);
        assert_eq!(lines(&text, most / 2), (vec![50 * 16, 0], false));
    }
}
