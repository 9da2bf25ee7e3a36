//! Lines that only quote error words: source code, diffs, search results, rows of data, prose.

use std::collections::{BTreeSet, HashMap};

use crate::errors::context::ErrorContext;
use ctxfs_core::materialize::Pattern;

const MIN_ALIKE: usize = 3;
const NEAR_LINES: usize = 4;
const ROW_LINES: usize = 8;
const HUNK_LINES: usize = 200;
const TEXT_LINES: usize = 80;
// Minimum number of non-blank lines that are classified as a text.
const MIN_TEXT_LINES: usize = 16;
// Number of lines at each end of a text where a message of the program itself may stand.
const END_LINES: usize = 5;
// At most one line in 10 of a text may be a report, or one in 25 if the line in question is a
// report itself.
const REPORT_SHARE: usize = 10;
const MARKED_REPORT_SHARE: usize = 25;
// Sentences that begin with the same word count as reports if there are at least this many of them,
// in more than one of 8 lines.
const OFTEN_SENTENCES: usize = 4;
const SENTENCE_SHARE: usize = 8;
const MINIFIED_BYTES: usize = 800;
const SENTENCE_WORDS: usize = 4;

/// Returns true if a line is part of a text that is not about this call. `is_marked` is true if the
/// line is explicitly marked as an error; it then counts as part of a text only if the text has
/// fewer program reports.
pub(crate) fn is_quoted(lines: &ErrorContext, is_marked: bool) -> bool {
    let own = lines.own();
    ALWAYS.iter().any(|pattern| pattern.is_match(own))
        || is_search_result(lines)
        || is_in_hunk(lines)
        || is_commit_message(lines)
        || is_code(lines)
        || is_prose(lines)
        || is_in_text(lines, is_marked)
        || is_setting(lines)
        || is_name(lines)
}

/// Recognizes search results: consecutive rows such as `path:12:text`, or `12:text` with ascending
/// numbers.
fn is_search_result(lines: &ErrorContext) -> bool {
    let is_row = |line: &&str| ROW.is_match(line) && !COMPILER.is_match(line);
    let own = lines.own();
    let rows = near(lines).filter(is_row).count();
    is_row(&own) && rows >= MIN_ALIKE - 1
        || ROW.is_match(own) && rows > NEAR_LINES
        || number(own).is_some() && (ascends(lines) || is_below_path(lines))
}

fn is_below_path(lines: &ErrorContext) -> bool {
    let is_row = |line: &&str| NUMBERED.is_match(line) || *line == "--";
    let heading = lines.above().take(HUNK_LINES).find(|line| !is_row(line));
    heading.is_some_and(|line| PATH.is_match(line))
}

fn number(line: &str) -> Option<u64> {
    let (number, text) = line.strip_prefix("Line ").unwrap_or(line).split_once(':')?;
    number.parse().ok().filter(|_| !text.starts_with(|c: char| c.is_ascii_digit()))
}

fn ascends(lines: &ErrorContext) -> bool {
    let mut near: Vec<&str> = lines.above().take(2).collect();
    near.reverse();
    near.push(lines.own());
    near.extend(lines.below().take(2));
    let numbers: Vec<u64> = near.iter().filter_map(|line| number(line)).collect();
    numbers.len() >= MIN_ALIKE && numbers.is_sorted_by(|one, two| one < two)
}

fn is_in_hunk(lines: &ErrorContext) -> bool {
    let of_hunk = |line: &&str| line.is_empty() || line.starts_with([' ', '+', '-', '\\']);
    if !of_hunk(&lines.own()) {
        return false;
    }
    let above = lines.above().find(|line| !of_hunk(line));
    above.map_or_else(|| is_in_long_hunk(lines), |line| line.starts_with("@@ "))
}

// Recognizes a long hunk of a diff whose heading is too far above: most lines are added or removed.
fn is_in_long_hunk(lines: &ErrorContext) -> bool {
    let changed = lines.above().filter(|line| line.starts_with(['+', '-'])).count();
    let all = lines.above().count();
    all >= HUNK_LINES && 2 * changed >= all
}

fn is_commit_message(lines: &ErrorContext) -> bool {
    let is_of_message = |line: &&str| line.is_empty() || line.starts_with("    ");
    let heading = lines.above().take(HUNK_LINES).find(|line| !is_of_message(line));
    is_of_message(&lines.own()) && heading.is_some_and(|line| line.starts_with("Date: "))
}

