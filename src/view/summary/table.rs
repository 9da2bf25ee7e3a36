use std::io;

use crate::clean;
use crate::number::{counted, grouped};
use ctxfs_core::model::Subject;

// Bytes at the start that are examined.
const START: usize = 16 << 10;
// At most this many rows are examined, and a table has at least this many.
const ROWS: usize = 60;
const FEWEST: usize = 5;
// For the names of all columns.
const NAMES_CHARS: usize = 300;
// For the name of one column.
const NAME_BYTES: usize = 60;

/// Returns `columns: id, name, state (8,111 rows)` for comma-separated values and the like.
pub(super) fn columns(subject: &Subject<'_>) -> io::Result<Option<String>> {
    let bytes = subject.content.bytes(0, START)?;
    let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |end| end + 1);
    let Some(names) = names(&bytes[..whole]) else { return Ok(None) };
    let rows = counted(subject.analysis.lines.saturating_sub(1), "row");
    let names = clean::clean(names.join(", ").as_bytes(), NAMES_CHARS, usize::MAX).text;
    Ok(Some(format!("columns: {names} ({rows})")))
}

/// Returns `statuses: 335 x 200, 24 x 404, 2 x 502` for an access log.
pub(super) fn statuses(subject: &Subject<'_>) -> Option<String> {
    let statuses = &subject.analysis.statuses;
    let told = statuses.iter().map(|(status, count)| format!("{} x {status}", grouped(*count)));
    let told = told.collect::<Vec<String>>().join(", ");
    (!told.is_empty()).then(|| format!("statuses: {told}"))
}

// The names of the columns, if all rows that begin on a line have as many fields.
fn names(bytes: &[u8]) -> Option<Vec<String>> {
    let text = str::from_utf8(bytes).ok()?;
    let mut lines = text.lines().take(ROWS);
    let header = lines.next()?;
    let separator = [',', '\t', ';'].into_iter().max_by_key(|c| header.matches(*c).count())?;
    let names: Vec<String> =
        header.split(separator).map(|name| name.trim().trim_matches('"').to_owned()).collect();
    let rows: Vec<usize> = lines.map(|line| fields(line, separator)).collect();
    let is_table = names.len() >= 2
        && names.iter().all(|name| is_name(name))
        && rows.len() >= FEWEST
        && rows.iter().all(|fields| *fields == names.len());
    is_table.then_some(names)
}

fn is_name(name: &str) -> bool {
    let starts = name.chars().next().is_some_and(|first| first.is_alphabetic() || first == '_');
    starts && name.len() <= NAME_BYTES && !name.contains(['(', '{', '=', '"'])
}

fn fields(row: &str, separator: char) -> usize {
    let mut quoted = false;
    let mut is_separator = |c: char| {
        quoted ^= c == '"';
        c == separator && !quoted
    };
    1 + row.chars().filter(|c| is_separator(*c)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_columns() {
        let table = |header: &str, row: &str| format!("{header}\n{}", format!("{row}\n").repeat(9));
        let cases = [
            (table("id,name,\"the state\"", "1,\"a, b\",x"), Some("id|name|the state")),
            (table("id\tname", "1\ta,b"), Some("id|name")),
            (table("id;name", "1;a"), Some("id|name")),
            (table("id,name", "1,a,b"), None),
            (table("1,2", "1,2"), None),
            (table("x = f(a, b)", "x = f(a, b)"), None),
            (table("A sentence", "A sentence"), None),
            ("id,name\n1,2\n".to_owned(), None),
        ];
        for (text, expected) in cases {
            let found = names(text.as_bytes()).map(|names| names.join("|"));
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
