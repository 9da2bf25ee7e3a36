//! `ctxfs hook`: events of agent hosts, as these send them, and what they are answered.

mod arrivals;
mod claude_code;
mod codex;
mod harmless;
mod mounting;
mod others;
mod policy;
mod resuming;
mod session;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::support::{Command, TestStore, listing};

/// The id of the conversation in all events.
const SESSION: &str = "5f0c5b7e-6a51-4b0e-9f0a-5d6c6f1f8a11";

/// A machine with a store, and the home of a person.
struct Machine {
    store: Arc<TestStore>,
    home: PathBuf,
}

impl Machine {
    fn new() -> Self {
        Self::with(Arc::new(TestStore::new()))
    }

    fn with(store: Arc<TestStore>) -> Self {
        let home = store.scratch("home");
        Self { store, home }
    }

    /// Returns the call of a hook, in this home.
    fn hook(&self, host: &str) -> Command {
        self.hook_with(host, &self.store.path())
    }

    /// Returns the call of a hook with another store.
    fn hook_with(&self, host: &str, store: &Path) -> Command {
        let hook = Command::ctxfs().arg("hook").arg(host).arg("--store").arg(store);
        let hook = hook.env("HOME", &self.home).env("CTXFS_HOOKS_MOUNT", "false");
        let hook = hook.env("XDG_STATE_HOME", self.home.join("state"));
        hook.env("CLAUDE_CODE_TMPDIR", self.home.join("tmp")).with(|inner| {
            inner.env_remove("CODEX_HOME").env_remove("CURSOR_VERSION");
            inner.env_remove("BASH_MAX_OUTPUT_LENGTH");
        })
    }

    /// Returns the answer to an event; `None` if there is none.
    fn answer(&self, host: &str, event: &Value) -> Option<Value> {
        self.answer_with(host, event, &[])
    }

    /// Returns the answer to an event in an environment with `variables`.
    fn answer_with(&self, host: &str, event: &Value, variables: &[(&str, &str)]) -> Option<Value> {
        let hook =
            variables.iter().fold(self.hook(host), |hook, (name, value)| hook.env(name, value));
        let output = hook.stdin(event.to_string()).run();
        assert_eq!((output.code, output.stderr.len()), (0, 0), "{output}");
        (!output.stdout.is_empty()).then(|| serde_json::from_slice(&output.stdout).unwrap())
    }

    /// Asserts that the host keeps its own result, and that the log says `outcome`.
    fn leaves(&self, host: &str, event: &Value, outcome: &str) {
        assert_eq!(self.answer(host, event), None, "{event}");
        assert_eq!(self.last(), format!("{host} {outcome}"), "{event}");
    }

    /// Returns the last line of the log, without its time.
    fn last(&self) -> String {
        let log = std::fs::read_to_string(self.home.join("state/ctxfs/hook.log")).unwrap();
        log.lines().last().unwrap().split_once(' ').unwrap().1.to_owned()
    }

    /// Returns the names of the outputs of the conversation.
    fn outputs(&self) -> Vec<String> {
        let dir = self.store.plain(SESSION, "");
        let mut names = if dir.exists() { listing(&dir) } else { Vec::new() };
        names.sort_unstable();
        names
    }

    /// Returns the bytes of an output.
    fn output(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.store.plain(SESSION, name)).unwrap()
    }

    /// Returns what is known of an output.
    fn meta(&self, name: &str) -> Value {
        let view = format!("{SESSION}/artifacts/tool/{name}.meta.json");
        serde_json::from_slice(&self.store.view(&view)).unwrap()
    }
}

/// Returns a long output, which ends with the reason of a failure.
fn long() -> String {
    let lines: Vec<String> = (1..=40_000).map(|number| format!("line {number}")).collect();
    lines.join("\n") + "\nERROR: the real reason\n"
}
