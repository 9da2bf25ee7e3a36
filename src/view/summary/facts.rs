//! The lines of a summary before the excerpt.

use std::io;
use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::clean::capped;
use crate::errors::Findings;
use crate::number::{counted, grouped, rounded};
use crate::summary::{contents, steps};
use crate::{Filter, Title, kind, query, since};
use ctxfs_core::model::{Json, Limits, Subject, Trouble};

// Size in bytes beyond which less important lines are left out.
const MAX_FACTS_BYTES: usize = 3400;

// Maximum number of other outputs of the same name that are listed.
const MAX_NAMES: usize = 3;
// Maximum number of characters of all fields in the `trouble` line.
const TROUBLE_CHARS: usize = 400;
// Number of bytes that are searched for the dimensions of an image. Previews and colour profiles
// may come first.
const HEAD_BYTES: usize = 256 << 10;
// Number of bytes that are searched for a mark that the output was cut before. Hosts cut outputs to at
// most this size.
const CUT_BYTES: usize = 64 << 10;

/// The facts in the order of their lines. `shown` states which lines the excerpt shows, and the
/// change since the last run. `before` and `after` are the facts before and after `shown`. `steps`
/// are the ways to read the rest of the output.
pub(super) struct Facts {
    before: Vec<String>,
    shown: Vec<String>,
    after: Vec<String>,
    steps: Vec<String>,
}

impl Facts {
    pub(super) fn size(&self) -> usize {
        let lines = [&self.before, &self.shown, &self.after, &self.steps].into_iter().flatten();
        lines.map(|line| line.len() + 1).sum()
    }

    pub(super) fn count(&self) -> usize {
        self.before.len() + self.shown.len() + self.after.len() + self.steps.len()
    }

    /// Sets the lines about the shown part and about the secrets redacted in it. If `all` is true,
    /// the whole output is shown, and the steps are removed.
    pub(super) fn set_shown(&mut self, shown: String, redacted: Option<String>, all: bool) {
        self.shown.splice(0..0, [shown].into_iter().chain(redacted));
        if all {
            self.steps.clear();
        }
    }

    pub(super) fn into_lines(self) -> Vec<String> {
        self.before.into_iter().chain(self.shown).chain(self.after).chain(self.steps).collect()
    }

    // Removes lines about the contents of the output, and then the last steps, until the remaining
    // lines fit.
    fn fitted(mut self) -> Self {
        while self.size() > MAX_FACTS_BYTES && !self.after.is_empty() {
            self.after.remove(0);
        }
        while self.size() > MAX_FACTS_BYTES && self.steps.pop().is_some() {}
        self
    }
}

pub(super) fn without_excerpt(subject: &Subject<'_>) -> io::Result<Vec<String>> {
    let dimensions = dimensions(subject)?.map(|size| format!(", {size}"));
    let size = size(subject) + &dimensions.unwrap_or_default();
    let mut lines = vec![opening(subject)];
    lines.extend(title(subject));
    lines.push(identity(subject));
    lines.extend(also(subject.same_name));
    lines.push(size);
    if subject.content.is_empty() {
        let why = match subject.record.incomplete() {
            None => "the output is empty",
            Some(_) => "none of the output is stored",
        };
        lines.push(format!("shown: nothing, {why}"));
    } else {
        lines.push(format!("digest: blake3 {}", subject.analysis.digest));
        lines.push("shown: nothing, it is not text".to_owned());
        lines.extend(since::line(subject));
        lines.push(format!("file:   {}", subject.place.file()));
    }
    Ok(capped_lines(&lines))
}

pub(super) fn with_all(subject: &Subject<'_>, redacted: Option<String>) -> Vec<String> {
    let lines = subject.analysis.lines;
    let is_shorter = subject.size() != subject.content.len();
    let is_shown = is_shorter && subject.analysis.text_reading().strips;
    let as_shown = if is_shown { " as a terminal shows it" } else { "" };
    let range =
        if lines == 1 { "line 1".to_owned() } else { format!("lines 1-{}", grouped(lines)) };
    let lines = [
        Some(opening(subject)),
        title(subject),
        Some(identity(subject)),
        also(subject.same_name),
        Some(size(subject)),
        Some(format!("shown: all of it{as_shown}, {}", counted(lines, "line"))),
        redacted,
        since::line(subject),
        Some(format!("file:   {}", subject.place.file())),
        Some(format!("--- output: {range} ---")),
    ];
    capped_lines(&lines.into_iter().flatten().collect::<Vec<String>>())
}

