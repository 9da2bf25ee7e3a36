//! Searches. Results are sent as lines of JSON while the search runs, or as a part of a page. The
//! engine gives the results as lines in the format of ripgrep.

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

use crate::{Result, SearchTurn, Sink, Site, WebError, address, display};
use ctxfs_core::model::Component;
use ctxfs_engine::{EngineError, Look, LookText, search_conversation};

// The message log, which a search of a conversation reads too. The page of the conversation has it.
const MESSAGES: &str = "history/messages.jsonl";
// Time after which a search reports its progress and continues.
const STEP: Duration = Duration::from_secs(2);
// Time limit for results that are part of a page.
const PATIENCE: Duration = Duration::from_secs(3);
// Number of matches after which a search ends and says how to continue.
const MOST: u64 = 5000;

/// The query parameters. Without `output`, the whole conversation is searched. A new search of a
/// `tab` ends the tab's previous search.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SearchQuery {
    pub(super) conversation: String,
    output: String,
    q: String,
    pub(super) tab: String,
}

struct SearchScope<'a> {
    site: &'a Arc<Site>,
    id: &'a Component,
    // The output to search. If `None`, the whole conversation is searched.
    look: Option<Look>,
}

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

/// Sends the results as they are found, until all are sent, `MOST` matches are reached, `turn` is
/// stopped, or the browser is gone.
pub(super) fn stream(
    site: &Arc<Site>,
    id: &Component,
    asked: &SearchQuery,
    turn: &SearchTurn,
    sink: &mut Sink,
) -> Result<()> {
    let scope = SearchScope::new(site, id, Some(&*asked.output).filter(|path| !path.is_empty()))?;
    sink.flush()?;
    let gone = Arc::clone(&sink.gone);
    let is_over = || turn.stop.load(Relaxed) || gone.load(Relaxed);
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
        for note in notes_of(&found.notice) {
            sink.write(json!({"kind": "note", "text": note}).to_string() + "\n")?;
        }
        sink.flush()?;
        let more = next_search(&found);
        match more {
            Some(rest) if !is_over() && matches < MOST && rest != name => name = rest,
            more => break more,
        }
    };
    let more = more.map(|name| typed(&name));
    let done = json!({"kind": "done", "matches": matches, "more": more, "cancelled": turn.stop.load(Relaxed)});
    sink.write(done.to_string() + "\n")
}

