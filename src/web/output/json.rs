//! Shows JSON as a tree whose nodes are opened one by one. An open node shows one window of its
//! members at a time.

use std::time::{Duration, Instant};

use maud::{Markup, html};

use crate::output::window::RequestedOutput;
use crate::{Result, WebError, address, display};
use ctxfs_core::materialize::json::Scalar;
use ctxfs_core::model::Json;
use ctxfs_view::{JSON_WINDOW, JsonMember, JsonMembers, JsonNode, JsonStep, JsonType};

const PATIENCE: Duration = Duration::from_millis(1500);

pub(super) fn tree(output: &RequestedOutput<'_>) -> Result<Markup> {
    let node = requested_node(output)?;
    let found = find(output, &node)?;
    let filter = filter_of(&node.path, node.is_lines);
    Ok(html! {
        (trail(&node))
        @if found.kind.is_none() { p.notice { "There is no value at " code { (display::text(&filter)) } "." } }
        ul #tree role="tree" aria-label="JSON" data-view="json" {
            li role="treeitem" tabindex="0" data-path=(filter) data-at=[node.offset]
                aria-expanded="true" aria-selected="false" {
                span.row {
                    span.key { code { (display::text(&filter)) } } " "
                    (kind(found.kind, found.total, found.whole)) " "
                    (copy(&filter))
                }
                (group(&node, &found))
            }
        }
    })
}

pub(super) fn members(output: &RequestedOutput<'_>) -> Result<Markup> {
    let node = requested_node(output)?;
    let found = find(output, &node)?;
    Ok(group(&node, &found))
}

