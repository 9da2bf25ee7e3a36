//! The lines that support an answer: their numbers and their text. Quotes in an answer that do not
//! occur in the document are marked.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::extract::Document;
use crate::extract::look::{LineForm, cut, spelt};

const SHOWN: usize = 20;
const NAMED: usize = 1000;
const NONE: [&str; 3] = ["", "none", "None"];

/// Splits off the last line of an answer if it has the form `Lines: 12, 40-42`. Returns the
/// remaining answer, and the numbers. A line with other content, such as `Lines: 85.7 %`, is kept.
pub(super) fn split_off_lines(answer: &str) -> (String, Vec<u64>) {
    let (text, last) = answer.rsplit_once('\n').unwrap_or(("", answer));
    let last = last.trim().trim_matches('*');
    let Some(numbers) = last.strip_prefix("Lines:").or_else(|| last.strip_prefix("Line:")) else {
        return (answer.trim().to_owned(), Vec::new());
    };
    let (mut lines, mut says_more) = (Vec::new(), false);
    for range in numbers.split(',').map(|range| range.trim().trim_matches('*')) {
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (number(first), number(last));
        says_more |= (first.is_none() || last.is_none()) && !NONE.contains(&range);
        if let Some(first) = first {
            let last = last.unwrap_or(first);
            lines.extend((first..=last).take(NAMED.saturating_sub(lines.len())));
        }
    }
    let text = if says_more { answer } else { text };
    (text.trim().to_owned(), lines)
}

/// Returns the text that is printed below an answer: its line numbers in the format of `X.lines/`,
/// and the text of these lines. Returns an empty string if there are no lines.
pub(super) fn printed(document: &dyn Document, form: LineForm, lines: &[u64]) -> String {
    let lines: BTreeSet<u64> = lines.iter().copied().collect();
    if lines.is_empty() {
        return String::new();
    }
    let ranges = ranges(&lines);
    let mut text = String::new();
    let named: Vec<String> = ranges.iter().map(|(first, last)| range(*first, *last)).collect();
    let label = if form == LineForm::Plain { "Lines" } else { "Lines of the readable form" };
    let _ = writeln!(text, "{label}: {}", named.join(", "));
    let mut left = SHOWN;
    for (first, last) in ranges {
        let last_shown = last.min(first.saturating_add(left as u64 - 1));
        left = left.saturating_sub((last_shown - first) as usize + 1);
        write_range(&mut text, document, form, (first, last_shown));
        if left == 0 {
            break;
        }
    }
    if lines.len() > SHOWN {
        let _ = writeln!(text, "({} more lines)", lines.len() - SHOWN);
    }
    text.trim_end().to_owned()
}

fn write_range(
    text: &mut String,
    document: &dyn Document,
    form: LineForm,
    (first, last): (u64, u64),
) {
    let shown = document.view(&format!("{}lines/{}", form.prefix(), range(first, last)));
    let shown = shown.unwrap_or_default();
    let mut printed = first;
    for (number, line) in (first..=last).zip(shown.lines()) {
        let _ = writeln!(text, "{number}: {}", cut(line));
        printed = number + 1;
    }
    if printed <= last {
        let _ = writeln!(text, "{} (not found in the output)", range(printed, last));
    }
}

fn ranges(lines: &BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for line in lines {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *line => *last = *line,
            _ => ranges.push((*line, *line)),
        }
    }
    ranges
}

fn range(first: u64, last: u64) -> String {
    if first == last { first.to_string() } else { format!("{first}-{last}") }
}

/// Minimum number of characters of a quote that is looked up. Shorter quotes are names, or occur
/// everywhere.
const LEAST: usize = 6;
const MOST: usize = 400;
const QUOTES: usize = 20;
const MARK: &str = " (not found in the output)";

/// An answer with a mark after each quote that does not occur in the document. For each quote that
/// occurs, `lines` has the first line that contains it. `quotes` is the number of quotes that were
/// looked up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CheckedQuotes {
    pub(super) text: String,
    pub(super) lines: Vec<u64>,
    pub(super) quotes: usize,
}

/// Looks up the parts of an answer that are in backticks or double quotes.
pub(super) fn checked(document: &dyn Document, form: LineForm, answer: &str) -> CheckedQuotes {
    let mut checked = CheckedQuotes::default();
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

/// Searches the document for the lines of an answer. For each line that occurs there, returns the
/// number of the first line of the document that contains it.
pub(super) fn copied_lines(document: &dyn Document, form: LineForm, answer: &str) -> Vec<u64> {
    let lines = answer.lines().map(str::trim);
    let lines = lines.filter(|line| (LEAST..=MOST).contains(&line.chars().count()));
    lines.take(QUOTES).filter_map(|line| line_of(document, form, line)).collect()
}

/// Splits `text` at the end of its first quote. Returns the text up to this position, the quote,
/// and the rest.
fn next_quote(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    while let Some(start) = text[from..].find(['`', '"']).map(|at| from + at) {
        let mark = &text[start..=start];
        let inside = start + 1;
        // A quote must end on the line where it begins.
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
    fn numbers_are_split_off() {
        let split = |text: &str| split_off_lines(text);
        assert_eq!(split("yes\nLines: 3, 7-9"), ("yes".to_owned(), vec![3, 7, 8, 9]));
        assert_eq!(split("Lines: 3"), (String::new(), vec![3]));
        assert_eq!(split("yes\nno"), ("yes\nno".to_owned(), vec![]));
        assert_eq!(split("yes\nLines: none"), ("yes".to_owned(), vec![]));
        assert_eq!(split("yes\n**Lines: 1-99999999999**").1.len(), NAMED);
        for whole in ["Lines: 85.7 %", "covered\nLines: 12 of 14", "a\nLines: see above"] {
            assert_eq!(split(whole), (whole.to_owned(), vec![]), "{whole}");
        }
        assert_eq!(split("a\nLines: 3, 7 and 9"), ("a\nLines: 3, 7 and 9".to_owned(), vec![3]));
    }

    #[test]
    fn neighbours_are_a_range() {
        assert_eq!(ranges(&[7, 4, 5, 9].into_iter().collect()), [(4, 5), (7, 7), (9, 9)]);
    }

    #[test]
    fn quotes_are_what_stands_between_marks() {
        let (before, quote, after) = next_quote("it says `disk full` there").unwrap();
        assert_eq!((before, quote, after), ("it says `disk full`", "disk full", " there"));
        assert!(next_quote("`short` and \"a\"").is_none());
        assert!(next_quote("an apostrophe's no quote, and \" alone is none").is_none());
        assert_eq!(next_quote("`a b\n`long enough`").unwrap().1, "long enough");
    }
}
