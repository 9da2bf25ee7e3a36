use std::collections::HashMap;

use crate::errors::quoted::COMPILER;
use crate::errors::surroundings::Surroundings;
use ctxfs_core::materialize::Pattern;

const LINES: usize = 80;
// The fewest lines, without blank ones, that are judged as a text.
const FEWEST: usize = 16;
// At the ends of a text a program's own message may stand.
const ENDS: usize = 5;
// At most one line in 10 of a text is a report; one in 25 if the line itself is one.
const REPORTS: usize = 10;
const FEW_REPORTS: usize = 25;
// Sentences that begin alike are reports from this number and from one line in 8 on.
const OFTEN: usize = 4;
const ALIKE: usize = 8;
const MINIFIED: usize = 800;
const WORDS: usize = 4;

/// Returns true for a line of source code, a document or a manual: most lines around it are code or
/// sentences, and few are reports of a program. A line that `is_marked` as an error, or has the
/// form of a report, may be the message of the program that printed the text.
pub(super) fn is_in_text(lines: &Surroundings, is_marked: bool) -> bool {
    let filled = |line: &&str| !line.trim().is_empty();
    let above: Vec<&str> = lines.above().take(LINES).filter(filled).collect();
    let below: Vec<&str> = lines.below().take(LINES).filter(filled).collect();
    let at_end = above.len().min(below.len()) < ENDS;
    let forms = Forms::of(&[above, below].concat());
    let is_report = is_marked || Form::of(lines.own()) == Form::Report;
    let in_text =
        if is_report { !at_end && forms.is_text(FEW_REPORTS) } else { forms.is_text(REPORTS) };
    in_text || is_minified(lines.own()) || is_fenced(lines)
}

fn is_fenced(lines: &Surroundings) -> bool {
    let is_fence = |line: &&str| line.trim_start().starts_with("```");
    let above = lines.above().find(is_fence);
    above.is_some_and(|line| line.trim().len() > 3) && lines.below().any(|line| is_fence(&line))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Code,
    Sentence,
    // A step or a result of a program.
    Report,
    Other,
}

#[derive(Debug, Default)]
struct Forms {
    lines: usize,
    text: usize,
    reports: usize,
}

impl Forms {
    fn of(lines: &[&str]) -> Self {
        let mut forms = Self { lines: lines.len(), ..Self::default() };
        let mut others = 0;
        let mut sentences: HashMap<&str, usize> = HashMap::new();
        for line in lines {
            match Form::of(line) {
                Form::Code => forms.text += 1,
                Form::Report => forms.reports += 1,
                Form::Sentence => *sentences.entry(first_word(line)).or_default() += 1,
                Form::Other => others += 1,
            }
            if REPORTS * forms.reports > 2 * LINES || 3 * others > 2 * LINES {
                return Self { text: 0, ..forms };
            }
        }
        // A program begins what it tells again and again with the same word.
        for count in sentences.into_values() {
            let is_often = count >= OFTEN && ALIKE * count > forms.lines;
            *(if is_often { &mut forms.reports } else { &mut forms.text }) += count;
        }
        forms
    }

    fn is_text(&self, share: usize) -> bool {
        self.lines >= FEWEST
            && 3 * self.text >= 2 * self.lines
            && share * self.reports <= self.lines
    }
}

impl Form {
    fn of(line: &str) -> Self {
        if line.contains("</a>") {
            return Self::Code;
        }
        if REPORT.is_match(line) || COMPILER.is_match(line) {
            return Self::Report;
        }
        let text = line.trim().trim_start_matches(['|', '\u{2502}']).trim_start();
        let text = text[NUMBER.end(text).unwrap_or(0)..].trim_start();
        if is_code(text) {
            Self::Code
        } else if is_sentence(text) {
            Self::Sentence
        } else {
            Self::Other
        }
    }
}

// Skips numbers: the items of a list are not alike.
fn first_word(line: &str) -> &str {
    let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let word = line.split_whitespace().find(|word| !is_number(word)).unwrap_or_default();
    if word.starts_with(char::is_alphabetic) { word } else { line }
}

fn is_code(text: &str) -> bool {
    let begins = ["//", "/*", "*", "#", "<", "@", "}", "\"", "'", "&", "`", "$ ", ">>>"];
    let has = [" = ", "::", "->", "=>", "()", "</", "${", "$(", " == ", ":="];
    text.ends_with([';', '{', '}', '(', '[', ']', ',', '\\', '=', '|', '\u{2502}'])
        || text.ends_with(')') && CALL.is_match(text)
        || begins.iter().any(|mark| text.starts_with(mark))
        || has.iter().any(|mark| text.contains(mark))
        || KEYWORD.is_match(text)
        || NAME.is_match(text)
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
    words >= WORDS && 3 * plain >= 2 * words
}

fn is_minified(line: &str) -> bool {
    let marks = || line.bytes().filter(|byte| b"{}();=,".contains(byte)).count();
    line.len() >= MINIFIED
        && !line.starts_with(['{', '['])
        && !REPORT.is_match(line)
        && 16 * marks() >= line.len()
}

// The first word of a statement.
static KEYWORD: Pattern = Pattern::new(
    r"^(return|if|elif|else|for|while|def|class|try|except|finally|raise|throw|import|from|let|const|var|pub|fn|use|match|case|with|do|done|fi|then|esac|local|export|my|sub|end|function|func|type|struct|enum|impl|mod|static|async|await|echo)\b",
);
static NAME: Pattern = Pattern::with(".", r"^(\w+\.)+\w+(\([\w., ]*\))?$");
// A line of a log, a message of a tool, a verdict, a frame.
static REPORT: Pattern = Pattern::new(
    r"^.{0,24}\d{2}:\d{2}:\d{2}|^.{0,40}\b(ERROR|FATAL|CRITICAL|SEVERE|WARN|WARNING|INFO|DEBUG|FAILED|FAIL|PASS|PASSED)\b|^\s*((?i:error|fatal|fatal error|warning|caused by)|[A-Z])(\[\w+\])?: |^[a-z][\w.-]*( \d+|\[\d+\])?: \S|^\[[^\]]+\] ?[^:(\[ ]|^\s+at \S|^\s*File \x22|^\s*\d+ +\||^\s*\d+:\d+ +[a-z]+ |^\s*(-->|\^|~|\xe2\x9c)|^(not )?ok\b|^(---?|===?|___)|\.\.\. ?\w+$|^[A-Z]\w*(\.\w+)*(Error|Exception)\b|^(Traceback|thread '|panic)|^E  |^#\d+ |^\+ [a-z]|\b\d+\.\d+ ?m?s\b|^\s*<(test|fail|error|system-)|\) += (-?\d|0x|\?)|^(\w+ )?[Ee]rror (near|at|on|in) ",
);
// The number before a row of a search.
static NUMBER: Pattern = Pattern::new(r"^([\w./@+-]*\.\w+[:-])?\d+[:-]");
// A call, as opposed to words in parentheses.
static CALL: Pattern = Pattern::with("(", r"[\w\])>]\(");

#[cfg(test)]
mod tests {
    use super::*;

    fn in_text(text: &str, own: &str) -> bool {
        is_in_text(&Surroundings::of(text, own), false)
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
        let marked = Surroundings::of(&format!("{code}CONFLICT (content): a.rs\n"), "CONFLICT");
        assert!(!is_in_text(&marked, true));
    }
}
