//! A tool of the index.

use serde_json::{Map, Value, json};

use crate::index::description::short;
use crate::permission::Risk;
use crate::tool_name::TrueName;

/// A tool that an upstream lists.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The name under which it is offered.
    pub name: String,
    /// Its server, and the name there.
    pub true_name: TrueName,
    /// The risk of a call.
    pub risk: Risk,
    /// The tool as `tools/list` of its server has it.
    pub listed: Value,
}

impl Tool {
    /// Returns the schema of its arguments. A tool without one takes any object.
    pub fn schema(&self) -> &Value {
        static ANY: Value = Value::Bool(true);
        self.listed.get("inputSchema").unwrap_or(&ANY)
    }

    /// Returns the first sentence of what its server says of it, in one line of at most 80
    /// characters.
    pub fn short_description(&self) -> String {
        let said = |key: &str| self.listed.get(key).and_then(Value::as_str).map(short);
        let mut said = ["description", "title"].into_iter().filter_map(said);
        said.find(|text| !text.is_empty()).unwrap_or_default()
    }

    /// Returns what the light index says of it.
    pub fn entry(&self) -> Value {
        json!({
            "name": self.name,
            "server": self.true_name.server,
            "kind": "mcp",
            "risk": self.risk.as_str(),
            "description": self.short_description(),
        })
    }

    /// Returns all that a caller needs to know.
    pub fn details(&self) -> Value {
        let said = |key: &str| self.listed.get(key).cloned();
        let mut details = Map::new();
        details.insert("name".to_owned(), self.name.clone().into());
        details.insert("server".to_owned(), self.true_name.server.clone().into());
        details.insert("description".to_owned(), said("description").unwrap_or_default());
        details.insert("parameters".to_owned(), self.schema().clone());
        details.insert("risk".to_owned(), self.risk.as_str().into());
        if let Some(examples) = self.schema().get("examples") {
            details.insert("examples".to_owned(), examples.clone());
        }
        Value::Object(details)
    }
}