fn is_code(lines: &ErrorContext) -> bool {
    let is_code = |line: &&str| CODE.is_match(line) && !line.trim_start().starts_with("at ");
    let around: Vec<&str> = near(lines).filter(|line| !line.trim().is_empty()).collect();
    let code = around.iter().filter(|line| is_code(line)).count();
    let is_json = lines.own().trim_start().starts_with('{');
    !is_json
        && !TOOL.is_match(lines.own())
        && is_code(&lines.own())
        && code >= MIN_ALIKE
        && 2 * code > around.len()
}

fn is_prose(lines: &ErrorContext) -> bool {
    let is_text = |line: &&str| PROSE.is_match(line) && !MARKED.is_match(line);
    let around: Vec<&str> = near(lines).filter(|line| !line.trim().is_empty()).collect();
    let text = around.iter().filter(|line| is_text(line)).count();
    is_text(&lines.own()) && text >= MIN_ALIKE && 3 * text > 2 * around.len()
}

// Recognizes a value in a YAML document, next to other settings and below a key.
fn is_setting(lines: &ErrorContext) -> bool {
    let settings = near(lines).filter(|line| SETTING.is_match(line)).count();
    VALUE.is_match(lines.own())
        && settings >= MIN_ALIKE
        && 3 * settings > 2 * near(lines).count()
        && near(lines).any(|line| KEY.is_match(line))
}

/// Recognizes a line such as `gen: error: 6 fields`, in which `error` is a name and not a verdict.
/// Lines nearby then differ from this line only in the word `error`, and have several different
/// words in its place.
fn is_name(lines: &ErrorContext) -> bool {
    let around = lines.above().take(ROW_LINES).chain(lines.below().take(ROW_LINES));
    let names: BTreeSet<&str> = around.filter_map(|line| one_other(lines.own(), line)).collect();
    names.len() >= MIN_ALIKE
}

/// Returns the only word in which `line` differs from `own`, if `own` has an error word in that
/// position. Differences between numbers do not count.
fn one_other<'l>(own: &str, line: &'l str) -> Option<&'l str> {
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let (mut ones, mut others) = (own.split_whitespace(), line.split_whitespace());
    let (mut found, mut count) = (None, 0);
    while let Some((one, other)) = ones.next().zip(others.next()) {
        count += 1;
        if one != other && !(is_number(one) && is_number(other)) {
            if found.is_some() {
                return None;
            }
            found = Some((one, other));
        }
    }
    let (one, other) = found?;
    let is_long = count > 2 && own.split_whitespace().count() == line.split_whitespace().count();
    (is_long && WORD.is_match(one)).then_some(other)
}

fn near(lines: &ErrorContext) -> impl Iterator<Item = &str> {
    lines.above().take(NEAR_LINES).chain(lines.below().take(NEAR_LINES))
}

