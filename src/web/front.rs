//! The front page: the last conversation, its last failed call, and the list of all conversations.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::Duration;

use maud::{Markup, html};
use serde::Deserialize;

use crate::{
    Column, ConversationRow, ListedConversations, Order, OutputRow, Result, Sink, Site, address,
    display, shell,
};
use ctxfs_core::materialize::strip_escapes;
use ctxfs_core::model::Component;

const ROWS: usize = 100;
// Number of conversations that are searched for the last failed call.
const RECENT: usize = 20;
// Time after which an incomplete list is shown.
const PATIENCE: Duration = Duration::from_millis(300);
// Maximum length in bytes of the line that shows why a call failed.
const LINE: usize = 300;

const COLUMNS: &[Column] = &[
    Column { name: "name", title: "Conversation", descends: false, is_number: false },
    Column { name: "used", title: "Last used", descends: true, is_number: false },
    Column { name: "outputs", title: "Outputs", descends: true, is_number: true },
    Column { name: "bytes", title: "Size", descends: true, is_number: true },
    Column { name: "stored", title: "Tokens stored", descends: true, is_number: true },
    Column { name: "handed", title: "Handed out", descends: true, is_number: true },
    Column { name: "saved", title: "Saved", descends: true, is_number: true },
    Column { name: "errors", title: "Failed", descends: true, is_number: true },
];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FrontQuery {
    q: String,
    sort: String,
    order: String,
    page: String,
    pub(super) part: String,
}

pub(super) fn write(site: &Arc<Site>, query: &FrontQuery, sink: &mut Sink) -> Result<()> {
    if query.part == "table" {
        let known = FrontLists::of(site);
        return sink.write(list(&known, query).into_string());
    }
    sink.write(shell::head("conversations", "Conversations", &[]))?;
    sink.write(html! { h1 { "Conversations" } }.into_string())?;
    sink.flush()?;
    let known = FrontLists::of(site);
    sink.write(last(site, &known.listed.rows).into_string())?;
    sink.write(filter(query).into_string())?;
    sink.write(list(&known, query).into_string())?;
    sink.write(shell::foot())
}

// The conversations on this host and on other hosts, and the reason why other hosts cannot be
// reached.
struct FrontLists {
    listed: ListedConversations,
    elsewhere: Vec<ConversationRow>,
    trouble: Option<String>,
}

impl FrontLists {
    fn of(site: &Arc<Site>) -> Self {
        let elsewhere = site.catalog.elsewhere();
        let listed = site.catalog.conversations(PATIENCE);
        Self { listed, elsewhere, trouble: site.engine.others().trouble_with_others() }
    }
}

fn filter(query: &FrontQuery) -> Markup {
    html! {
        form role="search" action="/" method="get" {
            label for="filter" { "Filter" } " "
            input #filter name="q" type="search" value=(query.q) autocomplete="off" spellcheck="false";
            " " button { "Filter" }
        }
    }
}

fn last(site: &Arc<Site>, rows: &[Arc<ConversationRow>]) -> Markup {
    let Some(newest) = rows.first() else { return html! {} };
    let failed = rows.iter().take(RECENT).find_map(|row| Some((row, row.last_failure.as_ref()?)));
    html! {
        section #last aria-labelledby="last-title" {
            h2 #last-title { "Last used" }
            p {
                a #last-conversation href=(address::conversation(&newest.id)) { (display::text(newest.title())) }
                " " (display::time(newest.used))
                ", " (display::counted(newest.outputs, "output"))
                @if newest.live > 0 { ", " (newest.live) " being written" }
            }
            @if let Some((row, failure)) = failed { (failed_call(site, &row.id, failure)) }
        }
    }
}

fn failed_call(site: &Arc<Site>, id: &Component, row: &OutputRow) -> Markup {
    let address = address::output(id, &row.path);
    let why = why(site, id, row);
    let to = match &why {
        Some((line, _)) => address::line(&address, *line),
        None => format!("{address}?end=1"),
    };
    html! {
        article #last-failure {
            p {
                strong.failed { "Last failed call" } ": "
                code { (display::text(&row.title)) } " "
                @if let Some(code) = row.exit { "exit " (code) " " }
                @if row.is_incomplete { "incomplete " }
                (display::time(row.modified))
                " in " a href=(address::conversation(id)) { (display::text(&id.to_text())) }
            }
            p {
                a #last-failure-line href=(to) {
                    @match &why {
                        Some((line, text)) => {
                            span.number { (line) } " " code { (display::text(text)) }
                        }
                        None => "The end of its output",
                    }
                }
            }
        }
    }
}

