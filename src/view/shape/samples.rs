use crate::clean::Cleaned;
use crate::{clean, scan};

// At one path.
const MOST: usize = 3;
// Characters that are shown of a sample.
const CHARS: usize = 40;

/// The first distinct values at a path, as spelled. `more` is true if there are others.
#[derive(Debug, Default)]
pub(super) struct Samples {
    kept: Vec<ValueSample>,
    more: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ValueSample {
    // The first bytes.
    start: Box<[u8]>,
    // Bytes in all.
    length: u64,
    quoted: bool,
}

impl Samples {
    /// Adds a value of `length` bytes that begins with `start`. A string is `quoted`.
    pub(super) fn push(&mut self, start: &[u8], length: u64, quoted: bool) {
        if self.more {
            return;
        }
        let same = |kept: &ValueSample| kept.length == length && *kept.start == *start;
        if self.kept.iter().any(same) {
            return;
        }
        if self.kept.len() == MOST {
            self.more = true;
        } else {
            self.kept.push(ValueSample { start: start.into(), length, quoted });
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        for sample in &other.kept {
            self.push(&sample.start, sample.length, sample.quoted);
        }
        self.more |= other.more;
    }

    /// Returns true if there are no other values.
    pub(super) fn are_all(&self) -> bool {
        !self.more
    }

    /// Returns `"a", "b", ...`
    pub(super) fn shown(&self) -> String {
        let shown = self.kept.iter().map(ValueSample::shown).collect::<Vec<String>>().join(", ");
        if self.more { format!("{shown}, ...") } else { shown }
    }
}

impl ValueSample {
    fn shown(&self) -> String {
        let valid = self.start.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let Cleaned { text, used } = clean::clean(valid.as_bytes(), CHARS, usize::MAX);
        let whole = used as u64 == self.length;
        let text = if whole { &text } else { without_cut_escape(&text) };
        let cut = if whole { "" } else { "..." };
        let quote = if self.quoted { "\"" } else { "" };
        format!("{quote}{text}{cut}{quote}")
    }
}

// Removes an escape at the end that may be incomplete.
fn without_cut_escape(text: &str) -> &str {
    let near = scan::char_floor(text.as_bytes(), text.len().saturating_sub(6));
    text[near..].rfind('\\').map_or(text, |at| &text[..near + at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_different_ones_are_kept() {
        let mut samples = Samples::default();
        for value in ["b", "a", "b", "a"] {
            samples.push(value.as_bytes(), 1, true);
        }
        assert_eq!(samples.shown(), "\"b\", \"a\"");
        for value in ["12", "13", "14"] {
            samples.push(value.as_bytes(), 2, false);
        }
        assert_eq!(samples.shown(), "\"b\", \"a\", 12, ...");
    }

    #[test]
    fn long_ones_are_cut() {
        let shown = |start: &str, length| {
            let mut samples = Samples::default();
            samples.push(start.as_bytes(), length, true);
            samples.shown()
        };
        assert_eq!(shown(&"x".repeat(50), 900), format!("\"{}...\"", "x".repeat(40)));
        assert_eq!(
            shown(&format!("{}\\u00e9", "x".repeat(36)), 42),
            format!("\"{}...\"", "x".repeat(36))
        );
        assert_eq!(shown("a\\n", 3), "\"a\\n\"");
    }
}
