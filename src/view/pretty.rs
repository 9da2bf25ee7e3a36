//! `.pretty`: JSON and JSON Lines, indented.
//!
//! Only white space between tokens changes: numbers and strings keep their spelling, keys their
//! order and their duplicates. So no value is held in memory, and text that is not JSON is passed
//! on as it is. No library does this: those that parse change `1.0`, large numbers or escapes, or
//! recurse.

mod indent;
mod values;

use std::io;
use std::io::Write;

use crate::number::{counted, grouped, portion};
use crate::position::TextPosition;
use crate::{RenderError, Rendered};
use ctxfs_core::model::{Json, Subject};
use ctxfs_core::redact::MaskCounter;
use values::{Faults, Values};

// The indented text of one block stays in the processor's cache until it is written.
const BLOCK: usize = 64 << 10;

pub(super) fn render(
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let content = subject.content;
    if !may_be_json(subject)? {
        return Ok(Rendered::noted(not_json(subject)?));
    }
    let mut out = MaskCounter::new(out, subject.mask_names());
    let mut values = Values::default();
    let mut block = vec![0; BLOCK];
    let mut offset = 0;
    let mut whole = true;
    while values.faults.hidden.is_none() {
        whole = !expired();
        let got = if whole { content.read_at(offset, &mut block)? } else { 0 };
        if got == 0 {
            break;
        }
        values.push(&block[..got]);
        values.indenter.take(|text| out.write_all(text))?;
        offset += got as u64;
    }
    if whole {
        values.finish();
        values.indenter.take(|text| out.write_all(text))?;
    }
    let late = (!whole).then(|| out_of_time(subject, offset));
    let shown = out.counts().notice();
    // Line numbers in a notice include the lines of the notice.
    let first = u64::from(shown.is_some());
    let rest = notice(subject, &values, late.as_deref(), first);
    Ok(Rendered { notice: [shown, rest].into_iter().flatten().reduce(|a, b| a + &b), whole })
}

// The analysis may be of the first bytes alone, so it rarely rules out JSON.
fn may_be_json(subject: &Subject<'_>) -> io::Result<bool> {
    let Subject { content, analysis, .. } = subject;
    // The analysis takes a string for JSON only as a whole, so it does not call its beginning JSON.
    let begins_a_string = || {
        let start = content.bytes(0, BLOCK)?;
        let first = start.iter().find(|byte| !byte.is_ascii_whitespace());
        Ok(analysis.bytes < content.len() && first == Some(&b'"'))
    };
    match analysis.json {
        Json::Document { .. } | Json::Lines { .. } | Json::Broken { .. } => Ok(true),
        Json::No if content.is_empty() => Ok(true),
        Json::No => begins_a_string(),
    }
}

fn not_json(subject: &Subject<'_>) -> io::Result<String> {
    let mut values = Values::default();
    values.push(&subject.content.bytes(0, BLOCK)?);
    let wrong = values.faults.first.map(|fault| fault.place);
    // There is nothing to point at if the first byte is not JSON.
    let from = wrong.filter(|place| (place.line, place.column) > (1, 1)).map(|place| {
        format!(" from line {}, byte column {} on", grouped(place.line), grouped(place.column))
    });
    let file = subject.place.file();
    Ok(format!(
        "# not JSON{} ({}, {}), so nothing is indented. As it is: {file}, {file}.head, {file}.tail, {file}.wrap\n",
        from.unwrap_or_default(),
        subject.analysis.mime,
        counted(subject.content.len(), "byte"),
    ))
}

fn out_of_time(subject: &Subject<'_>, offset: u64) -> String {
    format!(
        "out of time after {}; what was indented follows. Without a limit of time: ctxfs view {}.pretty",
        portion(offset, subject.content.len()),
        subject.place.file(),
    )
}

// Line numbers in the notices include these lines, and `first` lines before them.
fn notice(
    subject: &Subject<'_>,
    values: &Values,
    late: Option<&str>,
    first: u64,
) -> Option<String> {
    let faults = &values.faults;
    let lines = |before: u64| -> Vec<String> {
        let capped = values.indenter.is_capped().then(|| {
            format!("nested deeper than {} levels: no line is indented further", indent::LEVELS)
        });
        let lines = [
            late.map(str::to_owned),
            wrong(faults, before),
            rest(faults),
            open(faults),
            hidden(faults, subject),
            capped,
        ];
        lines.into_iter().flatten().collect()
    };
    let count = first + lines(0).len() as u64;
    let text: String = lines(count).iter().flat_map(|line| ["# ", line, "\n"]).collect();
    (!text.is_empty()).then_some(text)
}

fn wrong(faults: &Faults, before: u64) -> Option<String> {
    let fault = faults.first?;
    let TextPosition { line, column } = fault.place;
    let shown = grouped(fault.shown + before);
    let what = if fault.deep { "nested too deep to be followed" } else { "not JSON" };
    let from = format!("line {} is {what} from byte column {} on", grouped(line), grouped(column));
    Some(match faults.count {
        1 => format!("{from}; that stands as it is, here in line {shown}"),
        count => format!(
            "{} are not JSON and stand as they are; the first: {from}, here in line {shown}",
            counted(count, "line"),
        ),
    })
}

fn rest(faults: &Faults) -> Option<String> {
    faults.rest.map(|line| format!("from line {} on everything stands as it is", grouped(line)))
}

fn open(faults: &Faults) -> Option<String> {
    let (TextPosition { line, column }, open) = faults.open?;
    Some(format!(
        "the JSON breaks off at its end, line {}, byte column {}, with {} open",
        grouped(line),
        grouped(column),
        counted(open as u64, "bracket"),
    ))
}

fn hidden(faults: &Faults, subject: &Subject<'_>) -> Option<String> {
    let offset = faults.hidden?;
    Some(format!(
        "not text from byte {} on, so that does not follow. The bytes: {}",
        grouped(offset + 1),
        subject.place.file(),
    ))
}

#[cfg(test)]
mod tests;