fn why(site: &Arc<Site>, id: &Component, row: &OutputRow) -> Option<(u64, String)> {
    let look = site.look(id, &row.path).ok()?;
    let facts = look.facts(true).ok()?;
    let analysis = facts.analysis?;
    let line = analysis.errors.shown.first()?.line;
    let offset = match look.line_offset_by(&analysis, line).ok()? {
        Some(offset) => offset,
        None => counted_offset(&look, line)?,
    };
    let window = look.rows_from(offset).ok()?;
    let text = strip_escapes(&window.rows.first()?.bytes);
    let text = String::from_utf8_lossy(&text[..text.len().min(LINE)]).into_owned();
    Some((line, text.trim().to_owned()))
}

// Returns the offset of a line, or `None` if counting the lines takes longer than a moment.
fn counted_offset(look: &ctxfs_engine::Look, line: u64) -> Option<u64> {
    const MOMENT: Duration = Duration::from_millis(30);
    let began = std::time::Instant::now();
    look.count_on(&|| began.elapsed() > MOMENT).ok()?;
    look.line_offset(line).ok()?
}

fn list(known: &FrontLists, query: &FrontQuery) -> Markup {
    let FrontLists { listed, elsewhere, trouble } = known;
    let order = Order::requested(COLUMNS, &query.sort, &query.order, "used");
    let wanted = query.q.to_lowercase();
    let mut rows: Vec<&ConversationRow> =
        listed.rows.iter().map(|row| &**row).chain(elsewhere).collect();
    rows.retain(|row| row.texts().any(|text| text.to_lowercase().contains(&wanted)));
    order.sort(&mut rows, compare);
    let pages = rows.len().div_ceil(ROWS).max(1);
    let page = query.page.parse().unwrap_or(1).clamp(1, pages);
    let kept = [("q", &*query.q)];
    html! {
        div #list data-found=(rows.len()) {
            @if let Some(why) = trouble {
                p.notice { "What other hosts did may be missing: " (display::text(why)) }
            }
            @if !listed.is_complete {
                p.notice {
                    "Still listing: " (display::grouped(listed.rows.len() as u64)) " of "
                    (display::grouped(listed.total as u64)) " conversations so far."
                }
            }
            div.scrolls role="region" aria-label="Table of conversations" tabindex="0" {
                table #conversations {
                    caption { (caption(listed.total + elsewhere.len(), rows.len())) }
                    thead { (shell::headings(COLUMNS, &order, &kept)) }
                    tbody #rows {
                        @for row in rows.iter().skip((page - 1) * ROWS).take(ROWS) { (line(row)) }
                    }
                }
            }
            (shell::pager("Pages of the list", page, pages, &order, &kept))
        }
    }
}

fn caption(total: usize, found: usize) -> String {
    let all = display::counted(total as u64, "conversation");
    if found == total { all } else { format!("{} of {all}", display::grouped(found as u64)) }
}

fn line(row: &ConversationRow) -> Markup {
    if row.is_elsewhere {
        return line_elsewhere(row);
    }
    html! {
        tr data-conversation=(row.name) {
            th scope="row" {
                a href=(address::conversation(&row.id)) { (display::text(row.title())) }
                @for fact in row.facts() { br; span.faint { (display::text(&fact)) } }
            }
            td { (display::time(row.used)) }
            td.number {
                (display::grouped(row.outputs))
                @if row.live > 0 { " " span.live { (row.live) " live" } }
            }
            td.number { (display::size(row.bytes)) }
            td.number { (display::grouped(row.counts.stored.tokens)) }
            td.number { (display::grouped(row.counts.handed.tokens)) }
            td.number { (display::signed(row.counts.saved(|amount| amount.tokens))) }
            td.number { span .failed[row.errors > 0] { (display::grouped(row.errors)) } }
        }
    }
}

fn line_elsewhere(row: &ConversationRow) -> Markup {
    html! {
        tr data-conversation=(row.name) {
            th scope="row" { a href=(address::conversation(&row.id)) { (display::text(&row.name)) } }
            td.faint { "on other hosts" }
            @for _ in COLUMNS.iter().skip(2) { td {} }
        }
    }
}

fn compare(a: &ConversationRow, b: &ConversationRow, by: &str) -> Ordering {
    let compared = match by {
        "used" => a.used.cmp(&b.used),
        "outputs" => a.outputs.cmp(&b.outputs),
        "bytes" => a.bytes.cmp(&b.bytes),
        "stored" => a.counts.stored.tokens.cmp(&b.counts.stored.tokens),
        "handed" => a.counts.handed.tokens.cmp(&b.counts.handed.tokens),
        "saved" => {
            a.counts.saved(|amount| amount.tokens).cmp(&b.counts.saved(|amount| amount.tokens))
        }
        "errors" => a.errors.cmp(&b.errors),
        _ => Ordering::Equal,
    };
    compared.then_with(|| a.name.cmp(&b.name))
}
