//! The page of a conversation: its messages and calls, its outputs next to them, and a search over
//! the whole conversation.

use std::cmp::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use maud::{Markup, html};
use serde::Deserialize;

use crate::{Column, Crumb, Order, OutputRow, Result, Sink, Site, address, display, search, shell};
use ctxfs_core::model::{Component, Limits};
use ctxfs_engine::{LoggedMessage, MessagePage, MessageRange};
use ctxfs_store::message::{MessageEntry, MessageTime};
use ctxfs_view::View;

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
) -> Result<()> {
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
) -> Result<()> {
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
    let root = site.engine.options.root.of(&name);
    let conversation = site.engine.conversation(id).ok();
    let about =
        conversation.map(|found| ctxfs_engine::about_of(&site.engine, &found)).unwrap_or_default();
    let facts = [about.prompt, about.directory, about.host].into_iter().flatten();
    let facts = facts.collect::<Vec<String>>().join(", ");
    html! {
        h1 { (display::text(&name)) }
        @if !facts.is_empty() { p #about { (display::text(&facts)) } }
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

fn aside(site: &Arc<Site>, id: &Component, query: &ConversationQuery) -> Result<Markup> {
    let outputs = site.catalog.outputs(id)?;
    let order = Order::requested(COLUMNS, &query.sort, &query.order, "time");
    let only_failed = query.errors == "1";
    let mut rows: Vec<&OutputRow> = outputs.rows.iter().collect();
    rows.retain(|row| !only_failed || row.has_failed() || row.errors > 0);
    order.sort(&mut rows, compare);
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
                    thead { (shell::headings(COLUMNS, &order, &kept)) }
                    tbody {
                        @for row in rows.iter().skip((page - 1) * ROWS).take(ROWS) { (line(id, row)) }
                    }
                }
            }
            (shell::pager("Pages of outputs", page, pages, &order, &kept))
        }
    })
}