// Lines that are quotations in any context.
static ALWAYS: [Pattern; 9] = [
    // A row of a table.
    Pattern::with("|", r"^\s*\|.*\|.*\|$"),
    Pattern::with("\u{2502}", r"^\s*\xe2\x94\x82.*\xe2\x94\x82.*\xe2\x94\x82$"),
    // The heading of a hunk, which quotes a source line.
    Pattern::with("@@ -", r"^@@ -\d+(,\d+)? \+\d+"),
    // The name of a class.
    Pattern::new(r"^\s+(\w+\.)+\w*(Error|Exception)(\([\w., ]*\))?$"),
    // git blame.
    Pattern::with(") ", r"^\^?[0-9a-f]{7,40} .*\(.+ \d{4}-\d\d-\d\d .*\d+\) "),
    // A line of framed code: `> 12 | code`, `12 | code`, or `12: code` in listings.
    Pattern::with("|", r"^\s*>? *\d+ *\|"),
    Pattern::with("\u{2502}", r"^\s*(\u{276f})? *\d+ *\u{2502}"),
    // Rows of a database.
    Pattern::new(r"^\s*(INSERT INTO|VALUES|REPLACE INTO) "),
    // A string literal of a program.
    Pattern::new(r#"^\s*[bfru]?('([^'\\]|\\.)*'|"([^"\\]|\\.)*"),?$"#),
];
// Matches a search result: a path, a line number, an optional column, and the text.
static ROW: Pattern = Pattern::new(r"^[\w./@+-]*\.\w+[:-]\d+[:-]");
static NUMBERED: Pattern = Pattern::new(r"^\d+[:-]");
static PATH: Pattern = Pattern::new(r"^[\w.@+-]*/[\w./@+-]*\.\w+$");
// Matches a compiler or linter message, which begins like a search result.
static COMPILER: Pattern = Pattern::with(
    ": ",
    r"^[^\s:]+:\d+(:\d+)?: (fatal )?(error|warning|note|Error|Warning)\b|^[^\s:]+:\d+:\d+: \S",
);
static CODE: Pattern = Pattern::new(
    r"^\s*(\d+[:|-]?\s+)?(.*[;{}]|.*\)\s*\{?|.*,|//.*|#( .*)?|\* .*|(return|if|else|for|while|def|class|try|except|raise|throw|import|from|let|const|pub|fn|use|match|case|assert)\b.*)\s*(//.*|#.*)?$",
);
// Matches a line of YAML, a value below a key, and a key whose value is on the lines below.
static SETTING: Pattern = Pattern::with(":", r"^\s*(- )?['\x22]?[\w./-]+['\x22]?:( .*)?$");
static VALUE: Pattern = Pattern::with(": ", r"^\s+(- )?[a-z_]+: \S");
static KEY: Pattern = Pattern::with(":", r"^\s*(- )?['\x22]?[\w./-]+['\x22]?:( [|>][+-]?)?$");
static WORD: Pattern = Pattern::new(r"(?i)error|fail|panic|fatal");
// Matches the message of a tool, even if it ends like code.
static TOOL: Pattern =
    Pattern::new(r"^(error|fatal|failed)(\[.+?\]|: \[.+?\])?: |^ ! \[|^\s*Failure/Error: ");
// Matches six or more words in a row.
static PROSE: Pattern = Pattern::new(
    r"^\s*([-*]\s+)?([\w\x80-\xff'`*\x22(<.,/-]+[.,:;)!?]* +){5,}[\w\x80-\xff'`*\x22(<./-]+[.,:;)!?]*\s*$",
);
// Matches a line of a log or of a tool.
static MARKED: Pattern = Pattern::new(
    r"\d{2}:\d{2}:\d{2}|\b(ERROR|FATAL|CRITICAL|SEVERE|WARN|INFO|DEBUG)\b|^\s*(error|fatal|fatal error|E)[:\[ ]|^[a-z][\w.-]*(\[\d+\])?: |^\S+:\d+:|^\[",
);

/// Returns true for a line of source code, a document or a manual: most lines around it are code or
/// sentences, and few are program reports. If the line is marked as an error (`is_marked`) or looks
/// like a report, it must stand inside a text with fewer reports. Otherwise it may be a message of
/// the program that printed the text.
fn is_in_text(lines: &ErrorContext, is_marked: bool) -> bool {
    let around = lines.filled(TEXT_LINES);
    let at_end = around.iter().any(|side| side.len() < END_LINES);
    let forms = TextForms::of(lines, &around.concat());
    let is_report = is_marked || TextForm::of(lines.own()) == TextForm::Report;
    let in_text = if is_report {
        !at_end && forms.is_text(MARKED_REPORT_SHARE)
    } else {
        forms.is_text(REPORT_SHARE)
    };
    in_text || is_minified(lines.own()) || is_fenced(lines)
}

fn is_fenced(lines: &ErrorContext) -> bool {
    let is_fence = |line: &&str| line.trim_start().starts_with("```");
    let above = lines.above().find(is_fence);
    above.is_some_and(|line| line.trim().len() > 3) && lines.below().any(|line| is_fence(&line))
}

/// What a line of a text is by its looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextForm {
    Code,
    Sentence,
    // A line that reports a step or a result of a program.
    Report,
    Other,
}

#[derive(Debug, Default)]
struct TextForms {
    lines: usize,
    text: usize,
    reports: usize,
}

