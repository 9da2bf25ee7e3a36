//! A message of the log for display: its role, text, time and tool calls.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::{Conversation, call_stem};
use ctxfs_core::model::{Folder, RelPath, readings};

const FULL_OUTPUT: &str = "\n\n[Full output: ";

/// A message, parsed for display. The message may have any of the common forms, and its members may
/// have any type.
///
/// `role` is, for example, `user`, `assistant` or `tool`. `mode` is the name of a kind of
/// sub-agent. If the message is the result of a call, it has the name of the tool and the duration
/// of the call in milliseconds.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
#[expect(missing_docs, reason = "described above")]
pub struct MessageEntry {
    #[serde(deserialize_with = "text")]
    pub role: String,
    content: Value,
    tool_calls: Value,
    tool_call_id: Value,
    #[serde(rename = "toolName", deserialize_with = "text")]
    pub tool_name: String,
    #[serde(deserialize_with = "number")]
    pub duration: Option<f64>,
    #[serde(rename = "createdAt")]
    created_at: Value,
    #[serde(deserialize_with = "text")]
    pub mode: String,
    #[serde(rename = "fullOutputPath")]
    full_output_path: Value,
    #[serde(skip)]
    output: Option<OutputNames>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputNames {
    tool_call_id: Value,
    #[serde(rename = "fullOutputPath")]
    full_output_path: Value,
}

/// A tool call in a message: its id, the name of the tool, and its arguments, which are usually
/// JSON. A missing member is an empty string.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct MessageCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

/// The time of a message as stated by its writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageTime {
    /// A number: milliseconds since the epoch.
    Millis(i64),
    /// Any other value, as text.
    Text(String),
}

impl MessageEntry {
    /// Parses a line of the log. With `mask`, masks secrets twice: first in the whole line, because
    /// the name of a member can show that its value is secret, and then in each text.
    pub fn parse(line: &str, mask: Option<&dyn Fn(&str) -> String>) -> serde_json::Result<Self> {
        let Some(mask) = mask else { return serde_json::from_str(line) };
        let mut entry: Self = serde_json::from_str(&mask(line))?;
        mask_all(&mut entry.content, mask);
        mask_all(&mut entry.tool_calls, mask);
        entry.output = serde_json::from_str(line).ok();
        Ok(entry)
    }

    /// Returns the text of the content: the text parts, and the types of the other parts.
    pub fn said(&self) -> String {
        let Value::Array(parts) = &self.content else { return plain(&self.content) };
        let part = |part: &Value| match (&part["text"], &part["type"]) {
            (Value::String(text), _) => text.clone(),
            (_, Value::String(kind)) => format!("[{kind}]"),
            _ => part.to_string(),
        };
        parts.iter().map(part).collect::<Vec<_>>().join("\n")
    }

    /// Returns the text without the note that follows the preview of a stored output.
    pub fn preview(&self) -> String {
        let mut said = self.said();
        if let Some(at) = said.find(FULL_OUTPUT) {
            said.truncate(at);
        }
        said
    }

    /// Returns the tool calls in the message, in any of the common forms.
    pub fn calls(&self) -> Vec<MessageCall> {
        self.tool_calls.as_array().into_iter().flatten().map(call_of).collect()
    }

    /// Returns the id of the call, if the message is the result of a call.
    pub fn call_id(&self) -> String {
        plain(&self.tool_call_id)
    }

    /// Returns the time of the message, or `None` if it has none.
    pub fn created_at(&self) -> Option<MessageTime> {
        match &self.created_at {
            Value::Null => None,
            Value::Number(number) => number.as_i64().map(MessageTime::Millis),
            other => Some(MessageTime::Text(plain(other))),
        }
    }

    /// Returns the path and size of the artifact with the complete output. Returns `None` if the
    /// message refers to no artifact of the conversation.
    pub fn artifact(&self, conversation: &Conversation) -> Option<(RelPath, u64)> {
        let output = self.output.as_ref();
        let path = output.map_or(&self.full_output_path, |names| &names.full_output_path);
        let named = path.as_str().map(readings).into_iter().flatten().map(|(_, path)| path);
        let call = output.map_or(&self.tool_call_id, |names| &names.tool_call_id);
        let of_call = call.as_str().map(|call| call_stem(call).to_text());
        let of_call = of_call.into_iter().flat_map(|stem| {
            let path = |extension| format!("{}/{stem}{extension}", Folder::Tool.path());
            [".json", ".txt"].map(path).into_iter().filter_map(|path| RelPath::new(path).ok())
        });
        let mut all = named.chain(of_call);
        all.find_map(|path| {
            let stat = conversation.dir().stat_at(&path).ok()?;
            Some((path, stat.size))
        })
    }
}

fn mask_all(value: &mut Value, mask: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = mask(text),
        Value::Array(items) => items.iter_mut().for_each(|item| mask_all(item, mask)),
        Value::Object(members) => members.values_mut().for_each(|member| mask_all(member, mask)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn text<'de, D: Deserializer<'de>>(value: D) -> Result<String, D::Error> {
    Ok(plain(&Value::deserialize(value)?))
}

fn number<'de, D: Deserializer<'de>>(value: D) -> Result<Option<f64>, D::Error> {
    Ok(Value::deserialize(value)?.as_f64())
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn call_of(call: &Value) -> MessageCall {
    let function = if call["function"].is_object() { &call["function"] } else { call };
    let name = [&function["name"], &function["toolName"]].into_iter().find(|name| !name.is_null());
    let given = [&function["arguments"], &function["input"], &function["args"]];
    let arguments = given.into_iter().find(|arguments| !arguments.is_null());
    let id = [&call["id"], &call["toolCallId"]].into_iter().find(|id| !id.is_null());
    MessageCall {
        id: id.map(plain).unwrap_or_default(),
        name: name.map(plain).unwrap_or_default(),
        arguments: arguments.map(plain).unwrap_or_default(),
    }
}
