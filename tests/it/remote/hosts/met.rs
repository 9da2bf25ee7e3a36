//! The state of hosts that have met.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::{World, digest};
use crate::model::expected;
use crate::model::expected::Expected;
use crate::model::operations::Ask;
use crate::remote::files;
use crate::remote::host::{Host, path};
use crate::support::{eventually, while_none_starts};

/// The views that depend on bytes alone: records of files that were written by hand differ.
const VIEWS: [Ask; 4] = [Ask::Tail, Ask::Head, Ask::Lines, Ask::Grep];
/// An attribute that a writer sets beside those of ctxfs.
pub(super) const NOTE: &str = "user.note";

/// The file of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    digest: String,
    mode: u32,
    /// Last modification, in seconds and nanoseconds.
    modified: (i64, i64),
    note: Option<Vec<u8>>,
}

impl Seen {
    fn of(file: &Path) -> Self {
        let (metadata, mut note) = (fs::metadata(file).unwrap(), [0_u8; 32]);
        let length = rustix::fs::getxattr(file, NOTE, &mut note);
        Self {
            digest: digest(&fs::read(file).unwrap()),
            // What others than the owner may do stays on the host that wrote the file.
            mode: metadata.mode() & 0o700,
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            note: length.ok().map(|length| note[..length].to_vec()),
        }
    }
}

impl World {
    /// All hosts close what they write, and meet until nothing is new to any of them.
    pub(super) fn meet(&mut self) {
        for live in &mut self.live {
            while_none_starts(|| live.clear());
        }
        eventually("all hosts are the same", || {
            let mut is_quiet = true;
            for host in 0..self.hosts.len() {
                is_quiet &= self.push(host);
                self.pull(host);
                self.fetch(host);
            }
            is_quiet && (1..self.hosts.len()).all(|host| self.files(host) == self.files(0))
        });
    }

    fn fetch(&self, host: usize) {
        let host = &self.hosts[host];
        let far = host.far();
        let (_, left) = host.sync(|sync| sync.fetch_all(&host.conversation, &far)).unwrap();
        assert!(left.is_empty(), "{left:?}");
    }

    /// Returns the artifacts of a host, by name. What records say is right.
    fn files(&self, host: usize) -> BTreeMap<String, Seen> {
        let host = &self.hosts[host];
        let top = host.at("");
        let is_one =
            |file: &PathBuf| !file.file_name().unwrap().as_encoded_bytes().starts_with(b".");
        let mut found = BTreeMap::new();
        for file in files(&top).into_iter().filter(is_one) {
            let name = file.strip_prefix(&top).unwrap().to_str().unwrap().to_owned();
            let seen = Seen::of(&file);
            let stat = host.conversation.dir().stat_at(&path(&name)).unwrap();
            let record = host.conversation.record(&path(&name)).unwrap();
            // A file that was written over by hand has the record of what it was.
            let said = record.filter(|record| stat.is_recorded(record));
            let said = said.and_then(|record| Some(record.analysis?.digest));
            assert!(said.is_none_or(|said| said == seen.digest), "{name}");
            found.insert(name, seen);
        }
        found
    }

    /// Nothing was lost but what somebody removed, and nothing came back. Views are right, and all
    /// messages are there, in one order.
    pub(super) fn check(&self) {
        let files = self.files(0);
        let there: BTreeSet<String> = files.values().map(|seen| seen.digest.clone()).collect();
        let living = self.written.difference(&self.gone);
        let lost: Vec<_> = living.filter(|each| !there.contains(*each)).collect();
        assert!(lost.is_empty(), "lost: {lost:?} of {files:?}");
        let back: Vec<_> = self.gone.intersection(&there).collect();
        assert!(back.is_empty(), "came back: {back:?}");
        for (name, ask) in files.keys().zip(VIEWS.iter().cycle()) {
            self.check_view(name, *ask);
        }
        if self.said > 0 {
            let told = |host: &Host| host.store.ctxfs("log", &["c7", "--json"]).text();
            let [first, others @ ..] = self.hosts.each_ref().map(told);
            assert!(others.iter().all(|other| *other == first), "{first} {others:?}");
            assert_eq!(first.lines().count(), self.said, "{first}");
        }
    }

    /// A view is the same on all hosts, and as expected where that is known.
    fn check_view(&self, name: &str, ask: Ask) {
        let view = format!("c7/artifacts/{name}{}", ask.suffix());
        let text = |host: &Host| {
            // Without a mount, a text names a command with the store of its host.
            let view = host.store.ctxfs("view", &[&view]).env("CTXFS_ADVERTISE", "/ctx");
            let output = view.run();
            (output.code == 0).then_some(output.stdout)
        };
        let [first, others @ ..] = self.hosts.each_ref().map(text);
        assert!(others.iter().all(|other| *other == first), "{view}: {first:?} {others:?}");
        match expected::view(ask, &fs::read(self.hosts[0].at(name)).unwrap()) {
            Expected::Exactly(text) => assert_eq!(first, Some(text), "{view}"),
            Expected::NotFound => assert_eq!(first, None, "{view}"),
            Expected::Noted => assert!(first.is_some_and(|text| text.starts_with(b"# ")), "{view}"),
            Expected::Something => assert!(first.is_some_and(|text| !text.is_empty()), "{view}"),
        }
    }
}
