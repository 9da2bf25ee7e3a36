use std::io;

use crate::clean;
use crate::errors::Findings;
use crate::summary::excerpt::span;
use crate::summary::parts::INSERT;
use ctxfs_core::model::{Json, Limits, Subject, Unlike};

// The most passages that are named, and the most characters of one.
const PASSAGES: usize = 5;
const CHARS: usize = 90;
// For all passages.
const LINE_CHARS: usize = 400;
// The fewest words of a passage.
const WORDS: usize = 3;
// Characters without numbers by which passages are of one form.
const FORM_CHARS: usize = 24;
// Lines at either end that are shown anyway.
const SHOWN: u64 = 5;

/// Returns `unlike: 4,410 "kernel: out of memory | killed process 812"; 6,002 "x"`.
pub(super) fn line(subject: &Subject<'_>, found: &Findings) -> io::Result<Option<String>> {
    let is_hidden = |unlike: &&Unlike| !is_shown(subject, found, unlike);
    let mut line = String::new();
    let mut forms: Vec<String> = Vec::new();
    for unlike in subject.analysis.unlike.iter().filter(is_hidden) {
        let Some(text) = text(subject, unlike)? else { continue };
        let form = text.chars().filter(|c| !c.is_numeric()).take(FORM_CHARS).collect();
        let told = told(unlike, &text);
        let fits = line.chars().count() + told.chars().count() + 2 <= LINE_CHARS;
        if forms.len() == PASSAGES || !fits || forms.contains(&form) {
            continue;
        }
        line.push_str(if line.is_empty() { "unlike: " } else { "; " });
        line.push_str(&told);
        forms.push(form);
    }
    Ok((!line.is_empty()).then_some(line))
}

// In the head or tail, in the shape, among the errors or sections.
fn is_shown(subject: &Subject<'_>, found: &Findings, unlike: &Unlike) -> bool {
    let analysis = subject.analysis;
    let has = |line: u64| unlike.line <= line && line <= unlike.last;
    let in_json = match analysis.json {
        Json::Document { .. } => unlike.column.is_none(),
        Json::Lines { .. } => true,
        Json::No | Json::Broken { .. } => false,
    };
    let at_end = unlike.last <= SHOWN || unlike.line + SHOWN > analysis.lines;
    let is_error = || found.shown.iter().any(|error| has(error.at.line));
    let is_section = || analysis.sections.shown.iter().any(|section| has(section.line));
    let is_passage = unlike.column.is_some() && analysis.longest_line > Limits::LINE_CHARS as u64;
    in_json || (!is_passage && (at_end || is_error() || is_section()))
}

// The text of a passage in one line, if it says something.
fn text(subject: &Subject<'_>, unlike: &Unlike) -> io::Result<Option<String>> {
    let bytes = subject.content.bytes(unlike.offset, unlike.length as usize)?;
    let text = String::from_utf8_lossy(&bytes);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let text = lines.collect::<Vec<&str>>().join(" | ");
    let is_word = |word: &&str| word.bytes().filter(u8::is_ascii_alphabetic).count() > 2;
    let says = text.split_whitespace().filter(is_word).count() >= WORDS;
    Ok((says && !text.starts_with(INSERT)).then_some(text))
}

// `4,410 "kernel: out of memory"`, `61@5,329 "ask the porter"`
fn told(unlike: &Unlike, text: &str) -> String {
    let cut = clean::clean(text.as_bytes(), CHARS, usize::MAX);
    let dots = if cut.used < text.len() { "..." } else { "" };
    let column = unlike.column.map(|column| format!("@{column}")).unwrap_or_default();
    let lines = span((unlike.line, unlike.last));
    format!("{lines}{column} \"{}{dots}\"", cut.text)
}
