//! What the manifest knows of an artifact.

use serde::Deserialize;
use serde::Serialize;

use crate::model::Analysis;

/// One line of the manifest: the last one for a path wins.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The path inside the conversation, as `RelPath::to_text` writes it:
    /// `artifacts/tool/9f3k.txt`.
    pub path: String,
    /// How often it has been opened for writing after having been sealed, plus one; from 1.
    pub generation: u64,
    /// Where it is in its life.
    #[serde(flatten)]
    pub state: ArtifactState,
    /// Bytes, when this was recorded.
    pub size: u64,
    /// Last modification when this was recorded, in nanoseconds since the epoch. Size and this
    /// together tell whether `analysis` still speaks of the file.
    pub modified: i64,
    /// When it was first seen, in milliseconds since the epoch.
    pub created: i64,
    /// The process that is to seal it, of a live one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// What its writer said of it.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// What analysis found; absent while it is live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub analysis: Option<Analysis>,
    /// That its content was removed to make room, or is about to be: the rest says what it was. It
    /// holds where no such file is left; see `Conversation::record`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<Removal>,
}

/// Why content was removed, other than by a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Removal {
    /// When, in milliseconds since the epoch.
    pub at: i64,
    /// The setting that asked for it, such as `keep_age`.
    pub rule: String,
    /// Why this one, in words that go on after `because`.
    pub why: String,
}

/// A process, named so that no later one is taken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since boot (`proc_pid_stat(5)`, field 22).
    pub started: u64,
}

/// Where an artifact is in its life.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state", content = "why")]
pub enum ArtifactState {
    /// A writer has it open, or had it open when it was last recorded.
    #[default]
    Live,
    /// The last writer has gone.
    Sealed,
    /// Its writer or the daemon died, or there was no room: it may lack its end. The text says why.
    Incomplete(String),
    /// Removed. Readers of the manifest treat the path as unknown.
    Gone,
}

/// What the writer of an artifact said of it, by extended attributes or by options.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// The id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The tool that was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The server that has the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The arguments of the call, as given; usually JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<String>,
    /// The exit code of a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How long the call took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// The MIME type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime: Option<String>,
}

impl Provenance {
    /// `server/tool`, or the tool alone.
    pub fn tool_name(&self) -> Option<String> {
        match (&self.server, &self.tool) {
            (Some(server), Some(tool)) => Some(format!("{server}/{tool}")),
            (_, tool) => tool.clone(),
        }
    }

    /// Takes from `newer` whatever it says, and keeps the rest.
    pub fn update(&mut self, newer: &Self) {
        fn take<T: Clone>(mine: &mut Option<T>, newer: Option<&T>) {
            if let Some(newer) = newer {
                *mine = Some(newer.clone());
            }
        }
        take(&mut self.call, newer.call.as_ref());
        take(&mut self.tool, newer.tool.as_ref());
        take(&mut self.server, newer.server.as_ref());
        take(&mut self.args, newer.args.as_ref());
        take(&mut self.exit_code, newer.exit_code.as_ref());
        take(&mut self.duration_ms, newer.duration_ms.as_ref());
        take(&mut self.mime, newer.mime.as_ref());
    }
}

impl Record {
    /// The call's id: what the writer said, else the file's name without its extension.
    pub fn call(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        self.provenance.call.as_deref().unwrap_or(stem)
    }

    /// The tokens of its content; of what was not analysed, a fourth of its bytes.
    pub fn tokens(&self) -> u64 {
        self.analysis.as_ref().map_or(self.size / 4, |found| found.tokens)
    }

    /// Why the artifact may lack its end, where it may.
    pub fn incomplete(&self) -> Option<&str> {
        match &self.state {
            ArtifactState::Incomplete(why) => Some(why),
            ArtifactState::Live | ArtifactState::Sealed | ArtifactState::Gone => None,
        }
    }
}
