//! The page of an output: its facts, and a window of its lines.

mod facts;
mod json;
mod screen;
mod window;

use std::sync::Arc;

use maud::{Markup, html};

use crate::address::query;
use crate::error::WebError;
use crate::output::window::{OutputView, RequestedOutput, RowWindow, is_for_terminal, links};
use crate::shell::Crumb;
use crate::site::Site;
use crate::work::Sink;
use crate::{address, display, search, shell};
use ctxfs_core::model::{Component, visible};
use ctxfs_view::View;

pub(super) use crate::output::window::{OutputQuery, image_type};

/// Writes the whole page, or the part named by `query.part`.
pub(super) fn write(
    site: &Arc<Site>,
    id: &Component,
    path: &str,
    query: &OutputQuery,
    sink: &mut Sink,
) -> Result<(), WebError> {
    let look = site.look(id, path)?;
    // The lines of a live output are requested repeatedly, so only known facts are used for them.
    let facts = look.facts(query.part != "lines")?;
    let output = RequestedOutput { site, id, look, facts, query };
    match &*query.part {
        "lines" => sink.write(output.lines(output.view())?.into_string()),
        "facts" => sink.write(facts::facts(&output).into_string()),
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
    fn write_page(&self, sink: &mut Sink) -> Result<(), WebError> {
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
            (facts::facts(self))
            (facts::copy_buttons(self))
            (links(self, view))
        };
        sink.write(head.into_string())?;
        sink.flush()?;
        sink.write(facts::contents(self)?.into_string())?;
        if view.has_lines() {
            let form = search::form(&self.address(), "Search in it", &self.query.q);
            sink.write(form.into_string())?;
            search::write_results(self.site, self.id, Some(path), &self.query.q, sink)?;
        }
        sink.write(self.body(view)?.into_string())?;
        sink.write(shell::foot())
    }

    fn body(&self, view: OutputView) -> Result<Markup, WebError> {
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

    fn text(&self, view: OutputView) -> Result<Markup, WebError> {
        let window = RowWindow::of(self)?;
        let size = self.look.size();
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

    fn lines(&self, view: OutputView) -> Result<Markup, WebError> {
        let window = RowWindow::of(self)?;
        self.rows(view, &window)
    }

    fn rows(&self, view: OutputView, window: &RowWindow) -> Result<Markup, WebError> {
        if !window.is_whole() && !self.look.is_counted() {
            let again = self.site.look(self.id, self.look.path())?;
            self.site.count_lines(self.id, again);
        }
        let rows = match view {
            OutputView::Screen => screen::rows(self, window)?,
            OutputView::Raw => window.text_rows(false),
            _ => window.text_rows(is_for_terminal(self)),
        };
        Ok(window.section(&rows, view, self.look.size()))
    }
}

/// Number of bytes per row, and of rows per window.
const HEX_ROW: usize = 16;
const HEX_ROWS: usize = 256;

/// Returns the hex window with its pager.
fn hex_section(output: &RequestedOutput<'_>) -> Result<Markup, WebError> {
    let (at, size) = (hex_start(output), output.look.size());
    let window = (HEX_ROW * HEX_ROWS) as u64;
    let to = |at: u64| query(&[("view", "hex"), ("at", &at.to_string())]);
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

/// Returns only the table of the hex window.
fn hex_table(output: &RequestedOutput<'_>) -> Result<Markup, WebError> {
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
