//! Lines that only quote words of errors: source code, differences, search results, rows of data,
//! running text.

use std::sync::LazyLock;

use regex::Regex;
use regex::RegexSet;

use crate::view::errors::surroundings::Surroundings;

/// Neighbours of the same form that show what a line is.
const ALIKE: usize = 3;
/// Neighbours that are compared, on either side.
const NEAR: usize = 4;
/// Lines between a line of a difference and the heading of its hunk.
const HUNK_LINES: usize = 200;

/// Returns true if a line stands in a text that is about something else than this call.
pub(in crate::view) fn is_quoted(lines: &Surroundings) -> bool {
    let own = lines.own();
    ALWAYS.is_match(own)
        || is_search_result(lines)
        || is_in_hunk(lines)
        || is_commit_message(lines)
        || is_code(lines)
        || is_prose(lines)
}

/// Search results come in rows: `path:12:text`, or `12:text` with ascending numbers.
fn is_search_result(lines: &Surroundings) -> bool {
    let is_row = |line: &&str| ROW.is_match(line) && !COMPILER.is_match(line);
    let own = lines.own();
    let rows = near(lines).filter(is_row).count();
    is_row(&own) && rows >= ALIKE - 1 || number(own).is_some() && ascends(lines)
}

/// Returns the number of a row `12:text`.
fn number(line: &str) -> Option<u64> {
    let (number, text) = line.split_once(':')?;
    number.parse().ok().filter(|_| !text.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns true if the nearest rows have ascending numbers.
fn ascends(lines: &Surroundings) -> bool {
    let mut near: Vec<&str> = lines.above().take(2).collect();
    near.reverse();
    near.push(lines.own());
    near.extend(lines.below().take(2));
    let numbers: Vec<u64> = near.iter().filter_map(|line| number(line)).collect();
    numbers.len() >= ALIKE && numbers.is_sorted_by(|one, two| one < two)
}

fn is_in_hunk(lines: &Surroundings) -> bool {
    let of_hunk = |line: &&str| line.is_empty() || line.starts_with([' ', '+', '-', '\\']);
    if !of_hunk(&lines.own()) {
        return false;
    }
    let above = lines.above().take(HUNK_LINES).find(|line| !of_hunk(line));
    above.is_some_and(|line| line.starts_with("@@ "))
}

/// The message of a commit, as `git log` prints it.
fn is_commit_message(lines: &Surroundings) -> bool {
    let is_of_message = |line: &&str| line.is_empty() || line.starts_with("    ");
    let heading = lines.above().take(HUNK_LINES).find(|line| !is_of_message(line));
    is_of_message(&lines.own()) && heading.is_some_and(|line| line.starts_with("Date: "))
}

/// Source code among source code.
fn is_code(lines: &Surroundings) -> bool {
    let is_code = |line: &&str| CODE.is_match(line);
    let around: Vec<&str> = near(lines).filter(|line| !line.trim().is_empty()).collect();
    let code = around.iter().filter(|line| is_code(line)).count();
    let is_json = lines.own().trim_start().starts_with('{');
    !is_json && is_code(&lines.own()) && code >= ALIKE && 2 * code > around.len()
}

/// A sentence among sentences.
fn is_prose(lines: &Surroundings) -> bool {
    let is_text = |line: &&str| PROSE.is_match(line) && !MARKED.is_match(line);
    let around: Vec<&str> = near(lines).filter(|line| !line.trim().is_empty()).collect();
    let text = around.iter().filter(|line| is_text(line)).count();
    is_text(&lines.own()) && text >= ALIKE && 3 * text > 2 * around.len()
}

fn near(lines: &Surroundings) -> impl Iterator<Item = &str> {
    lines.above().take(NEAR).chain(lines.below().take(NEAR))
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern of this file")
}

/// Lines that are quotations whatever stands around them.
static ALWAYS: LazyLock<RegexSet> = LazyLock::new(|| {
    let patterns = [
        // git blame.
        r"^\^?[0-9a-f]{7,40} .*\(.+ \d{4}-\d\d-\d\d .*\d+\) ",
        // A frame around code: `> 12 | code`, `12 | code`, `12: code` of listings.
        r"^\s*[>\u{276f}]? *\d+ *[|\u{2502}]",
        // Rows of a database.
        r"^\s*(INSERT INTO|VALUES|REPLACE INTO) ",
    ];
    RegexSet::new(patterns).expect("the patterns of this file")
});
/// A row of a search: a path, a line number, perhaps a column, the text.
static ROW: LazyLock<Regex> = LazyLock::new(|| regex(r"^[\w./@+-]*\.\w+[:-]\d+[:-]"));
/// A message of a compiler or linter, which begins likewise.
static COMPILER: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^\S+:\d+(:\d+)?: (fatal )?(error|warning|note|Error|Warning)\b|^\S+:\d+:\d+: [A-Z]+\d+ ",
    )
});
static CODE: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^\s*(\d+[:|-]?\s+)?(.*[;{}]|.*\)\s*\{?|.*,|//.*|#( .*)?|\* .*|(return|if|else|for|while|def|class|try|except|raise|throw|import|from|let|const|pub|fn|use|match|case|assert)\b.*)\s*(//.*|#.*)?$",
    )
});
/// Six words or more in a row.
static PROSE: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"^\s*([-*]\s+)?([\w'`*\x22(<.,/-]+[.,:;)!?]* +){5,}[\w'`*\x22(<./-]+[.,:;)!?]*\s*$")
});
/// A line of a log or of a tool.
static MARKED: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"\d{2}:\d{2}:\d{2}|\b(ERROR|FATAL|CRITICAL|SEVERE|WARN|INFO|DEBUG)\b|^\s*(error|fatal|fatal error|E)[:\[ ]|^\S+:\d+:|^\[",
    )
});
