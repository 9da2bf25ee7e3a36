//! The common parts of events: texts, content blocks, and the results of tool calls.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::{borrow::Cow, fmt, io};

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json, value::RawValue};

use crate::hooks::host::{Host, ResultKind};
use ctxfs_core::model::ShortList;

/// The reason why the host's own result is left unchanged. No error ends a session: `ctxfs hook`
/// logs it and exits with 0.
#[derive(Debug, thiserror::Error)]
pub enum HookError {
    /// The event does not have the structure that the adapter expects.
    #[error("this is no event of {host}: {error}")]
    Event {
        /// The host.
        host: Host,
        /// The error of the parser.
        error: serde_json::Error,
    },
    /// JSON in an event does not have the expected structure. [`answer`](crate::hooks::answer)
    /// converts this error to [`Self::Event`], which names the host.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A file in which the host stored the output cannot be read.
    #[error("cannot read the output of the host in `{path}`: {error}")]
    Spill {
        /// The file.
        path: String,
        /// The cause.
        error: std::io::Error,
    },
    /// The store cannot be opened. The text is the reason.
    #[error("{0}")]
    Store(String),
    /// The output cannot be stored, or its stand-in cannot be made.
    #[error(transparent)]
    Engine(#[from] ctxfs_engine::EngineError),
}

/// A string in an event. A host that cuts a text inside a surrogate pair sends half of the pair.
/// JSON allows that, but `serde_json` refuses it in strings. The half becomes U+FFFD, which the
/// host shows in its place too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EventText<'a>(pub(crate) Cow<'a, str>);

struct EventTextVisitor;

impl<'de> serde::de::Visitor<'de> for EventTextVisitor {
    type Value = EventText<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_bytes<E>(self, bytes: &'de [u8]) -> Result<Self::Value, E> {
        Ok(EventText(String::from_utf8_lossy(bytes)))
    }

    fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Self::Value, E> {
        Ok(EventText(Cow::Owned(String::from_utf8_lossy(bytes).into_owned())))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for EventText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // serde_json accepts half a surrogate pair in bytes and refuses it in a string.
        deserializer.deserialize_bytes(EventTextVisitor)
    }
}

pub(crate) const MOST_BLOCKS: usize = 10_000;

pub(crate) struct ContentBlocks<'a>(Vec<ContentBlock<'a>>);

struct ContentBlock<'a> {
    raw: &'a RawValue,
    text: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct BlockFields<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<EventText<'a>>,
    #[serde(borrow)]
    text: Option<EventText<'a>>,
}

impl<'a> ContentBlocks<'a> {
    pub(crate) fn of(list: &'a RawValue) -> Result<Self, serde_json::Error> {
        let ShortList::<_, MOST_BLOCKS>(raws) = serde_json::from_str(list.get())?;
        let blocks: Result<_, _> = raws.into_iter().map(ContentBlock::of).collect();
        blocks.map(Self)
    }

    pub(crate) fn text(&self) -> Cow<'_, str> {
        let mut texts = self.0.iter().filter_map(|block| block.text.as_deref());
        match (texts.next(), texts.next()) {
            (None, _) => Cow::Borrowed(""),
            (Some(only), None) => Cow::Borrowed(only),
            (Some(first), Some(second)) => {
                let all: Vec<&str> = [first, second].into_iter().chain(texts).collect();
                Cow::Owned(all.join("\n"))
            }
        }
    }

    pub(crate) fn are_text(&self) -> bool {
        self.0.iter().all(|block| block.text.is_some())
    }

    pub(crate) fn with_text(&self, text: &str) -> Result<Value, serde_json::Error> {
        let others = self.0.iter().filter(|block| block.text.is_none());
        let others = others.map(|block| serde_json::from_str(block.raw.get()));
        std::iter::once(Ok(json!({ "type": "text", "text": text }))).chain(others).collect()
    }
}

impl<'a> ContentBlock<'a> {
    fn of(raw: &'a RawValue) -> Result<Self, serde_json::Error> {
        let fields: BlockFields<'a> = serde_json::from_str(raw.get())?;
        let is_text = fields.kind.is_some_and(|kind| kind.0 == "text");
        Ok(Self { raw, text: fields.text.filter(|_| is_text).map(|text| text.0) })
    }
}

