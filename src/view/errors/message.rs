//! What an error says: its line, and the lines below that complete it.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use crate::view::errors::surroundings::Surroundings;

/// Most lines that complete an error line.
const DETAILS: usize = 3;
/// Bytes of a long line before the word that tells of an error.
const BEFORE: usize = 120;
/// The length from which on only a part of a line is shown.
const LONG: usize = 240;
/// Stands between the lines of a message.
const JOINT: &str = " | ";

/// Returns the text of an error line in one line, with its details: the message below `panicked
/// at`, the two sides of a comparison, the reason below a line that ends with a colon.
pub(in crate::view) fn message(lines: &Surroundings) -> String {
    let own = telling(lines.own().trim());
    let details = details(lines);
    let own = of_task(own);
    let all = std::iter::once(own.as_ref()).chain(details.iter().map(|line| line.trim()));
    all.collect::<Vec<&str>>().join(JOINT)
}

/// Returns the line of a failed task of Ansible with its message alone.
fn of_task(line: &str) -> Cow<'_, str> {
    let Some(groups) = TASK.captures(line) else { return Cow::Borrowed(line) };
    Cow::Owned(format!("{} {}", &groups[1], &groups[2]))
}

/// Returns the part of a long line that tells of the error.
fn telling(line: &str) -> &str {
    let word = TELLING.find(line).map_or(0, |found| found.start());
    if line.len() <= LONG || word <= LONG / 2 {
        return line;
    }
    let from = line.floor_char_boundary(word - BEFORE);
    &line[from..]
}

fn details(lines: &Surroundings) -> Vec<&str> {
    let own = lines.own().trim_end();
    let mut details: Vec<&str> = Vec::new();
    let mut last = own;
    for line in lines.below().take(DETAILS + 2).filter(|line| is_filled(line)) {
        if !ANNOUNCES.is_match(last) || details.len() == DETAILS {
            break;
        }
        details.push(line);
        last = line;
    }
    if COMPARED.is_match(last) {
        details.extend(lines.below().take(8).filter(|line| SIDE.is_match(line)).take(2));
    }
    details
}

fn is_filled(line: &str) -> bool {
    line.chars().any(char::is_alphanumeric)
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern of this file")
}

static TASK: LazyLock<Regex> = LazyLock::new(|| {
    regex(r#"^((?:fatal|failed): \[.+?\].*?: \w+!) => .*"msg": "((?:[^"\\]|\\.)*)"#)
});
static TELLING: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r#"[Ee]rror\b|ERROR|[Ee]xception|[Ff]ail|FAIL|[Tt]imed? ?out|status"?[:=] ?"?5\d\d|[Cc]annot|refused|denied|panic"#,
    )
});
/// A line that only announces what the next one says.
static ANNOUNCES: LazyLock<Regex> = LazyLock::new(|| regex(r":\s*$|^ERROR in \S+( \d\S*)?$"));
/// A failed comparison, whose sides follow.
static COMPARED: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"assertion `.*` failed|assertion failed: `\(|^\s*(Error:\s+)?(expect\(.*\)\.|Not equal)")
});
static SIDE: LazyLock<Regex> = LazyLock::new(|| {
    regex(r"^\s*(left|right|(?i:expected|received|actual|got|want)( .{0,20})?)\s?: ?\S")
});
