//! Records as JSON has them: all keys side by side.
//!
//! Serde's own way of reading a structure inside another one keeps a copy of each key and value
//! that it does not know yet, which is most of the time of reading a record.

use serde::Deserialize;

use crate::model::{
    Analysis, ArtifactState, Far, LocalFile, Owner, Provenance, Record, Removal, ViewSizes,
};

/// The keys of a record.
#[derive(Deserialize)]
pub(super) struct RawRecord {
    path: String,
    generation: u64,
    state: Stage,
    why: Option<String>,
    size: u64,
    modified: i64,
    file: Option<LocalFile>,
    created: i64,
    owner: Option<Owner>,
    call: Option<String>,
    agent: Option<String>,
    agent_type: Option<String>,
    tool: Option<String>,
    server: Option<String>,
    args: Option<String>,
    exit_code: Option<i32>,
    duration_ms: Option<u64>,
    mime: Option<String>,
    analysis: Option<Analysis>,
    view_sizes: Option<ViewSizes>,
    #[serde(default)]
    once: bool,
    removed: Option<Removal>,
    far: Option<Far>,
}

/// An [`ArtifactState`], as a record names it, without the reason of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// That of [`ArtifactState::Live`].
    Live,
    /// That of [`ArtifactState::Sealed`].
    Sealed,
    /// That of [`ArtifactState::Incomplete`].
    Incomplete,
    /// That of [`ArtifactState::Gone`].
    Gone,
}

impl TryFrom<RawRecord> for Record {
    type Error = &'static str;

    fn try_from(raw: RawRecord) -> Result<Self, Self::Error> {
        let RawRecord { path, generation, size, modified, file, created, owner, .. } = raw;
        let RawRecord { analysis, view_sizes, once, removed, far, .. } = raw;
        let RawRecord { call, agent, agent_type, tool, server, args, .. } = raw;
        let RawRecord { exit_code, duration_ms, mime, .. } = raw;
        Ok(Self {
            path,
            generation,
            state: state(raw.state, raw.why)?,
            size,
            modified,
            file,
            created,
            owner,
            provenance: Provenance {
                call,
                agent,
                agent_type,
                tool,
                server,
                args,
                exit_code,
                duration_ms,
                mime,
            },
            analysis,
            view_sizes,
            once,
            removed,
            far,
        })
    }
}

fn state(stage: Stage, why: Option<String>) -> Result<ArtifactState, &'static str> {
    match (stage, why) {
        (Stage::Live, None) => Ok(ArtifactState::Live),
        (Stage::Sealed, None) => Ok(ArtifactState::Sealed),
        (Stage::Gone, None) => Ok(ArtifactState::Gone),
        (Stage::Incomplete, Some(why)) => Ok(ArtifactState::Incomplete(why)),
        (Stage::Incomplete, None) => Err("it is incomplete and does not say why"),
        (_, Some(_)) => Err("it is whole and says why it is not"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(change: impl FnOnce(&mut Value)) -> Option<Record> {
        let mut value = json!({
            "path": "artifacts/tool/x.txt", "generation": 2, "state": "sealed", "size": 7,
            "modified": 8, "created": 9, "call": "x", "exit_code": -1, "later": {"a": [1]},
        });
        change(&mut value);
        serde_json::from_str(&value.to_string()).ok()
    }

    #[test]
    fn each_key_is_read_and_others_are_ignored() {
        let record = read(|_| {}).unwrap();
        assert_eq!((record.generation, record.size, record.provenance.exit_code), (2, 7, Some(-1)));
        assert_eq!(record.provenance.call.as_deref(), Some("x"));
        let file = LocalFile { dev: 1, ino: 2, born: Some(3), changed: 4, copied: None };
        let provenance = Provenance { duration_ms: Some(5), ..record.provenance.clone() };
        let state = ArtifactState::Incomplete("no room".to_owned());
        let all = Record { file: Some(file), provenance, state, once: true, ..record };
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), all);
    }

    #[test]
    fn what_says_less_or_two_things_is_no_record() {
        for key in ["path", "generation", "state", "size", "modified", "created"] {
            let without = read(|value| drop(value.as_object_mut().unwrap().remove(key)));
            assert!(without.is_none(), "{key}");
        }
        assert!(read(|value| value["state"] = json!("lost")).is_none());
        assert!(read(|value| value["state"] = json!("incomplete")).is_none());
        assert!(read(|value| value["why"] = json!("no room")).is_none());
        assert!(read(|value| value["why"] = json!(null)).is_some());
        let twice = r#"{"path":"x","path":"y","generation":1,"state":"sealed","size":1,"modified":1,"created":1}"#;
        assert!(serde_json::from_str::<Record>(twice).is_err());
    }
}