pub(crate) struct ToolResult<'a> {
    pub(crate) conversation: &'a str,
    // The name of the artifact is derived from this id.
    pub(crate) call: Cow<'a, str>,
    pub(crate) agent: Option<SubAgent<'a>>,
    // The MCP server of the tool. `None` for the host's own tools.
    pub(crate) server: Option<&'a str>,
    pub(crate) tool: &'a str,
    pub(crate) args: Option<&'a RawValue>,
    pub(crate) exit_code: Option<i32>,
    pub(crate) duration_ms: Option<u64>,
    pub(crate) kind: ResultKind,
    // False if the host accepts no other result. The output is then stored, and that is all.
    pub(crate) is_replaceable: bool,
    pub(crate) output: ToolOutput<'a>,
}

impl<'a> ToolResult<'a> {
    /// Creates the result of one of the host's own tools. The tool is assumed not to run commands.
    pub(crate) fn new(
        conversation: &'a str,
        call: Cow<'a, str>,
        (tool, args): (&'a str, Option<&'a RawValue>),
        output: ToolOutput<'a>,
    ) -> Self {
        Self {
            conversation,
            call,
            agent: None,
            server: None,
            tool,
            args,
            exit_code: None,
            duration_ms: None,
            kind: ResultKind::Text,
            is_replaceable: true,
            output,
        }
    }
}

// A sub-agent. It shares the conversation of the agent that started it.
pub(crate) struct SubAgent<'a> {
    pub(crate) id: &'a str,
    pub(crate) kind: Option<&'a str>,
}

pub(crate) enum ToolOutput<'a> {
    Text(Cow<'a, str>),
    Spill(Spill),
}

/// A file in which a host stored an output that it considers too long. If the file does not contain
/// the whole output, `incomplete` is the reason.
pub(crate) struct Spill {
    pub(crate) file: File,
    pub(crate) length: u64,
    pub(crate) incomplete: Option<String>,
}

impl Spill {
    // Fails for anything other than a regular file, and does not block on a FIFO.
    pub(crate) fn open(path: &std::path::Path) -> Result<Self, HookError> {
        Self::open_with(path, OpenOptions::new().read(true))
    }

    /// Opens a file that only one process may read at a time. Returns `None` if another process
    /// reads it.
    pub(crate) fn open_alone(path: &std::path::Path) -> Result<Option<Self>, HookError> {
        // A lock needs a file that is open for writing. Nothing is written.
        let spill = Self::open_with(path, OpenOptions::new().read(true).write(true))?;
        let is_locked = ctxfs_store::file_lock::try_lock(&spill.file);
        let failed = |error| HookError::Spill { path: path.display().to_string(), error };
        Ok(is_locked.map_err(failed)?.then_some(spill))
    }

    fn open_with(path: &std::path::Path, options: &mut OpenOptions) -> Result<Self, HookError> {
        let failed = |error| HookError::Spill { path: path.display().to_string(), error };
        // The flags prevent the hook from blocking if the path is a FIFO or a device.
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = options.custom_flags(flags).open(path).map_err(failed)?;
        let found = file.metadata().map_err(failed)?;
        if !found.is_file() {
            return Err(failed(io::Error::other("it is no regular file")));
        }
        Ok(Self { file, length: found.size(), incomplete: None })
    }

    // Marks the file as incomplete if its length differs from `total`, the length of the output
    // that the host reports.
    pub(crate) fn of_total(mut self, total: Option<u64>) -> Self {
        if let Some(total) = total.filter(|total| *total != self.length) {
            let length = self.length;
            self.incomplete = Some(format!("the host kept {length} of {total} bytes"));
        }
        self
    }
}

// Parses `mcp__<server>__<tool>`.
pub(crate) fn of_mcp(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("mcp__")?.split_once("__")
}

pub(crate) fn other_fields(
    object: &RawValue,
    ours: impl Fn(&str) -> bool,
) -> Result<Map<String, Value>, serde_json::Error> {
    let fields: std::collections::BTreeMap<Cow<'_, str>, &RawValue> =
        serde_json::from_str(object.get())?;
    let others = fields.into_iter().filter(|(name, _)| !ours(name));
    others.map(|(name, raw)| Ok((name.into_owned(), serde_json::from_str(raw.get())?))).collect()
}

/// Returns an id for a call of `tool`, derived from the time of its event. It is used for hosts
/// whose calls have no id. Two hooks that receive the same event return the same id.
pub(crate) fn call_at(tool: &str, time: Option<&str>) -> String {
    let digits: String = time.unwrap_or_default().chars().filter(char::is_ascii_digit).collect();
    format!("{tool}-{digits}")
}
