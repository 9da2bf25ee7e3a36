//! The record of an artifact in the manifest.

use serde::{Deserialize, Serialize};

use crate::model::{Analysis, Since};

/// The record of an artifact: one line of the manifest. If a path has several lines, the last one
/// is valid.
///
/// A record contains facts that cannot be computed from the bytes (call, times, state), and the
/// analysis, which can be computed again. Losing a record does not lose the artifact.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "RawRecord")]
pub struct Record {
    /// The path inside the conversation, as `RelPath::to_text` writes it:
    /// `artifacts/tool/9f3k.txt`.
    pub path: String,
    /// The generation, from 1. It is incremented when the sealed artifact is opened for writing
    /// again.
    pub generation: u64,
    /// The state of the artifact.
    #[serde(flatten)]
    pub state: ArtifactState,
    /// Size in bytes at the time of recording.
    pub size: u64,
    /// Time of the last modification when the record was written, in nanoseconds since the epoch.
    /// `analysis` is valid as long as the file has this time and `size`.
    pub modified: i64,
    /// The file that was analysed. As long as the file has these attributes, the digest in the
    /// record is correct.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<LocalFile>,
    /// Time when the artifact was first seen, in milliseconds since the epoch.
    pub created: i64,
    /// The process that will seal the artifact. Present while the artifact is live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// The call that produced the artifact, as described by the writer.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// The analysis of the bytes; absent while the artifact is live.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub analysis: Option<Analysis>,
    /// The sizes of the views that a directory listing shows next to a small artifact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub view_sizes: Option<ViewSizes>,
    /// True if the content must never change because the artifact was sealed under `--write-once`.
    #[serde(skip_serializing_if = "is_false")]
    pub once: bool,
    /// Present if the content was removed or is about to be removed. The other fields then describe
    /// the removed content. The removal takes effect only when the file no longer exists; see
    /// `Conversation::record`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub removed: Option<Removal>,
    /// The location of the bytes. Present if they are not on this disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub far: Option<Far>,
    /// The comparison with the last run of the same command. Present if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Since>,
}

/// The location of bytes in the shared bucket. `origin` is the artifact in the bucket,
/// `<segment>:<place>`. `mode` has the permission bits of the artifact's file.
///
/// If `here` is true, the bytes have since been fetched into the file on this disk. Removing this
/// file then removes the artifact.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct Far {
    pub origin: String,
    #[serde(default = "far_mode")]
    pub mode: u32,
    #[serde(default, skip_serializing_if = "is_false")]
    pub here: bool,
}

// The default for records without permission bits.
fn far_mode() -> u32 {
    0o600
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// A removal of content by a rule, by a person or by a program. Removals by a person or program are
/// recorded only for write-once content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    /// Time of the removal, in milliseconds since the epoch.
    pub at: i64,
    /// The setting that caused the removal, such as `keep_age`. If a person or program removed or
    /// renamed the file, this is [`UNLINK`](Self::UNLINK) or [`RENAME`](Self::RENAME).
    pub rule: String,
    /// The reason, phrased to follow the word `because`.
    pub why: String,
    /// True if this line stays in the manifest permanently, even if a later line for the same path
    /// follows.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stays: bool,
}

impl Removal {
    /// The `rule` of a removal that a person or program requested.
    pub const UNLINK: &str = "unlink";
    /// The `rule` of a removal that was a rename: the content still exists, at a new path.
    pub const RENAME: &str = "rename";

    /// Returns a removal of write-once content at the time `at`. The record stays in the manifest.
    pub fn unlinked(at: i64) -> Self {
        let why = "somebody removed it".to_owned();
        Self { at, rule: Self::UNLINK.to_owned(), why, stays: true }
    }

    /// Returns the removal of write-once content that was renamed at the time `at`. `to` is the new
    /// reference of the content.
    pub fn renamed(at: i64, to: &str) -> Self {
        let why = format!("it is {to} now");
        Self { at, rule: Self::RENAME.to_owned(), why, stays: true }
    }
}

/// A process, identified by its id and its start time in clock ticks since boot
/// (`proc_pid_stat(5)`, field 22). The start time distinguishes it from a later process with the
/// same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct Owner {
    pub pid: u32,
    pub started: u64,
}

/// The state of an artifact. An artifact is live while a writer has it open.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "state", content = "why")]
pub enum ArtifactState {
    /// A writer has the artifact open, or had it open when the record was written.
    #[default]
    Live,
    /// The last writer has closed the artifact.
    Sealed,
    /// The end may be missing. The string is the reason: the writer or the daemon died, or the disk
    /// was full.
    Incomplete(String),
    /// The artifact was removed. Readers of the manifest treat the path as unknown.
    Gone,
}

/// The provenance of an artifact: the call that produced it. The writer describes the call by
/// extended attributes or by options.
///
/// `call` is the id of the call. `args` are its arguments as they were given, usually JSON. If
/// several agents share a conversation, `agent` and `agent_type` identify the sub-agent that made
/// the call. `server` is the server that provides `tool`. `exit_code` is the exit code of a
/// command, `duration_ms` the duration of the call in milliseconds, and `mime` the MIME type of the
/// output. `host` is the agent host that was running when ctxfs stored the output by itself, from a
/// hook or from `ctxfs shell`. `directory` is the working directory of a command. `run` identifies
/// the command and its directory: the runs of a command in a conversation have the same. `uri` is
/// the URI of an embedded resource of MCP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct Provenance {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
}

