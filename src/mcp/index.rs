//! The light index: a short entry for each tool of all servers, and details on demand.

pub(crate) mod call;
pub(crate) mod overview;
pub(crate) mod schema;

pub use call::{Call, CallError, calls_of};
pub use overview::{OVERVIEW_BYTES, overview};

use std::collections::BTreeMap;

use globset::Glob;
use serde_json::{Map, Value, json};

use crate::permission::rules::Risk;
use crate::tool_name::ServerTool;
use ctxfs_core::model::visible;

const MAX_SUGGESTED: usize = 3;
// Minimum similarity of suggested names, from 0 to 1.
const ALIKE: f64 = 0.7;
// Limits on name comparison: the number of names, and the length of a name in bytes.
const MAX_COMPARED: usize = 10_000;
const MAX_NAME_BYTES: usize = 200;
// Maximum length of a short description in characters, and of the text it is taken from in bytes.
const MAX_CHARS: usize = 80;
const READ_BYTES: usize = 4096;
// Abbreviations whose full stop does not end a sentence.
const ABBREVIATIONS: &[&str] = &["e.g.", "i.e.", "etc.", "vs.", "approx."];
// Maximum length in bytes of a signature, and of one argument in it.
const MAX_BYTES: usize = 1000;
const ONE_BYTES: usize = 120;
const MAX_VALUES: usize = 8;
/// Maximum number of names in one call of `get_tool_details`.
pub const MOST_NAMES: usize = 20;

/// The tools of all servers, by offered name. An index is immutable. When the tools change, a new
/// one is built.
#[derive(Debug, Clone, Default)]
#[expect(missing_docs, reason = "described above")]
pub struct Index {
    pub tools: BTreeMap<String, Tool>,
}

impl Index {
    /// Returns an index of `tools`.
    pub fn new(tools: impl IntoIterator<Item = Tool>) -> Self {
        Self { tools: tools.into_iter().map(|tool| (tool.name.clone(), tool)).collect() }
    }

    fn by_server(&self) -> BTreeMap<&str, Vec<&Tool>> {
        let mut servers: BTreeMap<&str, Vec<&Tool>> = BTreeMap::new();
        for tool in self.tools.values() {
            let ServerTool { server, .. } = &tool.true_name;
            servers.entry(server).or_default().push(tool);
        }
        servers
    }
}

/// A tool of a server, as described by the index. `name` is the offered name. `listed` is the
/// tool's entry in the server's list. This entry is untrusted, so its texts are shortened and
/// stripped of hidden characters before they are shown.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Tool {
    pub name: String,
    pub true_name: ServerTool,
    pub risk: Risk,
    pub listed: Value,
}

impl Tool {
    pub(crate) fn schema(&self) -> &Value {
        static ANY: Value = Value::Bool(true);
        self.listed.get("inputSchema").unwrap_or(&ANY)
    }

    pub(crate) fn short_description(&self) -> String {
        let listed = |key: &str| self.listed.get(key).and_then(Value::as_str).map(short);
        let mut listed = ["description", "title"].into_iter().filter_map(listed);
        listed.find(|text| !text.is_empty()).unwrap_or_default()
    }

    pub(crate) fn entry(&self) -> Value {
        json!({
            "name": self.name,
            "server": self.true_name.server,
            "kind": "mcp",
            "risk": self.risk.as_str(),
            "description": self.short_description(),
        })
    }

    pub(crate) fn details(&self) -> Value {
        let listed = |key: &str| self.listed.get(key).cloned();
        let mut details = Map::new();
        details.insert("name".to_owned(), self.name.clone().into());
        details.insert("server".to_owned(), self.true_name.server.clone().into());
        details.insert("description".to_owned(), listed("description").unwrap_or_default());
        details.insert("parameters".to_owned(), self.schema().clone());
        details.insert("risk".to_owned(), self.risk.as_str().into());
        if let Some(examples) = self.schema().get("examples") {
            details.insert("examples".to_owned(), examples.clone());
        }
        Value::Object(details)
    }

    // Stands for details that are too long.
    fn brief(&self) -> Value {
        let mut brief = self.entry();
        brief["arguments"] = signature(self.schema()).into();
        brief["details"] = format!("catalog/tools/{}.json", self.name).into();
        brief
    }
}

/// The result of resolving a name: a tool, or names that may have been meant. An ambiguous name is
/// treated like an unknown one, because a wrong guess would call the wrong tool.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Resolved<'i> {
    Tool(&'i Tool),
    Missing(Vec<String>),
}

