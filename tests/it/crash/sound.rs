//! The checks that hold for every store at any time.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{TestStore, listing};

/// Checks that every reference of every conversation opens its artifact, that every record
/// describes the stored bytes, and that every log can be read.
pub(super) fn sound(store: &TestStore) {
    let listed: Value = serde_json::from_slice(&store.ctxfs("ls", &["--json"]).stdout()).unwrap();
    for conversation in listed.as_array().unwrap() {
        let id = conversation["conversation"].as_str().unwrap();
        let root = store.path().join("context").join(id);
        lines_parse(&root.join("manifest.jsonl"));
        lines_parse(&root.join("history/messages.jsonl"));
        let references: Value =
            serde_json::from_slice(&store.view(&format!("{id}/manifest.json"))).unwrap();
        for reference in references.as_array().unwrap() {
            opens(store, reference);
        }
    }
    // Whoever opens the store removes what imports left.
    assert!(!listing(&store.path()).contains(&"staging".to_owned()));
}

fn opens(store: &TestStore, reference: &Value) {
    let id = reference["id"].as_str().unwrap();
    let bytes = store.view(id);
    assert_eq!(reference["byteSize"], bytes.len(), "{id}");
    let meta: Value = serde_json::from_slice(&store.view(&format!("{id}.meta.json"))).unwrap();
    assert_eq!(meta["analysis"]["digest"], blake3::hash(&bytes).to_hex().as_str(), "{id}");
    assert!(!store.view(&format!("{id}.summary")).is_empty());
}

/// Checks that every whole line parses. A last line without a newline does not count yet.
fn lines_parse(log: &Path) {
    let text = fs::read_to_string(log).unwrap_or_default();
    for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let parsed: Result<Value, _> = serde_json::from_str(line);
        assert!(parsed.is_ok(), "{}: {line}", log.display());
    }
}
