//! A store in a directory of its own, with room for mounts and scratch beside it.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::Command;

/// A store that is removed with the test.
pub(crate) struct TestStore {
    dir: TempDir,
    made: AtomicU32,
}

impl TestStore {
    pub(crate) fn new() -> Self {
        // Not a name with a dot: programs take such a path for hidden.
        let dir = tempfile::Builder::new().prefix("ctxfs-it-").tempdir().unwrap();
        let store = Self { dir, made: AtomicU32::new(0) };
        fs::create_dir(store.path()).unwrap();
        store
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    /// Writes the settings of a user, which the commands and mounts of this store read.
    pub(crate) fn user_settings(&self, text: impl AsRef<[u8]>) {
        fs::write(self.user_file(), text).unwrap();
    }

    /// Returns the path of these settings.
    pub(crate) fn user_file(&self) -> PathBuf {
        self.dir.path().join("user.toml")
    }

    /// Creates a directory outside the store.
    pub(crate) fn scratch(&self, what: &str) -> PathBuf {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let path = self.dir.path().join(format!("{what}-{number}"));
        fs::create_dir(&path).unwrap();
        path
    }

    /// Returns the path of the plain file of a tool's artifact.
    pub(crate) fn plain(&self, conversation: &str, name: &str) -> PathBuf {
        self.path().join("context").join(conversation).join("artifacts/tool").join(name)
    }

    /// Returns `ctxfs --store STORE COMMAND ARGUMENTS`.
    pub(crate) fn ctxfs(&self, command: &str, arguments: &[&str]) -> Command {
        let program = Command::ctxfs().with_settings_of(self);
        let program = program.env("XDG_STATE_HOME", self.dir.path().join("state"));
        program.arg("--store").arg(self.path()).arg(command).args(arguments)
    }

    /// Puts one output and returns the artifact's name.
    pub(crate) fn put(&self, conversation: &str, call: &str, output: &[u8]) -> String {
        let arguments = ["--conversation", conversation, "--call", call, "--format", "ref"];
        let told = self.ctxfs("put", &arguments).stdin(output).stdout();
        let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
        let id = told["id"].as_str().unwrap();
        let prefix = format!("ctx://{conversation}/artifacts/tool/");
        id.strip_prefix(&prefix).unwrap_or_else(|| panic!("{id}")).to_owned()
    }

    /// Returns the text of a view, without a mount.
    pub(crate) fn view(&self, path: &str) -> Vec<u8> {
        self.ctxfs("view", &[path]).stdout()
    }
}

/// Returns the names in a directory, in its order.
pub(crate) fn listing(dir: &Path) -> Vec<String> {
    let name = |name: &OsStr| name.to_string_lossy().into_owned();
    fs::read_dir(dir).unwrap().map(|entry| name(&entry.unwrap().file_name())).collect()
}

/// Returns the number of paths whose outputs are sealed by the records of a manifest. A last line
/// without its end is a record that is being written, and does not count.
pub(crate) fn sealed_paths(records: &str) -> usize {
    let lines = records.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let records = lines.map(|line| serde_json::from_str::<Value>(line).unwrap());
    let sealed = records.filter(|record| record["state"] == "sealed");
    sealed.map(|record| record["path"].to_string()).collect::<HashSet<_>>().len()
}
