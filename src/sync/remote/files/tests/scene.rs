//! A conversation in its own store, with an agreement but without a bucket.

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fs, thread};

use tempfile::TempDir;

use crate::remote::files::{LocalFiles, files};
use crate::replica::{Base, Entry, FoundFile, Origin, SegmentId, WriterId};
use ctxfs_core::model::{Component, Folder, Provenance, Record, RelPath, Removal};
use ctxfs_store::{
    ArtifactWriter, Conversation, FileClock, RemovalCandidate, RemovalOutcome, Store,
};

/// Directory of tool outputs.
pub(crate) const TOOL: &str = "artifacts/tool";

pub(crate) struct Scene {
    _temporary: TempDir,
    pub(crate) store: Store,
    pub(crate) conversation: Arc<Conversation>,
    pub(crate) base: Base,
}

pub(crate) fn origin(place: u32) -> Origin {
    Origin { segment: SegmentId { writer: WriterId(7), number: 1 }, place }
}

pub(crate) fn path(text: &str) -> RelPath {
    RelPath::from_text(text).unwrap()
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Retries `attempt` until it returns a value. For a moment, child processes of other tests hold
/// copies of all descriptors, as if a program were writing.
pub(crate) fn soon<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    for _ in 0..10_000 {
        if let Some(done) = attempt() {
            return done;
        }
        thread::yield_now();
    }
    panic!("it did not come about");
}

impl Scene {
    pub(crate) fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(temporary.path()).unwrap();
        let conversation = store.create_conversation(&Component::new("c7").unwrap()).unwrap();
        Self { _temporary: temporary, store, conversation, base: Base::default() }
    }

    /// Returns the absolute path of a file.
    pub(crate) fn at(&self, path: &str) -> PathBuf {
        self.store.root().join("context/c7").join(path)
    }

    /// Stores the output of a call.
    pub(crate) fn put(&self, call: &str, text: &str) -> Record {
        let mut writer = self.writer(call);
        writer.write_all(text.as_bytes()).unwrap();
        writer.seal().unwrap().record
    }

    pub(crate) fn writer(&self, call: &str) -> ArtifactWriter {
        let provenance = Provenance { tool: Some("exec".to_owned()), ..Provenance::default() };
        ArtifactWriter::create_for_call(&self.conversation, Folder::Tool, call, provenance).unwrap()
    }

    /// Removes the output of a call as retention does.
    pub(crate) fn sweep(&self, call: &str) -> RemovalOutcome {
        let path = path(&format!("{TOOL}/{call}.txt"));
        let stat = self.conversation.dir().stat_at(&path).unwrap();
        let candidate = RemovalCandidate {
            path,
            ino: stat.ino,
            size: stat.size,
            changed: stat.ctime.as_nanos(),
            read: stat.atime.as_millis(),
            removal: Removal { rule: "keep_age".to_owned(), ..Removal::default() },
        };
        self.store.lock_sweeps().unwrap().remove(&self.conversation, &[candidate]).unwrap()[0]
    }

    /// Writes a file without using ctxfs.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        fs::symlink_metadata(self.at(path)).is_ok()
    }

    pub(crate) fn record(&self, at: &str) -> Option<Record> {
        self.conversation.record(&path(at)).unwrap()
    }

    pub(crate) fn files(&self) -> LocalFiles {
        files(&self.conversation, &self.base, FileClock::FINE, &|_| true).unwrap()
    }

    pub(crate) fn found(&self, path: &str) -> FoundFile {
        self.files().found[path].clone()
    }

    /// Adds all current files to the agreement.
    pub(crate) fn agree(&mut self) {
        let entries = self.files().found.into_iter().zip(0..);
        let entry = |((path, found), place): ((String, FoundFile), _)| {
            Entry::new(&path, &[origin(place)], &found)
        };
        self.base.entries = entries.map(entry).collect();
    }

    /// Returns the paths of all files, shared or not.
    pub(crate) fn names(&self) -> Vec<String> {
        self.files().found.into_keys().collect()
    }

    /// Returns the entries in the conversation's directory whose names start like temporary names
    /// of ctxfs.
    pub(crate) fn scratch(&self) -> Vec<String> {
        let entries = fs::read_dir(self.at("")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(".ctxfs-come") || name.contains("gone")).collect()
    }
}
