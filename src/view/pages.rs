//! `.pages/<number>`: the whole artifact, in parts for readers with a size limit.
//!
//! A page ends near a multiple of [`STEP`] and does not depend on the pages before it. Two small
//! reads are therefore enough to find a page, and the number of pages follows from the size of the
//! artifact. The pages joined in order equal the artifact byte for byte.

use std::ffi::OsStr;
use std::io::Write;
use std::{fmt, io};

use crate::{RenderError, Rendered, scan};
use ctxfs_core::model::{Content, Limits, REDACTION_BYTES, Subject};

// Average size of a page in bytes.
const STEP: u64 = 5000;
// Maximum distance in bytes between the end of a page and the multiple of `STEP` after it. A page
// ends at the last newline within this distance. Lines shorter than this are therefore never split,
// and no page exceeds the size limit, even with a line that counts secrets.
const BACK: u64 = (Limits::STAND_IN_BYTES - REDACTION_BYTES) as u64 - STEP;
// Minimum number of digits in a name.
const DIGITS: usize = 4;

/// The number of a page, from 1. Printed with at least four digits: `0001`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageNumber(u64);

impl PageNumber {
    /// Returns the page that follows the first `pages` pages.
    pub fn after(pages: u64) -> Self {
        Self(pages + 1)
    }

    /// Returns the number of pages of an artifact with `length` bytes. It is 0 for an empty
    /// artifact.
    pub fn count(length: u64) -> u64 {
        length.div_ceil(STEP)
    }

    // Parses a name. Each number has only one valid name.
    pub(super) fn parse(name: &OsStr) -> Option<Self> {
        let number = Self(name.to_str()?.parse().ok()?);
        (number.0 > 0 && name == number.to_string().as_str()).then_some(number)
    }
}

impl fmt::Display for PageNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0DIGITS$}", self.0)
    }
}

pub(super) fn render(
    subject: &Subject<'_>,
    page: PageNumber,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let content = subject.content;
    if page.0 > PageNumber::count(content.len()) {
        return Err(RenderError::NotFound);
    }
    let start = boundary(content, page.0 - 1)?;
    let end = boundary(content, page.0)?;
    out.write_all(&content.bytes(start, (end - start) as usize)?)?;
    Ok(Rendered::plain())
}

