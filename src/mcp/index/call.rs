//! Parses tool calls in the forms that models write.

use serde_json::{Map, Value};

use crate::index::schema::{Fitness, fitness};
use crate::index::{Index, Resolved, Tool, signature};
use ctxfs_core::model::visible;

const NAME: &str = "name";
const ARGUMENTS: &str = "arguments";
const NAME_BYTES: usize = 200;

/// A call of a known tool, with an object as arguments. The arguments may be invalid; see
/// [`Call::check`].
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Call<'i> {
    pub tool: &'i Tool,
    pub arguments: Map<String, Value>,
}

/// The reason why a call cannot be made. The message is worded for the model and says what would be
/// accepted. Names and values in the message are safe to show. An ambiguous name is reported as an
/// unknown tool with the candidates in `alike`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum CallError {
    #[error("a call must be {{\"name\": ..., \"arguments\": {{...}}}}")]
    NoCall,
    #[error("there is no tool `{name}`{}", did_you_mean(.alike))]
    UnknownTool { name: String, alike: Vec<String> },
    #[error("`arguments` of `{name}` must be an object; it takes: {takes}")]
    NoArguments { name: String, takes: String },
    #[error("the call of `{name}` was not made: {}; it takes: {takes}", .problems.join("; "))]
    Unfit { name: String, problems: Vec<String>, takes: String },
}

fn did_you_mean(alike: &[String]) -> String {
    match alike {
        [] => "; `get_tool_details` without names lists all".to_owned(),
        [one] => format!("; did you mean `{one}`?"),
        several => format!("; did you mean one of `{}`?", several.join("`, `")),
    }
}

/// Returns the calls of a batch. Models write a list, a single call, or a JSON text that contains
/// either. Returns `None` for any other value.
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
    /// Reads a call. The arguments may be an object, a JSON text that contains one, or members of
    /// the call itself. The arguments are not checked.
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

    /// Checks the arguments against the schema of the tool. If the check cannot decide, the call
    /// passes, because the server checks the arguments itself.
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

fn unquoted(value: &Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(members) => Some(members.clone()),
        Value::String(text) => serde_json::from_str(text).ok(),
        _ => None,
    }
}

/// Returns the arguments of a call. If the call has no member `arguments`, all its members except
/// the name are arguments. Otherwise, a further member of the call is added to `arguments` if the
/// schema has a property with the member's name and `arguments` has none. Returns `None` if
/// `arguments` is not an object.
fn arguments_of(tool: &Tool, call: Map<String, Value>) -> Option<Map<String, Value>> {
    let takes = |key: &str| tool.schema()["properties"].get(key).is_some();
    let given = call.get(ARGUMENTS).filter(|_| !call_is_flat(&call, &takes));
    let is_given = given.is_some();
    let mut arguments = match given {
        None | Some(Value::Null) => Map::new(),
        Some(Value::String(text)) if text.trim().is_empty() => Map::new(),
        Some(given) => unquoted(given)?,
    };
    for (key, value) in call {
        let is_of_call = key == NAME || is_given && key == ARGUMENTS;
        if !is_of_call && (!is_given || takes(&key)) && !arguments.contains_key(&key) {
            arguments.insert(key, value);
        }
    }
    Some(arguments)
}

fn call_is_flat(call: &Map<String, Value>, takes: &dyn Fn(&str) -> bool) -> bool {
    takes(ARGUMENTS) && call.get(ARGUMENTS).is_some_and(|given| unquoted(given).is_none())
}

#[cfg(test)]
mod tests;
