//! A host with a real store whose files are in memory.

use std::collections::BTreeMap;
use std::io::{Seek as _, Write as _};
use std::time::Duration;

use tempfile::TempDir;

use super::bucket::{TestBucket, soon};
use crate::bucket::Line;
use crate::remote::source::{OpenedFile, OwnLine};
use crate::remote::{
    Home, LogPosition, LookReport, Moment, Notes, Piece, Push, PushSource, Pushed, RemoteError,
    Session, StoredMessage, look, pieces,
};
use crate::replica::{Changes, FileKey, FileVersion, FoundFile, State};
use ctxfs_core::materialize::Analyzer;
use ctxfs_core::model::{ArtifactState, Component, Record};
use ctxfs_store::Store;

pub(crate) const BUCKET: &str = "000102030405060708090a0b0c0d0e0f";

pub(crate) struct TestHost {
    temporary: TempDir,
    pub(crate) home: Home,
    pub(crate) notes: Notes,
    pub(crate) source: TestSource,
    pub(crate) session: Session,
    pub(crate) now: Moment,
}

/// The files and messages of a host.
#[derive(Default)]
pub(crate) struct TestSource {
    files: BTreeMap<String, (FoundFile, Vec<u8>)>,
    pub(crate) messages: Vec<String>,
    last: u64,
}

impl TestHost {
    pub(crate) fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let (home, notes) = opened(&temporary);
        let now = Moment { wall: 1_000_000_000_000, boot: "boot".to_owned(), uptime: 1000 };
        let (source, session) = (TestSource::default(), Session::default());
        Self { temporary, home, notes, source, session, now }
    }

    /// Simulates a restart of the process on this host.
    pub(crate) fn restart(&mut self) {
        (self.home, self.notes) = opened(&self.temporary);
        self.session = Session::default();
    }

    /// Returns a copy of the host, as a clone of the machine.
    pub(crate) fn cloned(&self) -> Self {
        let mut clone = Self::new();
        let from = self.temporary.path().join("remote");
        let to = clone.temporary.path().join("remote");
        std::fs::remove_dir_all(&to).unwrap();
        let copied = std::process::Command::new("cp").arg("-a").args([&from, &to]).status();
        assert!(copied.unwrap().success());
        clone.source.files = self.source.files.clone();
        clone.source.messages = self.source.messages.clone();
        clone.source.last = self.source.last;
        clone.now = self.now.clone();
        clone.restart();
        clone
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now.wall += time.as_millis() as u64;
        self.now.uptime += time.as_millis() as u64;
    }

    pub(crate) fn write(&mut self, name: &str, bytes: impl Into<Vec<u8>>) {
        let bytes = bytes.into();
        let source = &mut self.source;
        source.last += 1;
        let key = FileKey::Local { inode: source.last, born: 0 };
        let version = FileVersion { size: bytes.len() as u64, modified: source.last as i64 };
        let digest = Some(blake3::hash(&bytes).to_hex().as_str().into());
        source.files.insert(path(name), (FoundFile { key, version, digest }, bytes));
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.source.files.remove(&path(name)).unwrap();
    }

    pub(crate) fn rename(&mut self, from: &str, to: &str) {
        let file = self.source.files.remove(&path(from)).unwrap();
        self.source.files.insert(path(to), file);
    }

    /// Changes the bytes of a file without changing its recorded state.
    pub(crate) fn spoil(&mut self, name: &str) {
        self.source.files.get_mut(&path(name)).unwrap().1[0] ^= 1;
    }

    pub(crate) fn changes(&self) -> Changes {
        let found =
            self.source.files.iter().map(|(path, (found, _))| (path.clone(), found.clone()));
        Changes::since(&self.notes.agreement().unwrap().base, &found.collect())
    }

    /// Calls `with` with a push of this host.
    pub(crate) fn pushing<T>(
        &mut self,
        bucket: &TestBucket,
        with: impl FnOnce(&Push<'_>, &mut Session) -> T,
    ) -> T {
        let now = self.now.clone();
        let push = Push {
            bucket,
            home: &self.home,
            notes: &self.notes,
            source: &self.source,
            now: &|| now.clone(),
            ends: false,
            deadline: &soon,
        };
        with(&push, &mut self.session)
    }

    pub(crate) fn push(&mut self, bucket: &TestBucket) -> Result<Pushed, RemoteError> {
        let changes = self.changes();
        self.pushing(bucket, |push, session| push.run(&changes, session))
    }

    /// Pushes until nothing is left to do.
    pub(crate) fn push_all(&mut self, bucket: &TestBucket) {
        for _ in 0..20 {
            let pushed = self.push(bucket).unwrap();
            assert!(pushed.left.is_empty(), "{:?}", pushed.left);
            if !pushed.again {
                return;
            }
        }
        panic!("it does not end");
    }

    pub(crate) fn look(&self, bucket: &TestBucket) -> LookReport {
        look(bucket, &self.notes, &soon).unwrap()
    }

    /// Returns all local segments in parsed form.
    pub(crate) fn pieces(&self) -> Vec<Piece> {
        let found = pieces(&self.notes).unwrap();
        assert!(found.refused.is_empty(), "{:?}", found.refused);
        found.pieces
    }

    /// Returns the living artifacts: the path that each requests, and its digest.
    pub(crate) fn living(&self) -> Vec<(String, String)> {
        let living = State::of(&self.pieces()).artifacts.into_values();
        let mut living: Vec<_> =
            living.map(|claim| (claim.path, claim.digest.to_string())).collect();
        living.sort_unstable();
        living
    }

    /// Returns the files of this host.
    pub(crate) fn own(&self) -> Vec<(String, String)> {
        let files = self.source.files.iter();
        let digest = |found: &FoundFile| found.digest.as_ref().unwrap().to_string();
        files.map(|(path, (found, _))| (path.clone(), digest(found))).collect()
    }

    /// Returns the messages in the bucket that this host has seen.
    pub(crate) fn told(&self) -> Vec<String> {
        let text = |piece: StoredMessage| {
            let segment = self.notes.open_segment(piece.segment).unwrap();
            match segment.line(&piece.line).unwrap() {
                Line::Message(line) => line.text,
                line => panic!("{line:?}"),
            }
        };
        State::of(&self.pieces()).messages.into_values().map(text).collect()
    }
}

