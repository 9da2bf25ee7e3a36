use std::collections::HashMap;

// At most this many lines are looked at, and a listing has at least this many.
const FEWEST: usize = 10;
const MOST: usize = 200;
// Per cent of the lines that must be alike.
const ALIKE: usize = 90;
// Columns beside the first that all lines must have.
const COLUMNS: usize = 2;

/// Returns true if `lines`, with which a text begins, are those of a listing: matches of a search,
/// or aligned columns.
pub(super) fn is_listing(lines: &[&[u8]]) -> bool {
    let filled = || lines.iter().take(MOST).filter(|line| !line.trim_ascii().is_empty());
    let enough = (filled().count() * ALIKE).div_ceil(100).max(FEWEST);
    filled().filter(|line| is_match(line)).count() >= enough
        || columns(filled()).into_values().filter(|count| *count >= enough).count() >= COLUMNS
}

// A match as `grep -n` prints it: `src/main.rs:17:text`.
fn is_match(line: &[u8]) -> bool {
    let mut fields = line.split(|byte| *byte == b':');
    let (name, number) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
    let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    let is_name =
        !name.is_empty() && !name.contains(&b' ') && name.iter().any(u8::is_ascii_alphabetic);
    is_name && is_number && fields.next().is_some()
}

/// Returns the offsets at which text begins after two or more blanks, each with the number of
/// lines.
fn columns<'l>(lines: impl Iterator<Item = &'l &'l [u8]>) -> HashMap<usize, usize> {
    let mut counts = HashMap::new();
    for line in lines {
        let first = line.iter().position(|byte| *byte != b' ').unwrap_or(line.len());
        for at in first + 2..line.len() {
            if line[at] != b' ' && line[at - 2..at] == *b"  " {
                *counts.entry(at).or_default() += 1;
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_a_listing(text: &str) -> bool {
        is_listing(&text.lines().map(str::as_bytes).collect::<Vec<_>>())
    }

    #[test]
    fn searches_and_columns_are_listings() {
        let lines = |line: &dyn Fn(usize) -> String| (0..20).map(line).collect::<String>();
        assert!(is_a_listing(&lines(&|n| format!("src/a{n}.rs:{n}:fn a() {{}}\n"))));
        assert!(is_a_listing(&lines(&|n| format!("ii  lib{n:<20} 1.{n:<20} a library\n"))));
        assert!(!is_a_listing(&lines(&|n| format!("12:{n:02}:00 INFO  [main] started\n"))));
        assert!(!is_a_listing(&lines(&|n| format!("    a man page's text  {}\n", "x ".repeat(n)))));
        assert!(!is_a_listing("a.rs:1:x\nb.rs:2:y\n"));
    }
}
