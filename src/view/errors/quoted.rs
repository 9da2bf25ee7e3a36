//! Lines that only quote the words of errors: source code, diffs, search results, rows of data,
//! prose.

mod text;

use std::collections::BTreeSet;

use crate::errors::surroundings::Surroundings;
use ctxfs_core::materialize::Pattern;

const ALIKE: usize = 3;
const NEAR: usize = 4;
const ROWS: usize = 8;
const HUNK_LINES: usize = 200;

/// Returns true if a line stands in a text that is not about this call. A line that `is_marked` as
/// an error needs more of such a text around it.
pub(crate) fn is_quoted(lines: &Surroundings, is_marked: bool) -> bool {
    let own = lines.own();
    ALWAYS.iter().any(|pattern| pattern.is_match(own))
        || is_search_result(lines)
        || is_in_hunk(lines)
        || is_commit_message(lines)
        || is_code(lines)
        || is_prose(lines)
        || text::is_in_text(lines, is_marked)
        || is_setting(lines)
        || is_name(lines)
}

/// Recognizes search results, which come in rows: `path:12:text`, or `12:text` with ascending
/// numbers.
fn is_search_result(lines: &Surroundings) -> bool {
    let is_row = |line: &&str| ROW.is_match(line) && !COMPILER.is_match(line);
    let own = lines.own();
    let rows = near(lines).filter(is_row).count();
    is_row(&own) && rows >= ALIKE - 1
        || ROW.is_match(own) && rows > NEAR
        || number(own).is_some() && (ascends(lines) || is_below_path(lines))
}

fn is_below_path(lines: &Surroundings) -> bool {
    let is_row = |line: &&str| NUMBERED.is_match(line) || *line == "--";
    let heading = lines.above().take(HUNK_LINES).find(|line| !is_row(line));
    heading.is_some_and(|line| PATH.is_match(line))
}

fn number(line: &str) -> Option<u64> {
    let (number, text) = line.split_once(':')?;
    number.parse().ok().filter(|_| !text.starts_with(|c: char| c.is_ascii_digit()))
}

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
    let above = lines.above().find(|line| !of_hunk(line));
    above.map_or_else(|| is_in_long_hunk(lines), |line| line.starts_with("@@ "))
}

// The heading of the hunk is too far above: most lines are added or removed.
fn is_in_long_hunk(lines: &Surroundings) -> bool {
    let changed = lines.above().filter(|line| line.starts_with(['+', '-'])).count();
    let all = lines.above().count();
    all >= HUNK_LINES && 2 * changed >= all
}

fn is_commit_message(lines: &Surroundings) -> bool {
    let is_of_message = |line: &&str| line.is_empty() || line.starts_with("    ");
    let heading = lines.above().take(HUNK_LINES).find(|line| !is_of_message(line));
    is_of_message(&lines.own()) && heading.is_some_and(|line| line.starts_with("Date: "))
}

fn is_code(lines: &Surroundings) -> bool {
    let is_code = |line: &&str| CODE.is_match(line) && !line.trim_start().starts_with("at ");
    let around: Vec<&str> = near(lines).filter(|line| !line.trim().is_empty()).collect();
    let code = around.iter().filter(|line| is_code(line)).count();
    let is_json = lines.own().trim_start().starts_with('{');
    !is_json
        && !TOOL.is_match(lines.own())
        && is_code(&lines.own())
        && code >= ALIKE
        && 2 * code > around.len()
}

fn is_prose(lines: &Surroundings) -> bool {
    let is_text = |line: &&str| PROSE.is_match(line) && !MARKED.is_match(line);
    let around: Vec<&str> = near(lines).filter(|line| !line.trim().is_empty()).collect();
    let text = around.iter().filter(|line| is_text(line)).count();
    is_text(&lines.own()) && text >= ALIKE && 3 * text > 2 * around.len()
}