impl TextForms {
    fn of(lines: &ErrorContext, around: &[usize]) -> Self {
        let mut forms = Self { lines: around.len(), ..Self::default() };
        let mut others = 0;
        let mut sentences: HashMap<&str, usize> = HashMap::new();
        for line in around {
            match lines.form(*line) {
                TextForm::Code => forms.text += 1,
                TextForm::Report => forms.reports += 1,
                TextForm::Sentence => {
                    *sentences.entry(first_word(lines.bare(*line))).or_default() += 1;
                }
                TextForm::Other => others += 1,
            }
            if REPORT_SHARE * forms.reports > 2 * TEXT_LINES || 3 * others > 2 * TEXT_LINES {
                return Self { text: 0, ..forms };
            }
        }
        // Many sentences with the same first word are messages of a program.
        for count in sentences.into_values() {
            let is_often = count >= OFTEN_SENTENCES && SENTENCE_SHARE * count > forms.lines;
            *(if is_often { &mut forms.reports } else { &mut forms.text }) += count;
        }
        forms
    }

    fn is_text(&self, share: usize) -> bool {
        self.lines >= MIN_TEXT_LINES
            && 3 * self.text >= 2 * self.lines
            && share * self.reports <= self.lines
    }
}

impl TextForm {
    pub(super) fn of(line: &str) -> Self {
        if line.contains("</a>") {
            return Self::Code;
        }
        if REPORT.is_match(line) || COMPILER.is_match(line) {
            return Self::Report;
        }
        let text = line.trim().trim_start_matches(['|', '\u{2502}']).trim_start();
        let text = text[ROW_NUMBER.end(text).unwrap_or(0)..].trim_start();
        if has_code_form(text) {
            Self::Code
        } else if is_sentence(text) {
            Self::Sentence
        } else {
            Self::Other
        }
    }
}

// Returns the first word after a number, so that the items of a numbered list do not count as
// similar. Returns the whole line if this word does not begin with a letter.
fn first_word(line: &str) -> &str {
    let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let word = line.split_whitespace().find(|word| !is_number(word)).unwrap_or_default();
    if word.starts_with(char::is_alphabetic) { word } else { line }
}

fn has_code_form(text: &str) -> bool {
    let begins = ["//", "/*", "*", "#", "<", "@", "}", "\"", "'", "&", "`", "$ ", ">>>"];
    let has = [" = ", "::", "->", "=>", "()", "</", "${", "$(", " == ", ":="];
    text.ends_with([';', '{', '}', '(', '[', ']', ',', '\\', '=', '|', '\u{2502}'])
        || text.ends_with(')') && CALL.is_match(text)
        || begins.iter().any(|mark| text.starts_with(mark))
        || has.iter().any(|mark| text.contains(mark))
        || KEYWORD.is_match(text)
        || CLASS_NAME.is_match(text)
}

fn is_sentence(text: &str) -> bool {
    let is_plain = |word: &str| {
        let word = word.trim_matches(|c: char| c.is_ascii_punctuation());
        word.chars().all(|c| c.is_alphabetic() || matches!(c, '\'' | '-' | '\u{2019}'))
    };
    let (mut words, mut plain) = (0, 0);
    for word in text.split_whitespace() {
        words += 1;
        plain += usize::from(is_plain(word));
    }
    words >= SENTENCE_WORDS && 3 * plain >= 2 * words
}

fn is_minified(line: &str) -> bool {
    let marks = || line.bytes().filter(|byte| b"{}();=,".contains(byte)).count();
    line.len() >= MINIFIED_BYTES
        && !line.starts_with(['{', '['])
        && !REPORT.is_match(line)
        && 16 * marks() >= line.len()
}

// Matches the first word of a statement.
static KEYWORD: Pattern = Pattern::new(
    r"^(return|if|elif|else|for|while|def|class|try|except|finally|raise|throw|import|from|let|const|var|pub|fn|use|match|case|with|do|done|fi|then|esac|local|export|my|sub|end|function|func|type|struct|enum|impl|mod|static|async|await|echo)\b",
);
static CLASS_NAME: Pattern = Pattern::with(".", r"^(\w+\.)+\w+(\([\w., ]*\))?$");
// Matches a line of a log, a message of a tool, a verdict, or a stack frame.
static REPORT: Pattern = Pattern::new(
    r"^.{0,24}\d{2}:\d{2}:\d{2}|^.{0,40}\b(ERROR|FATAL|CRITICAL|SEVERE|WARN|WARNING|INFO|DEBUG|FAILED|FAIL|PASS|PASSED)\b|^\s*((?i:error|fatal|fatal error|warning|caused by)|[A-Z])(\[\w+\])?: |^[a-z][\w.-]*( \d+|\[\d+\])?: \S|^\[[^\]]+\] ?[^:(\[ ]|^\s+at \S|^\s*File \x22|^\s*\d+ +\||^\s*\d+:\d+ +[a-z]+ |^\s*(-->|\^|~|\xe2\x9c)|^(not )?ok\b|^(---?|===?|___)|\.\.\. ?\w+$|^[A-Z]\w*(\.\w+)*(Error|Exception)\b|^(Traceback|thread '|panic)|^E  |^#\d+ |^\+ [a-z]|\b\d+\.\d+ ?m?s\b|^\s*<(test|fail|error|system-)|\) += (-?\d|0x|\?)|^(\w+ )?[Ee]rror (near|at|on|in) ",
);
// Matches the prefix of a search result, such as `src/a.rs:12:`.
static ROW_NUMBER: Pattern = Pattern::new(r"^([\w./@+-]*\.\w+[:-])?\d+[:-]");
// Matches a function call, as opposed to words in parentheses.
static CALL: Pattern = Pattern::with("(", r"[\w\])>]\(");