impl Index {
    /// Finds a tool by name. An exact match of the offered name wins. Otherwise the offered name,
    /// `server/tool` and the tool's own name are compared without regard to case, and exactly one
    /// tool must match.
    pub fn resolve(&self, name: &str) -> Resolved<'_> {
        if let Some(tool) = self.tools.get(name) {
            return Resolved::Tool(tool);
        }
        let meant = |tool: &Tool| {
            let is = |other: &str| other.to_lowercase() == name.to_lowercase();
            is(&tool.name) || is(&tool.true_name.to_string()) || is(&tool.true_name.tool)
        };
        let meant: Vec<&Tool> = self.tools.values().filter(|tool| meant(tool)).collect();
        match meant[..] {
            [tool] => Resolved::Tool(tool),
            [] => {
                let names = self.tools.values().map(|tool| tool.name.as_str());
                Resolved::Missing(nearest(name, names, MAX_SUGGESTED))
            }
            _ => Resolved::Missing(meant.iter().map(|tool| tool.name.clone()).take(20).collect()),
        }
    }
}

pub(crate) fn nearest<'n>(
    name: &str,
    known: impl Iterator<Item = &'n str>,
    count: usize,
) -> Vec<String> {
    if name.len() > MAX_NAME_BYTES {
        return Vec::new();
    }
    let name = name.to_lowercase();
    let known = known.filter(|known| known.len() <= MAX_NAME_BYTES).take(MAX_COMPARED);
    let alike = known.map(|known| (likeness(&name, known), known));
    let mut alike: Vec<_> = alike.filter(|(alike, _)| *alike >= ALIKE).collect();
    alike.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    alike.truncate(count);
    alike.into_iter().map(|(_, known)| known.to_owned()).collect()
}

fn likeness(name: &str, known: &str) -> f64 {
    let known = known.to_lowercase();
    let without = known.split_once("__").map_or(&*known, |(_, without)| without);
    strsim::jaro_winkler(name, &known).max(strsim::jaro_winkler(name, without))
}

/// Returns the first sentence of `text` on one line, without hidden characters. A truncated
/// sentence ends with `...`.
pub(crate) fn short(text: &str) -> String {
    let read = text.floor_char_boundary(READ_BYTES);
    let paragraphs = text[..read].split("\n\n").map(visible::one_line);
    let first = paragraphs.into_iter().find(|paragraph| !paragraph.is_empty());
    let line = first.unwrap_or_default();
    cut(first_sentence(&line))
}

fn first_sentence(line: &str) -> &str {
    for (at, _) in line.match_indices(' ') {
        let sentence = &line[..at];
        let ends = sentence.ends_with(['.', '!', '?']);
        if ends && !ABBREVIATIONS.iter().any(|word| sentence.ends_with(word)) {
            return sentence;
        }
    }
    match line.find('\u{3002}') {
        Some(at) => &line[..at + '\u{3002}'.len_utf8()],
        None => line,
    }
}

fn cut(sentence: &str) -> String {
    let sentence = sentence.strip_suffix('.').unwrap_or(sentence);
    let Some((end, _)) = sentence.char_indices().nth(MAX_CHARS) else {
        return sentence.to_owned();
    };
    let (room, _) = sentence[..end].char_indices().nth(MAX_CHARS - 3).unwrap_or((end, ' '));
    let kept = &sentence[..room];
    let kept = kept.rfind(' ').filter(|at| *at > room / 2).map_or(kept, |at| &kept[..at]);
    format!("{kept}...")
}

/// Returns one line with the arguments that `schema` accepts, required arguments first.
///
/// Example: `owner: string, state?: "open" | "closed"`.
pub(crate) fn signature(schema: &Value) -> String {
    let Some(properties) = schema["properties"].as_object().filter(|all| !all.is_empty()) else {
        return "any object".to_owned();
    };
    let required: Vec<&str> = match &schema["required"] {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let mut properties: Vec<_> = properties.iter().collect();
    properties.sort_by_key(|(name, _)| {
        required.iter().position(|other| other == name).unwrap_or(required.len())
    });
    let one = |(name, schema): &(&String, &Value)| {
        let mark = if required.contains(&name.as_str()) { "" } else { "?" };
        visible::escaped(&format!("{name}{mark}: {}", kind(schema)), ONE_BYTES)
    };
    let all: Vec<String> = properties.iter().map(one).collect();
    visible::escaped(&all.join(", "), MAX_BYTES)
}

fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let values = values.iter().take(MAX_VALUES).map(Value::to_string);
        return values.collect::<Vec<_>>().join(" | ");
    }
    match &schema["type"] {
        Value::String(name) if name == "array" => match schema["items"]["type"].as_str() {
            Some(items) => format!("array of {items}"),
            None => "array".to_owned(),
        },
        Value::String(name) => name.clone(),
        Value::Array(names) => {
            names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | ")
        }
        _ => "any".to_owned(),
    }
}

