//! Texts of results, read by another parser.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::gateway::Head;

/// Asserts that each text of a result is in the answer or in the store.
pub(super) fn is_kept(came: &str, answer: &str, outputs: &BTreeMap<PathBuf, Vec<u8>>) {
    let Some(result) = Head::of(came).and_then(|head| head.result) else { return };
    // This parser rejects a lone surrogate.
    let Ok(result) = serde_json::from_str::<Value>(result.get()) else { return };
    let Ok(answer) = serde_json::from_str::<Value>(answer) else { return };
    let shown = texts(&answer["result"]);
    for text in texts(&result) {
        let is_stored = outputs.values().any(|bytes| bytes == text.as_bytes());
        assert!(is_stored || shown.contains(&text), "{text:?} is lost: {answer}");
    }
    assert_eq!(answer["result"]["isError"], result["isError"]);
}

/// Asserts that only texts and structures of the messages are stored.
pub(super) fn are_texts(outputs: &BTreeMap<PathBuf, Vec<u8>>, messages: &[String]) {
    let results = messages.iter().filter_map(|message| Head::of(message)?.result);
    let all: Vec<&RawValue> = results.collect();
    let parsed = |raw: &&RawValue| serde_json::from_str::<Value>(raw.get());
    let Ok(values) = all.iter().map(parsed).collect::<Result<Vec<Value>, _>>() else { return };
    // Binary content is forwarded, because none is long enough here.
    let allowed: Vec<Vec<u8>> = values.iter().flat_map(texts).map(String::into_bytes).collect();
    for (path, bytes) in outputs {
        let is_structure = serde_json::from_slice::<Value>(bytes).is_ok_and(|stored| {
            values.iter().any(|value| *value == stored || value["structuredContent"] == stored)
        });
        assert!(
            is_structure || allowed.contains(bytes),
            "{}: {}",
            path.display(),
            bytes.escape_ascii()
        );
    }
}

/// Returns the texts of a result.
fn texts(result: &Value) -> Vec<String> {
    let text = |block: &Value| match block["type"].as_str() {
        Some("text") => block["text"].as_str().map(str::to_owned),
        Some("resource") => block["resource"]["text"].as_str().map(str::to_owned),
        _ => None,
    };
    result["content"].as_array().into_iter().flatten().filter_map(text).collect()
}
