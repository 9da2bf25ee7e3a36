//! The rows of a table below a header: values that a separator divides, or aligned columns.

use std::borrow::Cow;

use crate::records::fields::Field;
use crate::records::record::Record;

/// Number of rows that are examined, and the minimum number of rows in a table.
const MAX_ROWS: usize = 20;
const MIN_ROWS: usize = 2;
/// Maximum length in bytes of the name of a column.
const NAME_BYTES: usize = 64;
/// A longer row is wide.
const ROW_BYTES: usize = 500;
/// Maximum length in bytes of a header of aligned columns.
const HEADER_BYTES: usize = 1000;
/// Number of rows that determine where aligned columns begin, and the number of rows of which one
/// may deviate.
const MAX_ALIGNED: usize = 2000;
const DEVIATING: usize = 40;
/// Maximum number of lines before the header. `dpkg -l` prints five.
const LINES_BEFORE: usize = 5;

/// The header of a table, and how its rows are divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowForm {
    names: Vec<String>,
    cells: Cells,
    /// The offsets of the header.
    header: (u64, u64),
    /// The number of the header's line, from 1.
    header_line: u64,
    /// True if one of the first rows has several lines, or is longer than `ROW_BYTES`.
    is_wide: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Cells {
    /// Values between separators, which may be in double quotes.
    Separated(u8),
    /// The offsets at which the columns begin. The last column extends to the end of the line.
    Aligned(Vec<usize>),
}

impl RowForm {
    pub(super) fn of(sample: &[u8], whole: bool) -> Option<Self> {
        let separated = b",\t;|".iter().find_map(|byte| Self::separated(sample, whole, *byte));
        separated.or_else(|| Self::aligned(sample, whole))
    }

    /// Returns the names of the columns, in order.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Returns the offsets of the header, without its newline.
    pub fn header(&self) -> (u64, u64) {
        self.header
    }

    /// Returns the number of the header's line, from 1.
    pub fn header_line(&self) -> u64 {
        self.header_line
    }

    /// Returns true if rows are too long to be read as lines, or have several lines.
    pub fn is_wide(&self) -> bool {
        self.is_wide
    }

    fn separated(sample: &[u8], whole: bool, separator: u8) -> Option<Self> {
        let (mut at, mut line, mut lines) = (0, 1, Vec::new());
        while at < sample.len() && lines.len() <= MAX_ROWS {
            let Some(length) = row_length(&sample[at..], whole) else { break };
            let row = &sample[at..at + length];
            let text = row.trim_ascii_end();
            if !text.is_empty() && !is_rule(text) && !is_footer(text, separator) {
                lines.push((text, at, line));
            }
            at += length;
            line += memchr::memchr_iter(b'\n', row).count() as u64;
        }
        let is_title = |(text, ..): &&(&[u8], usize, u64)| cells(text, separator).len() == 1;
        let titles = lines.iter().take(LINES_BEFORE).take_while(is_title).count();
        let (&(header, start, header_line), rows) = lines[titles..].split_first()?;
        let end = start + header.len();
        let is_wide = |(row, ..): &(&[u8], usize, u64)| {
            row.len() > ROW_BYTES || memchr::memchr(b'\n', row).is_some()
        };
        let is_wide = lines.iter().any(is_wide);
        let header = header.strip_prefix(b"\xef\xbb\xbf").unwrap_or(header);
        let names: Vec<String> = cells(header, separator).iter().map(|it| text(it.0)).collect();
        let same = rows.iter().filter(|it| cells(it.0, separator).len() == names.len()).count();
        let is_name = |name: &String| {
            name.len() <= NAME_BYTES && name.starts_with(|c: char| !c.is_ascii_digit())
        };
        let is_table = names.len() > 1
            && rows.len() >= MIN_ROWS
            && same * 10 >= rows.len() * 9
            && names.iter().all(is_name);
        is_table.then_some(Self {
            names,
            cells: Cells::Separated(separator),
            header: (start as u64, end as u64),
            header_line,
            is_wide,
        })
    }

