//! A store behind a gateway in memory, and checks of forwarded messages.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use tempfile::TempDir;

use crate::empty_store;
use ctxfs_core::model::{Component, Limits, Root};
use ctxfs_engine::{Engine, EngineOptions};
use ctxfs_mcp::{GatewayConversation, Shelf};
use ctxfs_store::Store;
use ctxfs_view::Form;

/// Conversation of the gateway.
pub(super) const CONVERSATION: &str = "c7";

/// Store behind a gateway, with the limits `limits`.
pub(super) struct FuzzShelf {
    dir: TempDir,
    id: Component,
    limits: Limits,
    /// Opened engines. Each runs a thread until it is finished.
    opened: Mutex<Vec<Arc<Engine>>>,
}

impl FuzzShelf {
    pub(super) fn new(limits: Limits) -> Arc<Self> {
        let (dir, _) = empty_store();
        let id = Component::new(CONVERSATION).expect("a name");
        Arc::new(Self { dir, id, limits, opened: Mutex::default() })
    }

    /// Writes an output to a conversation.
    pub(super) fn put(&self, conversation: &str, name: &str, text: &str) {
        let id = Component::new(conversation).expect("a name");
        self.engine().store().create_conversation(&id).expect("room");
        fs::write(self.tools(conversation).join(name), text).expect("room");
    }

    /// Returns the outputs of the conversation of the gateway.
    pub(super) fn outputs(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let files = fs::read_dir(self.tools(CONVERSATION)).into_iter().flatten();
        let files = files.map(|file| file.expect("readable").path());
        files.map(|path| (path.clone(), fs::read(path).expect("readable"))).collect()
    }

    fn tools(&self, conversation: &str) -> PathBuf {
        self.dir.path().join("store/context").join(conversation).join("artifacts/tool")
    }

    fn engine(&self) -> Arc<Engine> {
        let store = Store::open(&Path::join(self.dir.path(), "store")).expect("a store");
        let options = EngineOptions {
            root: Root::All(Root::REFERENCES.to_owned()),
            min_free: 0,
            limits: Arc::new(self.limits.clone()),
            ..EngineOptions::default()
        };
        let engine = Engine::new(store, options);
        self.opened.lock().push(Arc::clone(&engine));
        engine
    }
}

impl Drop for FuzzShelf {
    fn drop(&mut self) {
        for engine in self.opened.get_mut() {
            engine.finish();
        }
    }
}

impl Shelf for FuzzShelf {
    fn limits(&self, _: &str) -> Limits {
        self.limits.clone()
    }

    fn conversation(&self) -> &Component {
        &self.id
    }

    fn answers_questions(&self) -> bool {
        true
    }

    fn open(&self) -> Result<GatewayConversation, String> {
        let engine = self.engine();
        let conversation = engine.store().create_conversation(&self.id);
        let conversation = conversation.map_err(|error| error.to_string())?;
        Ok(GatewayConversation { engine, conversation, mounted: false, form: Form::Summary })
    }
}

/// Members that determine the kind of a message. Duplicate members are refused.
#[derive(Debug, Deserialize)]
pub(super) struct Head<'a> {
    #[serde(borrow)]
    jsonrpc: &'a RawValue,
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    pub(super) method: Option<String>,
    #[serde(borrow, default)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) params: Option<&'a RawValue>,
}

impl<'a> Head<'a> {
    /// Parses the head of a message. Returns `None` if the text is not a message.
    pub(super) fn of(message: &'a str) -> Option<Self> {
        let head: Self = serde_json::from_str(message).ok()?;
        (head.jsonrpc.get() == "\"2.0\"").then_some(head)
    }

    /// Returns the id as written. Returns `None` if it is neither a string nor a number.
    pub(super) fn id(&self) -> Option<&'a str> {
        let is_id =
            |id: &&str| id.starts_with(['"', '-']) || id.starts_with(|c: char| c.is_ascii_digit());
        self.id.map(RawValue::get).filter(is_id)
    }

    pub(super) fn is_request(&self) -> bool {
        self.method.is_some() && self.id().is_some()
    }

    pub(super) fn is_response(&self) -> bool {
        self.method.is_none() && (self.result.is_some() || self.error.is_some())
    }
}

/// Returns the lines of a stream. For a line that is a batch, also returns the messages in it.
pub(super) fn messages(stream: &[u8]) -> Vec<String> {
    let lines = stream.split(|byte| *byte == b'\n').map(String::from_utf8_lossy);
    let mut messages = Vec::new();
    for line in lines.filter(|line| !line.trim_ascii().is_empty()) {
        let inner: Option<Vec<&RawValue>> = serde_json::from_str(&line).ok();
        messages.extend(inner.into_iter().flatten().map(|message| message.get().to_owned()));
        messages.push(line.into_owned());
    }
    messages
}

/// Returns true if `sent` is `message` with one value replaced by `id`.
pub(super) fn is_same_but_for(message: &str, sent: &str, id: &str) -> bool {
    sent.match_indices(id).any(|(at, _)| {
        let (before, after) = (&sent[..at], &sent[at + id.len()..]);
        let value = message.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
        value.is_some_and(|value| serde_json::from_str::<&RawValue>(value).is_ok())
    })
}

/// Asserts that a sent message is one line of JSON.
pub(super) fn one_line(sent: &[u8]) -> &str {
    let text = str::from_utf8(sent).unwrap_or_else(|_| panic!("{}", sent.escape_ascii()));
    let is_json = serde_json::from_str::<&RawValue>(text).is_ok();
    assert!(is_json && !text.contains('\n'), "{text}");
    text
}

/// Divides `bytes` into pieces of `length + 1` bytes.
pub(super) fn pieces(bytes: &[u8], length: u8) -> Vec<&[u8]> {
    bytes.chunks(usize::from(length) + 1).collect()
}
