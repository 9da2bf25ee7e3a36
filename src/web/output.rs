//! The page of an output: what is known of it, and a window over its lines.

mod colour;
mod contents;
mod facts;
mod hex;
mod json;
mod kind;
mod path;
mod screen;
mod window;

use std::sync::Arc;

use maud::{Markup, html};
use serde::Deserialize;

use crate::error::WebError;
use crate::shell::Crumb;
use crate::site::Site;
use crate::work::Sink;
use crate::{address, search, shell, shown};
use ctxfs_core::model::{Component, visible};
use ctxfs_engine::{Look, LookFacts};
use ctxfs_view::View as StoredView;

use kind::View;
pub(super) use kind::image_type;
use window::Window;

/// The parameters.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OutputQuery {
    /// The way to look at it.
    view: String,
    /// The first line on the screen.
    pub(super) line: String,
    /// A byte in the first line on the screen.
    pub(super) at: String,
    /// The offset of the first row, and of what follows the last row.
    pub(super) from: String,
    pub(super) before: String,
    /// `1` for the end.
    pub(super) end: String,
    /// The search.
    q: String,
    /// The node of JSON that is open.
    json: String,
    part: String,
}

impl OutputQuery {
    /// Returns true if the answer is text rather than a page.
    pub(super) fn is_plain(&self) -> bool {
        self.part == "standin"
    }
}

/// An output, and what a request asks about it.
pub(super) struct Output<'a> {
    pub(super) site: &'a Arc<Site>,
    pub(super) id: &'a Component,
    pub(super) look: Look,
    pub(super) facts: LookFacts,
    pub(super) query: &'a OutputQuery,
}

/// Writes the page, or a part of it.
pub(super) fn write(
    site: &Arc<Site>,
    id: &Component,
    path: &str,
    query: &OutputQuery,
    sink: &mut Sink,
) -> Result<(), WebError> {
    let look = site.look(id, path)?;
    // Those who follow a live output ask for its lines again and again.
    let facts = if query.part == "lines" { look.known_facts() } else { look.facts() }?;
    let output = Output { site, id, look, facts, query };
    match &*query.part {
        "lines" => sink.write(output.lines(output.view())?.into_string()),
        "facts" => sink.write(facts::list(&output).into_string()),
        "json" => sink.write(json::members(&output)?.into_string()),
        "hex" => sink.write(hex::table(&output)?.into_string()),
        "standin" => {
            let text = output.look.view(&StoredView::Summary, &|| false)?;
            sink.write([text.notice.as_bytes(), &text.text].concat())
        }
        _ => output.write_page(sink),
    }
}

impl Output<'_> {
    fn write_page(&self, sink: &mut Sink) -> Result<(), WebError> {
        let path = self.look.path();
        let name = path.rsplit('/').next().unwrap_or(path);
        let conversation = self.id.to_text();
        let trail = [
            Crumb { text: shown::text(&conversation), to: Some(address::conversation(self.id)) },
            Crumb { text: shown::text(name), to: None },
        ];
        sink.write(shell::head("output", name, &trail))?;
        let view = self.view();
        let head = html! {
            h1 { (shown::text(name)) }
            (facts::list(self))
            (facts::copy(self))
            (kind::links(self, view))
        };
        sink.write(head.into_string())?;
        sink.flush()?;
        sink.write(contents::list(self)?.into_string())?;
        if view.has_lines() {
            let form = search::form(&self.address(), "Search in it", &self.query.q);
            sink.write(form.into_string())?;
            search::write_results(self.site, self.id, Some(path), &self.query.q, sink)?;
        }
        sink.write(self.body(view)?.into_string())?;
        sink.write(shell::foot())
    }

    /// Returns its address.
    pub(super) fn address(&self) -> String {
        address::output(self.id, self.look.path())
    }

    fn view(&self) -> View {
        View::of(&self.query.view, self)
    }

    /// Returns true if the request names a place in its lines.
    pub(super) fn names_a_place(&self) -> bool {
        let OutputQuery { line, at, from, before, end, q, .. } = self.query;
        [line, at, from, before, end, q].iter().any(|given| !given.is_empty())
    }

    fn body(&self, view: View) -> Result<Markup, WebError> {
        Ok(match view {
            View::Json => json::tree(self)?,
            View::Hex => hex::section(self)?,
            View::Image => html! {
                p.image {
                    img src=(address::of_output(self.id, "image", self.look.path()))
                        alt={ "The image " (visible::whole(self.look.path())) };
                }
            },
            View::Text | View::Screen | View::Raw => self.text(view)?,
        })
    }

    fn text(&self, view: View) -> Result<Markup, WebError> {
        let window = Window::of(self)?;
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

    fn lines(&self, view: View) -> Result<Markup, WebError> {
        let window = Window::of(self)?;
        self.rows(view, &window)
    }

    fn rows(&self, view: View, window: &Window) -> Result<Markup, WebError> {
        if !window.is_whole() && !self.look.is_counted() {
            let again = self.site.look(self.id, self.look.path())?;
            self.site.count_lines(self.id, again);
        }
        let rows = match view {
            View::Screen => screen::rows(self, window)?,
            View::Raw => window.text_rows(false),
            _ => window.text_rows(kind::is_for_terminal(self)),
        };
        Ok(window.section(&rows, view, self.look.size()))
    }
}
