//! Quotes in an answer, looked up in the document: an invention becomes visible.

use crate::extract::Document;
use crate::extract::look::{LineForm, spelt};

/// The least characters of a quote: shorter ones are names of things, or occur anywhere.
const LEAST: usize = 6;
/// The most characters of a quote that is looked up.
const MOST: usize = 400;
/// The most quotes of an answer that are looked up.
const QUOTES: usize = 20;
/// The mark of a quote that does not occur.
const MARK: &str = " (not found in the output)";

/// The outcome of looking quotes up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Checked {
    /// The answer, with a mark behind each quote that does not occur.
    pub(super) text: String,
    /// The first line of each quote that does.
    pub(super) lines: Vec<u64>,
    /// The number of quotes that were looked up.
    pub(super) quotes: usize,
}

/// Looks up what stands in an answer between backticks or double quotes.
pub(super) fn checked(document: &dyn Document, form: LineForm, answer: &str) -> Checked {
    let mut checked = Checked::default();
    let mut rest = answer;
    while let Some((before, quote, after)) = next_quote(rest) {
        checked.text.push_str(before);
        if checked.quotes < QUOTES {
            checked.quotes += 1;
            match line_of(document, form, quote) {
                Some(line) => checked.lines.push(line),
                None => checked.text.push_str(MARK),
            }
        }
        rest = after;
    }
    checked.text.push_str(rest);
    checked
}

/// Returns the first line of the document that has each line of an answer, where one has.
pub(super) fn copied_lines(document: &dyn Document, form: LineForm, answer: &str) -> Vec<u64> {
    let lines = answer.lines().map(str::trim);
    let lines = lines.filter(|line| (LEAST..=MOST).contains(&line.chars().count()));
    lines.take(QUOTES).filter_map(|line| line_of(document, form, line)).collect()
}

/// Returns the text up to the end of the first quote, the quote, and the rest.
fn next_quote(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(start) = text[from..].find(['`', '"']).map(|at| from + at) {
        let mark = &text[start..=start];
        let inside = start + 1;
        // A quote ends in its line.
        let line = text[inside..].lines().next().unwrap_or_default();
        let Some(quote) = line.find(mark).map(|end| &line[..end]) else {
            from = inside;
            continue;
        };
        let end = inside + quote.len();
        if (LEAST..=MOST).contains(&quote.chars().count()) {
            return Some((&text[..=end], quote, &text[end + 1..]));
        }
        from = end + 1;
    }
    None
}

/// Returns the first line that has a quote.
fn line_of(document: &dyn Document, form: LineForm, quote: &str) -> Option<u64> {
    let view = format!("{}grep/-F -m1 -e {}", form.prefix(), spelt(quote));
    let text = document.view(&view).ok()?;
    let line = text.lines().find(|line| !line.starts_with('#'))?;
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    line[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_what_stands_between_marks() {
        let (before, quote, after) = next_quote("it says `disk full` there").unwrap();
        assert_eq!((before, quote, after), ("it says `disk full`", "disk full", " there"));
        assert!(next_quote("`short` and \"a\"").is_none());
        assert!(next_quote("an apostrophe's no quote, and \" alone is none").is_none());
        assert_eq!(next_quote("`a b\n`long enough`").unwrap().1, "long enough");
    }
}
