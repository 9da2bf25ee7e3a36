//! The lines of a summary that come before the excerpt.

use std::io;

use crate::model::Json;
use crate::model::Limits;
use crate::model::Subject;
use crate::view::Filter;
use crate::view::PageNumber;
use crate::view::errors::Findings;
use crate::view::image;
use crate::view::kind;
use crate::view::number::counted;
use crate::view::number::grouped;
use crate::view::number::rounded;
use crate::view::query;
use crate::view::summary::capped;
use crate::view::summary::parts;
use crate::view::summary::search;
use crate::view::summary::table;
use crate::view::summary::trouble;
use crate::view::summary::unlike;

/// Bytes that the facts may take. Beyond them, less important lines are left out.
const MOST_BYTES: usize = 3400;
/// Most error lines that are named by number.
const NAMED_ERRORS: usize = 8;
/// Lines to show on either side of the line that a part is shown around.
const PART_LINES: u64 = 10;

/// The facts, with a place for the line that tells which lines are shown.
pub(super) struct Facts {
    before: Vec<String>,
    shown: Vec<String>,
    after: Vec<String>,
}

impl Facts {
    /// Returns their size in bytes, including newlines.
    pub(super) fn size(&self) -> usize {
        self.before.iter().chain(&self.after).map(|line| line.len() + 1).sum()
    }

    /// Returns the number of lines.
    pub(super) fn count(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// Sets the lines on what is shown, and on what is redacted in it.
    pub(super) fn set_shown(&mut self, shown: String, redacted: Option<String>) {
        self.shown = [shown].into_iter().chain(redacted).collect();
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.before.into_iter().chain(self.shown).chain(self.after).collect()
    }

    /// Leaves out lines on the contents of the output and on ways to read on until the rest fits.
    /// Keeps the last one, the artifact itself.
    fn fitted(mut self) -> Self {
        while self.size() > MOST_BYTES && self.after.len() > 1 {
            self.after.remove(0);
        }
        self
    }
}

/// Returns the facts on an output of which nothing is shown: it is empty, or not text.
pub(super) fn without_excerpt(subject: &Subject<'_>) -> io::Result<Vec<String>> {
    let dimensions = image::dimensions(subject)?.map(|size| format!(", {size}"));
    let size = size(subject) + &dimensions.unwrap_or_default();
    let mut lines = vec![opening(subject), identity(subject), size];
    if subject.content.is_empty() {
        lines.push("shown: nothing, the output is empty".to_owned());
    } else {
        lines.push(format!("digest: blake3 {}", subject.analysis.digest));
        lines.push("shown: nothing, it is not text".to_owned());
        lines.push(format!("all:    {}", subject.place.file()));
    }
    Ok(capped_lines(&lines))
}

/// Returns the facts on an output that is shown whole.
pub(super) fn with_all(subject: &Subject<'_>, redacted: Option<String>) -> Vec<String> {
    let lines = subject.analysis.lines;
    let range =
        if lines == 1 { "line 1".to_owned() } else { format!("lines 1-{}", grouped(lines)) };
    let lines = [
        Some(opening(subject)),
        Some(identity(subject)),
        Some(size(subject)),
        Some(format!("shown: all of it, {}", counted(lines, "line"))),
        redacted,
        Some(format!("all:    {}", subject.place.file())),
        Some(format!("--- output: {range} ---")),
    ];
    capped_lines(&lines.into_iter().flatten().collect::<Vec<String>>())
}

/// Returns the facts on an output that is shown in part.
pub(super) fn with_excerpt(subject: &Subject<'_>, found: &Findings) -> io::Result<Facts> {
    let before = [
        Some(opening(subject)),
        Some(identity(subject)),
        Some(size(subject)),
        shape(subject),
        trouble::line(subject),
    ];
    let file = subject.place.file();
    let [read, query] = read(subject);
    let columns = table::columns(subject)?;
    let after = [
        read,
        query,
        parts::sections(subject)?,
        table::statuses(subject),
        columns.clone(),
        parts::repeated(subject)?.filter(|_| columns.is_none()),
        unlike::line(subject, found)?,
        errors(subject, found),
        Some(search::line(subject, found)),
        (subject.analysis.lines > 1).then(|| format!("end:    {file}.tail (last 200 lines)")),
        part(subject, found),
        long(subject),
        Some(all(subject)),
    ];
    let lines = |lines: Vec<Option<String>>| {
        capped_lines(&lines.into_iter().flatten().collect::<Vec<String>>())
    };
    Ok(Facts { before: lines(before.into()), shown: Vec::new(), after: lines(after.into()) }
        .fitted())
}

fn capped_lines(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| capped(line)).collect()
}

fn opening(subject: &Subject<'_>) -> String {
    format!("[ctxfs] {}", ended(subject))
}

/// Tells how the call ended, and that it need not be repeated.
pub(in crate::view) fn ended(subject: &Subject<'_>) -> String {
    let exit = subject.record.provenance.exit_code;
    let ended = exit.map(|code| {
        let failed = if code == 0 { "" } else { " (failed)" };
        format!("; the call ended with exit code {code}{failed}")
    });
    let ended = ended.unwrap_or_default();
    if let Some(why) = subject.record.incomplete() {
        return format!("INCOMPLETE: the output may lack its end ({why}){ended}.");
    }
    let what = match exit {
        None => "the call",
        Some(_) => "it",
    };
    format!("The complete output is stored{ended}. There is no need to run {what} again.")
}

