//! The reply of `.find`: the lines that introduce it, and as many of the best passages as are worth
//! reading.

use std::collections::{HashMap, HashSet};

use crate::find::passage::{Passage, ShownLine};
use crate::find::question::{ChosenTerms, QuestionError};
use crate::grep::page;
use crate::number::{counted, grouped};
use crate::range::TextPosition;
use ctxfs_core::model::{Limits, Place};

// After this many bytes, a reply shows only passages that are about as good as the best one.
const USUAL_BYTES: usize = 1500;
// Minimum score of a passage as a percentage of the best score, within the first `USUAL_BYTES` of a
// reply and after them.
const MIN_SCORE_PERCENT: u64 = 50;
const MIN_LATE_SCORE_PERCENT: u64 = 97;
// The same for records: beside the one that was asked for, the values of others mislead.
const MIN_RECORD_SCORE_PERCENT: u64 = 85;
// Maximum number of passages, and maximum number of passages that differ only in numbers.
const MAX_PASSAGES: usize = 8;
const MAX_ALIKE: usize = 3;
// Maximum number of characters of the question that the reply repeats.
const QUESTION_CHARS: usize = 200;
const SEARCH_BYTES: usize = 400;
// Bytes that are reserved for the notice about a line of which only a part is shown.
pub(super) const WINDOW_NOTICE_BYTES: usize = 400;

/// A passage to show. `name` is the name of its artifact in a search of several artifacts, and
/// empty otherwise. `header` is the first line of a table.
#[derive(Debug, Clone, Copy)]
pub(super) struct FromArtifact<'p> {
    pub(super) passage: &'p Passage,
    pub(super) name: &'p [u8],
    pub(super) header: Option<&'p ShownLine>,
}

/// The text of a reply, and the number of passages in it. `windowed` is the notice about the first
/// line of which only a part is shown.
#[derive(Debug, Default)]
pub(super) struct FindReply {
    pub(super) text: Vec<u8>,
    pub(super) shown: usize,
    pub(super) windowed: Option<String>,
}

// Maximum size in bytes of a reply, with all its notices except the one on redaction.
pub(super) fn max_bytes(redacts: bool) -> usize {
    Limits::STAND_IN_BYTES - if redacts { ctxfs_core::model::REDACTION_BYTES } else { 0 }
}

impl FindReply {
    pub(super) fn of<'p>(passages: impl Iterator<Item = FromArtifact<'p>>, room: usize) -> Self {
        let mut reply = Self::default();
        let mut best = None;
        let mut alike: HashMap<(u64, u64), usize> = HashMap::new();
        let mut headers: Vec<&[u8]> = Vec::new();
        let mut seen: HashSet<Vec<&[u8]>> = HashSet::new();
        for next in passages {
            let best = *best.get_or_insert(next.passage.score);
            let percent = if reply.text.len() >= USUAL_BYTES {
                MIN_LATE_SCORE_PERCENT
            } else if next.passage.is_record {
                MIN_RECORD_SCORE_PERCENT
            } else {
                MIN_SCORE_PERCENT
            };
            if reply.shown == MAX_PASSAGES || next.passage.score * 100 < best * percent {
                break;
            }
            let count = alike.entry((next.passage.likeness, next.passage.terms)).or_default();
            if *count == MAX_ALIKE {
                continue;
            }
            let text = next.text(reply.shown == 0, headers.contains(&next.name));
            if reply.text.len() + text.len() > room {
                continue;
            }
            // Skips a passage with the same text as an earlier one, for example from another
            // artifact.
            if !seen.insert(next.passage.lines.iter().map(|line| line.text.as_slice()).collect()) {
                continue;
            }
            *count += 1;
            headers.push(next.name);
            reply.text.extend_from_slice(&text);
            reply.shown += 1;
            reply.windowed = reply.windowed.or_else(|| next.windowed());
        }
        reply
    }
}