    /// Returns the form of aligned columns below a header such as `NAME    READY   STATUS`.
    fn aligned(sample: &[u8], whole: bool) -> Option<Self> {
        let ends = whole && !sample.ends_with(b"\n");
        let sample = if ends { sample } else { &sample[..memchr::memrchr(b'\n', sample)?] };
        let lines = sample.split(|byte| *byte == b'\n').take(LINES_BEFORE + MAX_ALIGNED);
        let lines: Vec<&[u8]> = lines.collect();
        (0..lines.len().min(LINES_BEFORE)).find_map(|at| {
            let header = lines[at].trim_ascii_end();
            if !may_be_header(header) {
                return None;
            }
            let below = &lines[at + 1..];
            let is_filled = |line: &&&[u8]| !line.trim_ascii().is_empty() && !is_rule(line);
            let rows = below.iter().filter(is_filled).take(MAX_ALIGNED);
            let rows: Vec<&[u8]> = rows.copied().collect();
            let starts = columns(header, &rows)?;
            // Two columns alone could be anything, unless a rule is below the header.
            if starts.len() < 3 && !below.first().is_some_and(|line| is_rule(line)) {
                return None;
            }
            let names = aligned_cells(header, &starts).into_iter().map(|it| text(it.0)).collect();
            let before: usize = lines[..at].iter().map(|line| line.len() + 1).sum();
            Some(Self {
                names,
                cells: Cells::Aligned(starts),
                header: (before as u64, (before + header.len()) as u64),
                header_line: at as u64 + 1,
                is_wide: rows.iter().any(|row| row.len() > ROW_BYTES),
            })
        })
    }

    /// Returns the length of the first row of `bytes`, with its newline.
    pub(super) fn row_length(&self, bytes: &[u8], ends: bool) -> Option<usize> {
        match self.cells {
            Cells::Separated(_) => row_length(bytes, ends),
            Cells::Aligned(_) => crate::records::blocks::line(bytes, ends),
        }
    }

    /// Returns true unless the record is the header, a line above it, a rule or a footer.
    pub(super) fn is_row(&self, record: &Record<'_>) -> bool {
        let is_footer = || match self.cells {
            Cells::Separated(separator) => is_footer(record.text, separator),
            Cells::Aligned(_) => false,
        };
        record.start >= self.header.1 && !is_rule(record.text) && !is_footer()
    }

    /// Returns the fields of a row. Further values of a row that is longer than the header have no
    /// names.
    pub(super) fn fields(&self, row: &[u8]) -> Vec<Field> {
        let cells = match &self.cells {
            Cells::Separated(separator) => cells(row, *separator),
            Cells::Aligned(starts) => aligned_cells(row, starts),
        };
        let cells = cells.into_iter().enumerate();
        cells
            .map(|(at, (cell, place))| {
                let name = self.names.get(at).cloned().unwrap_or_default();
                Field::new(name, unquoted(cell).as_ref(), place)
            })
            .collect()
    }
}

/// Returns the length of the first row of `bytes`, with its newline. A newline in double quotes is
/// part of the row. A quote inside a value is no quotation.
fn row_length(bytes: &[u8], ends: bool) -> Option<usize> {
    let (mut at, mut is_quoted) = (0, false);
    while let Some(found) = memchr::memchr2(b'"', b'\n', bytes.get(at..)?) {
        at += found + 1;
        match bytes[at - 1] {
            b'"' if !is_quoted => is_quoted = at == 1 || b",\t;|\n ".contains(&bytes[at - 2]),
            b'"' if bytes.get(at) == Some(&b'"') => at += 1,
            b'"' => is_quoted = false,
            _ if !is_quoted => return Some(at),
            _ => {}
        }
    }
    (ends && !is_quoted).then_some(bytes.len())
}

/// Returns the values of a row with their places. Of a table with frames, `| a | b |`, the frame is
/// left out.
fn cells(row: &[u8], separator: u8) -> Vec<(&[u8], (usize, usize))> {
    let is_framed = separator == b'|' && row.first() == Some(&b'|') && row.len() > 1;
    let (mut at, end) = if is_framed {
        (1, row.len() - usize::from(row.last() == Some(&b'|')))
    } else {
        (0, row.len())
    };
    let mut cells = Vec::new();
    loop {
        let length = cell_length(&row[at..end], separator);
        cells.push((row[at..at + length].trim_ascii(), (at, at + length)));
        at += length + 1;
        if at > end {
            return cells;
        }
    }
}

