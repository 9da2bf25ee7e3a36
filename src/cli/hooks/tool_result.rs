//! The result of a tool call, as a host hands it to its hook.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::hooks::HookError;
use crate::hooks::policy::ResultKind;

/// The result of one call.
pub(super) struct ToolResult<'a> {
    /// The host's id of the conversation.
    pub(super) conversation: &'a str,
    /// The id of the call, which names the artifact.
    pub(super) call: Cow<'a, str>,
    /// The sub-agent that called, where the host tells it.
    pub(super) agent: Option<SubAgent<'a>>,
    /// The server of the tool, if it is not the host's own.
    pub(super) server: Option<&'a str>,
    pub(super) tool: &'a str,
    /// The arguments, as the host sent them.
    pub(super) args: Option<&'a RawValue>,
    /// The exit code, where the host tells it.
    pub(super) exit_code: Option<i32>,
    pub(super) duration_ms: Option<u64>,
    pub(super) kind: ResultKind,
    pub(super) output: Output<'a>,
}

/// An agent that works for another, in the same conversation.
pub(super) struct SubAgent<'a> {
    pub(super) id: &'a str,
    pub(super) kind: Option<&'a str>,
}

/// The bytes of a result.
pub(super) enum Output<'a> {
    Text(Cow<'a, str>),
    Spill(Spill),
}

/// A file in which a host kept an output that it found too long.
pub(super) struct Spill {
    pub(super) file: File,
    /// Its length in bytes.
    pub(super) length: u64,
    /// The reason why it is not all of the output.
    pub(super) incomplete: Option<String>,
}

impl Spill {
    /// Opens the regular file at `path`.
    pub(super) fn open(path: &Path) -> Result<Self, HookError> {
        let failed = |error| HookError::Spill { path: path.display().to_string(), error };
        // Whatever else is there does not keep the hook waiting.
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if !found.is_file() {
            return Err(failed(io::Error::other("it is no regular file")));
        }
        Ok(Self { file, length: found.size(), incomplete: None })
    }

    /// Says that the output had `total` bytes, as its host tells.
    pub(super) fn of_total(mut self, total: Option<u64>) -> Self {
        if let Some(total) = total.filter(|total| *total != self.length) {
            let length = self.length;
            self.incomplete = Some(format!("the host kept {length} of {total} bytes"));
        }
        self
    }
}

/// Splits the name of a tool that an MCP server provides: `mcp__<server>__<tool>`.
pub(super) fn of_mcp(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("mcp__")?.split_once("__")
}

/// Returns the fields of an object whose names are not `ours`.
pub(super) fn other_fields(
    object: &RawValue,
    ours: impl Fn(&str) -> bool,
) -> Result<Map<String, Value>, serde_json::Error> {
    let fields: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(object.get())?;
    let others = fields.into_iter().filter(|(name, _)| !ours(name));
    others.map(|(name, raw)| Ok((name.into_owned(), serde_json::from_str(raw.get())?))).collect()
}

/// Names a call of `tool` after the time of its event, for hosts whose calls have no id. Two hooks
/// that get one event name it alike.
pub(super) fn call_at(tool: &str, time: Option<&str>) -> String {
    let digits: String = time.unwrap_or_default().chars().filter(char::is_ascii_digit).collect();
    format!("{tool}-{digits}")
}
