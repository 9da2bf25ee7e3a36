//! `.shape`: the structure of JSON, one line for each path.
//!
//! The view reads the content, and the analysis keeps no shape: records would grow by kilobytes for
//! a view that few ask for, and the scanner reads a gigabyte in a second or two.

mod extremes;
mod outline;
mod print;
mod samples;

use std::io;
use std::io::Write;

use crate::number::{counted, grouped, portion};
use crate::{RenderError, Rendered};
use ctxfs_core::materialize::json::{JsonKind, JsonReader};
use ctxfs_core::model::{Limits, Subject};
use outline::Outline;
use print::PrintedShape;

// Bytes of a key, as spelled, that are known. A path through a longer one cannot be named.
const KEY_BYTES: usize = 256;
// Bytes of strings and numbers, as spelled, that are known.
const SAMPLE_BYTES: usize = 128;
// Bytes that are read at once.
const BLOCK: usize = 256 << 10;
// Kept free for notices, without the paths in them.
const NOTICE_BYTES: usize = 600;

/// Writes the shape. Each line has a path in jq's syntax, the types of the values there, their
/// number, and ranges and samples, separated by two spaces or more.
pub(super) fn render(
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let (read, kind, mut outline) = read_outline(subject, expired)?;
    let whole = read.is_none();
    if kind == JsonKind::No && whole {
        return Ok(Rendered::noted(no_shape(subject)));
    }
    outline.settle();
    let file = subject.place.file();
    let budget = Limits::VIEW_BYTES.saturating_sub(NOTICE_BYTES + 2 * file.len());
    let printed = print::print(&outline, budget);
    out.write_all(printed.text.as_bytes())?;
    let opening = match read {
        None => opening(subject, kind),
        Some(read) => out_of_time(subject, read),
    };
    let lines = [Some(opening), left_out(&printed)];
    let notice = lines.iter().flatten().flat_map(|line| ["# ", line, "\n"]).collect();
    Ok(Rendered { notice: Some(notice), whole })
}

// If time runs out, returns the bytes that were read.
fn read_outline(
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
) -> io::Result<(Option<u64>, JsonKind, Outline)> {
    let mut reader = JsonReader::<Outline>::default();
    let mut block = vec![0; BLOCK];
    let mut offset = 0;
    let mut cut = None;
    while !reader.is_off() {
        if expired() {
            cut = Some(offset);
            break;
        }
        let got = subject.content.read_at(offset, &mut block)?;
        if got == 0 {
            break;
        }
        reader.push(&block[..got]);
        offset += got as u64;
    }
    let (kind, outline) = reader.finish();
    Ok((cut, kind, outline))
}

fn opening(subject: &Subject<'_>, kind: JsonKind) -> String {
    let paths = paths(subject);
    match kind {
        JsonKind::Document | JsonKind::No => format!("JSON. {paths}"),
        JsonKind::Lines { documents } => {
            format!("JSON Lines, {}. {paths}", counted(documents, "value"))
        }
        JsonKind::Broken { offset, .. } if offset == subject.content.len() => {
            format!("JSON that lacks its end; the shape of what is there follows. {paths}")
        }
        JsonKind::Broken { offset, line } => format!(
            "not JSON from line {} on (byte {}); the shape of what is before follows",
            grouped(line),
            grouped(offset),
        ),
    }
}

fn out_of_time(subject: &Subject<'_>, read: u64) -> String {
    let portion = portion(read, subject.content.len());
    format!("out of time after {portion}; the shape of that follows. {}", paths(subject))
}

fn paths(subject: &Subject<'_>) -> String {
    format!("A path is a filter: {}.jq/PATH", subject.place.file())
}

fn left_out(printed: &PrintedShape) -> Option<String> {
    let deeper =
        printed.levels.map(|levels| format!("deeper than {}", counted(levels as u64, "level")));
    let missing = (printed.missing > 0).then(|| {
        let all = printed.lines + printed.missing;
        format!("{} of {} paths", grouped(printed.missing as u64), grouped(all as u64))
    });
    let hidden = printed.hidden.then(|| "what is marked `...`".to_owned());
    let parts: Vec<String> = [deeper, missing, hidden].into_iter().flatten().collect();
    let what = parts.join("; ");
    (!parts.is_empty()).then(|| format!("left out: {what}. Look into it with a path as filter"))
}

fn no_shape(subject: &Subject<'_>) -> String {
    format!(
        "# not JSON ({}, {}), so it has no shape. What it is: {}.summary\n",
        subject.analysis.mime,
        counted(subject.content.len(), "byte"),
        subject.place.file(),
    )
}

#[cfg(test)]
mod tests;
