//! The lines of a summary that come before the excerpt.

use crate::model::Json;
use crate::model::Limits;
use crate::model::Subject;
use crate::view::PageNumber;
use crate::view::kind;
use crate::view::number::counted;
use crate::view::number::grouped;
use crate::view::number::rounded;
use crate::view::query;
use crate::view::summary::capped;

/// Bytes that the facts may take; beyond, lines that can be missed are.
const MOST_BYTES: usize = 3400;
/// Error lines that are named by number.
const NAMED_ERRORS: usize = 8;
/// From so many error lines on, a search for them is limited.
const MANY_ERRORS: u64 = 200;
/// Lines on either side of the line that a part is shown around.
const PART_LINES: u64 = 10;

/// The facts, with a place for the line that says what is shown.
pub(super) struct Facts {
    before: Vec<String>,
    shown: Option<String>,
    after: Vec<String>,
}

impl Facts {
    /// Bytes, newlines included.
    pub(super) fn size(&self) -> usize {
        self.before.iter().chain(&self.after).map(|line| line.len() + 1).sum()
    }

    /// Lines.
    pub(super) fn count(&self) -> usize {
        self.before.len() + self.after.len()
    }

    pub(super) fn set_shown(&mut self, shown: String) {
        self.shown = Some(shown);
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.before.into_iter().chain(self.shown).chain(self.after).collect()
    }

    /// Leaves out ways to read on, but the last, which is the artifact itself, until the rest fits.
    fn fitted(mut self) -> Self {
        while self.size() > MOST_BYTES && self.after.len() > 1 {
            self.after.remove(0);
        }
        self
    }
}

/// For an output of which nothing is shown: it is empty, or not text.
pub(super) fn without_excerpt(subject: &Subject<'_>) -> Vec<String> {
    let mut lines = vec![opening(subject), identity(subject), size(subject)];
    if subject.content.is_empty() {
        lines.push("shown: nothing, the output is empty".to_owned());
    } else {
        lines.push(format!("digest: blake3 {}", subject.analysis.digest));
        lines.push("shown: nothing, it is not text".to_owned());
        lines.push(format!("all:    {}", subject.place.file()));
    }
    capped_lines(&lines)
}

/// For an output that is shown whole.
pub(super) fn with_all(subject: &Subject<'_>) -> Vec<String> {
    let lines = subject.analysis.lines;
    let range =
        if lines == 1 { "line 1".to_owned() } else { format!("lines 1-{}", grouped(lines)) };
    let lines = [
        opening(subject),
        identity(subject),
        size(subject),
        format!("shown: all of it, {}", counted(lines, "line")),
        format!("all:    {}", subject.place.file()),
        format!("--- output: {range} ---"),
    ];
    capped_lines(&lines)
}

/// For an output of which a part is shown.
pub(super) fn with_excerpt(subject: &Subject<'_>) -> Facts {
    let before =
        [Some(opening(subject)), Some(identity(subject)), Some(size(subject)), shape(subject)];
    let file = subject.place.file();
    let after = [
        read(subject),
        errors(subject),
        Some(search(subject)),
        (subject.analysis.lines > 1).then(|| format!("end:    {file}.tail (last 200 lines)")),
        part(subject),
        Some(all(subject)),
    ];
    let lines = |lines: Vec<Option<String>>| {
        capped_lines(&lines.into_iter().flatten().collect::<Vec<String>>())
    };
    Facts { before: lines(before.into()), shown: None, after: lines(after.into()) }.fitted()
}

fn capped_lines(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| capped(line)).collect()
}

fn opening(subject: &Subject<'_>) -> String {
    let exit = subject.record.said.exit_code;
    let ended = exit.map(|code| {
        let failed = if code == 0 { "" } else { " (failed)" };
        format!("; the call ended with exit code {code}{failed}")
    });
    let ended = ended.unwrap_or_default();
    if let Some(why) = subject.record.incomplete() {
        return format!("[ctxfs] INCOMPLETE: the output may lack its end ({why}){ended}.");
    }
    let what = match exit {
        None => "the call",
        Some(_) => "it",
    };
    format!("[ctxfs] The complete output is stored{ended}. There is no need to run {what} again.")
}

fn identity(subject: &Subject<'_>) -> String {
    let said = &subject.record.said;
    let is_tool = subject.place.path().starts_with("artifacts/tool/");
    let call = said.call.as_deref().or_else(|| is_tool.then(|| subject.record.call()));
    let parts = [
        said.tool_name().map(|tool| format!("tool: {tool}")),
        call.map(|call| format!("call: {call}")),
        Some(format!("ref: {}", subject.place.reference())),
    ];
    parts.into_iter().flatten().collect::<Vec<String>>().join("    ")
}

