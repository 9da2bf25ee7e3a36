use std::io;

use crate::errors::around::Around;
use ctxfs_core::materialize::bare;
use ctxfs_core::model::{Content, ErrorLine};

const LINE_BYTES: usize = 4096;

/// An error line with the lines above and below it, as text to judge it by. Bytes that are not
/// UTF-8 are U+FFFD, and a long line lacks its end.
pub(crate) struct Surroundings {
    above: Option<String>,
    below: String,
}

impl Surroundings {
    pub(crate) fn read(content: &dyn Content, at: &ErrorLine) -> io::Result<Self> {
        let Around { above, below, .. } = Around::read(content, at.offset)?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Self { above: above.map(text), below: text(below) })
    }

    /// Returns the first line of `text` that contains `own`, with its neighbours.
    #[cfg(test)]
    pub(super) fn of(text: &str, own: &str) -> Self {
        let at = text.find(own).unwrap_or_else(|| panic!("{own:?} in {text}"));
        let offset = text[..at].rfind('\n').map_or(0, |newline| newline + 1) as u64;
        let rank = ctxfs_core::model::ErrorRank::Cause;
        let at = ErrorLine { line: 1, offset, length: 1, rank, times: 1, last: None };
        Self::read(&text.as_bytes().to_vec(), &at).unwrap()
    }

    pub(crate) fn own(&self) -> &str {
        self.below.split('\n').next().map_or("", judged)
    }

    /// Returns the line with the marks that other programs put before and after it.
    pub(crate) fn whole(&self) -> &str {
        self.below.split('\n').next().map_or("", cut)
    }

    /// Returns the lines above, the nearest first.
    pub(crate) fn above(&self) -> impl Iterator<Item = &str> {
        self.above.iter().flat_map(|above| above.rsplit('\n')).map(judged)
    }

    /// Returns the lines below, the nearest first.
    pub(crate) fn below(&self) -> impl Iterator<Item = &str> {
        self.below.split('\n').skip(1).map(judged)
    }
}

fn judged(line: &str) -> &str {
    let line = cut(line);
    str::from_utf8(bare(line.as_bytes())).unwrap_or(line)
}

fn cut(line: &str) -> &str {
    let line = line.strip_suffix('\r').unwrap_or(line);
    &line[..line.floor_char_boundary(LINE_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_lines_come_first() {
        let lines = Surroundings::of("a\nb\r\nc\nd\n\ne", "c");
        assert_eq!(lines.own(), "c");
        assert_eq!(lines.above().collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(lines.below().collect::<Vec<_>>(), ["d", "", "e"]);
        let lines = Surroundings::of("a\n", "a");
        assert_eq!((lines.own(), lines.above().count(), lines.below().count()), ("a", 0, 0));
    }

    #[test]
    fn lines_of_which_only_a_part_was_read_are_left_out() {
        let long = format!("{}\nb\nc\n{}", "x".repeat(40_000), "y".repeat(40_000));
        let lines = Surroundings::of(&long, "c");
        assert_eq!(lines.above().collect::<Vec<_>>(), ["b"]);
        assert_eq!(lines.below().count(), 0);
    }
}