#[cfg(test)]
mod tests {
    use super::*;

    fn quoted(text: &str, own: &str) -> bool {
        is_quoted(&ErrorContext::of(text, own), false)
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

    fn in_text(text: &str, own: &str) -> bool {
        is_in_text(&ErrorContext::of(text, own), false)
    }

    const CODE: &str =
        "fn read(path: &Path) -> Result<String> {\n    let text = open(path)?;\n}\n\n";
    const PROSE: &str = "A file that is not there is made when\nsomebody writes to it for the first time. Its\ndirectory has to be there. What is written\nstays in memory until the disk has room for\nall of it, which may take some seconds.\nReaders see it at once. If two of them ask\nfor the same part, both wait for one answer.\nNo order is kept between parts that are far\nfrom each other, but for those of one file,\nwhich come as they were written to it.\n";
    const BUILD: &str = "[1/9] Building a.o\n[2/9] Building b.o\ncc: warning: x is not used\n";

    #[test]
    fn what_stands_among_code_or_sentences_is_in_a_text() {
        let code = CODE.repeat(10);
        let prose = PROSE;
        let example = "```console\n$ cat x\ncat: x: No such file or directory\n```\n";
        let minified = format!("{}throw new TypeError(\"no\");", "var a=b(c);".repeat(100));
        let rows = |from: usize| -> Vec<String> {
            (from..from + 20).map(|row| format!("{row}: let x{row} = read();")).collect()
        };
        let (above, below) = (rows(1).join("\n"), rows(22).join("\n"));
        for (text, own) in [
            (format!("{code}    Exception: the path is wrong\n{code}"), "Exception"),
            (format!("{prose}exit. An error occurred if none is\n{prose}"), "exit"),
            (format!("{prose}cat: x: No such file or directory\n{prose}"), "cat:"),
            (format!("a: 1\n{example}b: 2\n"), "cat: x"),
            (minified, "TypeError"),
            (format!("{above}\n21: panic!(\"failed\")\n{below}\n"), "21:"),
        ] {
            assert!(in_text(&text, own), "{text}");
        }
    }

    #[test]
    fn messages_of_programs_are_not() {
        let (code, prose) = (CODE.repeat(10), PROSE);
        let build = BUILD.repeat(10);
        let orders = |from: usize| -> Vec<String> {
            (from..from + 40).map(|n| format!("{n} order {n} is stored in its place")).collect()
        };
        let (above, below) = (orders(1).join("\n"), orders(41).join("\n"));
        for (text, own) in [
            (format!("{build}cc: error: no input\n{build}"), "error"),
            (format!("{code}cat: x: No such file or directory\n"), "cat:"),
            (format!("cat: x: No such file or directory\n{prose}"), "cat:"),
            (format!("{above}\nFailed to open the database: it is locked\n{below}\n"), "Failed"),
            ("a\nCould not open the file x.\nx\n".to_owned(), "Could"),
            (format!("{code}{build}cc: error: no input\n{build}{code}"), "error"),
            (format!("{{\"a\":{}\"error\"}}", "\"b(c);=,\",".repeat(200)), "error"),
        ] {
            assert!(!in_text(&text, own), "{text}");
        }
        let marked = ErrorContext::of(&format!("{code}CONFLICT (content): a.rs\n"), "CONFLICT");
        assert!(!is_in_text(&marked, true));
    }
}