fn size(subject: &Subject<'_>) -> String {
    let analysis = subject.analysis;
    let bytes = subject.content.len();
    let kind = kind::full(analysis);
    if bytes == 0 {
        return "size: 0 bytes; empty".to_owned();
    }
    if analysis.is_binary() {
        return format!("size: {}; {kind}", counted(bytes, "byte"));
    }
    let partial = analysis.bytes != bytes;
    let least = if partial { "at least " } else { "" };
    let chars = if analysis.chars == analysis.bytes || partial {
        String::new()
    } else {
        format!(", {}", counted(analysis.chars, "character"))
    };
    let lines = match analysis.lines {
        1 if !partial => " on 1 line".to_owned(),
        lines => format!(
            ", {least}{} (longest {})",
            counted(lines, "line"),
            grouped(analysis.longest_line)
        ),
    };
    let tokens = grouped(rounded(analysis.tokens));
    let (first, second) = if analysis.lines == 1 { (lines, chars) } else { (chars, lines) };
    format!("size: {}{first}{second}, {least}about {tokens} tokens; {kind}", counted(bytes, "byte"))
}

fn shape(subject: &Subject<'_>) -> Option<String> {
    match &subject.analysis.json {
        Json::Document { shape, .. } | Json::Lines { shape, .. } => Some(format!("shape: {shape}")),
        Json::No | Json::Broken { .. } => None,
    }
}

/// The readable form of JSON, with its lines where they were counted.
fn read(subject: &Subject<'_>) -> Option<String> {
    let lines = match &subject.analysis.json {
        Json::Document { pretty_lines, .. } | Json::Lines { pretty_lines, .. } => *pretty_lines,
        Json::Broken { .. } => 0,
        Json::No => return None,
    };
    let lines = if lines > 0 { format!(" ({})", counted(lines, "line")) } else { String::new() };
    Some(format!("read:   {}.pretty{lines}", subject.place.file()))
}

fn errors(subject: &Subject<'_>) -> Option<String> {
    let errors = &subject.analysis.errors;
    let mut numbers: Vec<u64> = errors.shown.iter().map(|error| error.line).collect();
    numbers.truncate(NAMED_ERRORS);
    numbers.sort_unstable();
    let named: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let more = errors.count.saturating_sub(numbers.len() as u64);
    let more = if more > 0 { format!(" and {} more", grouped(more)) } else { String::new() };
    let verb = if errors.count == 1 { "looks like an error" } else { "look like errors" };
    let lines = counted(errors.count, "line");
    (errors.count > 0).then(|| format!("errors: {lines} {verb}: {}{more}", named.join(", ")))
}

fn search(subject: &Subject<'_>) -> String {
    let file = subject.place.file();
    let errors = &subject.analysis.errors;
    if errors.words.is_empty() {
        return format!("search: {file}.grep/TEXT (any pattern of ripgrep for TEXT)");
    }
    let limit = if errors.count > MANY_ERRORS { "-m20 " } else { "" };
    format!("search: {file}.grep/{limit}{}", query::name_of(&errors.words.join("|")))
}

/// The artifact itself, and its pages, where one is not all of it and their path has room.
fn all(subject: &Subject<'_>) -> String {
    let file = subject.place.file();
    let pages = PageNumber::count(subject.content.len());
    let first = PageNumber::after(0);
    let line = format!("all:    {file} (or {}: {file}.pages/{first})", counted(pages, "page"));
    if pages > 1 && line.chars().count() <= Limits::LINE_CHARS {
        return line;
    }
    format!("all:    {file}")
}

/// Around the most telling error line, or in the middle.
fn part(subject: &Subject<'_>) -> Option<String> {
    let file = subject.place.file();
    let analysis = subject.analysis;
    if analysis.lines == 1 {
        let middle = analysis.bytes / 2 + 1;
        return Some(format!("part:   {file}.grep/--from=1@{middle} -o .{{1,400}}"));
    }
    let middle = analysis.errors.shown.first().map_or(analysis.lines / 2, |error| error.line);
    let first = middle.saturating_sub(PART_LINES).max(1);
    let last = (middle + PART_LINES).min(analysis.lines);
    (first < last).then(|| format!("part:   {file}.lines/{first}-{last}"))
}
