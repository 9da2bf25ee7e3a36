//! Manifest of a conversation, in any state in which a crash or another program may leave it.

use std::collections::BTreeMap;
use std::fs;

use serde::Deserialize;
use serde_json::Value;

use crate::empty_store;
use ctxfs_core::model::{Component, Record, RelPath};
use ctxfs_store::Conversation;

/// Asserts that reading an arbitrary manifest returns the last record of each path, from complete
/// lines only. Compaction and appending must not lose these records.
pub fn manifest(data: &[u8]) {
    let (dir, store) = empty_store();
    let id = Component::new("c7").expect("a name");
    let conversation = store.create_conversation(&id).expect("a new conversation");
    let file = dir.path().join("store/context/c7/manifest.jsonl");

    fs::write(&file, data).expect("room");
    let expected = last_records(data);
    assert_eq!(records(&conversation), expected);
    for (path, record) in expected.iter().filter(|(_, record)| record.removed.is_none()) {
        let path = RelPath::from_text(path).expect("a path");
        assert_eq!(conversation.record(&path).expect("readable").as_ref(), Some(record));
    }
    conversation.manifest().compact().expect("room");
    assert_eq!(records(&conversation), expected, "compacted");

    fs::remove_file(&file).ok();
    fs::write(&file, data).expect("room");
    let new = Record { path: "artifacts/tool/new.txt".to_owned(), ..Record::default() };
    conversation.manifest().append(std::slice::from_ref(&new)).expect("room");
    let mut expected = last_records(&[data, b"\n"].concat());
    expected.insert(new.path.clone(), new);
    assert_eq!(records(&conversation), expected, "appended");
}

fn records(conversation: &Conversation) -> BTreeMap<String, Record> {
    let records = conversation.records().and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let records = records.expect("any file can be read");
    let count = records.len();
    let by_path: BTreeMap<_, _> = records.into_iter().map(|it| (it.path.clone(), it)).collect();
    assert_eq!(by_path.len(), count, "a path has two records");
    by_path
}

/// Reads a manifest line by line. A line whose path can be read replaces earlier ones for that
/// path, even if the rest of it is not valid.
fn last_records(manifest: &[u8]) -> BTreeMap<String, Record> {
    let mut last = BTreeMap::new();
    let lines = manifest.split_inclusive(|byte| *byte == b'\n');
    for line in lines.filter(|line| line.ends_with(b"\n")) {
        let Ok(fields) = serde_json::from_slice::<RequiredFields>(line) else { continue };
        last.remove(&fields.path);
        let is_artifact = RelPath::from_text(&fields.path).is_ok_and(|path| path.is_artifact());
        if let Some(record) = record(line)
            && fields.state != RecordState::Gone
            && is_artifact
        {
            last.insert(fields.path, record);
        }
    }
    last
}

/// Fields that every record has.
#[derive(Deserialize)]
struct RequiredFields {
    path: String,
    state: RecordState,
    #[serde(rename = "generation")]
    _generation: u64,
    #[serde(rename = "size")]
    _size: u64,
    #[serde(rename = "modified")]
    _modified: i64,
    #[serde(rename = "created")]
    _created: i64,
}

/// State of a record, without the reason.
#[derive(PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RecordState {
    Live,
    Sealed,
    Incomplete,
    Gone,
}

/// Parses a record. Drops the analysis if another version has written it.
fn record(line: &[u8]) -> Option<Record> {
    let whole = serde_json::from_slice(line).ok();
    whole.or_else(|| {
        let mut value: Value = serde_json::from_slice(line).ok()?;
        value.as_object_mut()?.remove("analysis")?;
        serde_json::from_value(value).ok()
    })
}