fn requested_node(output: &RequestedOutput<'_>) -> Result<JsonNode> {
    let given = output.query;
    let filter = if given.json.is_empty() { "." } else { &given.json };
    let path = parse_filter(filter)
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

fn find(output: &RequestedOutput<'_>, node: &JsonNode) -> Result<JsonMembers> {
    let began = Instant::now();
    Ok(output.look.json(node, &|| began.elapsed() > PATIENCE)?)
}

fn trail(node: &JsonNode) -> Markup {
    html! {
        nav.json-trail aria-label="Nodes above" {
            @for length in 0..node.path.len() {
                @let filter = filter_of(&node.path[..length], node.is_lines);
                a href=(address::query(&[("view", "json"), ("json", &filter)])) { code { (display::text(&filter)) } }
                " "
            }
        }
    }
}

fn group(node: &JsonNode, found: &JsonMembers) -> Markup {
    let filter = filter_of(&node.path, node.is_lines);
    let at = node.offset.map(|at| at.to_string()).unwrap_or_default();
    let to = |from: u64| {
        address::query(&[
            ("view", "json"),
            ("json", &filter),
            ("at", &at),
            ("from", &from.to_string()),
        ])
    };
    let end = node.from + found.members.len() as u64;
    let is_container = matches!(found.kind, Some(JsonType::Object | JsonType::Array));
    html! {
        ul role="group" {
            @if node.from > 0 {
                li.window role="treeitem" tabindex="-1" aria-selected="false" {
                    a.previous href=(to(node.from.saturating_sub(JSON_WINDOW))) {
                        "members before " (display::grouped(node.from))
                    }
                }
            }
            @for member in &found.members { (item(node, member, is_container)) }
            @if end < found.total || !found.whole && end >= node.from + JSON_WINDOW {
                li.window role="treeitem" tabindex="-1" aria-selected="false" {
                    a.next href=(to(end)) {
                        "more: " (display::grouped(end)) "-"
                        (display::grouped((end + JSON_WINDOW).min(found.total.max(end))))
                        " of " (display::grouped(found.total))
                        @if !found.whole { " or more" }
                    }
                }
            }
        }
    }
}

fn item(node: &JsonNode, member: &JsonMember, is_member: bool) -> Markup {
    // A scalar is shown as its own only member.
    let mut path = node.path.clone();
    if is_member {
        path.push(member.step.clone());
    }
    let filter = filter_of(&path, node.is_lines);
    let opens = matches!(member.kind, JsonType::Object | JsonType::Array)
        && member.size > 0
        && path.len() < DEEPEST;
    let at = member.offset.to_string();
    html! {
        li role="treeitem" tabindex="-1" data-path=(filter) data-at=(at)
            aria-expanded=[opens.then_some("false")] aria-selected="false" {
            span.row {
                @if opens {
                    a.open href=(address::query(&[("view", "json"), ("json", &filter), ("at", &at)])) {
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
                    JsonStep::Key(key) => (display::text(&unescaped(key))),
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
                "\"" (display::text(&unescaped(&member.written))) @if is_cut { "..." } "\""
            }
            @if is_cut { " " span.faint { (display::short_size(member.size)) } }
        },
        JsonType::Scalar(scalar) => html! {
            span class=(scalar_class(scalar)) { (display::bytes(&member.written)) @if is_cut { "..." } }
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
                span.faint { "{" (display::counted(size, "key")) (more) "}" }
            }
            Some(JsonType::Array) => {
                span.faint { "[" (display::counted(size, "item")) (more) "]" }
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

// Returns the text unchanged if it was cut within an escape sequence.
fn unescaped(written: &[u8]) -> String {
    let text = String::from_utf8_lossy(written);
    serde_json::from_str(&format!("\"{text}\"")).unwrap_or_else(|_| text.into_owned())
}

// Maximum number of steps in a path, and its maximum length in bytes.
const DEEPEST: usize = 64;
const LONGEST: usize = 4096;
// The jq option that reads all values of JSON Lines at once.
const ALL_LINES: &str = "-s ";

fn filter_of(path: &[JsonStep], is_lines: bool) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            JsonStep::Key(key) if is_bare(key) => {
                text.push('.');
                text.push_str(&String::from_utf8_lossy(key));
            }
            JsonStep::Key(key) => {
                text.push_str(".\"");
                text.push_str(&String::from_utf8_lossy(key));
                text.push('"');
            }
            JsonStep::Item(number) => {
                text.push_str(if text.is_empty() { ".[" } else { "[" });
                text.push_str(&number.to_string());
                text.push(']');
            }
        }
    }
    let text = if text.is_empty() { ".".to_owned() } else { text };
    if is_lines { format!("{ALL_LINES}{text}") } else { text }
}

/// Parses a filter that [`filter_of`] returned. Returns `None` for any other filter. Also returns
/// `None` for a path of more than `DEEPEST` steps, because each node on the page repeats its path.
fn parse_filter(filter: &str) -> Option<Vec<JsonStep>> {
    if filter.len() > LONGEST {
        return None;
    }
    let mut rest = filter.strip_prefix(ALL_LINES).unwrap_or(filter);
    let mut steps = Vec::new();
    rest = rest.strip_prefix(".[").map_or(rest, |_| &rest[1..]);
    if rest == "." {
        return Some(steps);
    }
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let (number, after) = after.split_once(']')?;
            steps.push(JsonStep::Item(number.parse().ok()?));
            rest = after;
        } else if let Some(after) = rest.strip_prefix(".\"") {
            let end = end_of_string(after)?;
            steps.push(JsonStep::Key(after.as_bytes()[..end].to_vec()));
            rest = &after[end + 1..];
        } else {
            let after = rest.strip_prefix('.')?;
            let end = after.find(['.', '[']).unwrap_or(after.len());
            let key = &after.as_bytes()[..end];
            steps.push(is_bare(key).then(|| JsonStep::Key(key.to_vec()))?);
            rest = &after[end..];
        }
    }
    (steps.len() <= DEEPEST).then_some(steps)
}

fn is_bare(key: &[u8]) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    key.first().is_some_and(|first| !first.is_ascii_digit()) && key.iter().all(is_word)
}

fn end_of_string(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn key(name: &str) -> JsonStep {
        JsonStep::Key(name.as_bytes().to_vec())
    }

    #[test]
    fn paths_are_filters() {
        assert_eq!(filter_of(&[], false), ".");
        assert_eq!(filter_of(&[], true), "-s .");
        let path = [key("items"), JsonStep::Item(0), key("a b"), key("1")];
        assert_eq!(filter_of(&path, false), ".items[0].\"a b\".\"1\"");
        assert_eq!(filter_of(&[JsonStep::Item(3), key("msg")], true), "-s .[3].msg");
        assert_eq!(parse_filter(&".a".repeat(DEEPEST)).unwrap().len(), DEEPEST);
        assert_eq!(parse_filter(&".a".repeat(DEEPEST + 1)), None);
        assert_eq!(parse_filter(&format!(".{}", "a".repeat(LONGEST))), None);
        for other in ["items", ".a | .b", ".[", ".a[]", ".a[-1]", "..", ".\"a"] {
            assert_eq!(parse_filter(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn filters_come_back(
            names in proptest::collection::vec("[a-z ._\\[]{1,6}|[0-9]{1,3}", 0..5),
            is_lines: bool,
        ) {
            let step = |name: &String| name.parse().map_or_else(|_| key(name), JsonStep::Item);
            let path: Vec<_> = names.iter().map(step).collect();
            prop_assert_eq!(parse_filter(&filter_of(&path, is_lines)), Some(path));
        }
    }
}
