//! The index in the files of the conversation: `catalog/index.json` and `catalog/tools/<name>.json`.

use serde_json::json;

use crate::index;
use crate::index::Index;
use crate::relay::Relay;
use crate::shelf::LazyShelf;
use ctxfs_core::model::Component;

/// Writes the index. A failure is logged: what a client is told does not depend on it.
pub(super) fn write(shelf: &LazyShelf, index: &Index) {
    let tools = index.tools().filter_map(|tool| {
        let name = Component::new(format!("{}.json", tool.name)).ok()?;
        Some((name, index::tool_json(tool)))
    });
    let text = index::index_json(index);
    let written = shelf.open().and_then(|open| {
        let written = open.engine.write_catalog(&open.conversation, &text, tools);
        written.map_err(|error| error.to_string())
    });
    if let Err(why) = written {
        tracing::warn!("the index of tools is not written: {why}");
    }
}

/// Returns the result with the whole index, or its first lines and a link to it.
pub(super) fn answer(relay: &Relay, index: &Index) -> String {
    let text = index::index_json(index);
    let most = relay.shelf.limits("").max_inline_bytes.min(text.len() as u64) as usize;
    if most == text.len() {
        return json!({"content": [{"type": "text", "text": text}]}).to_string();
    }
    let uri = format!("ctx://{}/catalog/index.json", relay.shelf.conversation());
    let end = text[..text.floor_char_boundary(most)].rfind('\n').unwrap_or(0);
    let shown = format!(
        "{}\n[ctxfs] {} of {} bytes; all: {uri} (context_read, context_grep)",
        &text[..end],
        end,
        text.len()
    );
    let link = json!({
        "type": "resource_link", "uri": uri, "name": "index.json", "mimeType": "application/json",
        "size": text.len(),
    });
    let mut content = vec![json!({"type": "text", "text": shown})];
    content.extend(relay.knows_links().then_some(link));
    json!({"content": content}).to_string()
}
