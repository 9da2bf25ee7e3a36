//! One message, formatted for a person.

use std::fmt::Write as _;

use anstyle::AnsiColor;
use anstyle::Style;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::cli::output::GOOD;
use crate::cli::output::STRONG;
use crate::cli::output::WARN;
use crate::model::Folder;
use crate::model::RelPath;
use crate::model::readings;
use crate::redact::SecretRules;
use crate::store::Conversation;
use crate::store::call_stem;
use crate::view::cleaned;

/// Lines of a tool's result that are shown.
const RESULT_LINES: usize = 5;
/// Characters that are shown of such a line, and of the arguments of a call.
const LINE_CHARS: usize = 200;
/// The beginning of the note after the preview of a result that is stored as an artifact.
const FULL_OUTPUT: &str = "\n\n[Full output: ";
/// The style of secondary text.
const FAINT: Style = Style::new().dimmed();
/// The style of the user's role.
const USER: Style = AnsiColor::Cyan.on_default().bold();

/// The members of a message that are shown. They may have any type.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Entry {
    role: Value,
    content: Value,
    tool_calls: Value,
    tool_call_id: Value,
    #[serde(rename = "toolName")]
    tool_name: Value,
    duration: Value,
    #[serde(rename = "createdAt")]
    created_at: Value,
    mode: Value,
    #[serde(rename = "fullOutputPath")]
    full_output_path: Value,
    /// The output as the message itself names it, if the members above are masked.
    #[serde(skip)]
    output: Option<OutputNames>,
}

/// The members of a message by which its output is found.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OutputNames {
    tool_call_id: Value,
    #[serde(rename = "fullOutputPath")]
    full_output_path: Value,
}

impl Entry {
    /// Masks secrets in the content and in the arguments of calls.
    pub(super) fn hide_secrets(&mut self, rules: &SecretRules) {
        mask(&mut self.content, rules);
        mask(&mut self.tool_calls, rules);
    }

    /// Finds the output by its names in `line`, the message before it was masked.
    pub(super) fn stored_as(&mut self, line: &str) {
        self.output = serde_json::from_str(line).ok();
    }

    /// Formats the message: a heading, and the content below it.
    pub(super) fn text(&self, conversation: &Conversation) -> String {
        let mut text = self.heading();
        if self.role == "tool" {
            self.result(conversation, &mut text);
        } else {
            for line in said(&self.content).lines() {
                let _ = writeln!(text, "  {}", cleaned(line, usize::MAX));
            }
        }
        for call in self.tool_calls.as_array().into_iter().flatten() {
            let (name, arguments) = call_of(call);
            let id = word(&call["id"]);
            let arguments = cleaned(&arguments, LINE_CHARS);
            let _ = writeln!(text, "  {GOOD}->{GOOD:#} {name}  {FAINT}{id}{FAINT:#}  {arguments}");
        }
        text
    }

    /// Formats the heading: `tool shell/exec  call_1  2026-01-13 15:30:45Z  1.2s`.
    fn heading(&self) -> String {
        let style = match self.role.as_str() {
            Some("user") => USER,
            Some("assistant") => GOOD.bold(),
            Some("tool" | "function") => WARN,
            _ => STRONG,
        };
        let duration = self.duration.as_f64().map(|millis| match millis {
            ..1000.0 => format!("{millis:.0}ms"),
            _ => format!("{:.1}s", millis / 1000.0),
        });
        let about = [
            word(&self.tool_name),
            word(&self.tool_call_id),
            self.time(),
            duration.unwrap_or_default(),
            word(&self.mode),
        ];
        let about = about.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>();
        let about = about.join("  ");
        let role = word(&self.role);
        if about.is_empty() {
            return format!("{style}{role}{style:#}\n");
        }
        format!("{style}{role}{style:#}  {FAINT}{about}{FAINT:#}\n")
    }

    /// Formats the time, which is given in milliseconds since the epoch or as text.
    fn time(&self) -> String {
        let time = match &self.created_at {
            Value::Number(millis) => {
                millis.as_i64().and_then(|millis| Timestamp::from_millisecond(millis).ok())
            }
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        time.map_or_else(
            || word(&self.created_at),
            |time: Timestamp| time.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
        )
    }

    /// Appends the name of the artifact and the first lines of a result.
    fn result(&self, conversation: &Conversation, text: &mut String) {
        let said = said(&self.content);
        let mut shown = said.as_str();
        if let Some((path, bytes)) = self.artifact(conversation) {
            let _ = writeln!(text, "  {STRONG}{path}{STRONG:#}  {FAINT}{bytes} bytes{FAINT:#}");
            shown = shown.split_once(FULL_OUTPUT).map_or(shown, |(beginning, _)| beginning);
        }
        let mut lines = shown.lines();
        for line in lines.by_ref().take(RESULT_LINES) {
            let shown = cleaned(line, LINE_CHARS);
            let more = if line.chars().nth(LINE_CHARS).is_some() { "..." } else { "" };
            let _ = writeln!(text, "  {shown}{more}");
        }
        let left = lines.count();
        if shown.len() < said.len() {
            let _ = writeln!(text, "  {FAINT}...{FAINT:#}");
        } else if left > 0 {
            let plural = if left == 1 { "" } else { "s" };
            let _ = writeln!(text, "  {FAINT}... {left} more line{plural}{FAINT:#}");
        }
    }

    /// Returns the path and size of the artifact with the whole result, if the conversation has it.
    fn artifact(&self, conversation: &Conversation) -> Option<(String, u64)> {
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
            Some((cleaned(&path.to_text(), usize::MAX), stat.size))
        })
    }
}

fn mask(value: &mut Value, rules: &SecretRules) {
    match value {
        Value::String(text) => *text = rules.mask_text(text),
        Value::Array(items) => items.iter_mut().for_each(|item| mask(item, rules)),
        Value::Object(members) => members.values_mut().for_each(|member| mask(member, rules)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns a short text or number, or an empty string for null.
fn word(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => cleaned(text, LINE_CHARS),
        other => cleaned(&other.to_string(), LINE_CHARS),
    }
}

/// Returns the text of a message: its text parts, and the types of other parts.
fn said(content: &Value) -> String {
    match content {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let part = |part: &Value| match (&part["text"], &part["type"]) {
                (Value::String(text), _) => text.clone(),
                (_, Value::String(kind)) => format!("[{kind}]"),
                _ => part.to_string(),
            };
            parts.iter().map(part).collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}

/// Returns the name of the tool and its arguments as JSON, in any of the common forms.
fn call_of(call: &Value) -> (String, String) {
    let function = if call["function"].is_object() { &call["function"] } else { call };
    let name = [&function["name"], &function["toolName"]].into_iter().find(|name| !name.is_null());
    let given = [&function["arguments"], &function["input"], &function["args"]];
    let arguments = match given.into_iter().find(|arguments| !arguments.is_null()) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    (name.map(word).unwrap_or_default(), arguments)
}