impl FromArtifact<'_> {
    fn windowed(&self) -> Option<String> {
        let mut lines = self.passage.lines.iter();
        let at =
            lines.find_map(|line| Some(TextPosition { line: line.line, column: line.column? }))?;
        let name = String::from_utf8_lossy(self.name).into_owned();
        let colon = if name.is_empty() { "" } else { ":" };
        Some(page::long_lines(&(cut(&name) + colon), at))
    }

    fn text(&self, is_first: bool, has_header: bool) -> Vec<u8> {
        let mut text = Vec::new();
        if !is_first {
            text.extend_from_slice(b"--\n");
        }
        if let Some(header) = self.header.filter(|_| !has_header)
            && self.passage.lines.iter().all(|line| line.line != header.line)
        {
            header.print(self.name, &mut text);
        }
        self.passage.print(self.name, &mut text);
        text
    }
}

/// The facts in the first line of a reply. `terms` is the set of words in the best passage, as
/// bits. `among` is ` in 3 of 12 artifacts` for a directory. `grep` is the path of the searches of
/// the artifact or directory: `X.grep`.
pub(super) struct ReplySummary<'a> {
    pub(super) chosen: &'a ChosenTerms,
    pub(super) terms: u64,
    pub(super) shown: usize,
    pub(super) count: u64,
    pub(super) among: &'a str,
    pub(super) grep: &'a Place,
}

impl ReplySummary<'_> {
    pub(super) fn text(&self) -> String {
        let asked = cut(&self.chosen.asked.join(" "));
        let all = self.chosen.asked.len();
        let has = self.chosen.asked_of(self.terms);
        let words = format!("{has} of {}", counted(all as u64, "word"));
        format!(
            "{asked}: {words}{}; {}. All lines: {}",
            self.changes(),
            self.follow(),
            self.search()
        )
    }

    fn follow(&self) -> String {
        let verb = if self.shown == 1 { "follows" } else { "follow" };
        let among = self.among;
        let lines = if among.is_empty() { "lines as in X.grep/" } else { "lines as in .grep/" };
        let best = match (self.shown as u64, self.count) {
            (1, 1) => format!("the only passage{among}"),
            (shown, count) if shown >= count => format!("all {shown} passages{among}"),
            (1, count) => format!("the best of {}{among}", counted(count, "passage")),
            (shown, count) => format!("the best {shown} of {}{among}", counted(count, "passage")),
        };
        format!("{best} {verb}, {lines}")
    }

    fn changes(&self) -> String {
        let replaced = self.chosen.replaced.iter();
        let replaced: Vec<String> =
            replaced.map(|(from, to)| format!(", {} searched as {to}", cut(from))).collect();
        let absent = match self.chosen.absent.as_slice() {
            [] => String::new(),
            words => format!(" (not there: {})", cut(&words.join(", "))),
        };
        replaced.concat() + &absent
    }

    fn search(&self) -> String {
        let query = self.chosen.query.to_string();
        let query = if query.len() <= SEARCH_BYTES { query } else { String::new() };
        self.grep.of_view(&format!("/{query}")).file()
    }
}

pub(super) fn no_question(why: &QuestionError) -> String {
    match why {
        QuestionError::NoWords => {
            "# no words to look for: a word has letters or digits\n".to_owned()
        }
        QuestionError::TooLong => format!(
            "# a word is too long: at most {} bytes\n",
            grouped(crate::find::parts::MAX_WORD_BYTES as u64)
        ),
    }
}

/// Returns the line that says that none of the words occurs in `place`, and suggests some words
/// that do. `more` is the place with more suggestions.
pub(super) fn nothing(asked: &[String], place: &str, suggested: &[String], more: &str) -> String {
    let none =
        if asked.len() == 1 { "the word does not occur" } else { "none of the words occurs" };
    let asked = cut(&asked.join(" "));
    let others = match suggested {
        [] => String::new(),
        words => format!(". The most telling words there are: {}{more}", words.join(", ")),
    };
    format!("# {asked}: {none} in {place}{others}\n")
}

pub(super) fn cut(text: &str) -> String {
    let line = crate::cleaned(text, QUESTION_CHARS);
    if line.chars().count() < text.chars().count() { line + "..." } else { line }
}
