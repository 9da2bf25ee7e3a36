//! The page of a conversation: its messages and calls as a person reads them, its outputs beside
//! them, and the search of all of it.

mod call;
mod list;
mod timeline;

use std::sync::Arc;

use maud::{Markup, html};
use serde::Deserialize;

use crate::error::WebError;
use crate::shell::Crumb;
use crate::site::Site;
use crate::work::Sink;
use crate::{address, search, shell, shown};
use ctxfs_core::model::Component;
use ctxfs_engine::MessageRange;

pub(super) use call::stand_in;
pub(super) use timeline::{Timeline, time_of};

/// The parameters.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ConversationQuery {
    /// The search.
    pub(super) q: String,
    pub(super) sort: String,
    pub(super) order: String,
    pub(super) page: String,
    /// `1` for failed calls alone.
    pub(super) errors: String,
    /// The offset of the first message that is not shown any more.
    before: String,
    /// The offset from which on messages are shown.
    after: String,
    pub(super) part: String,
    /// The output whose stand-in is asked for.
    output: String,
}

/// Writes the page, or a part of it.
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
        "outputs" => return sink.write(list::aside(site, id, query)?.into_string()),
        "standin" => return sink.write(stand_in(site, id, &query.output)?.into_string()),
        _ => {}
    }
    let name = id.to_text();
    let trail = [Crumb { text: shown::text(&name), to: None }];
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
    sink.write(list::aside(site, id, query)?.into_string())?;
    sink.write("</div>")?;
    sink.write(shell::foot())
}

/// Writes the page of the outputs alone.
pub(super) fn write_outputs(
    site: &Arc<Site>,
    id: &Component,
    query: &ConversationQuery,
    sink: &mut Sink,
) -> Result<(), WebError> {
    let name = id.to_text();
    let trail = [
        Crumb { text: shown::text(&name), to: Some(address::conversation(id)) },
        Crumb { text: html! { "outputs" }, to: None },
    ];
    sink.write(shell::head("outputs", &format!("Outputs of {name}"), &trail))?;
    sink.write(html! { h1 { "Outputs of " (shown::text(&name)) } }.into_string())?;
    sink.flush()?;
    site.engine.others().ask_for_outputs(id)?;
    sink.write(list::aside(site, id, query)?.into_string())?;
    sink.write(shell::foot())
}

fn heading(site: &Arc<Site>, id: &Component, query: &ConversationQuery) -> Markup {
    let name = id.to_text();
    let root = site.engine.options.root().of(&name);
    html! {
        h1 { (shown::text(&name)) }
        div #conversation data-conversation=(name) data-topic={ "c/" (name) } data-path=(root) {}
        (search::form(&address::conversation(id), "Search all of this conversation", &query.q))
    }
}