impl Provenance {
    /// Returns `server/tool`, or only the tool if the server is not known.
    pub fn tool_name(&self) -> Option<String> {
        match (&self.server, &self.tool) {
            (Some(server), Some(tool)) => Some(format!("{server}/{tool}")),
            (_, tool) => tool.clone(),
        }
    }

    /// Replaces the fields that are present in `newer`, and keeps all other fields.
    pub fn update(&mut self, newer: &Self) {
        fn take<T: Clone>(mine: &mut Option<T>, newer: Option<&T>) {
            if let Some(newer) = newer {
                *mine = Some(newer.clone());
            }
        }
        take(&mut self.call, newer.call.as_ref());
        take(&mut self.agent, newer.agent.as_ref());
        take(&mut self.agent_type, newer.agent_type.as_ref());
        take(&mut self.tool, newer.tool.as_ref());
        take(&mut self.server, newer.server.as_ref());
        take(&mut self.args, newer.args.as_ref());
        take(&mut self.exit_code, newer.exit_code.as_ref());
        take(&mut self.duration_ms, newer.duration_ms.as_ref());
        take(&mut self.mime, newer.mime.as_ref());
        take(&mut self.host, newer.host.as_ref());
        take(&mut self.directory, newer.directory.as_ref());
        take(&mut self.uri, newer.uri.as_ref());
        take(&mut self.run, newer.run.as_ref());
    }
}

impl Record {
    /// Returns the call id that the writer gave, or the file name without its extension if the
    /// writer gave none.
    pub fn call(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        self.provenance.call.as_deref().unwrap_or(stem)
    }

    /// Returns a copy of this record that describes removed content: `size` and `modified` are
    /// those of the removed content.
    #[must_use]
    pub fn retired(&self, size: u64, modified: i64, removal: Removal) -> Self {
        Self { size, modified, owner: None, removed: Some(removal), ..self.clone() }
    }

    /// Returns the digest of the recorded bytes, or `None` if they were not analysed. Records with
    /// equal digests describe the same bytes.
    pub fn digest(&self) -> Option<&str> {
        self.analysis.as_ref().map(|analysis| analysis.digest.as_str())
    }

    /// Returns the number of tokens of the content, or a quarter of its bytes if it was not
    /// analysed.
    pub fn tokens(&self) -> u64 {
        self.analysis.as_ref().map_or(self.size / 4, |found| found.tokens)
    }

    /// Returns the reason why the artifact is incomplete, or `None` if it is not incomplete.
    pub fn incomplete(&self) -> Option<&str> {
        match &self.state {
            ArtifactState::Incomplete(why) => Some(why),
            ArtifactState::Live | ArtifactState::Sealed | ArtifactState::Gone => None,
        }
    }
}

/// The keys of a record in JSON, without nesting.
///
/// Serde reads a flattened structure by buffering each key and value that it does not recognize
/// yet. That would take most of the time of reading a record.
#[derive(Deserialize)]
struct RawRecord {
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
    host: Option<String>,
    directory: Option<String>,
    run: Option<String>,
    uri: Option<String>,
    analysis: Option<Analysis>,
    view_sizes: Option<ViewSizes>,
    #[serde(default)]
    once: bool,
    removed: Option<Removal>,
    far: Option<Far>,
    since: Option<Since>,
}

/// An [`ArtifactState`] without the reason, as a record stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the states are those of `ArtifactState`")]
pub enum Stage {
    Live,
    Sealed,
    Incomplete,
    Gone,
}

impl TryFrom<RawRecord> for Record {
    type Error = &'static str;

    fn try_from(raw: RawRecord) -> Result<Self, Self::Error> {
        let RawRecord { path, generation, size, modified, file, created, owner, .. } = raw;
        let RawRecord { analysis, view_sizes, once, removed, far, since, .. } = raw;
        let RawRecord { call, agent, agent_type, tool, server, args, .. } = raw;
        let RawRecord { exit_code, duration_ms, mime, host, directory, run, uri, .. } = raw;
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
                host,
                directory,
                run,
                uri,
            },
            analysis,
            view_sizes,
            once,
            removed,
            far,
            since,
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

/// The local file whose bytes were analysed when an artifact was sealed.
///
/// Only the kernel can set the change time of a file (`ctime`). The bytes match the analysis and
/// the digest in the record as long as the file has the recorded change time, length and
/// modification time.
///
/// A program may replace the file by a copy with the same bytes. To keep the identity of the
/// artifact, ctxfs compares the digest and gives the copy the modification time of the original. It
/// then records the change time of the copy as `copied`. The other fields keep their values.
///
/// `dev` and `ino` are the device number of the disk and the inode number. `born` is the creation
/// time, or `None` if the disk does not store it. `changed` is the change time. All times are in
/// nanoseconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct LocalFile {
    pub dev: u64,
    pub ino: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub born: Option<i64>,
    pub changed: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<i64>,
}

/// The sizes in bytes of the views that a directory lists next to an artifact. With the stored
/// sizes, listing a directory computes no views. The sizes are valid for one `basis`, which
/// identifies everything that the views depend on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct ViewSizes {
    pub basis: String,
    pub summary: u64,
    pub tail: u64,
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
