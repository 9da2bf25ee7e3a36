//! A server that answers every request.

use serde_json::{Value, json};

use crate::envelope;
use crate::envelope::{Envelope, Kind};
use crate::message::Message;
use crate::raw_object::RawObject;

/// Returns the answer to a message, if that is a request.
pub(super) fn answer(message: &[u8]) -> Option<String> {
    let message = Message::whole(String::from_utf8(message.to_vec()).ok()?);
    let envelope = Envelope::of(&message).ok()?;
    let Kind::Request { method } = &envelope.kind else { return None };
    let params = envelope.params(&message).and_then(RawObject::parse).unwrap_or_default();
    let result = match &**method {
        "initialize" => initialized(),
        "tools/list" => tools(),
        "prompts/list" => json!({"prompts": [{"name": "ask"}]}),
        "resources/list" => json!({"resources": [{"uri": "test://one", "name": "one"}]}),
        "resources/templates/list" => {
            json!({"resourceTemplates": [{"uriTemplate": "test://{id}", "name": "any"}]})
        }
        "tools/call" => {
            let arguments = params.get("arguments").map_or("", |arguments| arguments.get());
            json!({"content": [{"type": "text", "text": arguments}]})
        }
        _ => json!({}),
    };
    let answer = envelope::answer(envelope.id(&message)?, &result.to_string());
    String::from_utf8(answer).ok()
}

fn initialized() -> Value {
    json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {"listChanged": true}, "prompts": {}, "resources": {}},
        "serverInfo": {"name": "scripted", "version": "1"},
        "instructions": "Be kind.",
    })
}

fn tools() -> Value {
    let text = json!({"type": "string"});
    json!({"tools": [
        {"name": "echo", "annotations": {"readOnlyHint": true}, "inputSchema": {"type": "object"}},
        {"name": "write", "inputSchema": {
            "type": "object", "properties": {"path": text, "text": text}, "required": ["path"],
        }},
        {"name": "context_tail", "inputSchema": {"type": "object"}},
    ]})
}
