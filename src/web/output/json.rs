//! JSON as a tree that opens node by node, each in windows.

use std::time::{Duration, Instant};

use maud::{Markup, html};

use crate::address::query;
use crate::error::WebError;
use crate::output::{Output, path};
use crate::{quantity, shown};
use ctxfs_core::materialize::json::Scalar;
use ctxfs_core::model::Json;
use ctxfs_view::{JSON_WINDOW, JsonMember, JsonMembers, JsonNode, JsonStep, JsonType};

/// The time for finding the members of a node.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Returns the tree: the node that the request names, or the document, opened.
pub(super) fn tree(output: &Output<'_>) -> Result<Markup, WebError> {
    let node = asked(output)?;
    let found = find(output, &node)?;
    let filter = path::filter(&node.path, node.is_lines);
    Ok(html! {
        (trail(&node))
        @if found.kind.is_none() { p.notice { "There is no value at " code { (shown::text(&filter)) } "." } }
        ul #tree role="tree" aria-label="JSON" data-view="json" {
            li role="treeitem" tabindex="0" data-path=(filter) data-at=[node.offset]
                aria-expanded="true" aria-selected="false" {
                span.row {
                    span.key { code { (shown::text(&filter)) } } " "
                    (kind(found.kind, found.total, found.whole)) " "
                    (copy(&filter))
                }
                (group(&node, &found))
            }
        }
    })
}

/// Returns the members of the node that the request names, alone.
pub(super) fn members(output: &Output<'_>) -> Result<Markup, WebError> {
    let node = asked(output)?;
    let found = find(output, &node)?;
    Ok(group(&node, &found))
}

fn asked(output: &Output<'_>) -> Result<JsonNode, WebError> {
    let given = output.query;
    let filter = if given.json.is_empty() { "." } else { &given.json };
    let path = path::parse(filter)
        .ok_or_else(|| WebError::Bad("this is no path of a node, such as .items[0]".to_owned()))?;
    let analysis = output.facts.analysis.as_ref();
    let is_lines = match analysis.map(|found| &found.json) {
        Some(Json::Lines { .. }) => true,
        Some(_) => false,
        None => given.json.starts_with("-s"),
    };
    let number = |text: &str| text.parse::<u64>().ok();
    Ok(JsonNode {
        path,
        is_lines,
        offset: number(&given.at),
        from: number(&given.from).unwrap_or(0),
    })
}

fn find(output: &Output<'_>, node: &JsonNode) -> Result<JsonMembers, WebError> {
    let began = Instant::now();
    Ok(output.look.json(node, &|| began.elapsed() > PATIENCE)?)
}

/// Returns links to the nodes above.
fn trail(node: &JsonNode) -> Markup {
    html! {
        nav.json-trail aria-label="Nodes above" {
            @for length in 0..node.path.len() {
                @let filter = path::filter(&node.path[..length], node.is_lines);
                a href=(query(&[("view", "json"), ("json", &filter)])) { code { (shown::text(&filter)) } }
                " "
            }
        }
    }
}

fn group(node: &JsonNode, found: &JsonMembers) -> Markup {
    let filter = path::filter(&node.path, node.is_lines);
    let at = node.offset.map(|at| at.to_string()).unwrap_or_default();
    let to = |from: u64| {
        query(&[("view", "json"), ("json", &filter), ("at", &at), ("from", &from.to_string())])
    };
    let end = node.from + found.members.len() as u64;
    let is_container = matches!(found.kind, Some(JsonType::Object | JsonType::Array));
    html! {
        ul role="group" {
            @if node.from > 0 {
                li.window role="treeitem" tabindex="-1" aria-selected="false" {
                    a.previous href=(to(node.from.saturating_sub(JSON_WINDOW))) {
                        "members before " (quantity::grouped(node.from))
                    }
                }
            }
            @for member in &found.members { (item(node, member, is_container)) }
            @if end < found.total || !found.whole && end >= node.from + JSON_WINDOW {
                li.window role="treeitem" tabindex="-1" aria-selected="false" {
                    a.next href=(to(end)) {
                        "more: " (quantity::grouped(end)) "-"
                        (quantity::grouped((end + JSON_WINDOW).min(found.total.max(end))))
                        " of " (quantity::grouped(found.total))
                        @if !found.whole { " or more" }
                    }
                }
            }
        }
    }
}

fn item(node: &JsonNode, member: &JsonMember, is_member: bool) -> Markup {
    // A scalar is shown as the only member of itself.
    let mut path = node.path.clone();
    if is_member {
        path.push(member.step.clone());
    }
    let filter = path::filter(&path, node.is_lines);
    let opens = matches!(member.kind, JsonType::Object | JsonType::Array)
        && member.size > 0
        && path.len() < path::DEEPEST;
    let at = member.offset.to_string();
    html! {
        li role="treeitem" tabindex="-1" data-path=(filter) data-at=(at)
            aria-expanded=[opens.then_some("false")] aria-selected="false" {
            span.row {
                @if opens {
                    a.open href=(query(&[("view", "json"), ("json", &filter), ("at", &at)])) {
                        (key(&member.step, is_member))
                    }
                } @else { (key(&member.step, is_member)) }
                " " (value(member)) " " (copy(&filter))
            }
        }
    }
}

fn key(step: &JsonStep, is_member: bool) -> Markup {
    html! {
        @if is_member {
            span.key {
                @match step {
                    JsonStep::Key(key) => (shown::text(&unescaped(key))),
                    JsonStep::Item(number) => { "[" (number) "]" },
                }
            }
        }
    }
}

fn value(member: &JsonMember) -> Markup {
    let is_cut = member.size > member.written.len() as u64;
    match member.kind {
        JsonType::Object | JsonType::Array => kind(Some(member.kind), member.size, true),
        JsonType::Text => html! {
            span.string {
                "\"" (shown::text(&unescaped(&member.written))) @if is_cut { "..." } "\""
            }
            @if is_cut { " " span.faint { (quantity::short_size(member.size)) } }
        },
        JsonType::Scalar(scalar) => html! {
            span class=(scalar_class(scalar)) { (shown::bytes(&member.written)) @if is_cut { "..." } }
        },
    }
}

fn scalar_class(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Null => "null",
        Scalar::Bool => "bool",
        Scalar::Int | Scalar::Float => "num",
    }
}

fn kind(kind: Option<JsonType>, size: u64, whole: bool) -> Markup {
    let more = if whole { "" } else { " or more" };
    html! {
        @match kind {
            Some(JsonType::Object) => {
                span.faint { "{" (quantity::counted(size, "key")) (more) "}" }
            }
            Some(JsonType::Array) => {
                span.faint { "[" (quantity::counted(size, "item")) (more) "]" }
            }
            _ => {}
        }
    }
}

fn copy(filter: &str) -> Markup {
    html! {
        button.copy-path.scripted type="button" hidden tabindex="-1" data-copy="filter"
            data-text=(filter) aria-label={ "copy path " (filter) } { "copy path" }
    }
}

/// Returns the text that is spelled so in JSON; as it is spelled, if it was cut inside an escape.
fn unescaped(written: &[u8]) -> String {
    let text = String::from_utf8_lossy(written);
    serde_json::from_str(&format!("\"{text}\"")).unwrap_or_else(|_| text.into_owned())
}
