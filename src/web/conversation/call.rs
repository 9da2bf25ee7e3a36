//! A call of a tool: what is known of it, and what the model was given.

use std::sync::Arc;
use std::time::{Duration, Instant};

use maud::{Markup, html};

use crate::catalog::OutputRow;
use crate::error::WebError;
use crate::site::Site;
use crate::{address, quantity, shown};
use ctxfs_core::model::Component;
use ctxfs_view::View;

/// The time for the stand-in of one output.
const PATIENCE: Duration = Duration::from_millis(500);
/// The most characters of a result that are shown at first.
const LONG: usize = 4000;

/// What the model was given.
pub(super) enum Given<'a> {
    /// This text, as the log of messages has it.
    Text(&'a str),
    /// The summary of the output, unless this time has come before.
    Summary(&'a Arc<Site>, Instant),
}

/// Returns the block of a call. `row` is its output, if it was stored; `called` names the call if it
/// was not.
pub(super) fn section(
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
                header { code { (shown::text(called)) } }
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
                @if let Some(millis) = row.duration { span { (quantity::duration(millis)) } " " }
                (quantity::size(row.size)) " "
                a.output href=(address::output(id, &row.path)) { (shown::text(row.name())) }
            }
            (given)
        }
    }
}

/// Returns the link to a stand-in for which there was no time.
fn later(id: &Component, row: &OutputRow) -> Markup {
    let to = address::output(id, &row.path) + "?part=standin";
    html! { p.notice { a href=(to) { "What the model was given" } } }
}

/// Returns how a call ended.
pub(super) fn outcome(row: &OutputRow) -> Markup {
    html! {
        @if row.is_live { span.live { "live" } }
        @else if row.is_incomplete { span.failed { "incomplete" } }
        @else if let Some(code) = row.exit { span .failed[code != 0] { "exit " (code) } }
    }
}

/// Returns the summary of an output, which a model gets in its place.
pub(crate) fn stand_in(site: &Arc<Site>, id: &Component, path: &str) -> Result<Markup, WebError> {
    let look = site.look(id, path)?;
    let began = Instant::now();
    let text = look.view(&View::Summary, &|| began.elapsed() > PATIENCE)?;
    let text = [text.notice.as_bytes(), &text.text].concat();
    Ok(html! { pre.stand-in tabindex="0" { (shown::bytes(&text)) } })
}

fn result(text: &str) -> Markup {
    let cut = text.char_indices().nth(LONG).map(|(at, _)| at);
    html! {
        @match cut {
            None => pre.stand-in tabindex="0" { (shown::text(text)) },
            Some(at) => {
                pre.stand-in tabindex="0" { (shown::text(&text[..at])) }
                details {
                    summary { "the rest of what the model was given" }
                    pre.stand-in tabindex="0" { (shown::text(&text[at..])) }
                }
            }
        }
    }
}
