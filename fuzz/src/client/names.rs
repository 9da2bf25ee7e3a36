//! Names of tools, and calls of tools as a model writes them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use ctxfs_mcp::index;
use ctxfs_mcp::index::{Call, Index, OVERVIEW_BYTES, Resolved, Tool, calls_of};
use ctxfs_mcp::permission::Risk;
use ctxfs_mcp::tool_name::{Naming, ServerPrefixes, ServerTool, ToolNames, fits};

const SERVERS: [&str; 3] = ["a", "A", "a__b"];
const OURS: [&str; 2] = ["context_read", "run_tool_batch"];
/// Maximum number of lines that are used as names.
const MOST: usize = 200;

/// Asserts these properties for tools with the names in `stream`: Each tool gets a unique name that
/// every client accepts, also if case is ignored. Each tool is found by its name. The index keeps
/// its size limit. Every text is parsed to a call or an error.
pub(super) fn names(stream: &[u8]) {
    let lines: Vec<String> = stream
        .split(|byte| *byte == b'\n')
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .take(MOST)
        .collect();
    let naming = |server: &str| Naming::with_prefix(if server == "A" { "" } else { server });
    let true_names: Vec<ServerTool> = lines
        .iter()
        .zip(SERVERS.iter().cycle())
        .map(|(line, server)| ServerTool { server: (*server).to_owned(), tool: line.clone() })
        .collect();
    let named = true_names.iter().map(|name| (name.clone(), naming(&name.server)));
    let names = ToolNames::new(named, &OURS, &ServerPrefixes::default());
    let mut seen = BTreeSet::new();
    let mut tools = Vec::new();
    for true_name in &true_names {
        let name = names.name_of(true_name).expect("each tool has a name");
        assert!(fits(name) && !OURS.contains(&&*name.to_lowercase()), "{name}");
        assert_eq!(names.by_name.get(name), Some(true_name));
        seen.insert(name.to_lowercase());
        tools.push(tool(name, true_name));
    }
    assert_eq!(seen.len(), names.all().count());
    are_found(&Index::new(tools), &lines);
}

fn tool(name: &str, true_name: &ServerTool) -> Tool {
    let text = &true_name.tool;
    let schema = json!({"type": "object", "properties": {text: {"type": "string"}}});
    let listed = json!({"name": text, "description": text, "inputSchema": schema});
    Tool { name: name.to_owned(), true_name: true_name.clone(), risk: Risk::Unknown, listed }
}

fn are_found(known: &Index, lines: &[String]) {
    for tool in known.tools.values() {
        assert_eq!(known.resolve(&tool.name), Resolved::Tool(tool));
    }
    for bytes in [500, OVERVIEW_BYTES] {
        assert!(index::overview(known, bytes).len() <= bytes);
    }
    assert!(serde_json::from_str::<Value>(&index::index_json(known)).is_ok());
    let asked: Vec<String> = lines.iter().take(index::MOST_NAMES).cloned().collect();
    index::details(known, &asked, 1 << 14).expect("they are not too many");
    for line in lines {
        let value = serde_json::from_str(line).unwrap_or_else(|_| Value::from(line.as_str()));
        for call in calls_of(&value).unwrap_or_else(|| vec![value]) {
            match Call::read(known, &call) {
                Ok(call) => drop(call.check()),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
}