pub(super) fn with_excerpt(
    subject: &Subject<'_>,
    found: &Findings,
    above: &[u8],
) -> io::Result<Facts> {
    let trouble = trouble_line(subject);
    let is_first = found.shown.is_empty() || steps::is_document(subject);
    let [read, query] = read(subject, trouble.is_some() && is_first);
    let is_complete = subject.record.incomplete().is_none();
    let goes_on = if is_complete && !above.is_empty() { "The output goes on. " } else { "" };
    let opening = format!("[ctxfs] {goes_on}{}", ended(subject));
    let mut before = identified(subject, opening);
    before.extend([shape(subject), trouble]);
    let columns = contents::columns(subject)?;
    let repeated = if columns.is_none() { contents::repeated(subject)? } else { None };
    let sections = contents::sections(subject)?;
    let unlike = contents::unlike_line(subject, found)?;
    let statuses = contents::statuses(subject);
    let after = [read, query, sections, statuses, columns, repeated, unlike, errors(found)];
    let mut steps = steps::to_errors(subject, found)?;
    steps.extend(long(subject));
    steps.extend(steps::to_the_rest(subject));
    let (before, after, steps) = (present(before), present(after.into()), capped_lines(&steps));
    Ok(Facts { before, shown: present(vec![since::line(subject)]), after, steps }.fitted())
}

/// Returns the facts about a list, which needs no description of its content.
pub(super) fn of_list(subject: &Subject<'_>, found: &Findings) -> io::Result<Facts> {
    let before = present(identified(subject, opening(subject)));
    let after = present(vec![errors(found)]);
    let mut steps = steps::to_errors(subject, found)?;
    steps.extend(steps::to_the_rest(subject));
    let (shown, steps) = (present(vec![since::line(subject)]), capped_lines(&steps));
    Ok(Facts { before, shown, after, steps }.fitted())
}

fn identified(subject: &Subject<'_>, opening: String) -> Vec<Option<String>> {
    vec![
        Some(opening),
        title(subject),
        Some(identity(subject)),
        also(subject.same_name),
        Some(steps::file(subject)),
        Some(size(subject)),
    ]
}

fn present(lines: Vec<Option<String>>) -> Vec<String> {
    capped_lines(&lines.into_iter().flatten().collect::<Vec<String>>())
}

fn capped_lines(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| capped(line)).collect()
}

fn opening(subject: &Subject<'_>) -> String {
    format!("[ctxfs] {}", ended(subject))
}

// Matches the marks that hosts leave where they cut an output.
static CUT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?-u)(?:(?:\xe2\x80\xa6|\.\.\.|[\[<(]) *|(?m:^))(\d[\d,]* (?:more )?(?:chars|characters|bytes|tokens|lines) (?:truncated|elided|omitted))|[\[<](truncated \d[\d,]* (?:chars|characters|bytes|tokens|lines))[\]>]",
    )
    .expect("a pattern of this file")
});

// Returns the mark of whatever cut the output before it was stored.
fn cut_before(subject: &Subject<'_>) -> Option<String> {
    let near = subject.content.bytes(0, CUT_BYTES).ok()?;
    let found = CUT.captures(&near)?;
    let mark = found.get(1).or_else(|| found.get(2))?;
    Some(String::from_utf8_lossy(mark.as_bytes()).into_owned())
}

// Describes how the call ended, and states that it need not be repeated.
pub(crate) fn ended(subject: &Subject<'_>) -> String {
    let exit = subject.record.provenance.exit_code;
    let ended = exit.map(|code| {
        let failed = if code == 0 { "" } else { " (failed)" };
        format!("; the call ended with exit code {code}{failed}")
    });
    let ended = ended.unwrap_or_default();
    if let Some(why) = subject.record.incomplete() {
        return format!("INCOMPLETE: part of the output may be missing ({why}){ended}.");
    }
    if let Some(mark) = cut_before(subject) {
        return format!(
            "The output is stored as it came{ended}. It has a mark of an earlier cut: \"{mark}\"."
        );
    }
    let what = match exit {
        None => "the call",
        Some(_) => "it",
    };
    format!("The complete output is stored{ended}. There is no need to run {what} again.")
}

