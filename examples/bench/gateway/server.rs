//! MCP server that answers as fast as possible, with texts of any length. The number of its tools
//! is an argument.

use std::io;
use std::io::{BufRead as _, BufWriter, Write};

use serde_json::{Value, json};

const LINE: &str = "2026-01-13T12:00:00Z INFO worker: request 4711 done in 97 ms, caf\u{e9}\n";
/// Number of lines per write.
const AT_ONCE: usize = 800;

/// Serves the client at standard input and output.
pub(crate) fn serve(tools: usize) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let line = serde_json::to_string(LINE)?;
    let line = line.trim_matches('"').to_owned();
    for message in io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&message?)?;
        let id = &message["id"];
        if id.is_null() {
            continue;
        }
        write!(out, r#"{{"jsonrpc":"2.0","id":{id},"result":"#)?;
        match message["method"].as_str() {
            Some("initialize") => write!(out, "{}", introduction(&message["params"]))?,
            Some("tools/list") => write!(out, "{}", listed(tools))?,
            Some("tools/call") => {
                let bytes = message["params"]["arguments"]["bytes"].as_u64().unwrap_or(0);
                text(bytes as usize, &line, &mut out)?;
            }
            _ => write!(out, "{{}}")?,
        }
        out.write_all(b"}\n")?;
        out.flush()?;
    }
    Ok(())
}

fn introduction(params: &Value) -> Value {
    json!({
        "protocolVersion": params["protocolVersion"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "bench", "version": "1"},
    })
}

/// Writes a result with a text of exactly `bytes` bytes.
fn text(bytes: usize, line: &str, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(br#"{"content":[{"type":"text","text":""#)?;
    let many = line.repeat(AT_ONCE);
    let mut left = bytes;
    while left >= LINE.len() * AT_ONCE {
        out.write_all(many.as_bytes())?;
        left -= LINE.len() * AT_ONCE;
    }
    out.write_all(line.repeat(left / LINE.len()).as_bytes())?;
    out.write_all("x".repeat(left % LINE.len()).as_bytes())?;
    out.write_all(br#""}]}"#)
}

/// Returns `count` tools with realistic descriptions and schemas.
fn listed(count: usize) -> Value {
    let tool = |number: usize| {
        let property = |name: &str| {
            json!({"type": "string", "description": format!(
                "The {name} of the resource that is to be worked on, as the service itself shows it.")})
        };
        json!({
            "name": format!("tool_{number}"),
            "description": format!(
                "Looks for resources of kind {number} and returns those that match. Takes the owner, \
                 the name and a query; results are sorted by time, newest first, a page at a time. \
                 Needs the permission to read the resource."),
            "annotations": {"readOnlyHint": true, "title": format!("Search of kind {number}")},
            "inputSchema": {
                "type": "object",
                "properties": {
                    "owner": property("owner"), "name": property("name"), "query": property("query"),
                    "page": {"type": "integer", "minimum": 1, "description": "The page of the results (default 1)."},
                    "order": {"enum": ["asc", "desc"], "description": "The order of the results."},
                    "bytes": {"type": "integer", "description": "The length of the result."},
                },
            },
        })
    };
    json!({"tools": (0..count.max(1)).map(tool).collect::<Vec<_>>()})
}
