//! The looks of the reading agent: searches in a document, and ranges of its lines.

use std::fmt;
use std::fmt::Write as _;

use crate::extract::{Document, DocumentError};

const FIND: usize = 4;
const GREP: usize = 5;
const READ: u64 = 8;
const WORDS: usize = 24;
const LINE: usize = 400;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AgentLook {
    Find {
        words: String,
    },
    Grep {
        pattern: String,
        ignore_case: bool,
    },
    /// `from` and `to` are line numbers, counted from 1.
    Read {
        from: u64,
        to: u64,
    },
}

/// A line, or the part of it around a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NumberedLine {
    pub(super) number: u64,
    pub(super) text: String,
}

/// Lines that a look shows, and remarks for the model, such as where to find more lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct LookResult {
    pub(super) lines: Vec<NumberedLine>,
    pub(super) notes: Vec<String>,
}

/// Form in which the agent sees the lines of a document: unchanged, as JSON with one element per
/// line (`X.pretty`), or with long lines cut into pieces (`X.wrap`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineForm {
    Plain,
    Pretty,
    Wrapped,
}

impl LineForm {
    /// Returns the form in which the lines of a document are short enough to read. Lines are too
    /// long if their average length is at least `long` bytes.
    pub(super) fn of(document: &dyn Document, long: u64) -> Self {
        if document.facts().line_bytes() < long {
            Self::Plain
        } else if document.view("pretty.lines/1").is_ok() {
            Self::Pretty
        } else {
            Self::Wrapped
        }
    }

    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Pretty => "pretty.",
            Self::Wrapped => "wrap.",
        }
    }
}

impl AgentLook {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Find { .. } => "find",
            Self::Grep { .. } => "grep",
            Self::Read { .. } => "read",
        }
    }

    /// Performs the look in a document. If a view fails, the reason becomes a note.
    pub(super) fn at(
        &self,
        document: &dyn Document,
        form: LineForm,
    ) -> Result<LookResult, DocumentError> {
        let seen = match self {
            Self::Find { words } => find(document, form, words),
            Self::Grep { pattern, ignore_case } => grep(document, form, pattern, *ignore_case),
            Self::Read { from, to } => read(document, form, *from, *to),
        };
        match seen {
            Err(DocumentError::View { why, .. }) => {
                Ok(LookResult { notes: vec![why], ..LookResult::default() })
            }
            seen => seen,
        }
    }

    /// Returns the range of lines that continues this one where it was cut. Returns `None` for a
    /// search, and for a range that was not cut.
    pub(super) fn next(&self) -> Option<Self> {
        match self {
            Self::Read { from, to } if to.saturating_sub(*from) >= READ => {
                Some(Self::Read { from: from + READ, to: *to })
            }
            _ => None,
        }
    }
}

impl fmt::Display for AgentLook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Find { words } => write!(f, "find {words}"),
            Self::Grep { pattern, .. } => write!(f, "grep {pattern}"),
            Self::Read { from, to } => write!(f, "read {from}-{to}"),
        }
    }
}

fn find(document: &dyn Document, form: LineForm, words: &str) -> Result<LookResult, DocumentError> {
    if form != LineForm::Plain {
        // The search for words (`find/`) exists only for unchanged lines.
        let word = rarest(document, form, words)?;
        return grep(document, form, &regex_syntax::escape(word.unwrap_or(words)), true);
    }
    let text = document.view(&format!("find/{}", spelt(words)))?;
    Ok(LookResult::of(&text, FIND))
}

/// Returns the rarest word: the word that occurs in the fewest lines. Words that do not occur are
/// ignored.
fn rarest<'a>(
    document: &dyn Document,
    form: LineForm,
    words: &'a str,
) -> Result<Option<&'a str>, DocumentError> {
    let mut found: Option<(u64, &str)> = None;
    for word in each_word(words).take(WORDS) {
        let query = format!("-c -i -e {}", spelt(&regex_syntax::escape(word)));
        let text = document.view(&format!("{}grep/{query}", form.prefix()))?;
        let count: u64 = text.trim().parse().unwrap_or_default();
        if count > 0 && found.is_none_or(|(fewest, _)| count < fewest) {
            found = Some((count, word));
        }
    }
    Ok(found.map(|(_, word)| word))
}

fn grep(
    document: &dyn Document,
    form: LineForm,
    pattern: &str,
    ignore_case: bool,
) -> Result<LookResult, DocumentError> {
    let case = if ignore_case { "-i " } else { "" };
    let query = format!("{case}-m{} -e {}", GREP + 1, spelt(pattern));
    let text = document.view(&format!("{}grep/{query}", form.prefix()))?;
    let mut seen = LookResult::of(&text, GREP);
    if seen.lines.is_empty() && form == LineForm::Plain {
        seen = find(document, form, &words_of(pattern))?;
        seen.notes.insert(0, "No line matches. The passages that fit its words best:".to_owned());
    } else if seen.lines.is_empty() {
        seen.notes.push("No line matches.".to_owned());
    }
    Ok(seen)
}

