//! Tables (comma-separated values or aligned columns below a header), and listings without a
//! header.

use std::collections::HashMap;
use std::io;

use crate::find::passage::{ShownLine, SourceLine};
use ctxfs_core::model::Content;
use ctxfs_core::records::RecordForm;

// Number of bytes at the start that determine whether a text is a listing.
const LISTING_BYTES: usize = 16 << 10;
// Minimum number of lines in a listing, and maximum number of lines that are examined.
const MIN_LISTING_LINES: usize = 10;
const MAX_LISTING_LINES: usize = 200;
// Minimum percentage of lines that must be alike.
const ALIKE_PERCENT: usize = 90;
// Minimum number of columns, beside the first, that all lines must have.
const MIN_COLUMNS: usize = 2;

pub(super) struct Table {
    pub(super) header: Option<ShownLine>,
}

pub(super) fn of(content: &dyn Content, form: &RecordForm) -> io::Result<Option<Table>> {
    if let RecordForm::Rows(rows) = form {
        let (start, end) = rows.header();
        let text = content.bytes(start, (end - start) as usize)?;
        let (line, column) = (rows.header_line(), 0);
        let header = SourceLine { line, offset: start, column, text: &text, ends: true };
        return Ok(Some(Table { header: Some(header.shown(None)) }));
    }
    let bytes = content.bytes(0, LISTING_BYTES)?;
    let ends = bytes.len() as u64 == content.len();
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| !ends || last.is_empty()) {
        lines.pop();
    }
    Ok(is_listing(&lines).then_some(Table { header: None }))
}

/// Returns true if `lines`, the first lines of a text, are a listing: search results or aligned
/// columns.
fn is_listing(lines: &[&[u8]]) -> bool {
    let filled =
        || lines.iter().take(MAX_LISTING_LINES).filter(|line| !line.trim_ascii().is_empty());
    let enough = (filled().count() * ALIKE_PERCENT).div_ceil(100).max(MIN_LISTING_LINES);
    filled().filter(|line| is_match(line)).count() >= enough
        || columns(filled().copied()).into_values().filter(|count| *count >= enough).count()
            >= MIN_COLUMNS
}

// Returns true for a search result as `grep -n` prints it: `src/main.rs:17:text`.
fn is_match(line: &[u8]) -> bool {
    let mut fields = line.split(|byte| *byte == b':');
    let (name, number) = (fields.next().unwrap_or_default(), fields.next().unwrap_or_default());
    let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
    let is_name =
        !name.is_empty() && !name.contains(&b' ') && name.iter().any(u8::is_ascii_alphabetic);
    is_name && is_number && fields.next().is_some()
}

/// Counts, for each offset, the lines in which text begins there after two or more blanks.
fn columns<'l>(lines: impl Iterator<Item = &'l [u8]>) -> HashMap<usize, usize> {
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

    fn has_header(text: &str) -> bool {
        let content = text.as_bytes().to_vec();
        let form = RecordForm::of(&content).unwrap();
        of(&content, &form).unwrap().is_some_and(|table| table.header.is_some())
    }

    #[test]
    fn tables_have_headers() {
        assert!(has_header("id,name\n1,x\n2,\"a,b\"\n3,z\n"));
        assert!(has_header("id\tname\n1\tx\n2\ty\n"));
        assert!(has_header("NAME   READY   AGE\na      1/1     1d\nb      1/1     2d\n"));
        assert!(!has_header("one, two\nthree\nfour, five\n"));
        assert!(!has_header("2024-01-01,3\n2024-01-02,4\n2024-01-03,4\n"));
        assert!(!has_header("a,b\n"));
        assert!(!has_header(""));
    }

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
