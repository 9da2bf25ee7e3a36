//! Tokens that tools take in the context of a model.

use serde_json::{Value, json};

use ctxfs_core::materialize::token_count;

/// The members of a tool that a client tells its model.
const TOLD: [&str; 3] = ["name", "description", "inputSchema"];

pub(super) fn of_text(text: &str) -> u64 {
    token_count(text.as_bytes())
}

/// Returns the tokens of a tool as `tools/list` has it.
pub(super) fn of_tool(listed: &Value) -> u64 {
    let [name, description, schema] = TOLD.map(|key| listed.get(key).unwrap_or(&Value::Null));
    let told = json!({"name": name, "description": description, "inputSchema": schema});
    of_text(&told.to_string())
}

/// Returns the tokens of the tools of the index, and of its instructions.
pub(super) fn of_index(rows: &[String], instructions: &str) -> u64 {
    let rows = rows.iter().map(|row| of_tool(&serde_json::from_str(row).unwrap_or_default()));
    rows.sum::<u64>() + of_text(instructions)
}
