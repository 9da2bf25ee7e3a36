//! The page of a conversation: its messages and calls, its outputs next to them, and a search over
//! the whole conversation.

mod timeline;

use std::cmp::Ordering;
use std::sync::Arc;

use maud::{Markup, html};
use serde::Deserialize;

use crate::catalog::OutputRow;
use crate::conversation::timeline::{Timeline, outcome, stand_in};
use crate::error::WebError;
use crate::shell::Crumb;
use crate::site::Site;
use crate::table::{Column, Order};
use crate::work::Sink;
use crate::{address, display, search, shell, table};
use ctxfs_core::model::Component;
use ctxfs_engine::MessageRange;

pub(super) use crate::conversation::timeline::time_of;

/// The query parameters. `errors` is `1` to show only outputs that failed or have error lines.
/// `before` and `after` are offsets of messages. `output` is the output whose stand-in is
/// requested.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ConversationQuery {
    pub(super) q: String,
    pub(super) sort: String,
    pub(super) order: String,
    pub(super) page: String,
    pub(super) errors: String,
    before: String,
    after: String,
    pub(super) part: String,
    output: String,
}

pub(super) fn write(
    site: &Arc<Site>,
    id: &Component,
    query: &ConversationQuery,
    sink: &mut Sink,
) -> Result<(), WebError> {
    match &*query.part {
        "messages" => {
            let from = query.after.parse().unwrap_or(0);
            return Timeline::read(site, id, MessageRange::From(from))?.write(site, id, sink);
        }
        "outputs" => return sink.write(aside(site, id, query)?.into_string()),
        "standin" => return sink.write(stand_in(site, id, &query.output)?.into_string()),
        _ => {}
    }
    let name = id.to_text();
    let trail = [Crumb { text: display::text(&name), to: None }];
    sink.write(shell::head("conversation", &name, &trail))?;
    sink.write(heading(site, id, query).into_string())?;
    sink.flush()?;
    site.engine.others().ask_for_outputs(id)?;
    search::write_results(site, id, None, &query.q, sink)?;
    sink.write("<div class=\"beside\"><div class=\"column\">")?;
    let before = query.before.parse().unwrap_or(u64::MAX);
    let timeline = Timeline::read(site, id, MessageRange::Before(before))?;
    timeline.write(site, id, sink)?;
    sink.write("</div>")?;
    sink.write(aside(site, id, query)?.into_string())?;
    sink.write("</div>")?;
    sink.write(shell::foot())
}

pub(super) fn write_outputs(
    site: &Arc<Site>,
    id: &Component,
    query: &ConversationQuery,
    sink: &mut Sink,
) -> Result<(), WebError> {
    let name = id.to_text();
    let trail = [
        Crumb { text: display::text(&name), to: Some(address::conversation(id)) },
        Crumb { text: html! { "outputs" }, to: None },
    ];
    sink.write(shell::head("outputs", &format!("Outputs of {name}"), &trail))?;
    sink.write(html! { h1 { "Outputs of " (display::text(&name)) } }.into_string())?;
    sink.flush()?;
    site.engine.others().ask_for_outputs(id)?;
    sink.write(aside(site, id, query)?.into_string())?;
    sink.write(shell::foot())
}

fn heading(site: &Arc<Site>, id: &Component, query: &ConversationQuery) -> Markup {
    let name = id.to_text();
    let root = site.engine.options.root().of(&name);
    html! {
        h1 { (display::text(&name)) }
        div #conversation data-conversation=(name) data-topic={ "c/" (name) } data-path=(root) {}
        (search::form(&address::conversation(id), "Search all of this conversation", &query.q))
    }
}

const ROWS: usize = 100;

const COLUMNS: &[Column] = &[
    Column { name: "name", title: "Output", descends: false, is_number: false },
    Column { name: "tool", title: "Tool", descends: false, is_number: false },
    Column { name: "size", title: "Size", descends: true, is_number: true },
    Column { name: "exit", title: "End", descends: true, is_number: false },
    Column { name: "time", title: "Time", descends: true, is_number: false },
];

fn aside(site: &Arc<Site>, id: &Component, query: &ConversationQuery) -> Result<Markup, WebError> {
    let outputs = site.catalog.outputs(id)?;
    let order = Order::requested(COLUMNS, &query.sort, &query.order, "time");
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
                p.notice { (display::counted(outputs.unread, "place")) " could not be read." }
            }
            div.scrolls role="region" aria-label="Table of outputs" tabindex="0" {
                table {
                    caption { (display::counted(rows.len() as u64, "output")) }
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
            th scope="row" { a href=(to) { (display::text(row.name())) } }
            td { (row.tool) }
            td.number {
                (display::size(row.size))
                @if let Some(lines) = row.lines { br; span.faint { (display::counted(lines, "line")) } }
            }
            td {
                (outcome(row)) " "
                @if let Some(at) = row.error_line {
                    a.failed href=(address::line(&to, at)) { (display::counted(row.errors, "error")) }
                }
            }
            td { (display::time(row.created)) }
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
