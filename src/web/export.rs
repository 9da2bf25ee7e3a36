//! Exports a conversation as files that can be opened from disk, without a server or scripts.

mod output;

use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::sync::Arc;

use maud::{Markup, html};

use crate::access::AccessGate;
use crate::conversation::time_of;
use crate::display;
use crate::error::WebError;
use crate::export::output::{ExportedOutput, page_foot, page_head};
use crate::shell::STYLE;
use crate::site::Site;
use ctxfs_core::model::Component;
use ctxfs_engine::{Engine, LoggedMessage, MessageRange};

pub use crate::export::output::Shelf;

/// Writes the conversation `id` to `shelf`: `index.html` with all messages and calls, one or more
/// pages for each output, the bytes of each output, and the style.
pub fn export(engine: Arc<Engine>, id: &Component, shelf: &mut dyn Shelf) -> Result<(), WebError> {
    // Nothing is served, so the gate admits no request.
    let site = Site::new(engine, AccessGate::new(Vec::new(), "", 0));
    let id = site.conversation(&id.to_text())?;
    shelf.file("page.css")?.write_all(STYLE.as_bytes())?;
    let outputs = site.catalog.outputs(&id)?;
    let oldest_first = outputs.rows.iter().rev().enumerate();
    let exported: Vec<ExportedOutput<'_>> =
        oldest_first.map(|(number, row)| ExportedOutput::new(number + 1, row)).collect();
    for output in &exported {
        output.write(&site, &id, shelf)?;
    }
    ExportIndex::new(&site, &id, &exported).write(shelf)
}

const MESSAGES: usize = 200;
const TITLES: [&str; 5] = ["Output", "Tool", "Size", "End", "Time"];

struct ExportIndex<'a> {
    site: &'a Arc<Site>,
    id: &'a Component,
    outputs: &'a [ExportedOutput<'a>],
    by_path: HashMap<&'a str, &'a ExportedOutput<'a>>,
}

impl<'a> ExportIndex<'a> {
    fn new(site: &'a Arc<Site>, id: &'a Component, outputs: &'a [ExportedOutput<'a>]) -> Self {
        let by_path = outputs.iter().map(|output| (&*output.row.path, output)).collect();
        Self { site, id, outputs, by_path }
    }

    fn write(&self, shelf: &mut dyn Shelf) -> Result<(), WebError> {
        let mut out = shelf.file("index.html")?;
        let name = self.id.to_text();
        out.write_all(page_head(&name, "").as_bytes())?;
        out.write_all(html! { h1 { (display::text(&name)) } (self.list()) }.0.as_bytes())?;
        out.write_all(b"<section id=\"messages\" aria-label=\"Messages\">")?;
        self.write_messages(&mut *out)?;
        out.write_all(b"</section>")?;
        out.write_all(page_foot().as_bytes())?;
        Ok(out.flush()?)
    }

    fn list(&self) -> Markup {
        html! {
            section #outputs aria-label="Outputs" {
                h2 { "Outputs" }
                div.scrolls role="region" aria-label="Table of outputs" tabindex="0" {
                    table {
                        caption { (display::counted(self.outputs.len() as u64, "output")) }
                        thead { tr { @for title in TITLES { th scope="col" { (title) } } } }
                        tbody { @for output in self.outputs { (output.table_row()) } }
                    }
                }
            }
        }
    }

    /// Writes the messages in order. An output that no message names is written before the first
    /// message with the same or a later time.
    fn write_messages(&self, out: &mut dyn Write) -> Result<(), WebError> {
        let named = self.named()?;
        let is_named = |output: &ExportedOutput<'_>| named.contains(&*output.row.path);
        let mut others = self.outputs.iter().filter(|output| !is_named(output)).peekable();
        self.each_message(&mut |logged| {
            let time = time_of(logged);
            let is_due = |other: &&ExportedOutput<'_>| time.is_some_and(|t| other.row.created <= t);
            while let Some(other) = others.next_if(is_due) {
                out.write_all(other.article(self.site, self.id)?.0.as_bytes())?;
            }
            let article = message_article(logged, self.output_of(logged));
            Ok(out.write_all(article.0.as_bytes())?)
        })?;
        for other in others {
            out.write_all(other.article(self.site, self.id)?.0.as_bytes())?;
        }
        Ok(())
    }

    fn named(&self) -> Result<HashSet<&'a str>, WebError> {
        let mut named = HashSet::new();
        self.each_message(&mut |message| {
            named.extend(self.output_of(message).map(|output| &*output.row.path));
            Ok(())
        })?;
        Ok(named)
    }

    fn each_message(
        &self,
        take: &mut dyn FnMut(&LoggedMessage) -> Result<(), WebError>,
    ) -> Result<(), WebError> {
        let mut from = 0;
        loop {
            let page = self.site.engine.messages(self.id, MessageRange::From(from), MESSAGES)?;
            if page.messages.is_empty() {
                return Ok(());
            }
            from = page.end;
            page.messages.iter().try_for_each(&mut *take)?;
        }
    }

    fn output_of(&self, message: &LoggedMessage) -> Option<&'a ExportedOutput<'a>> {
        let path = message.output.as_ref()?.0.to_text();
        self.by_path.get(&*path).copied()
    }
}

fn message_article(logged: &LoggedMessage, output: Option<&ExportedOutput<'_>>) -> Markup {
    let message = match &logged.message {
        Ok(message) => message,
        Err(line) => {
            return html! {
                article.message data-role="none" {
                    header { span.role { "not a message" } } pre { (display::text(line)) }
                }
            };
        }
    };
    let said = display::text(&message.said());
    html! {
        article.message id={ "m-" (logged.offset) } data-role=(message.role) {
            header {
                span.role { (display::text(&message.role)) } " "
                @if let Some(time) = time_of(logged) { (display::time(time)) }
            }
            @match output {
                Some(output) => (output.section(&said)),
                None => div.said { (said) },
            }
            @for call in message.calls() {
                p.asked data-call=(call.id) {
                    code { (display::text(&call.name)) } " " code.faint { (display::text(&call.arguments)) }
                }
            }
        }
    }
}
