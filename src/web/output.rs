//! The page of an output: its facts, and a window of its lines.

mod json;
mod screen;
mod window;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use maud::{Markup, html};

use crate::output::window::{
    OutputView, RequestedOutput, RowWindow, is_for_terminal, known_offset, links, offset_of,
};
use crate::{Crumb, Result, Sink, Site, address, display, search, shell};
use ctxfs_core::materialize::strip_escapes;
use ctxfs_core::model::{Analysis, Component, Json, shell_word, visible};
use ctxfs_engine::LookFacts;
use ctxfs_view::View;

pub(super) use crate::output::window::{OutputQuery, image_type};

/// Writes the whole page, or the part named by `query.part`.
pub(super) fn write(
    site: &Arc<Site>,
    id: &Component,
    path: &str,
    query: &OutputQuery,
    sink: &mut Sink,
) -> Result<()> {
    let look = site.look(id, path)?;
    // The lines of a live output are requested repeatedly, so only known facts are used for them.
    let facts = look.facts(query.part != "lines")?;
    let output = RequestedOutput { site, id, look, facts, query };
    match &*query.part {
        "lines" => {
            let rows = output.rows(output.view(), &RowWindow::of(&output)?)?;
            sink.write(rows.into_string())
        }
        "facts" => sink.write(self::facts(&output).into_string()),
        "errors" => sink.write(error_lines(&output)?),
        "json" => sink.write(json::members(&output)?.into_string()),
        "hex" => sink.write(hex_table(&output)?.into_string()),
        "standin" => {
            let text = output.look.view(&View::Summary, &|| false)?;
            sink.write([text.notice.as_bytes(), &text.text].concat())
        }
        _ => output.write_page(sink),
    }
}

impl RequestedOutput<'_> {
    fn write_page(&self, sink: &mut Sink) -> Result<()> {
        let path = self.look.path();
        let name = path.rsplit('/').next().unwrap_or(path);
        let conversation = self.id.to_text();
        let trail = [
            Crumb { text: display::text(&conversation), to: Some(address::conversation(self.id)) },
            Crumb { text: display::text(name), to: None },
        ];
        sink.write(shell::head("output", name, &trail))?;
        let view = self.view();
        let head = html! {
            h1 { (display::text(name)) }
            (facts(self))
            (copy_buttons(self))
            (links(self, view))
        };
        sink.write(head.into_string())?;
        sink.flush()?;
        sink.write(contents(self)?.into_string())?;
        if view.has_lines() {
            let form = search::form(&self.address(), "Search in it", &self.query.q);
            sink.write(form.into_string())?;
            search::write_results(self.site, self.id, Some(path), &self.query.q, sink)?;
        }
        sink.write(self.body(view)?.into_string())?;
        sink.write(shell::foot())
    }

    fn body(&self, view: OutputView) -> Result<Markup> {
        Ok(match view {
            OutputView::Json => json::tree(self)?,
            OutputView::Hex => hex_section(self)?,
            OutputView::Image => html! {
                p.image {
                    img src=(address::of_output(self.id, "image", self.look.path()))
                        alt={ "The image " (visible::whole(self.look.path())) };
                }
            },
            OutputView::Text | OutputView::Screen | OutputView::Raw => self.text(view)?,
        })
    }

    fn text(&self, view: OutputView) -> Result<Markup> {
        let window = RowWindow::of(self)?;
        let size = self.look.text_size();
        Ok(html! {
            @if let Some(notice) = &window.notice { p.notice { (notice) } }
            div.with-position {
                div #text .text role="region" aria-label="Lines of the output" tabindex="0"
                    data-size=(size) data-lines=[window.lines] data-live=(self.look.is_live())
                    data-view=(view.name()) data-topic={ "o/" (self.id.to_text()) "/" (self.look.path()) } {
                    (self.rows(view, &window)?)
                }
                div #track {
                    input #position type="range" min="0" max=(size) value=(window.start)
                        aria-label="Position in the output" hidden;
                    div #marks aria-hidden="true" {}
                }
            }
            (window.pager(view, &self.query.q))
        })
    }

    fn rows(&self, view: OutputView, window: &RowWindow) -> Result<Markup> {
        if !window.is_whole() && !self.look.is_counted() {
            let again = self.site.look(self.id, self.look.path())?;
            self.site.count_lines(self.id, again);
        }
        let rows = match view {
            OutputView::Screen => screen::rows(self, window)?,
            OutputView::Raw => window.text_rows(false),
            _ => window.text_rows(is_for_terminal(self)),
        };
        Ok(window.section(&rows, view, self.look.text_size()))
    }
}

// Number of bytes per row, and of rows per window.
const HEX_ROW: usize = 16;
const HEX_ROWS: usize = 256;