fn identity(subject: &Subject<'_>) -> String {
    let provenance = &subject.record.provenance;
    let is_tool = subject.place.path().starts_with("artifacts/tool/");
    let call = provenance.call.as_deref().or_else(|| is_tool.then(|| subject.record.call()));
    let parts = [
        provenance.tool_name().map(|tool| format!("tool: {tool}")),
        call.map(|call| format!("call: {call}")),
        Some(format!("ref: {}", subject.place.reference())),
    ];
    parts.into_iter().flatten().collect::<Vec<String>>().join("    ")
}

fn size(subject: &Subject<'_>) -> String {
    let analysis = subject.analysis;
    let bytes = subject.content.len();
    let kind = kind::full(analysis);
    if subject.size() == 0 {
        return "size: 0 bytes; empty".to_owned();
    }
    if analysis.is_binary() {
        return format!("size: {}; {kind}", counted(subject.size(), "byte"));
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
    let tokens = counted(rounded(analysis.tokens), "token");
    let (first, second) = if analysis.lines == 1 { (lines, chars) } else { (chars, lines) };
    let stored = counted(subject.size(), "byte");
    let escapes = if subject.size() == bytes || partial {
        String::new()
    } else {
        format!(" ({} without terminal escapes)", grouped(bytes))
    };
    format!("size: {stored}{escapes}{first}{second}, {least}about {tokens}; {kind}")
}

fn shape(subject: &Subject<'_>) -> Option<String> {
    match &subject.analysis.json {
        Json::Document { shape, .. } | Json::Lines { shape, .. } => Some(format!("shape: {shape}")),
        Json::No | Json::Broken { .. } => None,
    }
}

/// Returns the path of the readable form of JSON, with its lines if they were counted, and a filter
/// that has results. They are on one line if both fit. What has lines enough is readable as it is.
fn read(subject: &Subject<'_>) -> [Option<String>; 2] {
    let (lines, example) = match &subject.analysis.json {
        Json::Document { pretty_lines, example, .. } => (*pretty_lines, example.as_deref()),
        Json::Lines { pretty_lines, example, .. } => {
            (*pretty_lines, Some(example.as_deref().unwrap_or("-m1 .")))
        }
        Json::Broken { .. } => (0, None),
        Json::No => return [None, None],
    };
    let file = subject.place.file();
    let is_readable = lines > 0 && subject.analysis.lines >= lines;
    let lines = if lines > 0 { format!(" ({})", counted(lines, "line")) } else { String::new() };
    let read = (!is_readable).then(|| format!("read:   {file}.pretty{lines}"));
    let Some(example) = example.map(Filter::name_of) else { return [read, None] };
    let both = read.as_ref().map(|read| format!("{read}    query: {file}.jq/{example}"));
    if let Some(both) = both.filter(|both| both.chars().count() <= Limits::LINE_CHARS) {
        return [Some(both), None];
    }
    [read, Some(format!("query:  {file}.jq/{example}"))]
}

fn errors(subject: &Subject<'_>, found: &Findings) -> Option<String> {
    let mut numbers: Vec<u64> = found.shown.iter().map(|error| error.at.line).collect();
    numbers.truncate(NAMED_ERRORS);
    numbers.sort_unstable();
    let named: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let more = found.count.saturating_sub(numbers.len() as u64);
    let more = if more > 0 { format!(" and {} more", grouped(more)) } else { String::new() };
    let verb = if found.count == 1 { "looks like an error" } else { "look like errors" };
    let lines = counted(found.count, "line");
    let context = format!("with context: {}.errors", subject.place.file());
    (found.count > 0)
        .then(|| format!("errors: {lines} {verb}: {}{more}; {context}", named.join(", ")))
}

/// Returns a line on what only has words of errors, which comes after the output.
pub(super) fn mentions(subject: &Subject<'_>, found: &Findings) -> Option<String> {
    let words = subject.analysis.errors.words.join("|");
    let is_all = found.shown.is_empty() && found.mentions > 0 && !words.is_empty();
    let lines = counted(found.mentions, "line");
    let path = format!("{}.grep/{}", subject.place.file(), query::name_of(&words));
    is_all.then(|| capped(&format!("--- mentions: {lines} with words of errors: {path} ---")))
}

/// Returns the path of a view with shorter lines if lines are too long for many readers. JSON has a
/// better form.
fn long(subject: &Subject<'_>) -> Option<String> {
    let is_json = matches!(subject.analysis.json, Json::Document { .. } | Json::Lines { .. });
    let long = subject.analysis.longest_line > Limits::LINE_CHARS as u64 && !is_json;
    long.then(|| format!("long:   {}.wrap", subject.place.file()))
}

/// Returns the path of the artifact itself, and that of its pages if there are several and their
/// path fits.
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

/// Returns the path of the lines around the most telling error.
fn part(subject: &Subject<'_>, found: &Findings) -> Option<String> {
    let file = subject.place.file();
    let analysis = subject.analysis;
    if analysis.lines == 1 {
        let middle = analysis.bytes / 2 + 1;
        return Some(format!("part:   {file}.grep/--from=1@{middle} -o .{{1,400}}"));
    }
    let middle = found.shown.first()?.at.line;
    let first = middle.saturating_sub(PART_LINES).max(1);
    let last = (middle + PART_LINES).min(analysis.lines);
    (first < last).then(|| format!("part:   {file}.lines/{first}-{last}"))
}