/// Recognizes a value among the settings of a YAML document, below another key.
fn is_setting(lines: &Surroundings) -> bool {
    let settings = near(lines).filter(|line| SETTING.is_match(line)).count();
    VALUE.is_match(lines.own())
        && settings >= ALIKE
        && 3 * settings > 2 * near(lines).count()
        && near(lines).any(|line| KEY.is_match(line))
}

/// Recognizes a line such as `gen: error: 6 fields`, among others that differ from it in that one
/// word. With that many different words, they are names and not verdicts.
fn is_name(lines: &Surroundings) -> bool {
    let own = words(lines.own());
    let around = lines.above().take(ROWS).chain(lines.below().take(ROWS));
    let names: BTreeSet<&str> = around.filter_map(|line| one_other(&own, &words(line))).collect();
    names.len() >= ALIKE
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// Returns the word in which `line` differs from `own`, if it is the only one and `own` has a word
/// of errors there. Numbers may differ too.
fn one_other<'l>(own: &[&str], line: &[&'l str]) -> Option<&'l str> {
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let mut others = own
        .iter()
        .zip(line)
        .filter(|(one, other)| one != other && !(is_number(one) && is_number(other)));
    let (one, other) = others.next()?;
    let alone = others.next().is_none() && own.len() == line.len() && own.len() > 2;
    (alone && WORD.is_match(one)).then_some(other)
}

fn near(lines: &Surroundings) -> impl Iterator<Item = &str> {
    lines.above().take(NEAR).chain(lines.below().take(NEAR))
}