fn opened(temporary: &TempDir) -> (Home, Notes) {
    let store = Store::open(temporary.path()).unwrap();
    let home = Home::open(&store, BUCKET.parse().unwrap()).unwrap();
    let notes = home.conversation(&Component::new("a b").unwrap()).unwrap();
    (home, notes)
}

fn place(offset: usize) -> LogPosition {
    LogPosition { inode: 1, born: 0, offset: offset as u64, chain: 0 }
}

/// Returns the path of the artifact `name`.
pub(crate) fn path(name: &str) -> String {
    format!("artifacts/tool/{name}")
}

impl PushSource for TestSource {
    fn open(
        &self,
        path: &str,
        key: FileKey,
        version: FileVersion,
    ) -> Result<Option<OpenedFile>, RemoteError> {
        let known = self.files.get(path);
        let known = known.filter(|(found, _)| found.key == key && found.version == version);
        let Some((_, bytes)) = known else { return Ok(None) };
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        let mut analyzer = Analyzer::new();
        analyzer.push(bytes);
        let analysis = Some(analyzer.finish());
        let (state, size) = (ArtifactState::Sealed, bytes.len() as u64);
        let record = Record { generation: 1, state, size, analysis, ..Record::default() };
        Ok(Some(OpenedFile { file, record, mode: 0o644, attributes: BTreeMap::new() }))
    }

    /// Returns two messages per call.
    fn message_lines(
        &self,
        from: &LogPosition,
    ) -> Result<(Vec<OwnLine>, LogPosition), RemoteError> {
        let start = from.offset as usize;
        let end = self.messages.len().min(start + 2);
        let lines = (start..end).map(|at| {
            let (offset, text) = (at as u64, self.messages[at].clone().into_bytes());
            OwnLine { offset, length: text.len() as u64, text: Some(text), after: place(at + 1) }
        });
        Ok((lines.collect(), place(end)))
    }
}
