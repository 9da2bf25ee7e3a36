//! Two stores that share a bucket, with real processes of `ctxfs`.

mod cut_off;
mod exchange;
mod gone;
pub(crate) mod host;
mod hosts;
mod mounts;
mod planted;
mod process;
mod programs;
mod proxy;
mod readers;
mod requests;
mod same_name;
pub(crate) mod server;
mod spread;
mod stand_ins;
mod trouble;
mod upkeep;
mod weather;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::support::{Command, Output, TestStore};

/// Two stores, and a directory that they share.
struct Pair {
    one: TestStore,
    other: TestStore,
    shared: TempDir,
}

impl Pair {
    fn new() -> Self {
        let shared = tempfile::Builder::new().prefix("ctxfs-bucket-").tempdir().unwrap();
        Self { one: TestStore::new(), other: TestStore::new(), shared }
    }

    fn url(&self) -> String {
        format!("file://{}/bucket", self.shared.path().display())
    }

    fn bucket(&self) -> PathBuf {
        self.shared.path().join("bucket")
    }

    /// Returns `ctxfs COMMAND --store STORE ARGUMENTS`, which knows the bucket.
    fn ctxfs(&self, store: &TestStore, command: &str, arguments: &[&str]) -> Command {
        store.ctxfs(command, arguments).env("CTXFS_REMOTE_URL", self.url())
    }

    fn push(&self, store: &TestStore) {
        self.ctxfs(store, "push", &[]).stdout();
    }

    fn pull(&self, store: &TestStore) {
        self.ctxfs(store, "pull", &[]).stdout();
    }

    /// Brings both stores to the same state.
    fn meet(&self) {
        for _ in 0..2 {
            for store in [&self.one, &self.other] {
                self.push(store);
                self.pull(store);
            }
        }
        assert_eq!(outputs(&self.one), outputs(&self.other));
    }
}

/// Returns the outputs of `c7` in a store, by name.
pub(crate) fn outputs(store: &TestStore) -> BTreeMap<String, Vec<u8>> {
    let tool = store.plain("c7", "");
    let Ok(entries) = fs::read_dir(tool) else { return BTreeMap::new() };
    let entries = entries.map(|entry| entry.unwrap());
    let named = entries.map(|entry| (entry.file_name().into_string().unwrap(), entry.path()));
    named.map(|(name, path)| (name, fs::read(path).unwrap())).collect()
}

/// Returns all files below a directory.
pub(crate) fn files(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(top).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Returns the files below a directory whose name ends so.
pub(crate) fn ending(top: &Path, end: &str) -> Vec<PathBuf> {
    let is_it = |path: &PathBuf| path.to_str().is_some_and(|path| path.ends_with(end));
    files(top).into_iter().filter(is_it).collect()
}

/// An output that is stored in an object of its own: it is large, and no two lines are the same.
pub(crate) fn large(name: &str) -> Vec<u8> {
    (0..30_000).flat_map(|line| format!("{name}: line {line} of a log\n").into_bytes()).collect()
}

/// Returns bytes that nothing packs, the same for the same name.
pub(crate) fn noise(name: &str, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    blake3::Hasher::new().update(name.as_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

#[track_caller]
fn assert_told(output: &Output, code: i32, told: &str) {
    let text = output.to_string();
    assert!(output.code == code && text.contains(told), "{code}, {told}: {text}");
}