// Lines that are quotations whatever stands around them.
static ALWAYS: [Pattern; 9] = [
    // A row of a table.
    Pattern::with("|", r"^\s*\|.*\|.*\|$"),
    Pattern::with("\u{2502}", r"^\s*\xe2\x94\x82.*\xe2\x94\x82.*\xe2\x94\x82$"),
    // The heading of a hunk, which quotes a line.
    Pattern::with("@@ -", r"^@@ -\d+(,\d+)? \+\d+"),
    // The name of a class.
    Pattern::new(r"^\s+(\w+\.)+\w*(Error|Exception)(\([\w., ]*\))?$"),
    // git blame.
    Pattern::with(") ", r"^\^?[0-9a-f]{7,40} .*\(.+ \d{4}-\d\d-\d\d .*\d+\) "),
    // A frame around code: `> 12 | code`, `12 | code`, `12: code` of listings.
    Pattern::with("|", r"^\s*>? *\d+ *\|"),
    Pattern::with("\u{2502}", r"^\s*(\u{276f})? *\d+ *\u{2502}"),
    // Rows of a database.
    Pattern::new(r"^\s*(INSERT INTO|VALUES|REPLACE INTO) "),
    // A string of a program.
    Pattern::new(r#"^\s*[bfru]?('([^'\\]|\\.)*'|"([^"\\]|\\.)*"),?$"#),
];
// A row of a search: a path, a line number, perhaps a column, the text.
static ROW: Pattern = Pattern::new(r"^[\w./@+-]*\.\w+[:-]\d+[:-]");
static NUMBERED: Pattern = Pattern::new(r"^\d+[:-]");
static PATH: Pattern = Pattern::new(r"^[\w.@+-]*/[\w./@+-]*\.\w+$");
// A message of a compiler or linter, which begins like a row of a search.
static COMPILER: Pattern = Pattern::with(
    ": ",
    r"^[^\s:]+:\d+(:\d+)?: (fatal )?(error|warning|note|Error|Warning)\b|^[^\s:]+:\d+:\d+: \S",
);
static CODE: Pattern = Pattern::new(
    r"^\s*(\d+[:|-]?\s+)?(.*[;{}]|.*\)\s*\{?|.*,|//.*|#( .*)?|\* .*|(return|if|else|for|while|def|class|try|except|raise|throw|import|from|let|const|pub|fn|use|match|case|assert)\b.*)\s*(//.*|#.*)?$",
);
// A line of YAML, a value below a key, and a key whose value is on the lines below.
static SETTING: Pattern = Pattern::with(":", r"^\s*(- )?['\x22]?[\w./-]+['\x22]?:( .*)?$");
static VALUE: Pattern = Pattern::with(": ", r"^\s+(- )?[a-z_]+: \S");
static KEY: Pattern = Pattern::with(":", r"^\s*(- )?['\x22]?[\w./-]+['\x22]?:( [|>][+-]?)?$");
static WORD: Pattern = Pattern::new(r"(?i)error|fail|panic|fatal");
// The message of a tool, although it ends as code does.
static TOOL: Pattern =
    Pattern::new(r"^(error|fatal|failed)(\[.+?\]|: \[.+?\])?: |^ ! \[|^\s*Failure/Error: ");
// Six words or more in a row.
static PROSE: Pattern = Pattern::new(
    r"^\s*([-*]\s+)?([\w\x80-\xff'`*\x22(<.,/-]+[.,:;)!?]* +){5,}[\w\x80-\xff'`*\x22(<./-]+[.,:;)!?]*\s*$",
);
// A line of a log or of a tool.
static MARKED: Pattern = Pattern::new(
    r"\d{2}:\d{2}:\d{2}|\b(ERROR|FATAL|CRITICAL|SEVERE|WARN|INFO|DEBUG)\b|^\s*(error|fatal|fatal error|E)[:\[ ]|^[a-z][\w.-]*(\[\d+\])?: |^\S+:\d+:|^\[",
);

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(text: &str, own: &str) -> bool {
        is_quoted(&Surroundings::of(text, own), false)
    }

    const PUSH: &str = " * [new branch]      a -> a\n * [new branch]      b -> b\n * [new branch]      c -> c\n ! [rejected]        d -> d (fetch first)\n";

    #[test]
    fn quotations_are_told_by_what_stands_around_them() {
        for (text, own) in [
            ("  >>> run()\n  b'ls: x: No such file or directory\\n'\n", "No such"),
            (
                "info:\n  title: Shop\n  description: |\n    Orders.\n    error: see Error.\n  version: 3\npaths:\n  /a:\n",
                "error",
            ),
            (
                "gen: cart: 6 fields\ngen: error: 6 fields\ngen: user: 7 fields\ngen: zone: 2 fields\n",
                "error",
            ),
            ("12 | throw new Error('x')\n", "Error"),
            ("a.c:3:int error;\nb.c:4:error();\nc.c:5:x = error;\n", "b.c"),
            ("@@ -1,3 +1,3 @@\n a\n-error: x\n+error: y\n", "-error"),
        ] {
            assert!(quoted(text, own), "{text}");
        }
    }

    #[test]
    fn messages_of_tools_are_no_quotations() {
        for (text, own) in [
            (PUSH, "rejected"),
            ("kind: List\nitems:\n- name: a\n  data: b\nerror: no server\n", "error"),
            (
                "ssh: reading the settings of this account\nssh: trying to reach the first host\nssh: connect to host a port 9: Connection refused\nssh: that was the last of all hosts\n",
                "refused",
            ),
            ("a: ok\nb: failed\nc: ok\nd: ok\ne: ok\n", "failed"),
            ("test a ... ok\ntest b ... FAILED\ntest c ... ok\ntest d ... ok\n", "FAILED"),
            ("ok: [a] => {}\nok: [b] => {}\nfatal: [c]: FAILED! => {}\nok: [d] => {}\n", "fatal"),
            (
                "  1) a\n\n     Failure/Error: expect(x()).to eq(1)\n\n       expected: 1\n            got: 2\n",
                "Failure/",
            ),
            (
                "   at a (b.js:1:2)\n   at c (d.js:1:2) {\n [cause]: Error: last {\"a\":1}\n   at e (f.js:1:2)\n",
                "cause",
            ),
            ("a.c:3:4: error: x\nb.c:4:5: error: y\nc.c:5:6: error: z\n", "b.c"),
        ] {
            assert!(!quoted(text, own), "{text}");
        }
    }
}