fn title(subject: &Subject<'_>) -> Option<String> {
    Title::of(&subject.record.provenance).map(|title| title.line())
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

pub(crate) fn also(others: &[String]) -> Option<String> {
    let shown = others.iter().take(MAX_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match others.len() {
        0 => None,
        1 => Some(format!("also:   {shown}, another output of this name, from another host")),
        count => {
            let more = count.saturating_sub(MAX_NAMES) as u64;
            let more =
                if more == 0 { String::new() } else { format!(" and {} more", grouped(more)) };
            Some(format!("also:   {shown}{more}, other outputs of this name, from other hosts"))
        }
    }
}

fn size(subject: &Subject<'_>) -> String {
    let analysis = subject.analysis;
    let bytes = subject.content.len();
    let kind = kind::full(analysis);
    if subject.size() == 0 {
        let what = if subject.record.incomplete().is_some() { "" } else { "; empty" };
        return format!("size: 0 bytes{what}");
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
    let text = if subject.size() == bytes || partial {
        String::new()
    } else if analysis.text_reading().strips {
        let frames = match analysis.overdrawn {
            0 => String::new(),
            count => format!(" and {} drawn over", counted(count, "frame")),
        };
        format!(" ({} without terminal escapes{frames})", grouped(bytes))
    } else {
        format!(" ({} as UTF-8)", grouped(bytes))
    };
    format!("size: {stored}{text}{first}{second}, {least}about {tokens}; {kind}")
}

fn shape(subject: &Subject<'_>) -> Option<String> {
    match &subject.analysis.json {
        Json::Document { shape, .. } | Json::Lines { shape, .. } => Some(format!("shape: {shape}")),
        Json::No | Json::Broken { .. } => None,
    }
}

/// Returns the lines that offer views of JSON: `.pretty`, with its number of lines if they were
/// counted, and a filter that has results. If `is_next` is true, the filter comes first, as the
/// next step. Otherwise both are on one line if they fit. `.pretty` is left out if the output
/// already has as many lines.
fn read(subject: &Subject<'_>, is_next: bool) -> [Option<String>; 2] {
    let (lines, example) = match &subject.analysis.json {
        Json::Document { pretty_lines, example, .. } => (*pretty_lines, example.as_deref()),
        Json::Lines { pretty_lines, example, .. } => {
            (*pretty_lines, Some(example.as_deref().unwrap_or("-m1 .")))
        }
        Json::Broken { .. } => (0, None),
        Json::No => return [None, None],
    };
    let is_readable = lines > 0 && subject.analysis.lines >= lines;
    let lines = if lines > 0 { format!(" ({})", counted(lines, "line")) } else { String::new() };
    let read = (!is_readable).then(|| format!("read:   .pretty{lines}"));
    let Some(example) = example.map(Filter::name_of) else { return [read, None] };
    if is_next {
        return [Some(format!("next:   .jq/{example}    (the worst)")), read];
    }
    let both = read.as_ref().map(|read| format!("{read}    query: .jq/{example}"));
    if let Some(both) = both.filter(|both| both.chars().count() <= Limits::LINE_CHARS) {
        return [Some(both), None];
    }
    [read, Some(format!("query:  .jq/{example}"))]
}

fn errors(found: &Findings) -> Option<String> {
    let verb = if found.count == 1 { "looks like an error" } else { "look like errors" };
    let lines = counted(found.count, "line");
    (found.count > 0).then(|| format!("errors: {lines} {verb}"))
}

// Returns the line that leads to the lines with words of errors, if no line is an error. It is printed
// after the output.
pub(super) fn mentions(subject: &Subject<'_>, found: &Findings) -> Option<String> {
    let words = subject.analysis.errors.words.join("|");
    let is_all = found.shown.is_empty() && found.mentions > 0 && !words.is_empty();
    let path = format!(".grep/{}", query::name_of(&words));
    is_all.then(|| capped(&format!("--- mentions: lines with words of errors: {path} ---")))
}

/// Returns the line that offers `.wrap`, if the output has a line that is longer than readers show.
/// Returns `None` for JSON, for which `.pretty` is better.
fn long(subject: &Subject<'_>) -> Option<String> {
    let is_json = matches!(subject.analysis.json, Json::Document { .. } | Json::Lines { .. });
    let long = subject.analysis.longest_line > Limits::LINE_CHARS as u64 && !is_json;
    long.then(|| "long:   .wrap    (long lines folded)".to_owned())
}

// Returns the line `trouble: .[].errorCount: 12 of 28 over 0; .items[].severity: 3 CRITICAL, 12
// HIGH`.
fn trouble_line(subject: &Subject<'_>) -> Option<String> {
    let mut line = String::new();
    for field in subject.analysis.trouble.iter().map(field_text) {
        if line.chars().count() + field.chars().count() <= TROUBLE_CHARS {
            line.push_str(if line.is_empty() { "trouble: " } else { "; " });
            line.push_str(&field);
        }
    }
    (!line.is_empty()).then_some(line)
}

fn field_text(trouble: &Trouble) -> String {
    let least = if trouble.least { "at least " } else { "" };
    let path = &trouble.path;
    let sum: u64 = trouble.counts.iter().map(|(_, count)| count).sum();
    let of = if sum < trouble.of { format!(" of {}", grouped(trouble.of)) } else { String::new() };
    if let [(word, count)] = trouble.counts.as_slice() {
        return format!("{path}: {least}{}{of} {}", grouped(*count), quantified(word));
    }
    let words = trouble
        .counts
        .iter()
        .map(|(word, count)| format!("{} {}", grouped(*count), quantified(word)));
    format!("{path}: {least}{}{of}", words.collect::<Vec<String>>().join(", "))
}

// Formats a word for a quantity: `CRITICAL`, `with 2`.
fn quantified(word: &str) -> String {
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    format!("{}{word}", if is_number { "with " } else { "" })
}

// Returns the size of an image in pixels: `800 x 600`. Returns `None` if the artifact is not an
// image or its size is not found.
fn dimensions(subject: &Subject<'_>) -> io::Result<Option<String>> {
    if !subject.analysis.mime.starts_with("image/") {
        return Ok(None);
    }
    let head = subject.content.bytes(0, HEAD_BYTES)?;
    let size = imagesize::blob_size(&head).ok();
    Ok(size.map(|size| format!("{} x {}", size.width, size.height)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    fn dimensions_of(bytes: &[u8], mime: &str) -> Option<String> {
        let mut fixture = Fixture::new(bytes);
        mime.clone_into(&mut fixture.analysis.mime);
        dimensions(&fixture.subject()).unwrap()
    }

    #[test]
    fn images_say_how_large_they_are() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x03\x20\0\0\x02\x58\x08\x02\0\0\0";
        let gif = b"GIF89a\x40\x01\xf0\0\0\0\0;";
        let profile = [b"\xff\xe2\x9c\x40".as_slice(), &vec![0; 40_000 - 2]].concat();
        let frame = b"\xff\xc0\0\x11\x08\x01\xe0\x02\x80\x03\x01\x22\0\x02\x11\x01\x03\x11\x01";
        let jpeg = [b"\xff\xd8".as_slice(), &profile, &profile, frame].concat();
        assert_eq!(dimensions_of(png, "image/png").as_deref(), Some("800 x 600"));
        assert_eq!(dimensions_of(gif, "image/gif").as_deref(), Some("320 x 240"));
        assert_eq!(dimensions_of(&jpeg, "image/jpeg").as_deref(), Some("640 x 480"));
    }

    #[test]
    fn what_does_not_say_is_not_guessed() {
        assert_eq!(dimensions_of(b"\x89PNG\r\n\x1a\n", "image/png"), None);
        assert_eq!(dimensions_of(b"<svg width='3' height='4'/>", "image/svg+xml"), None);
        assert_eq!(dimensions_of(b"GIF89a\x40\x01\xf0\0\0\0\0;", "text/plain"), None);
    }
}
