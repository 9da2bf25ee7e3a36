//! Lines about the contents of an output: its sections and tables, repeated lines, and passages
//! that differ from the rest.

use std::cmp::Reverse;
use std::io;

use crate::clean;
use crate::errors::Findings;
use crate::number::{counted, grouped, rounded};
use crate::summary::excerpt::span;
use ctxfs_core::model::{Json, Limits, Repeated, Section, Sections, Subject, Unlike};

// Maximum number of characters of all named sections, and of the name of one.
const SECTIONS_CHARS: usize = 360;
const NAME_CHARS: usize = 60;
// Maximum number of repeated lines that are shown, and maximum number of characters of one.
const MAX_REPEATED: usize = 3;
const REPEATED_CHARS: usize = 64;
// The beginning of a row in a database dump.
pub(super) const INSERT: &str = "INSERT INTO ";
// Types of documents whose lines are similar by nature.
const MARKED_UP: [&str; 3] = ["image/svg+xml", "application/xml", "text/html"];
// Number of bytes at the start that are examined.
const TABLE_BYTES: usize = 16 << 10;
// Maximum number of rows that are examined, and minimum number of rows in a table.
const MAX_ROWS: usize = 60;
const MIN_ROWS: usize = 5;
// Maximum number of characters of the names of all columns.
const NAMES_CHARS: usize = 300;
// Maximum number of bytes in the name of one column.
const NAME_BYTES: usize = 60;
// Maximum number of passages that are shown, and maximum number of characters of one.
const MAX_PASSAGES: usize = 5;
const PASSAGE_CHARS: usize = 90;
// Number of bytes that are read above a passage.
const ABOVE_BYTES: u64 = 1024;
// Maximum number of characters of all passages.
const UNLIKE_CHARS: usize = 400;
// Minimum number of words in a passage.
const MIN_PASSAGE_WORDS: usize = 3;
// Passages have the same form if they agree in this many characters, not counting numbers.
const FORM_CHARS: usize = 24;
// Number of lines at either end that the excerpt shows anyway.
const END_LINES: u64 = 5;

// Returns the line `sections: 1-80 src/a.rs; 81-140 src/b.rs`. If there are many sections, names
// the first and the largest.
pub(super) fn sections(subject: &Subject<'_>) -> io::Result<Option<String>> {
    let Sections { count, shown } = &subject.analysis.sections;
    if shown.is_empty() {
        return Ok(None);
    }
    let all = named_sections(subject, shown, SECTIONS_CHARS)?;
    if all.len() as u64 == *count {
        return Ok(Some(format!("sections: {}", all.join("; "))));
    }
    let first = named_sections(subject, shown, SECTIONS_CHARS / 2)?;
    let mut others = shown[first.len()..].to_vec();
    others.sort_by_key(|section| (Reverse(section.last - section.line), section.line));
    let largest = named_sections(subject, &others, SECTIONS_CHARS / 2)?;
    Ok(Some(format!(
        "sections: {}; the first: {}; the largest of the others: {}",
        grouped(*count),
        first.join("; "),
        largest.join("; ")
    )))
}

// Returns the names of as many sections as fit.
fn named_sections(
    subject: &Subject<'_>,
    sections: &[Section],
    chars: usize,
) -> io::Result<Vec<String>> {
    let mut left = chars;
    let mut named = Vec::new();
    for section in sections {
        let name = text_at(subject, (section.offset, section.length), NAME_CHARS)?;
        let section = format!("{} {name}", span((section.line, section.last)));
        let length = section.chars().count() + 2;
        if length > left {
            break;
        }
        left -= length;
        named.push(section);
    }
    Ok(named)
}

// Returns the line `repeated: 812 x "GET /health 200" (lines 3-8,110)`.
pub(super) fn repeated(subject: &Subject<'_>) -> io::Result<Option<String>> {
    if is_data(subject) {
        return Ok(None);
    }
    let mut told = Vec::new();
    for line in subject.analysis.repeated.iter().take(MAX_REPEATED) {
        let text = text_at(subject, (line.offset, line.length), REPEATED_CHARS)?;
        if !text.starts_with(INSERT) {
            told.push(repeated_text(&text, line));
        }
    }
    Ok((!told.is_empty()).then(|| format!("repeated: {}", told.join("; "))))
}

