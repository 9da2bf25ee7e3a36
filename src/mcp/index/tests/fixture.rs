use serde_json::{Value, json};

use crate::index::{Index, Tool};
use crate::permission::rules::Risk;
use crate::tool_name::ServerTool;

pub(crate) fn tool(server: &str, tool: &str, risk: Risk, listed: Value) -> Tool {
    let true_name = ServerTool { server: server.to_owned(), tool: tool.to_owned() };
    Tool { name: format!("{server}__{tool}"), true_name, risk, listed }
}

pub(crate) fn index() -> Index {
    let text = json!({"type": "string"});
    let object = |properties: Value, required: Value| {
        json!({"type": "object", "properties": properties, "required": required,
               "additionalProperties": false})
    };
    Index::new([
        tool(
            "github",
            "create_issue",
            Risk::Write,
            json!({
                "name": "create_issue",
                "description": "Create a new issue in a GitHub repository",
                "annotations": {"destructiveHint": false},
                "inputSchema": object(
                    json!({"owner": text, "repo": text, "title": text,
                           "labels": {"type": "array", "items": text},
                           "state": {"enum": ["open", "closed"]}, "milestone": {"type": "integer"}}),
                    json!(["owner", "repo", "title"])),
            }),
        ),
        tool(
            "github",
            "search_issues",
            Risk::Read,
            json!({
                "description": "Search for issues. Across repositories.",
                "inputSchema": object(json!({"q": text, "page": {"type": "integer", "minimum": 1}}), json!(["q"])),
            }),
        ),
        tool(
            "github",
            "list_all",
            Risk::Read,
            json!({"description": "List", "inputSchema": {"type": "object"}}),
        ),
        tool(
            "fs",
            "read_file",
            Risk::Read,
            json!({
                "description": "Read a file",
                "inputSchema": object(json!({"path": text, "name": text}), json!(["path"])),
            }),
        ),
        tool("fs", "list_all", Risk::Unknown, json!({"title": "Everything"})),
    ])
}
