//! The tool `tool_output`, with which a language model answers a question about stored outputs.

use std::path::PathBuf;
use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::context::location::Location;
use crate::shelf::GatewayConversation;
use crate::tool_name::ServerTool;
use ctxfs_engine::{Question, Tree};
use ctxfs_models::extract::{CallRecord, Mode, Stopped};

pub(crate) const NAME: &str = "tool_output";
// Maximum number of outputs per question.
const MAX_HANDLES: usize = 32;
const ARGUMENTS: [&str; 3] = ["handle", "extract", "mode"];

/// Stops and observes the processing of a question. `stopped` returns true once the request is
/// cancelled. `tell` is called with each finished call of the language model.
pub(crate) struct QuestionMonitor<'a> {
    pub(crate) stopped: &'a Stopped<'a>,
    pub(crate) tell: &'a (dyn Fn(&CallRecord) + Sync),
}

/// Returns the name of `tool_output` in limits and permissions, where it counts as a tool of the
/// server `ctxfs`.
pub(crate) fn true_name() -> ServerTool {
    ServerTool { server: "ctxfs".to_owned(), tool: NAME.to_owned() }
}

pub(crate) fn tool() -> Tool {
    let text = json!({"type": "string", "minLength": 1});
    let schema = json!({
        "type": "object",
        "properties": {
            "handle": {
                "anyOf": [text, {"type": "array", "items": text, "minItems": 1, "maxItems": MAX_HANDLES}],
                "description": "Handle or reference of a stored output, or several.",
            },
            "extract": {
                "type": "string", "minLength": 1,
                "description": "What to extract: precise and detailed instructions.",
            },
            "mode": {
                "type": "string", "enum": Mode::ALL.map(Mode::name),
                "description": "How to read (default auto).",
            },
        },
        "required": ["handle", "extract"],
        "additionalProperties": false,
    });
    let Value::Object(schema) = schema else { unreachable!("it is an object") };
    let annotations =
        ToolAnnotations::new().read_only(true).destructive(false).idempotent(true).open_world(true);
    let about = "Have a language model read a stored output and answer a question about it. Use it \
                 where context_grep and context_view do not find the answer.";
    Tool::new(NAME, about, Arc::new(schema)).with_annotations(annotations)
}

/// Answers a question about stored outputs. Errors are worded for the model. Blocks on the language
/// model, which can take minutes.
pub(crate) fn answer(
    open: &GatewayConversation,
    arguments: &Value,
    waiter: &QuestionMonitor<'_>,
) -> Result<Value, String> {
    let known = |name: &String| ARGUMENTS.contains(&name.as_str());
    let object = arguments.as_object().ok_or("the arguments are no object")?;
    if let Some(other) = object.keys().find(|name| !known(name)) {
        return Err(format!("`{NAME}` has no argument `{other}`: give handle, extract and mode"));
    }
    let text = object.get("extract").and_then(Value::as_str).unwrap_or_default();
    if text.trim().is_empty() {
        return Err("`extract` is missing: say what to extract".to_owned());
    }
    let mode = match object.get("mode") {
        None | Some(Value::Null) => Mode::Auto,
        Some(mode) => {
            let name = mode.as_str().ok_or("`mode` is no text")?;
            name.parse::<Mode>().map_err(|error| error.to_string())?
        }
    };
    let paths = paths(open, &arguments["handle"])?;
    asked(open, &paths, &Question::new((text, mode), waiter.stopped, waiter.tell))
}

fn asked(
    open: &GatewayConversation,
    paths: &[PathBuf],
    question: &Question<'_>,
) -> Result<Value, String> {
    let tree = Tree::new(Arc::clone(&open.engine));
    let answers = tree.answer_each(paths, question).map_err(|error| {
        format!("cannot read the output: {error}; context_list names the stored outputs")
    })?;
    let text = match &answers.read[..] {
        [answer] if paths.len() == 1 => answer.text(),
        _ => answers.text(),
    };
    Ok(json!({"content": [{"type": "text", "text": text}], "isError": answers.have_failed()}))
}

fn paths(open: &GatewayConversation, handle: &Value) -> Result<Vec<PathBuf>, String> {
    let missing = || "`handle` is missing: context_list names the stored outputs".to_owned();
    let handles = match handle {
        Value::String(_) => vec![handle],
        Value::Array(handles) if handles.len() <= MAX_HANDLES => handles.iter().collect(),
        Value::Array(handles) => {
            return Err(format!("{} handles are too many: at most {MAX_HANDLES}", handles.len()));
        }
        _ => Vec::new(),
    };
    let named = |handle: &Value| {
        let handle = handle.as_str().filter(|handle| !handle.trim().is_empty());
        Ok(Location::find(open, handle.ok_or_else(missing)?)?.in_tree())
    };
    let paths: Vec<PathBuf> = handles.into_iter().map(named).collect::<Result<_, String>>()?;
    if paths.is_empty() { Err(missing()) } else { Ok(paths) }
}
