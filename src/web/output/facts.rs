//! The top of an output's page: facts, copy buttons, and a table of contents.

use std::time::{Duration, Instant};

use maud::{Markup, html};

use crate::address::query;
use crate::error::WebError;
use crate::output::window::{RequestedOutput, offset_of};
use crate::{address, display};
use ctxfs_core::materialize::strip_escapes;
use ctxfs_core::model::Analysis;
use ctxfs_engine::LookFacts;

// Number of bytes of the arguments that are shown initially.
const ARGUMENTS: usize = 400;

pub(super) fn facts(output: &RequestedOutput<'_>) -> Markup {
    let LookFacts { record, analysis, size, modified, .. } = &output.facts;
    let said = &record.provenance;
    html! {
        dl #facts {
            @if let Some(tool) = said.tool_name() { (fact("Tool", &display::text(&tool))) }
            (fact("Call", &display::text(record.call())))
            @if let Some(arguments) = &said.args { (fact("Arguments", &shortened(arguments))) }
            @if let Some(code) = said.exit_code {
                (fact("Exit code", &html! { span .failed[code != 0] { (code) } }))
            }
            @if let Some(millis) = said.duration_ms {
                (fact("Duration", &html! { (display::duration(millis)) }))
            }
            (fact("Size", &html! { (display::size(*size)) }))
            @if let Some(found) = analysis { (found_facts(found)) }
            @else { (fact("Analysis", &html! { "none yet" })) }
            (fact("State", &state(output)))
            (fact("Changed", &display::time(*modified)))
        }
    }
}

fn found_facts(found: &Analysis) -> Markup {
    html! {
        @if !found.is_binary() {
            (fact("Lines", &html! { (display::grouped(found.lines)) }))
            (fact("Tokens", &html! { "about " (display::grouped(found.tokens)) }))
        }
        (fact("Type", &display::text(&found.mime)))
        @if found.errors.count > 0 {
            (fact("Errors", &html! { span.failed { (display::counted(found.errors.count, "line")) } }))
        }
    }
}

fn state(output: &RequestedOutput<'_>) -> Markup {
    html! {
        @if output.look.is_live() { span.live { "live" } }
        @else if let Some(why) = output.facts.record.incomplete() {
            span.failed { "incomplete" } ": " (display::text(why))
        }
        @else { "complete" }
    }
}

fn shortened(text: &str) -> Markup {
    let cut = text.char_indices().nth(ARGUMENTS).map(|(at, _)| at);
    html! {
        code {
            @match cut {
                None => (display::text(text)),
                Some(at) => {
                    (display::text(&text[..at]))
                    details { summary { "all" } (display::text(text)) }
                }
            }
        }
    }
}

fn fact(name: &str, value: &Markup) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

pub(super) fn copy_buttons(output: &RequestedOutput<'_>) -> Markup {
    let place = &output.facts.place;
    let file = place.file();
    let raw = address::of_output(output.id, "raw", output.look.path());
    let stand_in = output.address() + &query(&[("part", "standin")]);
    html! {
        div #copy {
            span.scripted hidden {
                "Copy: "
                button type="button" data-copy="path" data-text=(file) { "path" } " "
                button type="button" data-copy="reference" data-text=(place.reference()) { "reference" } " "
                button type="button" data-copy="cat" data-text={ "cat " (quoted(&file)) } { "cat command" } " "
                button type="button" data-copy="standin" data-from=(stand_in) { "stand-in" } " "
            }
            a #raw href=(raw) download { "Download" }
        }
    }
}

// Quotes `text` as one word for a shell.
fn quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+:@%,=".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

const ERRORS: usize = 24;
const LINE: usize = 200;
// Time limit for reading the lines of entries. Entries after it show only line numbers.
const PATIENCE: Duration = Duration::from_secs(1);

// Returns the table of contents. It is empty for an output without errors and sections.
pub(super) fn contents(output: &RequestedOutput<'_>) -> Result<Markup, WebError> {
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
    let counted = display::counted(found.errors.count, "error line");
    Ok(html! {
        details #contents open[found.errors.count > 0] {
            summary {
                "Contents: " (counted) ", " (display::counted(found.sections.count, "section"))
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

fn entries_list(output: &RequestedOutput<'_>, entries: &[(u64, String)], class: &str) -> Markup {
    let address = output.address();
    html! {
        ol.(class) {
            @for (line, text) in entries {
                li {
                    a href=(address::line(&address, *line)) data-line=(line) {
                        span.number { (line) } " " code { (display::text(text)) }
                    }
                }
            }
        }
    }
}

fn text_of(output: &RequestedOutput<'_>, line: u64) -> Result<Option<String>, WebError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(quoted("/ctx/c7/x.txt"), "/ctx/c7/x.txt");
        assert_eq!(quoted("/ctx/a b/$(rm -rf).txt"), "'/ctx/a b/$(rm -rf).txt'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
    }
}