/// The error for a call of `get_tool_details` with more than [`MOST_NAMES`] names. The message
/// tells the model to split the call or to use a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "at most {MOST_NAMES} names at a time, not {0}: ask again for the others, or use a pattern"
)]
pub struct TooManyNames(usize);

/// Describes the tools that match `names`, which are names or globs, in about `most` bytes. Each
/// tool is described once. The result also lists the names that match no tool.
///
/// If a description has no room, a short one takes its place, with the file of the whole one.
/// `left_out` counts tools for which even that has no room.
pub fn details(index: &Index, names: &[String], most: u64) -> Result<Value, TooManyNames> {
    if names.len() > MOST_NAMES {
        return Err(TooManyNames(names.len()));
    }
    let (mut found, mut missing) = (Vec::<&Tool>::new(), Vec::new());
    for name in names {
        match meant(index, name) {
            Ok(tools) => {
                for tool in tools {
                    if !found.iter().any(|other| other.name == tool.name) {
                        found.push(tool);
                    }
                }
            }
            Err(alike) => missing.push(json!({"name": name, "did_you_mean": alike})),
        }
    }
    let mut answer = json!({"tools": [], "missing": missing});
    let mut room = most.saturating_sub(answer.to_string().len() as u64);
    let mut fits = |tool: &Value| {
        let left = room.checked_sub(tool.to_string().len() as u64 + 1);
        room = left.unwrap_or(room);
        left.is_some()
    };
    let shown = found.iter().map_while(|tool| {
        Some(tool.details()).filter(&mut fits).or_else(|| Some(tool.brief()).filter(&mut fits))
    });
    let shown: Vec<Value> = shown.collect();
    if shown.len() < found.len() {
        answer["left_out"] = (found.len() - shown.len()).into();
    }
    answer["tools"] = shown.into();
    Ok(answer)
}

fn meant<'i>(index: &'i Index, name: &str) -> Result<Vec<&'i Tool>, Vec<String>> {
    let is_glob = name.contains(['*', '?', '[', '{']);
    let matcher = Glob::new(name).ok().filter(|_| is_glob).map(|glob| glob.compile_matcher());
    if let (Some(matcher), None) = (&matcher, index.tools.get(name)) {
        let matches = |tool: &&Tool| {
            matcher.is_match(&tool.name) || matcher.is_match(tool.true_name.to_string())
        };
        let tools: Vec<&Tool> = index.tools.values().filter(matches).collect();
        return if tools.is_empty() { Err(Vec::new()) } else { Ok(tools) };
    }
    match index.resolve(name) {
        Resolved::Tool(tool) => Ok(vec![tool]),
        Resolved::Missing(alike) => Err(alike),
    }
}

/// Returns the content of `catalog/index.json`. Each tool is on one line, so that a search returns
/// the whole entry.
pub fn index_json(index: &Index) -> String {
    let entries: Vec<String> = index.tools.values().map(|tool| tool.entry().to_string()).collect();
    format!("{{\"tools\":[\n{}\n]}}\n", entries.join(",\n"))
}

/// Returns the content of `catalog/tools/<name>.json`: the tool's details, and all other members
/// that the server lists.
pub fn tool_json(tool: &Tool) -> String {
    let mut details = tool.details();
    if let (Value::Object(details), Some(listed)) = (&mut details, tool.listed.as_object()) {
        let known = ["name", "description", "inputSchema"];
        let others = listed.iter().filter(|(key, _)| !known.contains(&key.as_str()));
        for (key, value) in others {
            details.entry(key.clone()).or_insert_with(|| value.clone());
        }
        details.insert("tool".to_owned(), tool.true_name.tool.clone().into());
    }
    // Serializing a JSON value cannot fail.
    let text = serde_json::to_string_pretty(&details).unwrap_or_default();
    format!("{text}\n")
}

#[cfg(test)]
mod tests;
