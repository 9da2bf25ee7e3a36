//! The sections and errors of an output, as a table of contents.

use std::time::{Duration, Instant};

use maud::{Markup, html};

use crate::error::WebError;
use crate::output::Output;
use crate::output::window::offset_of;
use crate::{address, quantity, shown};
use ctxfs_core::materialize::strip_escapes;

/// Errors that are listed.
const ERRORS: usize = 24;
/// Bytes of a line that are shown.
const LINE: usize = 200;
/// The time for reading the lines. The rest has numbers alone.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns the table, or nothing for an output without errors and sections.
pub(super) fn list(output: &Output<'_>) -> Result<Markup, WebError> {
    let Some(found) = &output.facts.analysis else { return Ok(html! {}) };
    if found.errors.count == 0 && found.sections.is_empty() || found.is_binary() {
        return Ok(html! {});
    }
    let began = Instant::now();
    let errors: Vec<u64> = found.errors.shown.iter().take(ERRORS).map(|error| error.line).collect();
    let sections: Vec<u64> = found.sections.shown.iter().map(|section| section.line).collect();
    let entries = |lines: &[u64]| -> Result<Vec<(u64, String)>, WebError> {
        let entry = |line: &u64| {
            let text = if began.elapsed() < PATIENCE { text_of(output, *line)? } else { None };
            Ok((*line, text.unwrap_or_default()))
        };
        lines.iter().map(entry).collect()
    };
    let (errors, sections) = (entries(&errors)?, entries(&sections)?);
    let counted = quantity::counted(found.errors.count, "error line");
    Ok(html! {
        details #contents open[found.errors.count > 0] {
            summary {
                "Contents: " (counted) ", " (quantity::counted(found.sections.count, "section"))
            }
            @if !errors.is_empty() {
                h2 { "Errors, most telling first" }
                (entries_list(output, &errors, "errors"))
            }
            @if !sections.is_empty() {
                h2 { "Sections" }
                (entries_list(output, &sections, "sections"))
            }
        }
    })
}

fn entries_list(output: &Output<'_>, entries: &[(u64, String)], class: &str) -> Markup {
    let address = output.address();
    html! {
        ol.(class) {
            @for (line, text) in entries {
                li {
                    a href=(address::line(&address, *line)) data-line=(line) {
                        span.number { (line) } " " code { (shown::text(text)) }
                    }
                }
            }
        }
    }
}

/// Returns the beginning of a line, unless it has to be looked for long.
fn text_of(output: &Output<'_>, line: u64) -> Result<Option<String>, WebError> {
    let look = &output.look;
    let known = look.line_offset(line)?;
    let analysis = output.facts.analysis.as_deref();
    let near = match (known, analysis) {
        (None, Some(found)) => look.line_offset_by(found, line)?,
        _ => known,
    };
    let is_small = look.size() < 64 << 20;
    let offset = if near.is_none() && is_small { offset_of(output, line)? } else { near };
    let Some(offset) = offset else { return Ok(None) };
    let bytes = look.bytes(offset, 4 * LINE)?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let text = String::from_utf8_lossy(&strip_escapes(line)).into_owned();
    Ok(Some(text.trim().chars().take(LINE).collect()))
}