fn read(
    document: &dyn Document,
    form: LineForm,
    from: u64,
    to: u64,
) -> Result<LookResult, DocumentError> {
    let from = from.max(1);
    let last = to.max(from).min(from.saturating_add(READ - 1));
    let text = document.view(&format!("{}lines/{from}-{last}", form.prefix()))?;
    let mut seen = LookResult::default();
    for (number, line) in (from..=last).zip(text.lines()) {
        seen.lines.push(NumberedLine { number, text: cut(line) });
    }
    if seen.lines.is_empty() {
        seen.notes.push(format!(
            "There is no line {from}: the output has {} lines.",
            document.facts().lines
        ));
    } else if last < to {
        seen.notes.push(format!("Lines {}-{to} are not shown: read on from there.", last + 1));
    }
    Ok(seen)
}

impl LookResult {
    /// Parses the output of a search: numbered lines in the format of `rg -n`, and notices.
    fn of(text: &str, most: usize) -> Self {
        let mut seen = Self::default();
        let mut left = 0;
        for line in text.lines() {
            if let Some(shown) = NumberedLine::of(line) {
                if seen.lines.len() < most {
                    seen.lines.push(shown);
                } else {
                    left += 1;
                }
            } else if let Some(notice) = line.strip_prefix("# ").filter(|_| seen.lines.is_empty()) {
                seen.notes.push(without_paths(notice).to_owned());
            }
        }
        if left > 0 {
            seen.notes.push("There are more.".to_owned());
        }
        seen
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            let _ = writeln!(text, "{}: {}", line.number, line.text);
        }
        for note in &self.notes {
            let _ = writeln!(text, "({note})");
        }
        text.trim_end().to_owned()
    }
}

impl NumberedLine {
    /// Parses a line such as `12:text` or `12-text`. If only a part of the line is shown, it has
    /// the form `12@345:text`.
    fn of(line: &str) -> Option<Self> {
        let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number = line[..digits].parse().ok()?;
        let rest = &line[digits..];
        let rest = match rest.strip_prefix('@') {
            Some(column) => column.trim_start_matches(|c: char| c.is_ascii_digit()),
            None => rest,
        };
        let text = rest.strip_prefix([':', '-'])?;
        Some(Self { number, text: cut(text) })
    }
}

/// Returns a line. A long line is truncated, with a note.
pub(super) fn cut(line: &str) -> String {
    match line.char_indices().nth(LINE) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}... ({} more bytes)", &line[..end], line.len() - end),
    }
}

fn without_paths(notice: &str) -> &str {
    let end = [" All lines: ", " lines as in "].iter().filter_map(|mark| notice.find(mark)).min();
    notice[..end.unwrap_or(notice.len())].trim_end_matches([' ', ';', ',', '.'])
}

pub(super) fn spelt(argument: &str) -> String {
    argument.replace('%', "%25").replace('/', "%2F")
}

fn words_of(pattern: &str) -> String {
    each_word(pattern).collect::<Vec<_>>().join(" ")
}

fn each_word(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    text.split(move |c| !is_word(c)).filter(|word| word.len() > 1)
}

/// The first look of the reading agent: a search for the words of the question.
///
/// A model would perform this look itself, at the cost of one turn. Nothing else is shown at the
/// beginning, because each turn sends the whole conversation again. When the summary and both ends
/// of the output were shown too, a question took three times as many tokens, but the number of
/// right answers was no higher; see docs/EXTRACTION.md.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FirstLook {
    pub(super) look: AgentLook,
    pub(super) seen: LookResult,
}

impl FirstLook {
    pub(super) fn take(
        document: &dyn Document,
        form: LineForm,
        question: &str,
    ) -> Result<Self, DocumentError> {
        let look = AgentLook::Find { words: question.to_owned() };
        let seen = look.at(document, form)?;
        Ok(Self { look, seen })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_searches_are_read() {
        let text = "# a b: 2 of 2 words; the only passage follows, lines as in X.grep/. All lines: \
                    /ctx/c/x\n12:one: two\n13-three\n1@99:...part...\n--\n";
        let seen = LookResult::of(text, 9);
        let numbers: Vec<u64> = seen.lines.iter().map(|line| line.number).collect();
        assert_eq!(numbers, [12, 13, 1]);
        assert_eq!(seen.lines[0].text, "one: two");
        assert_eq!(seen.notes, ["a b: 2 of 2 words; the only passage follows"]);
        assert_eq!(seen.text().lines().next(), Some("12: one: two"));
    }

    #[test]
    fn a_read_that_was_cut_goes_on() {
        let look = AgentLook::Read { from: 10, to: 30 };
        assert_eq!(look.next(), Some(AgentLook::Read { from: 18, to: 30 }));
        assert_eq!(AgentLook::Read { from: 10, to: 17 }.next(), None);
    }

    #[test]
    fn long_lines_are_cut_and_say_so() {
        assert_eq!(cut("short"), "short");
        assert!(cut(&"\u{e9}".repeat(500)).ends_with("\u{e9}... (200 more bytes)"));
    }
}
