//! Hook events as arbitrary bytes. The first byte selects the host: `0` to `6`, or `7` to `=` for a
//! conversation with an earlier output.

mod answer;
mod output;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;

use crate::empty_store;
use ctxfs_cli::hooks;
use ctxfs_cli::hooks::{
    Action, Answer, HookError, Host, Machine, OpenConversation, ReplacePolicy, Replaced, Shelf,
};
use ctxfs_core::model::{Component, Limits};
use ctxfs_engine::{Engine, EngineOptions};
use ctxfs_store::{About, Store};

/// Conversation with an earlier output.
const EARLIER: &str = "s1";
/// Placeholder in events for the path of a file in which the host stored an output.
const SPILL: &str = "@SPILL@";
/// Content of the file that [`SPILL`] stands for.
const SPILLED: &str = "the first line\nthe second line\nERROR: the third line is the reason\n";
/// Maximum bytes and characters of a short output.
const SHORT: u64 = 40;

/// Asserts these properties: The answer to an event is empty, or has the form that the host expects
/// and grants no permission. The text in the answer keeps its size limit. An output is stored only
/// if it is long, and then completely and only once.
pub fn hook(data: &[u8]) {
    let Some((first, event)) = data.split_first() else { return };
    let hosts = Host::ALL.len();
    let number = usize::from(first.wrapping_sub(b'0'));
    let host = Host::ALL[number % hosts];
    let bench = Bench::new(number / hosts % 2 == 1);
    let event = bench.with_spill(event);
    let before = bench.outputs();
    let Ok(Answer { text, action }) = hooks::answer(host, &event, &bench.machine(), &bench) else {
        return assert_eq!(bench.outputs(), before, "an error stores nothing");
    };
    let value = serde_json::from_slice(&event).ok();
    let handed = text.as_deref().map(|text| answer::handed(host, text, value.as_ref()));
    // The model may be told where the report of an agent is stored.
    let is_as_expected = action == Action::Stored || handed.is_some() == is_answered(action);
    assert!(is_as_expected, "{action:?}: {text:?}");
    if let Some(handed) = handed {
        assert!(handed.len() <= Limits::STAND_IN_BYTES, "{} bytes", handed.len());
    }
    let outputs = bench.outputs();
    check_stored(&before, &outputs, host, action, value.as_ref());

    let again = hooks::answer(host, &event, &bench.machine(), &bench).expect("it was answered");
    assert_eq!((again.text, again.action), (text, action), "the second time");
    assert_eq!(bench.outputs(), outputs, "the second time");
}

fn is_answered(action: Action) -> bool {
    match action {
        Action::Kept | Action::Told => true,
        Action::Passed | Action::Short | Action::Own | Action::Stored => false,
    }
}

/// A machine with a store and a file of the host.
struct Bench {
    dir: TempDir,
    store: Store,
}

impl Bench {
    fn new(has_earlier: bool) -> Self {
        let (dir, store) = empty_store();
        let bench = Self { dir, store };
        let tasks = format!("claude-7/-p/{EARLIER}/tasks");
        fs::create_dir_all(bench.dir.path().join(&tasks)).expect("room");
        for file in [bench.spill(), bench.dir.path().join(tasks).join("a.output")] {
            fs::write(file, SPILLED).expect("room");
        }
        if has_earlier {
            bench.add_earlier();
        }
        bench
    }

    fn add_earlier(&self) {
        let id = Component::new(EARLIER).expect("a name");
        self.store.create_conversation(&id).expect("room");
        let tool = self.dir.path().join("store/context").join(EARLIER).join("artifacts/tool");
        fs::create_dir_all(&tool).expect("room");
        fs::write(tool.join("old.txt"), "an earlier output\n").expect("room");
    }

    fn spill(&self) -> PathBuf {
        self.dir.path().join("spill")
    }

