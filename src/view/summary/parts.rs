//! What an output contains: its sections and tables, the lines that it repeats, and the passages
//! that are unlike the rest.

use std::cmp::Reverse;
use std::io;

use crate::clean;
use crate::number::{grouped, rounded};
use crate::summary::excerpt::span;
use ctxfs_core::model::{Json, Repeated, Section, Sections, Subject};

// The most characters of all sections that are named, and of the name of one.
const SECTIONS_CHARS: usize = 360;
const NAME_CHARS: usize = 60;
// The most repeated lines that are named, and the most characters of one.
const REPEATED: usize = 3;
const LINE_CHARS: usize = 64;
// The beginning of a row in a dump of a database.
pub(super) const INSERT: &str = "INSERT INTO ";
// Types of documents whose lines are alike.
const MARKED_UP: [&str; 3] = ["image/svg+xml", "application/xml", "text/html"];
const CUT: &str = "...";

/// Returns `sections: 1-80 src/a.rs; 81-140 src/b.rs`. Of many, it names the first and the largest.
pub(super) fn sections(subject: &Subject<'_>) -> io::Result<Option<String>> {
    let Sections { count, shown } = &subject.analysis.sections;
    if shown.is_empty() {
        return Ok(None);
    }
    let all = named(subject, shown, SECTIONS_CHARS)?;
    if all.len() as u64 == *count {
        return Ok(Some(format!("sections: {}", all.join("; "))));
    }
    let first = named(subject, shown, SECTIONS_CHARS / 2)?;
    let mut others = shown[first.len()..].to_vec();
    others.sort_by_key(|section| (Reverse(section.last - section.line), section.line));
    let largest = named(subject, &others, SECTIONS_CHARS / 2)?;
    Ok(Some(format!(
        "sections: {}; the first: {}; the largest of the others: {}",
        grouped(*count),
        first.join("; "),
        largest.join("; ")
    )))
}

// As many as fit.
fn named(subject: &Subject<'_>, sections: &[Section], chars: usize) -> io::Result<Vec<String>> {
    let mut left = chars;
    let mut named = Vec::new();
    for section in sections {
        let name = text(subject, (section.offset, section.length), NAME_CHARS)?;
        let section = format!("{} {name}", span((section.line, section.last)));
        let length = section.chars().count() + 2;
        if length > left {
            break;
        }
        left -= length;
        named.push(section);
    }
    Ok(named)
}

/// Returns `repeated: 812 x "GET /health 200" (lines 3-8,110)`.
pub(super) fn repeated(subject: &Subject<'_>) -> io::Result<Option<String>> {
    if is_data(subject) {
        return Ok(None);
    }
    let mut told = Vec::new();
    for line in subject.analysis.repeated.iter().take(REPEATED) {
        let text = text(subject, (line.offset, line.length), LINE_CHARS)?;
        if !text.starts_with(INSERT) {
            told.push(self::told(&text, line));
        }
    }
    Ok((!told.is_empty()).then(|| format!("repeated: {}", told.join("; "))))
}

// Data repeats itself by its nature. The shape tells about that in JSON.
fn is_data(subject: &Subject<'_>) -> bool {
    let analysis = subject.analysis;
    let is_json = matches!(analysis.json, Json::Document { .. } | Json::Lines { .. });
    is_json || !analysis.statuses.is_empty() || MARKED_UP.contains(&analysis.mime.as_str())
}

fn told(text: &str, line: &Repeated) -> String {
    let how = if line.equal { "x" } else { "like" };
    if line.about {
        return format!("about {} {how} \"{text}\"", grouped(rounded(line.count)));
    }
    let lines = span((line.first, line.last));
    format!("{} {how} \"{text}\" (lines {lines})", grouped(line.count))
}

fn text(subject: &Subject<'_>, (offset, length): (u64, u32), chars: usize) -> io::Result<String> {
    let raw = subject.content.bytes(offset, length as usize)?;
    let whole = clean::clean(&raw, chars, usize::MAX);
    if whole.used == raw.len() {
        return Ok(whole.text);
    }
    Ok(clean::clean(&raw, chars - CUT.len(), usize::MAX).text + CUT)
}