/// Writes the section of results. For browsers without scripts, it contains the first results.
pub(super) fn write_results(
    site: &Arc<Site>,
    id: &Component,
    path: Option<&str>,
    asked: &str,
    sink: &mut Sink,
) -> Result<()> {
    if asked.is_empty() {
        let place = html! {
            section #results aria-label="Search results" hidden { ol.hits {} }
        };
        return sink.write(place.into_string());
    }
    let scope = SearchScope::new(site, id, path)?;
    let (began, gone) = (Instant::now(), Arc::clone(&sink.gone));
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

impl<'a> SearchScope<'a> {
    fn new(site: &'a Arc<Site>, id: &'a Component, path: Option<&str>) -> Result<Self> {
        let look = path.map(|path| site.look(id, path)).transpose()?;
        Ok(Self { site, id, look })
    }

    fn search(&self, name: &str, expired: &(dyn Fn() -> bool + Sync)) -> Result<LookText> {
        let run = |name: &str| match &self.look {
            Some(look) => look.search(OsStr::new(name), expired),
            None => search_conversation(&self.site.engine, self.id, OsStr::new(name), expired),
        };
        let found = run(name);
        if let Err(EngineError::NotFound) = found {
            // Certain words are never the name of a search, because programs look up files of these
            // names.
            return Ok(run(&format!("-- {name}"))?);
        }
        Ok(found?)
    }

    fn hits(&self, found: &LookText) -> Vec<SearchHit> {
        let text = String::from_utf8_lossy(&found.text);
        if self.look.is_some() {
            return text.lines().filter_map(SearchHit::of_line).collect();
        }
        let outputs = self.site.catalog.outputs(self.id).unwrap_or_default();
        let is_output = |path: &str| path == MESSAGES || outputs.at(path).is_some();
        text.lines().filter_map(|line| SearchHit::of_many(line, &is_output)).collect()
    }

    fn link(&self, hit: &SearchHit) -> String {
        let own = self.look.as_ref().map(Look::path);
        let Some(path) = hit.output.as_deref().or(own) else { return String::new() };
        if path == MESSAGES {
            return address::conversation(self.id);
        }
        let address = address::output(self.id, path);
        hit.line.map_or_else(|| address.clone(), |line| address::line(&address, line))
    }

    fn list(&self, found: &LookText) -> Markup {
        let hits = self.hits(found);
        let matches = hits.iter().filter(|hit| hit.kind == HitKind::Match).count();
        html! {
            p.notice.first {
                (display::matches(matches as u64)) @if matches == 0 { " found" }
                @for note in notes_of(&found.notice) { ". " (display::text(&note)) }
            }
            ol.hits {
                @for hit in &hits { (hit.item(&self.link(hit))) }
            }
            @if let Some(rest) = next_search(found) {
                p.first { a.more href=(address::query(&[("q", &typed(&rest))])) { "More" } }
            }
        }
    }
}

// Encodes typed text as the name of a search. `/` and `%` are escaped, so that they are searched
// for literally.
fn name_of(typed: &str) -> String {
    let typed = typed.replace(['\n', '\r', '\0'], " ");
    let name = typed.replace('%', "%25").replace('/', "%2F");
    match name.strip_prefix('.') {
        Some(rest) => format!("%2E{rest}"),
        None => name,
    }
}

fn typed(name: &str) -> String {
    name.replace("%2F", "/").replace("%2E", ".").replace("%25", "%")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HitKind {
    Match,
    // A line next to a match.
    Context,
    // Marks omitted lines.
    Gap,
    // A count or a name.
    Other,
}

// A line of a result. For long lines, it has the byte column of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SearchHit {
    kind: HitKind,
    output: Option<String>,
    line: Option<u64>,
    column: Option<u64>,
    text: String,
}

impl SearchHit {
    /// Parses a line from a search of one output: `12:text`, `12-text`, `12@5120:text` or `--`.
    fn of_line(line: &str) -> Option<Self> {
        Self::gap(line).or_else(|| Self::numbered(line, None)).or_else(|| Some(Self::other(line)))
    }

    /// Parses a line from a search of several outputs: the path of an output, a separator, and a
    /// line as in [`Self::of_line`]. A path may contain the separators, so the longest known path
    /// is used.
    fn of_many(line: &str, is_output: &dyn Fn(&str) -> bool) -> Option<Self> {
        let ends = line.match_indices([':', '-']).map(|(at, _)| at);
        let named = ends.filter(|at| is_output(&line[..*at])).filter_map(|at| {
            let own = Self::numbered(&line[at + 1..], Some(&line[..at]))?;
            let mark = &line[at..=at];
            let is_same = (mark == ":") == (own.kind == HitKind::Match);
            is_same.then_some(own)
        });
        // The last candidate is the longest path of a known output.
        Self::gap(line).or_else(|| named.last()).or_else(|| Some(Self::other(line)))
    }

    fn gap(line: &str) -> Option<Self> {
        (line == "--").then(|| Self { kind: HitKind::Gap, ..Self::other("") })
    }

    fn other(line: &str) -> Self {
        let text = line.to_owned();
        Self { kind: HitKind::Other, output: None, line: None, column: None, text }
    }

    fn numbered(text: &str, output: Option<&str>) -> Option<Self> {
        let (line, rest) = digits(text)?;
        let (column, rest) = match rest.strip_prefix('@') {
            Some(rest) => digits(rest).map(|(column, rest)| (Some(column), rest))?,
            None => (None, rest),
        };
        let (mark, text) = rest.split_at_checked(1)?;
        let kind = match mark {
            ":" => HitKind::Match,
            "-" => HitKind::Context,
            _ => return None,
        };
        let (output, text) = (output.map(str::to_owned), text.to_owned());
        Some(Self { kind, output, line: Some(line), column, text })
    }

    fn json(&self, link: &str) -> String {
        let kind = match self.kind {
            HitKind::Match => "match",
            HitKind::Context => "context",
            HitKind::Gap => "gap",
            HitKind::Other => "other",
        };
        let Self { output, line, column, text, .. } = self;
        let value = json!({"kind": kind, "output": output, "line": line, "column": column,
            "text": text, "href": link});
        value.to_string() + "\n"
    }

    fn item(&self, link: &str) -> Markup {
        let class = match self.kind {
            HitKind::Match => "hit",
            HitKind::Context => "context",
            HitKind::Gap => return html! { li.gap aria-hidden="true" {} },
            HitKind::Other => "other",
        };
        html! {
            li class=(class) data-line=[self.line] data-output=[self.output.as_deref()] {
                @if self.line.is_some() {
                    a href=(link) {
                        @if let Some(output) = &self.output { span.of { (display::text(output)) } " " }
                        span.number { @if let Some(line) = self.line { (line) } }
                    }
                    " "
                }
                code { (display::text(&self.text)) }
            }
        }
    }
}

fn digits(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

// Returns the notes without the hints for continuing, because the hints are file paths.
fn notes_of(notice: &str) -> Vec<String> {
    let line = |line: &str| {
        let text = line.trim_start_matches("# ");
        let end =
            ["Go on: ", "All at once: ", "Again: "].iter().filter_map(|way| text.find(way)).min();
        text[..end.unwrap_or(text.len())].trim().trim_end_matches('.').to_owned()
    };
    notice.lines().map(line).filter(|line| !line.is_empty()).collect()
}

// Returns the name of the search that continues where `found` ends.
fn next_search(found: &LookText) -> Option<String> {
    const WAYS: [&str; 2] = ["Go on: ", "Again: "];
    let line = |line: &str| {
        let way = WAYS.iter().find_map(|way| line.split_once(*way).map(|(_, path)| path))?;
        let name = way.strip_prefix(&*found.searches)?;
        Some(name.split("    All at once: ").next().unwrap_or(name).to_owned())
    };
    found.notice.lines().find_map(line)
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

    #[test]
    fn lines_of_ripgrep_are_taken_apart() {
        let hit = SearchHit::of_line("12:text: more").unwrap();
        assert_eq!((hit.kind, hit.line, &*hit.text), (HitKind::Match, Some(12), "text: more"));
        let hit = SearchHit::of_line("13-12:30 began").unwrap();
        assert_eq!((hit.kind, hit.line, &*hit.text), (HitKind::Context, Some(13), "12:30 began"));
        let hit = SearchHit::of_line("1@88213:...x...").unwrap();
        assert_eq!((hit.line, hit.column), (Some(1), Some(88213)));
        assert_eq!(SearchHit::of_line("--").unwrap().kind, HitKind::Gap);
        assert_eq!(SearchHit::of_line("212").unwrap().kind, HitKind::Other);
    }

    #[test]
    fn paths_with_marks_in_them_are_known() {
        let is_output =
            |path: &str| ["artifacts/tool/a-1-b.txt", "artifacts/tool/a"].contains(&path);
        let hit = SearchHit::of_many("artifacts/tool/a-1-b.txt:7:x", &is_output).unwrap();
        assert_eq!((hit.output.as_deref(), hit.line), (Some("artifacts/tool/a-1-b.txt"), Some(7)));
        let hit = SearchHit::of_many("artifacts/tool/a-1-text", &is_output).unwrap();
        assert_eq!((hit.kind, hit.line, &*hit.text), (HitKind::Context, Some(1), "text"));
        assert_eq!(SearchHit::of_many("--", &is_output).unwrap().kind, HitKind::Gap);
        assert_eq!(SearchHit::of_many("gone.txt:1:x", &is_output).unwrap().kind, HitKind::Other);
    }

    #[test]
    fn notices_say_how_to_go_on() {
        let found = LookText {
        notice: "# 9 of 12 lines match; the first 2 follow. Go on: /ctx/c7/a b.txt.grep/--from=3 -i x    \
                 All at once: /ctx/c7/a b.txt.grep/-i -m0 x\n# some lines are long\n"
            .to_owned(),
        text: Vec::new(),
        whole: true,
        searches: "/ctx/c7/a b.txt.grep/".to_owned(),
    };
        assert_eq!(next_search(&found).as_deref(), Some("--from=3 -i x"));
        assert_eq!(
            notes_of(&found.notice),
            ["9 of 12 lines match; the first 2 follow", "some lines are long",]
        );
        assert_eq!(next_search(&LookText { searches: "/other/".to_owned(), ..found }), None);
    }
}
