//! The list of the outputs of a conversation.

use std::cmp::Ordering;
use std::sync::Arc;

use maud::{Markup, html};

use crate::catalog::OutputRow;
use crate::conversation::{ConversationQuery, call};
use crate::error::WebError;
use crate::site::Site;
use crate::table::{Column, Order};
use crate::{address, quantity, shown, table};
use ctxfs_core::model::Component;

/// Rows of a page.
const ROWS: usize = 100;

const COLUMNS: &[Column] = &[
    Column { name: "name", title: "Output", descends: false, is_number: false },
    Column { name: "tool", title: "Tool", descends: false, is_number: false },
    Column { name: "size", title: "Size", descends: true, is_number: true },
    Column { name: "exit", title: "End", descends: true, is_number: false },
    Column { name: "time", title: "Time", descends: true, is_number: false },
];

/// Returns the list, as what stands beside the messages.
pub(super) fn aside(
    site: &Arc<Site>,
    id: &Component,
    query: &ConversationQuery,
) -> Result<Markup, WebError> {
    let outputs = site.catalog.outputs(id)?;
    let order = Order::asked(COLUMNS, &query.sort, &query.order, "time");
    let only_failed = query.errors == "1";
    let mut rows: Vec<&OutputRow> = outputs.rows.iter().collect();
    rows.retain(|row| !only_failed || row.has_failed() || row.errors > 0);
    rows.sort_by(|a, b| {
        let compared = compare(a, b, &order.by);
        if order.descends { compared.reverse() } else { compared }
    });
    let pages = rows.len().div_ceil(ROWS).max(1);
    let page = query.page.parse().unwrap_or(1).clamp(1, pages);
    let kept = [("errors", &*query.errors)];
    Ok(html! {
        section #outputs aria-label="Outputs" {
            h2 { "Outputs" }
            p {
                @if only_failed { a href="?errors=" { "All outputs" } }
                @else { a href="?errors=1" { "Only those with errors" } }
                " " a href={ (address::conversation(id)) "/outputs" } { "The list alone" }
            }
            @if outputs.unread > 0 {
                p.notice { (quantity::counted(outputs.unread, "place")) " could not be read." }
            }
            div.scrolls role="region" aria-label="Table of outputs" tabindex="0" {
                table {
                    caption { (quantity::counted(rows.len() as u64, "output")) }
                    thead { (table::headings(COLUMNS, &order, &kept)) }
                    tbody {
                        @for row in rows.iter().skip((page - 1) * ROWS).take(ROWS) { (line(id, row)) }
                    }
                }
            }
            (table::pager("Pages of outputs", page, pages, &order, &kept))
        }
    })
}

fn line(id: &Component, row: &OutputRow) -> Markup {
    let to = address::output(id, &row.path);
    html! {
        tr data-output=(row.path) data-failed=(row.has_failed()) {
            th scope="row" { a href=(to) { (shown::text(row.name())) } }
            td { (row.tool) }
            td.number {
                (quantity::size(row.size))
                @if let Some(lines) = row.lines { br; span.faint { (quantity::counted(lines, "line")) } }
            }
            td {
                (call::outcome(row)) " "
                @if let Some(at) = row.error_line {
                    a.failed href=(address::line(&to, at)) { (quantity::counted(row.errors, "error")) }
                }
            }
            td { (quantity::time(row.created)) }
        }
    }
}

fn compare(a: &OutputRow, b: &OutputRow, by: &str) -> Ordering {
    let compared = match by {
        "tool" => a.tool.cmp(&b.tool),
        "size" => a.size.cmp(&b.size),
        "exit" => (a.has_failed(), a.errors).cmp(&(b.has_failed(), b.errors)),
        "time" => a.created.cmp(&b.created),
        _ => Ordering::Equal,
    };
    compared.then_with(|| a.path.cmp(&b.path))
}
