//! Tables: comma-separated values or aligned columns below a header, and listings without one.

use std::io;

use crate::find::listing;
use crate::find::passage::{ShownLine, SourceLine};
use ctxfs_core::model::Content;

// Bytes at the start that tell whether a text is a table.
const SNIFFED: usize = 16 << 10;
// At most this many rows are looked at, and a table has at least this many.
const ROWS: usize = 20;
const FEWEST: usize = 2;
// The most characters of the name of a column.
const NAME: usize = 64;

/// A text of which each line stands for itself.
pub(super) struct Table {
    pub(super) header: Option<ShownLine>,
}

pub(super) fn of(content: &dyn Content) -> io::Result<Option<Table>> {
    let bytes = content.bytes(0, SNIFFED)?;
    let ends = bytes.len() as u64 == content.len();
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| !ends || last.is_empty()) {
        lines.pop();
    }
    let Some((header, rows)) = lines.split_first() else { return Ok(None) };
    let rows = &rows[..rows.len().min(ROWS)];
    let is_table = rows.len() >= FEWEST && (is_separated(header, rows) || is_aligned(header));
    let line = SourceLine { line: 1, offset: 0, column: 0, text: header, ends: true };
    let header = is_table.then(|| line.shown(None));
    Ok((is_table || listing::is_listing(&lines)).then_some(Table { header }))
}

/// Returns true if header and rows have the same number of fields, with the same separators.
fn is_separated(header: &[u8], rows: &[&[u8]]) -> bool {
    b",\t;|".iter().any(|separator| {
        let count = fields(header, *separator);
        let same = rows.iter().filter(|row| fields(row, *separator) == count).count();
        let names = header.split(|byte| byte == separator);
        let is_name = |name: &[u8]| {
            name.len() <= NAME && name.first().is_some_and(|byte| !byte.is_ascii_digit())
        };
        count > 1 && same * 10 >= rows.len() * 9 && names.clone().all(is_name)
    })
}

fn fields(row: &[u8], separator: u8) -> usize {
    let mut quoted = false;
    let is_end = |byte: &&u8| {
        quoted ^= **byte == b'"';
        !quoted && **byte == separator
    };
    row.iter().filter(is_end).count() + 1
}

/// Returns true for the header of aligned columns: `NAME    READY   STATUS`.
fn is_aligned(header: &[u8]) -> bool {
    let Ok(text) = str::from_utf8(header) else { return false };
    let columns = text.split("  ").filter(|name| !name.trim().is_empty());
    let is_name = |name: &str| {
        let name = name.trim();
        name.len() <= NAME
            && !name.chars().any(char::is_lowercase)
            && name.chars().any(char::is_uppercase)
    };
    columns.clone().count() > 2 && columns.clone().all(is_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_header(text: &str) -> bool {
        of(&text.as_bytes().to_vec()).unwrap().is_some_and(|table| table.header.is_some())
    }

    #[test]
    fn tables_have_headers() {
        assert!(has_header("id,name\n1,x\n2,\"a,b\"\n3,z\n"));
        assert!(has_header("id\tname\n1\tx\n2\ty\n"));
        assert!(has_header("NAME   READY   RESTARTS AGE\na   1/1   0\nb   1/1   0\n"));
        assert!(!has_header("one, two\nthree\nfour, five\n"));
        assert!(!has_header("2024-01-01,3\n2024-01-02,4\n2024-01-03,4\n"));
        assert!(!has_header("a,b\n"));
        assert!(!has_header(""));
    }
}
