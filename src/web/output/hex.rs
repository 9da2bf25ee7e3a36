//! The bytes of an output.

use maud::{Markup, html};

use crate::address::query;
use crate::error::WebError;
use crate::output::Output;
use crate::quantity;

/// Bytes of a row, and rows of a window.
const ROW: usize = 16;
const ROWS: usize = 256;

/// Returns the window with its pager.
pub(super) fn section(output: &Output<'_>) -> Result<Markup, WebError> {
    let (at, size) = (start(output), output.look.size());
    let window = (ROW * ROWS) as u64;
    let to = |at: u64| query(&[("view", "hex"), ("at", &at.to_string())]);
    Ok(html! {
        div.scrolls role="region" aria-label="Bytes of the output" tabindex="0" { (table(output)?) }
        nav.pager aria-label="Windows" {
            @if at > 0 {
                a.first href=(to(0)) { "Beginning" } " "
                a.previous href=(to(at.saturating_sub(window))) { "Before" } " "
            }
            span.where {
                "bytes " (quantity::grouped(at)) "-" (quantity::grouped(size.min(at + window)))
                " of " (quantity::grouped(size))
            }
            @if at + window < size {
                " " a.next href=(to(at + window)) { "After" }
                " " a.last href=(to((size - 1) / window * window)) { "End" }
            }
        }
    })
}

/// Returns the table alone.
pub(super) fn table(output: &Output<'_>) -> Result<Markup, WebError> {
    let at = start(output);
    let bytes = output.look.bytes(at, ROW * ROWS)?;
    Ok(html! {
        table #hex {
            caption.hidden { "Bytes from " (at) " on" }
            thead { tr { th scope="col" { "Offset" } th scope="col" { "Bytes" } th scope="col" { "Text" } } }
            tbody {
                @for (number, row) in bytes.chunks(ROW).enumerate() {
                    tr {
                        th scope="row" { (format!("{:08x}", at + (number * ROW) as u64)) }
                        td { (hexadecimal(row)) }
                        td { (text(row)) }
                    }
                }
            }
        }
    })
}

fn start(output: &Output<'_>) -> u64 {
    let at = output.query.at.parse().unwrap_or(0_u64).min(output.look.size());
    at / ROW as u64 * ROW as u64
}

fn hexadecimal(row: &[u8]) -> String {
    let bytes: Vec<String> = row.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(" ")
}

fn text(row: &[u8]) -> String {
    let shown = |byte: &u8| if (b' '..=b'~').contains(byte) { char::from(*byte) } else { '.' };
    row.iter().map(shown).collect()
}