fn hex_section(output: &RequestedOutput<'_>) -> Result<Markup> {
    let (at, size) = (hex_start(output), output.look.size());
    let window = (HEX_ROW * HEX_ROWS) as u64;
    let to = |at: u64| address::query(&[("view", "hex"), ("at", &at.to_string())]);
    Ok(html! {
        div.scrolls role="region" aria-label="Bytes of the output" tabindex="0" { (hex_table(output)?) }
        nav.pager aria-label="Windows" {
            @if at > 0 {
                a.first href=(to(0)) { "Beginning" } " "
                a.previous href=(to(at.saturating_sub(window))) { "Before" } " "
            }
            span.where {
                "bytes " (display::grouped(at)) "-" (display::grouped(size.min(at + window)))
                " of " (display::grouped(size))
            }
            @if at + window < size {
                " " a.next href=(to(at + window)) { "After" }
                " " a.last href=(to((size - 1) / window * window)) { "End" }
            }
        }
    })
}

fn hex_table(output: &RequestedOutput<'_>) -> Result<Markup> {
    let at = hex_start(output);
    let bytes = output.look.bytes(at, HEX_ROW * HEX_ROWS)?;
    Ok(html! {
        table #hex {
            caption.hidden { "Bytes from " (at) " on" }
            thead { tr { th scope="col" { "Offset" } th scope="col" { "Bytes" } th scope="col" { "Text" } } }
            tbody {
                @for (number, row) in bytes.chunks(HEX_ROW).enumerate() {
                    tr {
                        th scope="row" { (format!("{:08x}", at + (number * HEX_ROW) as u64)) }
                        td { (hexadecimal(row)) }
                        td { (hex_text(row)) }
                    }
                }
            }
        }
    })
}

fn hex_start(output: &RequestedOutput<'_>) -> u64 {
    let at = output.query.at.parse().unwrap_or(0_u64).min(output.look.size());
    at / HEX_ROW as u64 * HEX_ROW as u64
}

fn hexadecimal(row: &[u8]) -> String {
    let bytes: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(" ")
}

fn hex_text(row: &[u8]) -> String {
    let shown = |byte: &u8| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '.' };
    row.iter().map(shown).collect()
}

// Number of bytes of the arguments that are shown initially.
const ARGUMENTS: usize = 400;

fn facts(output: &RequestedOutput<'_>) -> Markup {
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

fn copy_buttons(output: &RequestedOutput<'_>) -> Markup {
    let place = &output.facts.place;
    let file = place.file();
    let raw = address::of_output(output.id, "raw", output.look.path());
    let stand_in = output.address() + &address::query(&[("part", "standin")]);
    html! {
        div #copy {
            span.scripted hidden {
                "Copy: "
                button type="button" data-copy="path" data-text=(file) { "path" } " "
                button type="button" data-copy="reference" data-text=(place.reference()) { "reference" } " "
                button type="button" data-copy="cat" data-text={ "cat " (shell_word(&file)) } { "cat command" } " "
                button type="button" data-copy="standin" data-from=(stand_in) { "stand-in" } " "
            }
            a #raw href=(raw) download { "Download" }
        }
    }
}

const ERRORS: usize = 24;
const LINE: usize = 200;
// Time limit for reading the lines of entries, after which entries show only line numbers, and for
// finding error lines.
const PATIENCE: Duration = Duration::from_secs(1);

// Maximum number of error lines that the page knows besides those that the analysis names.
const ERROR_LINES: usize = 10_000;

// Returns the numbers of the lines that look like errors, in order, separated by blanks: the first
// ones, as far as they are found in time, and those that the analysis names.
fn error_lines(output: &RequestedOutput<'_>) -> Result<String> {
    let found = output.facts.analysis.as_deref();
    if found.is_some_and(|found| found.errors.count == 0 || found.is_binary()) {
        return Ok(String::new());
    }
    let mut lines = BTreeSet::new();
    if !found.is_some_and(|found| matches!(found.json, Json::Document { .. })) {
        let began = Instant::now();
        let scanned = output.look.error_lines(&|| began.elapsed() > PATIENCE)?;
        lines.extend(scanned.into_iter().take(ERROR_LINES));
    }
    let named = found.into_iter().flat_map(|found| &found.errors.shown);
    let named = named.flat_map(|error| [Some(error.line), error.last.map(|last| last.line)]);
    lines.extend(named.flatten());
    let lines: Vec<String> = lines.iter().map(u64::to_string).collect();
    Ok(lines.join(" "))
}

// Returns the table of contents. It is empty for an output without errors and sections.
fn contents(output: &RequestedOutput<'_>) -> Result<Markup> {
    let Some(found) = &output.facts.analysis else { return Ok(html! {}) };
    if found.errors.count == 0 && found.sections.is_empty() || found.is_binary() {
        return Ok(html! {});
    }
    let began = Instant::now();
    let errors: Vec<u64> = found.errors.shown.iter().take(ERRORS).map(|error| error.line).collect();
    let sections: Vec<u64> = found.sections.shown.iter().map(|section| section.line).collect();
    let entries = |lines: &[u64]| -> Result<Vec<(u64, String)>> {
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

fn text_of(output: &RequestedOutput<'_>, line: u64) -> Result<Option<String>> {
    let look = &output.look;
    let is_small = look.size() < 64 << 20;
    let found = if is_small { offset_of(output, line)? } else { known_offset(output, line)? };
    let Some(offset) = found else { return Ok(None) };
    let bytes = look.bytes(offset, 4 * LINE)?;
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let text = String::from_utf8_lossy(&strip_escapes(line)).into_owned();
    Ok(Some(text.trim().chars().take(LINE).collect()))
}