fn line(id: &Component, row: &OutputRow) -> Markup {
    let to = address::output(id, &row.path);
    html! {
        tr data-output=(row.path) data-failed=(row.has_failed()) {
            th scope="row" {
                a href=(to) { (display::text(&row.title)) }
                @if row.title != row.name() { br; span.faint { (display::text(row.name())) } }
            }
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

// Maximum number of messages per page, or of calls if there are no messages.
const MOST: usize = 40;
// Time limit for all stand-ins of a page. Stand-ins that are not ready in time are replaced by
// links.
const PATIENCE: Duration = Duration::from_secs(2);
// Number of characters of a message that are shown initially.
const LONG: usize = 6000;

/// A page of the timeline. If there is no message log, the page shows only calls, and `older` is
/// the number of calls before them.
struct Timeline {
    page: MessagePage,
    others: Vec<OutputRow>,
    older: usize,
    is_log: bool,
}

impl Timeline {
    /// Reads a page. If there is no message log, the range refers to numbers of calls; the newest
    /// call has the highest number.
    fn read(site: &Arc<Site>, id: &Component, range: MessageRange) -> Result<Self> {
        let page = site.engine.messages(id, range, MOST)?;
        let outputs = site.catalog.outputs(id)?;
        let is_log = page.end > 0 || !page.messages.is_empty();
        if !is_log {
            let count = outputs.rows.len();
            let (from, upto) = match range {
                MessageRange::Before(before) => {
                    let upto = usize::try_from(before).unwrap_or(count).min(count);
                    (upto.saturating_sub(MOST), upto)
                }
                MessageRange::From(from) => {
                    let from = usize::try_from(from).unwrap_or(count).min(count);
                    (from, count.min(from + MOST))
                }
            };
            // The list is sorted newest first.
            let others = outputs.rows[count - upto..count - from].iter().rev().cloned().collect();
            return Ok(Self { page, others, older: from, is_log });
        }
        let times: Vec<i64> = page.messages.iter().filter_map(time_of).collect();
        let is_newest = matches!(range, MessageRange::Before(u64::MAX) | MessageRange::From(_));
        let first = if page.start == 0 { Some(i64::MIN) } else { times.iter().min().copied() };
        let last = if is_newest { Some(i64::MAX) } else { times.iter().max().copied() };
        // If the messages have no times, all other calls come after the last message.
        let span = if times.is_empty() {
            is_newest.then_some((i64::MIN, i64::MAX))
        } else {
            first.zip(last)
        };
        let is_within = |row: &OutputRow| {
            span.is_some_and(|(first, last)| (first..=last).contains(&row.created))
        };
        let mut others = site.catalog.unnamed(id)?;
        others.retain(is_within);
        others.truncate(MOST);
        Ok(Self { page, others: others.into_iter().rev().collect(), older: 0, is_log })
    }

    fn write(&self, site: &Arc<Site>, id: &Component, sink: &mut Sink) -> Result<()> {
        let (older, end) = if self.is_log {
            (self.page.start, self.page.end)
        } else {
            (self.older as u64, (self.older + self.others.len()) as u64)
        };
        sink.write(format!(
            "<section id=\"messages\" aria-label=\"Messages\" data-end=\"{end}\" data-start=\"{older}\">"
        ))?;
        if older > 0 {
            let link = html! { p { a.older href={ "?before=" (older) } { "Older" } } };
            sink.write(link.into_string())?;
        }
        let outputs = site.catalog.outputs(id)?;
        let until = Instant::now() + PATIENCE;
        let mut others = self.others.iter().peekable();
        for message in &self.page.messages {
            let time = time_of(message);
            while let Some(row) = others.next_if(|row| time.is_some_and(|time| row.created <= time))
            {
                sink.write(output(site, id, row, until).into_string())?;
            }
            let row = message.output.as_ref().and_then(|(path, _)| outputs.at(&path.to_text()));
            sink.write(article(id, message, row).into_string())?;
        }
        for row in others {
            sink.write(output(site, id, row, until).into_string())?;
            sink.flush()?;
        }
        if self.page.messages.is_empty() && self.others.is_empty() {
            sink.write("<p class=\"empty\">Nothing has been stored yet.</p>")?;
        }
        sink.write("</section>")
    }
}

fn output(site: &Arc<Site>, id: &Component, row: &OutputRow, until: Instant) -> Markup {
    html! {
        article.message id={ "o-" (row.path) } data-role="output" {
            header { span.role { "output" } " " (display::time(row.created)) }
            (call_section(id, Some(row), &Given::Summary(site, until), ""))
        }
    }
}

fn article(id: &Component, logged: &LoggedMessage, row: Option<&OutputRow>) -> Markup {
    let anchor = format!("m-{}", logged.offset);
    let message = match &logged.message {
        Ok(message) => message,
        Err(line) => {
            return html! {
                article.message id=(anchor) data-role="none" {
                    header { span.role { "not a message" } }
                    div.said { pre { (display::text(line)) } }
                }
            };
        }
    };
    let role = &message.role;
    let is_result = matches!(&**role, "tool" | "function");
    html! {
        article.message id=(anchor) data-role=(role) {
            header {
                span.role { (display::text(role)) } " "
                (time(message)) " "
                @if !message.mode.is_empty() { span.faint { (display::text(&message.mode)) } }
                " " a.anchor href={ "#" (anchor) } aria-label="Link to this message" { "#" }
            }
            @if is_result {
                @let called = [message.tool_name.as_str(), &message.call_id()].join(" ");
                (call_section(id, row, &Given::Text(&message.said()), called.trim()))
            } @else {
                (message_text(&message.said()))
            }
            @for called in message.calls() {
                p.asked data-call=(called.id) {
                    span aria-hidden="true" { "\u{2192} " }
                    code { (display::text(&called.name)) } " "
                    code.faint { (display::text(&called.arguments)) }
                }
            }
        }
    }
}

fn message_text(text: &str) -> Markup {
    let cut = text.char_indices().nth(LONG).map(|(at, _)| at);
    html! {
        div.said {
            @match cut {
                None => (display::text(text)),
                Some(at) => {
                    (display::text(&text[..at]))
                    details { summary { "the rest of this message" } (display::text(&text[at..])) }
                }
            }
        }
    }
}

fn time(message: &MessageEntry) -> Markup {
    match (message.created_at(), millis(message)) {
        (_, Some(millis)) => display::time(millis),
        (Some(MessageTime::Text(text)), None) => display::text(&text),
        _ => html! {},
    }
}

pub(super) fn time_of(logged: &LoggedMessage) -> Option<i64> {
    logged.message.as_ref().ok().and_then(millis)
}

fn millis(message: &MessageEntry) -> Option<i64> {
    match message.created_at()? {
        MessageTime::Millis(millis) => Some(millis),
        MessageTime::Text(text) => Some(text.parse::<Timestamp>().ok()?.as_millisecond()),
    }
}

const STAND_IN_PATIENCE: Duration = Duration::from_millis(500);
// Number of characters of a result that are shown initially: a stand-in is shown whole.
const LONG_RESULT: usize = Limits::STAND_IN_BYTES;

// The text that the model got for a call.
enum Given<'a> {
    Text(&'a str),
    // The summary of the output, unless it takes longer than this deadline.
    Summary(&'a Arc<Site>, Instant),
}

/// Returns the section for a call. `row` is the stored output of the call. If nothing was stored,
/// `called` names the call.
fn call_section(
    id: &Component,
    row: Option<&OutputRow>,
    given: &Given<'_>,
    called: &str,
) -> Markup {
    let given = match given {
        Given::Text(text) => result(text),
        Given::Summary(site, until) => match row {
            Some(row) if Instant::now() < *until => stand_in(site, id, &row.path)
                .unwrap_or_else(|error| html! { p.notice { (error.to_string()) } }),
            Some(row) => {
                let to = address::output(id, &row.path) + "?part=standin";
                html! { p.notice { a href=(to) { "What the model was given" } } }
            }
            None => html! {},
        },
    };
    let Some(row) = row else {
        return html! {
            section.call role="group" data-failed="false" aria-label="Call" {
                header { code { (display::text(called)) } }
                (given)
            }
        };
    };
    html! {
        section.call data-call=(row.call) data-output=(row.path) data-exit=[row.exit]
            data-failed=(row.has_failed()) role="group" aria-label={ "Call " (row.call) } {
            header {
                code { (display::text(&row.title)) } " "
                span.faint { (row.arguments) } " "
                (outcome(row)) " "
                @if let Some(millis) = row.duration { span { (display::duration(millis)) } " " }
                (display::size(row.size)) " "
                a.output href=(address::output(id, &row.path)) { (display::text(row.name())) }
            }
            (given)
        }
    }
}

fn outcome(row: &OutputRow) -> Markup {
    html! {
        @if row.is_live { span.live { "live" } }
        @else if row.is_incomplete { span.failed { "incomplete" } }
        @else if let Some(code) = row.exit { span .failed[code != 0] { "exit " (code) } }
    }
}

fn stand_in(site: &Arc<Site>, id: &Component, path: &str) -> Result<Markup> {
    let look = site.look(id, path)?;
    let began = Instant::now();
    let text = look.view(&View::Summary, &|| began.elapsed() > STAND_IN_PATIENCE)?;
    let text = [text.notice.as_bytes(), &text.text].concat();
    Ok(html! { pre.stand-in tabindex="0" { (display::bytes(&text)) } })
}

fn result(text: &str) -> Markup {
    let cut = text.char_indices().nth(LONG_RESULT).map(|(at, _)| at);
    html! {
        @match cut {
            None => pre.stand-in tabindex="0" { (display::text(text)) },
            Some(at) => {
                pre.stand-in tabindex="0" { (display::text(&text[..at])) }
                details {
                    summary { "the rest of what the model was given" }
                    pre.stand-in tabindex="0" { (display::text(&text[at..])) }
                }
            }
        }
    }
}