    /// Replaces [`SPILL`] in the event by the path of the file.
    fn with_spill(&self, event: &[u8]) -> Vec<u8> {
        let path = self.spill();
        let path = path.to_str().expect("text").as_bytes();
        let mut parts = Vec::new();
        let mut rest = event;
        while let Some(at) = memchr::memmem::find(rest, SPILL.as_bytes()) {
            parts.extend([&rest[..at], path]);
            rest = &rest[at + SPILL.len()..];
        }
        parts.push(rest);
        parts.concat()
    }

    fn machine(&self) -> Machine {
        Machine {
            uid: rustix::process::getuid().as_raw(),
            claude_code_tmp: self.dir.path().to_owned(),
            is_cursor: false,
            directory: None,
        }
    }

    /// Returns the outputs of all conversations, by path.
    fn outputs(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut outputs = BTreeMap::new();
        let mut dirs = vec![self.dir.path().join("store/context")];
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).into_iter().flatten() {
                let path = entry.expect("readable").path();
                if path.is_dir() {
                    dirs.push(path);
                } else if path.components().any(|part| part.as_os_str() == "artifacts") {
                    let bytes = fs::read(&path).expect("readable");
                    outputs.insert(path, bytes);
                }
            }
        }
        outputs
    }
}

/// Asserts that an output was stored if the model gets a stand-in, and otherwise only if the output
/// is long. The stored bytes must equal the output in the event.
fn check_stored(
    before: &BTreeMap<PathBuf, Vec<u8>>,
    after: &BTreeMap<PathBuf, Vec<u8>>,
    host: Host,
    action: Action,
    event: Option<&Value>,
) {
    let new: Vec<_> = after.iter().filter(|(path, _)| !before.contains_key(*path)).collect();
    assert!(before.iter().all(|(path, bytes)| after.get(path) == Some(bytes)));
    let may_be_stored = [Action::Kept, Action::Short, Action::Stored].contains(&action);
    assert!(new.len() <= usize::from(may_be_stored), "{action:?}: {new:?}");
    assert!(action != Action::Kept || new.len() == 1, "{action:?}: {new:?}");
    let Some((_, stored)) = new.first() else { return };
    let is_long = stored.len() as u64 > SHORT;
    assert!(is_long || action == Action::Stored, "{} bytes", stored.len());
    // The other parser rejects an event with a lone surrogate.
    if let Some(event) = event {
        assert!(output::is_of(host, event, stored), "{}", stored.escape_ascii());
    }
}

impl Shelf for Bench {
    fn limits(&self, _: &str) -> Limits {
        Limits { max_inline_chars: SHORT, max_inline_bytes: SHORT, ..Limits::default() }
    }

    fn policy(&self) -> ReplacePolicy {
        ReplacePolicy { replaced: Replaced::Long, ..ReplacePolicy::default() }
    }

    fn open(&self, id: &str) -> Result<OpenConversation, HookError> {
        let (engine, id) = self.engine(id)?;
        let conversation = engine.store().create_conversation(&id);
        let conversation = conversation.map_err(|error| HookError::Store(error.to_string()))?;
        Ok(OpenConversation { engine, conversation })
    }

    fn find(&self, id: &str) -> Result<Option<OpenConversation>, HookError> {
        let (engine, id) = self.engine(id)?;
        let found = engine.store().conversation(&id).expect("readable");
        Ok(found.map(|conversation| OpenConversation { engine, conversation }))
    }

    fn begin_session(&self) -> Option<String> {
        None
    }

    fn about(&self, _: &str) -> Option<About> {
        None
    }
}

impl Bench {
    fn engine(&self, id: &str) -> Result<(Arc<Engine>, Component), HookError> {
        let id = Component::new(id).map_err(|error| HookError::Store(error.to_string()))?;
        let store = Store::open(&self.dir.path().join("store")).expect("a store");
        let limits = Arc::new(self.limits(""));
        let options = EngineOptions { min_free: 0, limits, ..EngineOptions::default() };
        Ok((Engine::new(store, options), id))
    }
}