// Returns true for data, which repeats itself by nature. For JSON, the shape shows repetition.
fn is_data(subject: &Subject<'_>) -> bool {
    let analysis = subject.analysis;
    let is_json = matches!(analysis.json, Json::Document { .. } | Json::Lines { .. });
    is_json || !analysis.statuses.is_empty() || MARKED_UP.contains(&analysis.mime.as_str())
}

fn repeated_text(text: &str, line: &Repeated) -> String {
    let how = if line.equal { "x" } else { "like" };
    if line.about {
        return format!("about {} {how} \"{text}\"", grouped(rounded(line.count)));
    }
    let lines = span((line.first, line.last));
    format!("{} {how} \"{text}\" (lines {lines})", grouped(line.count))
}

fn text_at(
    subject: &Subject<'_>,
    (offset, length): (u64, u32),
    chars: usize,
) -> io::Result<String> {
    Ok(clean::shortened(&subject.content.bytes(offset, length as usize)?, chars))
}

// Returns the line `columns: id, name, state (8,111 rows)` for comma-separated values and similar
// formats.
pub(super) fn columns(subject: &Subject<'_>) -> io::Result<Option<String>> {
    let bytes = subject.content.bytes(0, TABLE_BYTES)?;
    let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |end| end + 1);
    let Some(names) = column_names(&bytes[..whole]) else { return Ok(None) };
    let rows = counted(subject.analysis.lines.saturating_sub(1), "row");
    let names = clean::clean(names.join(", ").as_bytes(), NAMES_CHARS, usize::MAX).text;
    Ok(Some(format!("columns: {names} ({rows})")))
}

// Returns the line `statuses: 335 x 200, 24 x 404, 2 x 502` for an access log.
pub(super) fn statuses(subject: &Subject<'_>) -> Option<String> {
    let statuses = &subject.analysis.statuses;
    let told = statuses.iter().map(|(status, count)| format!("{} x {status}", grouped(*count)));
    let told = told.collect::<Vec<String>>().join(", ");
    (!told.is_empty()).then(|| format!("statuses: {told}"))
}

// Returns the names of the columns if all rows have as many fields as the header.
fn column_names(bytes: &[u8]) -> Option<Vec<String>> {
    let text = str::from_utf8(bytes).ok()?;
    let mut lines = text.lines().take(MAX_ROWS);
    let header = lines.next()?;
    let separator = [',', '\t', ';'].into_iter().max_by_key(|c| header.matches(*c).count())?;
    let names: Vec<String> =
        header.split(separator).map(|name| name.trim().trim_matches('"').to_owned()).collect();
    let rows: Vec<usize> = lines.map(|line| fields(line.as_bytes(), separator as u8)).collect();
    let is_table = names.len() >= 2
        && names.iter().all(|name| is_name(name))
        && rows.len() >= MIN_ROWS
        && rows.iter().all(|fields| *fields == names.len());
    is_table.then_some(names)
}

/// Returns the number of fields in a row. A separator inside quotes does not count.
fn fields(row: &[u8], separator: u8) -> usize {
    let mut quoted = false;
    let is_end = |byte: &&u8| {
        quoted ^= **byte == b'"';
        !quoted && **byte == separator
    };
    row.iter().filter(is_end).count() + 1
}

fn is_name(name: &str) -> bool {
    let starts = name.chars().next().is_some_and(|first| first.is_alphabetic() || first == '_');
    starts && name.len() <= NAME_BYTES && !name.contains(['(', '{', '=', '"'])
}

