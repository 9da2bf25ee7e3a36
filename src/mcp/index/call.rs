//! A call as a model writes it.

use serde_json::{Map, Value};

use crate::index::Index;
use crate::index::resolve::Resolved;
use crate::index::schema::{Fitness, fitness};
use crate::index::signature::signature;
use crate::index::tool::Tool;
use ctxfs_core::model::visible;

/// The keys of a call that are no arguments.
const NAME: &str = "name";
const ARGUMENTS: &str = "arguments";
/// Bytes of a name in a message.
const NAME_BYTES: usize = 200;

/// A call whose tool is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Call<'i> {
    /// The tool.
    pub tool: &'i Tool,
    /// Its arguments, which are an object.
    pub arguments: Map<String, Value>,
}

/// Why a call cannot be made, with what would fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// It is no object, or has no name.
    #[error("a call must be {{\"name\": ..., \"arguments\": {{...}}}}")]
    NoCall,
    /// No tool has the name, or several.
    #[error("there is no tool `{name}`{}", did_you_mean(.alike))]
    UnknownTool {
        /// The name that was given, safe to show.
        name: String,
        /// Names that may be meant.
        alike: Vec<String>,
    },
    /// Its arguments are no object, in whatever form.
    #[error("`arguments` of `{name}` must be an object; it takes: {takes}")]
    NoArguments {
        /// The tool.
        name: String,
        /// The arguments that fit.
        takes: String,
    },
    /// Its arguments do not fit the schema.
    #[error("the call of `{name}` was not made: {}; it takes: {takes}", .problems.join("; "))]
    Unfit {
        /// The tool.
        name: String,
        /// The fault.
        problems: Vec<String>,
        /// The arguments that fit.
        takes: String,
    },
}

fn did_you_mean(alike: &[String]) -> String {
    match alike {
        [] => "; `get_tool_details` without names lists all".to_owned(),
        [one] => format!("; did you mean `{one}`?"),
        several => format!("; did you mean one of `{}`?", several.join("`, `")),
    }
}

/// Returns the calls of a batch: a list, a single one, or either as JSON in a text.
pub fn calls_of(calls: &Value) -> Option<Vec<Value>> {
    match calls {
        Value::Array(calls) => Some(calls.clone()),
        Value::Object(_) => Some(vec![calls.clone()]),
        Value::String(text) => match serde_json::from_str(text).ok()? {
            Value::Array(calls) => Some(calls),
            call @ Value::Object(_) => Some(vec![call]),
            _ => None,
        },
        _ => None,
    }
}

impl<'i> Call<'i> {
    /// Reads a call. Its arguments may be an object, JSON of one in a text, or stand in the call
    /// itself; they are not compared with the schema yet.
    pub fn read(index: &'i Index, call: &Value) -> Result<Self, CallError> {
        let call = unquoted(call).ok_or(CallError::NoCall)?;
        let name = call.get(NAME).and_then(Value::as_str).ok_or(CallError::NoCall)?;
        let tool = match index.resolve(name.trim()) {
            Resolved::Tool(tool) => tool,
            Resolved::Missing(alike) => {
                let name = visible::escaped(name, NAME_BYTES);
                return Err(CallError::UnknownTool { name, alike });
            }
        };
        let arguments = arguments_of(tool, call).ok_or_else(|| CallError::NoArguments {
            name: tool.name.clone(),
            takes: signature(tool.schema()),
        })?;
        Ok(Self { tool, arguments })
    }

    /// Compares the arguments with the schema of the tool. What cannot be told passes.
    pub fn check(&self) -> Result<(), CallError> {
        let arguments = Value::Object(self.arguments.clone());
        match fitness(self.tool.schema(), &arguments) {
            Fitness::Fits | Fitness::Unknown => Ok(()),
            Fitness::Unfit(problems) => Err(CallError::Unfit {
                name: self.tool.name.clone(),
                problems,
                takes: signature(self.tool.schema()),
            }),
        }
    }
}

/// Returns the object that `value` is, or that it has as JSON in a text.
fn unquoted(value: &Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(members) => Some(members.clone()),
        Value::String(text) => serde_json::from_str(text).ok(),
        _ => None,
    }
}

/// Returns the arguments of a call. A key beside them counts where the schema knows it and they do
/// not have it.
fn arguments_of(tool: &Tool, call: Map<String, Value>) -> Option<Map<String, Value>> {
    let takes = |key: &str| tool.schema()["properties"].get(key).is_some();
    let said = call.get(ARGUMENTS).filter(|_| !call_is_flat(&call, &takes));
    let is_said = said.is_some();
    let mut arguments = match said {
        None | Some(Value::Null) => Map::new(),
        Some(Value::String(text)) if text.trim().is_empty() => Map::new(),
        Some(said) => unquoted(said)?,
    };
    for (key, value) in call {
        let is_of_call = key == NAME || is_said && key == ARGUMENTS;
        if !is_of_call && (!is_said || takes(&key)) && !arguments.contains_key(&key) {
            arguments.insert(key, value);
        }
    }
    Some(arguments)
}

/// Returns true if `arguments` is itself an argument of the tool, in a call without a wrapping.
fn call_is_flat(call: &Map<String, Value>, takes: &dyn Fn(&str) -> bool) -> bool {
    takes(ARGUMENTS) && call.get(ARGUMENTS).is_some_and(|said| unquoted(said).is_none())
}

#[cfg(test)]
mod tests;