/// Returns the offset at which the page after the first `pages` pages begins. It is after the last
/// newline in the [`BACK`] bytes before `pages * STEP`. Without such a newline, it is the last
/// character boundary at or before `pages * STEP`.
fn boundary(content: &dyn Content, pages: u64) -> io::Result<u64> {
    let near = pages * STEP;
    if near == 0 || near >= content.len() {
        return Ok(near.min(content.len()));
    }
    let from = near - BACK;
    // The first byte that is read may be a newline directly before the earliest boundary. The last
    // byte that is read follows the latest boundary.
    let bytes = content.bytes(from - 1, BACK as usize + 2)?;
    let before = &bytes[..bytes.len().min(BACK as usize + 1)];
    let at = match memchr::memrchr(b'\n', before) {
        Some(at) => at + 1,
        None => scan::char_floor(&bytes, before.len()),
    };
    Ok(from - 1 + at as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use crate::View;
    use crate::fixture::Fixture;

    /// Returns all pages as a reader fetches them.
    fn pages(bytes: impl Into<Vec<u8>>) -> Vec<Vec<u8>> {
        let fixture = Fixture::new(bytes);
        let count = PageNumber::count(fixture.bytes.len() as u64);
        let page = |number| fixture.render(&View::Page(PageNumber::after(number)));
        assert!(matches!(page(count), Err(RenderError::NotFound)));
        (0..count).map(|number| page(number).unwrap().0).collect()
    }

    fn sizes(pages: &[Vec<u8>]) -> Vec<usize> {
        pages.iter().map(Vec::len).collect()
    }

    #[test]
    fn names() {
        let parse = |name: &str| PageNumber::parse(OsStr::new(name)).map(|page| page.0);
        assert_eq!(parse("0001"), Some(1));
        assert_eq!(parse("9999"), Some(9999));
        assert_eq!(parse("10000"), Some(10_000));
        assert_eq!(parse(&u64::MAX.to_string()), Some(u64::MAX));
        for name in ["", "0", "1", "001", "0000", "00001", "+001", "-001", "1e03", "0001 ", "x"] {
            assert_eq!(parse(name), None, "{name}");
        }
        assert_eq!(PageNumber::after(0).to_string(), "0001");
        assert_eq!(PageNumber::after(12_344).to_string(), "12345");
    }

    #[test]
    fn as_many_as_the_texts_of_the_stand_ins_say() {
        assert_eq!(PageNumber::count(412_908), 83);
        assert_eq!([0, 1, 5000, 5001].map(PageNumber::count), [0, 1, 1, 2]);
    }

    #[test]
    fn a_page_ends_at_a_line_where_it_can() {
        let text = "a line of thirty bytes or so.\n".repeat(1000);
        let found = pages(text.as_str());
        assert!(found.iter().all(|page| page.ends_with(b"\n")), "{:?}", sizes(&found));
        assert_eq!(found.concat(), text.as_bytes());
        // The longest line that is never split.
        let line = format!("{}\n", "x".repeat(BACK as usize - 1));
        assert!(pages(line.repeat(100)).iter().all(|page| page.ends_with(b"\n")));
    }

    #[test]
    fn as_the_artifact_grows_only_its_last_page_changes() {
        let lines: Vec<String> = (0..4000).map(|n| "x".repeat(n % 97)).collect();
        let text = lines.join("\n");
        let grown = pages(text.as_str());
        for length in (0..text.len()).step_by(977) {
            let before = pages(&text[..length]);
            let all_but_last = before.len().saturating_sub(1);
            assert_eq!(before[..all_but_last], grown[..all_but_last], "{length}");
        }
    }

    #[test]
    fn a_long_line_is_cut_between_characters() {
        for character in ["x", "\u{e9}", "\u{20ac}", "\u{1f600}"] {
            let text = character.repeat(10_000);
            let pages = pages(text.as_str());
            assert!(pages.iter().all(|page| str::from_utf8(page).is_ok()), "{character}");
            assert!(sizes(&pages).iter().all(|size| *size <= Limits::STAND_IN_BYTES));
            assert_eq!(pages.concat(), text.as_bytes());
        }
    }

    /// Uses the largest possible page: the line before it ends as early as possible, and no line
    /// ends in it.
    #[test]
    fn no_page_passes_the_limit() {
        let mut text = vec![b'x'; 20_000];
        text[(STEP - BACK) as usize - 1] = b'\n';
        assert_eq!(sizes(&pages(text.clone()))[..2], [(STEP - BACK) as usize, 5888]);
        text[(STEP - BACK) as usize - 1] = b'x';
        text[(STEP - BACK) as usize - 2] = b'\n';
        assert_eq!(sizes(&pages(text))[..2], [5000, 5000]);
    }

    #[test]
    fn bytes_that_are_no_text_are_not_shown() {
        let mut text = vec![b'x'; 200_000];
        text[150_001] = 0;
        let mut fixture = Fixture::new(text);
        // The first bytes alone decide whether it is text.
        let page = |number| fixture.text(&View::Page(PageNumber(number)));
        assert_eq!((page(30).len(), page(31).len()), (5000, 5000));
        fixture.analysis.encoding = ctxfs_core::model::Encoding::Binary;
        assert!(fixture.text(&View::Page(PageNumber(30))).starts_with("# not text"));
    }

    proptest! {
        #[test]
        fn together_they_are_the_artifact(
            lines in proptest::collection::vec((0usize..3000, 0usize..4), 0..20),
            invalid in proptest::collection::vec(0usize..30_000, 0..4),
        ) {
            let characters = ["x", "\u{e9}", "\u{20ac}", "\u{1f600}"];
            let line = |(length, which): &(usize, usize)| characters[*which].repeat(*length) + "\n";
            let mut bytes = lines.iter().map(line).collect::<String>().into_bytes();
            for at in invalid {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = 0x80;
                }
            }
            let pages = pages(bytes.clone());
            prop_assert!(pages.iter().all(|page| (1..=Limits::STAND_IN_BYTES).contains(&page.len())));
            prop_assert_eq!(pages.concat(), bytes);
        }
    }
}
