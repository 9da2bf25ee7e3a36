//! The store after a run: plain bytes, and the records in the manifest.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::harness::{Run, Subject, same};
use super::reference::{Node, is_artifact};

impl<S: Subject> Run<S> {
    /// Checks the store on disk after the end of the server: plain bytes, and a sealed record of
    /// every artifact that was closed.
    pub(crate) fn compare_store(&self, store: &Path) {
        for (path, node) in &self.tree.nodes {
            if let Node::File(file) = node {
                let got = std::fs::read(store.join("context").join(path));
                let wanted = self.tree.files[*file].bytes.clone();
                same(path, &got.map_err(|error| error.raw_os_error().unwrap_or(0)), &Ok(wanted));
            }
        }
        let conversations: Vec<&str> = self.tree.children("").collect();
        for conversation in conversations {
            self.compare_records(store, conversation);
        }
    }

    fn compare_records(&self, store: &Path, conversation: &str) {
        let manifest = store.join("context").join(conversation).join("manifest.jsonl");
        let text = std::fs::read_to_string(manifest).unwrap_or_default();
        let mut records: BTreeMap<String, Value> = BTreeMap::new();
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            let path = format!("{conversation}/{}", record["path"].as_str().unwrap());
            records.insert(path, record);
        }
        records.retain(|_, record| record["state"] != "gone");
        for (path, node) in &self.tree.nodes {
            let Node::File(file) = node else { continue };
            let file = &self.tree.files[*file];
            let recorded = file.recorded && path.split('/').next() == Some(conversation);
            match records.remove(path) {
                Some(record) if is_artifact(path) => assert_sealed(path, &file.bytes, &record),
                Some(record) => panic!("{path} is no artifact, and has a record: {record}"),
                None => assert!(!recorded, "{path} has no record"),
            }
        }
        assert!(records.is_empty(), "records of files that are not there: {records:#?}");
    }
}

fn assert_sealed(path: &str, bytes: &[u8], record: &Value) {
    let digest = blake3::hash(bytes).to_hex().to_string();
    assert_eq!(record["state"], "sealed", "{path}: {record:#}");
    assert_eq!(record["size"], bytes.len(), "{path}: {record:#}");
    assert_eq!(record["analysis"]["digest"], *digest, "{path}: {record:#}");
}