fn cell_length(row: &[u8], separator: u8) -> usize {
    let start = row.iter().take_while(|byte| **byte == b' ').count();
    let mut from = 0;
    if row.get(start) == Some(&b'"') {
        // The end of the quotation is a quote that is not doubled.
        from = start + 1;
        while let Some(quote) = memchr::memchr(b'"', &row[from..]) {
            from += quote + 1;
            if row.get(from) != Some(&b'"') {
                break;
            }
            from += 1;
        }
    }
    memchr::memchr(separator, &row[from..]).map_or(row.len(), |length| from + length)
}

fn unquoted(cell: &[u8]) -> Cow<'_, [u8]> {
    match cell.strip_prefix(b"\"").and_then(|cell| cell.strip_suffix(b"\"")) {
        Some(inner) if memchr::memmem::find(inner, b"\"\"").is_some() => {
            Cow::Owned(bstr::ByteSlice::replace(inner, "\"\"", "\""))
        }
        Some(inner) => Cow::Borrowed(inner),
        None => Cow::Borrowed(cell),
    }
}

fn text(cell: &[u8]) -> String {
    String::from_utf8_lossy(&unquoted(cell.trim_ascii())).into_owned()
}

/// Returns true for a line below or above a table that is drawn with bars: `(2 rows)`.
fn is_footer(line: &[u8], separator: u8) -> bool {
    separator == b'|' && memchr::memchr(b'|', line).is_none()
}

/// Returns true for a line of a frame: `+-----+----+`.
fn is_rule(line: &[u8]) -> bool {
    let marks = line.iter().filter(|byte| b"-=+".contains(byte)).count();
    marks >= 3 && line.iter().all(|byte| b"-=+|: \t\r\n".contains(byte))
}

fn is_in_capitals(header: &[u8]) -> bool {
    let letters = header.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    let upper = header.iter().filter(|byte| byte.is_ascii_uppercase()).count();
    upper * 2 >= letters
}

/// Returns true if `line` may be the header of aligned columns: its names are in capitals, or have
/// gaps between them and no digits. The values must then have digits.
fn may_be_header(line: &[u8]) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_graphic() || *byte == b' ';
    let has_digit = || line.iter().any(u8::is_ascii_digit);
    let has_gaps = || memchr::memmem::find(line, b"  ").is_some();
    line.len() <= HEADER_BYTES
        && line.iter().all(is_name)
        && line.iter().any(u8::is_ascii_alphabetic)
        && (is_in_capitals(line) || has_gaps() && !has_digit())
}

/// Returns the offsets at which the columns of `rows` begin below `header`, at least two. A column
/// begins after a blank that the header and almost all rows have at the same offset.
fn columns(header: &[u8], rows: &[&[u8]]) -> Option<Vec<usize>> {
    let is_unlike = || rows.iter().all(|row| row.iter().any(u8::is_ascii_digit));
    if rows.len() < MIN_ROWS || !(is_in_capitals(header) || is_unlike()) {
        return None;
    }
    let is_filled = |row: &[u8], at: usize| row.get(at).is_some_and(|byte| *byte != b' ');
    let is_blank = |at: usize| {
        let filled = rows.iter().filter(|row| is_filled(row, at)).count();
        !is_filled(header, at) && filled * DEVIATING <= rows.len()
    };
    let mut starts = vec![0];
    for at in 1..header.len() {
        // A column has a name, unless it is the first.
        let before = starts[starts.len() - 1]..at;
        let is_first = starts.len() == 1;
        let is_column = before.clone().any(|at| is_filled(header, at))
            || is_first && before.clone().any(|at| !is_blank(at));
        if is_column && is_blank(at - 1) && !is_blank(at) {
            starts.push(at);
        }
    }
    // Rows that are shifted to the right have their values below other names.
    let has_gap = |(name, _): (&[u8], _)| memchr::memmem::find(name, b"  ").is_some();
    if aligned_cells(header, &starts).into_iter().any(has_gap) {
        return None;
    }
    (starts.len() > 1).then_some(starts)
}

fn aligned_cells<'r>(row: &'r [u8], starts: &[usize]) -> Vec<(&'r [u8], (usize, usize))> {
    let ends = starts[1..].iter().copied().chain([row.len()]);
    let cell = |(start, end): (usize, usize)| {
        let (start, end) = (start.min(row.len()), end.min(row.len()));
        (row[start..end.max(start)].trim_ascii(), (start, end.max(start)))
    };
    starts.iter().copied().zip(ends).map(cell).collect()
}
