//! The lines that an answer rests on: their numbers, and their text under the answer.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::extract::Document;
use crate::extract::look::{LineForm, cut};

/// The most lines that are printed under an answer.
const SHOWN: usize = 20;
/// The most numbers of lines that an answer names.
const NAMED: usize = 1000;
/// The words of a model that names no line.
const NONE: [&str; 3] = ["", "none", "None"];

/// Splits the last line off an answer, if it is `Lines: 12, 40-42`. Returns the numbers in it. A line
/// that says more, such as `Lines: 85.7 %`, stays.
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

/// Returns what stands under an answer: the numbers of its lines as `X.lines/` takes them, and
/// their text in the document. Empty if it names none.
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

/// Returns the ranges of neighbouring numbers.
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
}
