//! The messages of a conversation in order, and among them the calls that no message names.

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use maud::{Markup, html};

use crate::catalog::OutputRow;
use crate::error::WebError;
use crate::site::Site;
use crate::work::Sink;
use crate::{address, display};
use ctxfs_core::model::Component;
use ctxfs_engine::{LoggedMessage, MessagePage, MessageRange};
use ctxfs_store::message::{MessageCall, MessageEntry, MessageTime};
use ctxfs_view::View;

// Maximum number of messages per page, or of calls if there are no messages.
const MOST: usize = 40;
// Time limit for all stand-ins of a page. Stand-ins that are not ready in time are replaced by
// links.
const PATIENCE: Duration = Duration::from_secs(2);
// Number of characters of a message that are shown initially.
const LONG: usize = 6000;

/// A page of the timeline. If there is no message log, the page shows only calls, and `older` is
/// the number of calls before them.
#[derive(Debug)]
pub(crate) struct Timeline {
    page: MessagePage,
    others: Vec<OutputRow>,
    older: usize,
    is_log: bool,
}

impl Timeline {
    /// Reads a page. If there is no message log, the range refers to numbers of calls; the newest
    /// call has the highest number.
    pub(crate) fn read(
        site: &Arc<Site>,
        id: &Component,
        range: MessageRange,
    ) -> Result<Self, WebError> {
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

    pub(crate) fn write(
        &self,
        site: &Arc<Site>,
        id: &Component,
        sink: &mut Sink,
    ) -> Result<(), WebError> {
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
                (call_section(id, row, &Given::Text(&message.said()), &heading(message)))
            } @else {
                (message_text(&message.said()))
            }
            @for called in message.calls() { (requested_call(&called)) }
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

fn requested_call(called: &MessageCall) -> Markup {
    html! {
        p.asked data-call=(called.id) {
            span aria-hidden="true" { "\u{2192} " }
            code { (display::text(&called.name)) } " "
            code.faint { (display::text(&called.arguments)) }
        }
    }
}

fn heading(message: &MessageEntry) -> String {
    [message.tool_name.as_str(), &message.call_id()].join(" ").trim().to_owned()
}

fn time(message: &MessageEntry) -> Markup {
    match message.created_at() {
        None => html! {},
        Some(MessageTime::Millis(millis)) => display::time(millis),
        Some(MessageTime::Text(text)) => match text.parse::<Timestamp>() {
            Ok(time) => display::time(time.as_millisecond()),
            Err(_) => display::text(&text),
        },
    }
}

pub(crate) fn time_of(logged: &LoggedMessage) -> Option<i64> {
    match logged.message.as_ref().ok()?.created_at()? {
        MessageTime::Millis(millis) => Some(millis),
        MessageTime::Text(text) => Some(text.parse::<Timestamp>().ok()?.as_millisecond()),
    }
}

const STAND_IN_PATIENCE: Duration = Duration::from_millis(500);
// Number of characters of a result that are shown initially.
const LONG_RESULT: usize = 4000;

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
            Some(row) => later(id, row),
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
                code.tool { (row.tool) } " "
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

fn later(id: &Component, row: &OutputRow) -> Markup {
    let to = address::output(id, &row.path) + "?part=standin";
    html! { p.notice { a href=(to) { "What the model was given" } } }
}

pub(super) fn outcome(row: &OutputRow) -> Markup {
    html! {
        @if row.is_live { span.live { "live" } }
        @else if row.is_incomplete { span.failed { "incomplete" } }
        @else if let Some(code) = row.exit { span .failed[code != 0] { "exit " (code) } }
    }
}

pub(super) fn stand_in(site: &Arc<Site>, id: &Component, path: &str) -> Result<Markup, WebError> {
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
