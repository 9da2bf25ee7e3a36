//! Searches: as lines of JSON while they run, or as a part of a page.

mod hits;

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

use crate::address::query;
use crate::error::WebError;
use crate::search::hits::{Hit, HitKind};
use crate::site::Site;
use crate::turns::Turn;
use crate::work::Sink;
use crate::{address, quantity, shown};
use ctxfs_core::model::Component;
use ctxfs_engine::{EngineError, Look, LookText, search_conversation};

/// The time after which a search says how far it is. It goes on from there.
const STEP: Duration = Duration::from_secs(2);
/// The time for the results that are a part of a page.
const PATIENCE: Duration = Duration::from_secs(3);
/// Matches that a search sends before it says how to go on.
const MOST: u64 = 5000;

/// The parameters.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SearchQuery {
    pub(super) conversation: String,
    /// The path of an output; empty for the whole conversation.
    output: String,
    q: String,
    /// The tab that asks. Another search of it ends this one.
    pub(super) tab: String,
}

/// What is searched.
struct Scope<'a> {
    site: &'a Arc<Site>,
    id: &'a Component,
    /// One output; else all of the conversation.
    look: Option<Look>,
}

/// Returns the form of a search.
pub(super) fn form(action: &str, label: &str, given: &str) -> Markup {
    html! {
        form #search role="search" method="get" action=(action) {
            label for="query" { (label) } " "
            input #query name="q" type="search" value=(given) autocomplete="off" spellcheck="false"
                placeholder="-i timeout" aria-label=(label) aria-describedby="query-help";
            " " button { "Search" }
            span #query-help .faint {
                " as in ripgrep: a regular expression, after options such as "
                code { "-i -w -F -v -C3" }
            }
            " " span #found aria-live="polite" {}
        }
    }
}

/// Sends the results as they are found, until all are sent, or the turn is over.
pub(super) fn stream(
    site: &Arc<Site>,
    id: &Component,
    asked: &SearchQuery,
    turn: &Turn,
    sink: &mut Sink,
) -> Result<(), WebError> {
    let scope = Scope::new(site, id, Some(&*asked.output).filter(|path| !path.is_empty()))?;
    sink.flush()?;
    let gone = sink.gone();
    let is_over = || turn.is_over() || gone.load(Relaxed);
    if let Some(look) = &scope.look {
        look.prepare(&is_over)?;
    }
    let (mut name, mut matches) = (name_of(&asked.q), 0);
    let more = loop {
        let began = Instant::now();
        let found = scope.search(&name, &|| is_over() || began.elapsed() > STEP);
        let found = match found {
            Err(WebError::Missing) => break None,
            found => found?,
        };
        for hit in scope.hits(&found) {
            matches += u64::from(hit.kind == HitKind::Match);
            sink.write(hit.json(&scope.link(&hit)))?;
        }
        for note in hits::notes(&found.notice) {
            sink.write(json!({"kind": "note", "text": note}).to_string() + "\n")?;
        }
        sink.flush()?;
        let more = hits::rest(&found);
        match more {
            Some(rest) if !is_over() && matches < MOST && rest != name => name = rest,
            more => break more,
        }
    };
    let more = more.map(|name| typed(&name));
    let done =
        json!({"kind": "done", "matches": matches, "more": more, "cancelled": turn.is_over()});
    sink.write(done.to_string() + "\n")
}

/// Writes the place of the results, and in it the first of them, for a browser without the script.
pub(super) fn write_results(
    site: &Arc<Site>,
    id: &Component,
    path: Option<&str>,
    asked: &str,
    sink: &mut Sink,
) -> Result<(), WebError> {
    if asked.is_empty() {
        let place = html! {
            section #results aria-label="Search results" hidden { ol.hits {} }
        };
        return sink.write(place.into_string());
    }
    let scope = Scope::new(site, id, path)?;
    let (began, gone) = (Instant::now(), sink.gone());
    let is_over = || began.elapsed() > PATIENCE || gone.load(Relaxed);
    let found = match scope.search(&name_of(asked), &is_over) {
        Err(WebError::Missing) => None,
        found => Some(found?),
    };
    let markup = html! {
        section #results aria-label="Search results" tabindex="0" {
            @match &found {
                None => { p.first { "This cannot be searched for." } ol.hits {} }
                Some(found) => (scope.list(found)),
            }
        }
    };
    sink.write(markup.into_string())
}

impl<'a> Scope<'a> {
    fn new(site: &'a Arc<Site>, id: &'a Component, path: Option<&str>) -> Result<Self, WebError> {
        let look = path.map(|path| site.look(id, path)).transpose()?;
        Ok(Self { site, id, look })
    }

    fn search(
        &self,
        name: &str,
        expired: &(dyn Fn() -> bool + Sync),
    ) -> Result<LookText, WebError> {
        let run = |name: &str| match &self.look {
            Some(look) => look.search(OsStr::new(name), expired),
            None => search_conversation(&self.site.engine, self.id, OsStr::new(name), expired),
        };
        let found = run(name);
        if let Err(EngineError::NotFound) = found {
            // Some words are never searched for by their mere name, as programs look them up.
            return Ok(run(&format!("-- {name}"))?);
        }
        Ok(found?)
    }

    fn hits(&self, found: &LookText) -> Vec<Hit> {
        let text = String::from_utf8_lossy(&found.text);
        if self.look.is_some() {
            return text.lines().filter_map(Hit::of_line).collect();
        }
        let outputs = self.site.catalog.outputs(self.id).unwrap_or_default();
        let is_output = |path: &str| outputs.at(path).is_some();
        text.lines().filter_map(|line| Hit::of_many(line, &is_output)).collect()
    }

    /// Returns the address of a hit.
    fn link(&self, hit: &Hit) -> String {
        let own = self.look.as_ref().map(Look::path);
        let Some(path) = hit.output.as_deref().or(own) else { return String::new() };
        let address = address::output(self.id, path);
        hit.line.map_or_else(|| address.clone(), |line| address::line(&address, line))
    }

    fn list(&self, found: &LookText) -> Markup {
        let hits = self.hits(found);
        let matches = hits.iter().filter(|hit| hit.kind == HitKind::Match).count();
        html! {
            p.notice.first {
                (quantity::matches(matches as u64)) @if matches == 0 { " found" }
                @for note in hits::notes(&found.notice) { ". " (shown::text(&note)) }
            }
            ol.hits {
                @for hit in &hits { (hit.item(&self.link(hit))) }
            }
            @if let Some(rest) = hits::rest(found) {
                p.first { a.more href=(query(&[("q", &typed(&rest))])) { "More" } }
            }
        }
    }
}

/// Returns the name of a search that a person typed: there `/` and `%` stand for themselves.
fn name_of(typed: &str) -> String {
    let typed = typed.replace(['\n', '\r', '\0'], " ");
    let name = typed.replace('%', "%25").replace('/', "%2F");
    match name.strip_prefix('.') {
        Some(rest) => format!("%2E{rest}"),
        None => name,
    }
}

/// Returns what a person would have typed for a search of this name.
fn typed(name: &str) -> String {
    name.replace("%2F", "/").replace("%2E", ".").replace("%25", "%")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_stands_for_itself() {
        for text in ["-i timeout", "a/b 100%", "%2F", ".git", "..", "HEAD"] {
            assert_eq!(typed(&name_of(text)), text);
        }
        assert_eq!(name_of("a/b 5%"), "a%2Fb 5%25");
        assert_eq!(name_of(".."), "%2E.");
    }
}