// Returns the line `unlike: 4,410 "kernel: out of memory | killed process 812"; 6,002 "x"`.
pub(super) fn unlike_line(subject: &Subject<'_>, found: &Findings) -> io::Result<Option<String>> {
    let is_hidden = |unlike: &&Unlike| !is_shown_elsewhere(subject, found, unlike);
    let mut line = String::new();
    let mut forms: Vec<String> = Vec::new();
    for unlike in subject.analysis.unlike.iter().filter(is_hidden) {
        let Some(text) = passage_text(subject, unlike)? else { continue };
        let text = from_the_unlike(text, &line_above(subject, unlike)?);
        let form = text.chars().filter(|c| !c.is_numeric()).take(FORM_CHARS).collect();
        let told = passage(unlike, &text);
        let fits = line.chars().count() + told.chars().count() + 2 <= UNLIKE_CHARS;
        if forms.len() == MAX_PASSAGES || !fits || forms.contains(&form) {
            continue;
        }
        line.push_str(if line.is_empty() { "unlike: " } else { "; " });
        line.push_str(&told);
        forms.push(form);
    }
    Ok((!line.is_empty()).then_some(line))
}

// Returns true if the passage is already shown in the head or tail, in the shape, or among the
// errors or sections.
fn is_shown_elsewhere(subject: &Subject<'_>, found: &Findings, unlike: &Unlike) -> bool {
    let analysis = subject.analysis;
    let has = |line: u64| unlike.line <= line && line <= unlike.last;
    let in_json = match analysis.json {
        Json::Document { .. } => unlike.column.is_none(),
        Json::Lines { .. } => true,
        Json::No | Json::Broken { .. } => false,
    };
    let at_end = unlike.last <= END_LINES || unlike.line + END_LINES > analysis.lines;
    let is_error = || found.shown.iter().any(|error| has(error.at.line));
    let is_section = || analysis.sections.shown.iter().any(|section| has(section.line));
    let is_passage = unlike.column.is_some() && analysis.longest_line > Limits::LINE_CHARS as u64;
    in_json || (!is_passage && (at_end || is_error() || is_section()))
}

// Returns the text of a passage as one line, if it is informative.
fn passage_text(subject: &Subject<'_>, unlike: &Unlike) -> io::Result<Option<String>> {
    let bytes = subject.content.bytes(unlike.offset, unlike.length as usize)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let text = lines.collect::<Vec<&str>>().join(" | ");
    let is_word = |word: &&str| word.bytes().filter(u8::is_ascii_alphabetic).count() > 2;
    let says = text.split_whitespace().filter(is_word).count() >= MIN_PASSAGE_WORDS;
    Ok((says && !text.starts_with(INSERT)).then_some(text))
}

// Returns the beginning of the line above a passage.
fn line_above(subject: &Subject<'_>, unlike: &Unlike) -> io::Result<String> {
    let from = unlike.offset.saturating_sub(ABOVE_BYTES);
    let above = subject.content.bytes(from, (unlike.offset - from) as usize)?;
    let line = above.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(String::from_utf8_lossy(line).into_owned())
}

// Leaves out the beginning of a long passage if the line above begins alike and the cut would hide the
// first word that differs. Numbers do not make a word differ.
fn from_the_unlike(text: String, above: &str) -> String {
    let letters = |word: &str| word.replace(|c: char| c.is_ascii_digit(), "");
    let pairs = text.split_whitespace().zip(above.split_whitespace());
    let alike = pairs.take_while(|(one, two)| letters(one) == letters(two));
    let unlike = text.split_whitespace().nth(alike.count());
    let Some(word) = unlike else { return text };
    let at = word.as_ptr() as usize - text.as_ptr() as usize;
    if text[..at].chars().count() + word.chars().count() <= PASSAGE_CHARS {
        return text;
    }
    let before = text[..at].trim_end().rfind(' ').map_or(at, |space| space + 1);
    format!("...{}", &text[before..])
}

// Formats a passage: `4,410 "kernel: out of memory"`, `61@5,329 "ask the porter"`.
fn passage(unlike: &Unlike, text: &str) -> String {
    let cut = clean::clean(text.as_bytes(), PASSAGE_CHARS, usize::MAX);
    let dots = if cut.used < text.len() { "..." } else { "" };
    let column = unlike.column.map(|column| format!("@{column}")).unwrap_or_default();
    let lines = span((unlike.line, unlike.last));
    format!("{lines}{column} \"{}{dots}\"", cut.text)
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
            let found = column_names(text.as_bytes()).map(|names| names.join("|"));
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }
}
