//! Three hosts that share a bucket and do what comes to mind: write, replace, rename and remove
//! files, say something, let go of local copies, sync or not, with clocks that are an hour off,
//! and are killed in the middle. When they meet, all are the same, and nothing is lost.
//!
//! `CTXFS_MODEL_CASES` and `CTXFS_MODEL_OPS` set the number and length of the runs, as those of
//! `model`.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::Config;
use tempfile::TempDir;

use crate::remote::files;
use crate::remote::host::Host;
use crate::remote::host::path;
use crate::remote::noise;
use crate::support::eventually;
use crate::support::holds;
use crate::support::while_none_starts;

/// Names of artifacts: few, so that hosts meet.
const NAMES: [&str; 6] = ["a.txt", "b.txt", "c.txt", "d/a.txt", "d/b.txt", "e/f/a.txt"];
/// How far the clocks of the hosts are off, in milliseconds.
const SKEWS: [i64; 3] = [0, 3_600_000, -3_600_000];
/// Every so many files one is large enough for an object of its own.
const LARGE_EVERY: usize = 5;
const LARGE: usize = 300_000;
/// A case that fails is tried this often in smaller forms: each takes seconds.
const MOST_SHRINKING: u32 = 100;

/// What a host does next. Names are places in [`NAMES`].
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Writes a file in place.
    Write(usize),
    /// Appends to a file, if there is one.
    Append(usize),
    /// Gives the name to a new file.
    Replace(usize),
    Rename(usize, usize),
    Remove(usize),
    MakeDirectory,
    Say,
    Push,
    /// Bytes come with what others did.
    Pull,
    /// Bytes stay where they are.
    Hear,
    Evict(usize),
    /// A command is killed after so many milliseconds.
    KilledPush(u64),
    KilledPull(u64),
}

fn step() -> impl Strategy<Value = (usize, Step)> {
    let (name, other) = (0..NAMES.len(), 0..NAMES.len());
    let step = prop_oneof![
        4 => name.clone().prop_map(Step::Write),
        2 => name.clone().prop_map(Step::Append),
        2 => name.clone().prop_map(Step::Replace),
        3 => (name.clone(), other).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => name.clone().prop_map(Step::Remove),
        1 => Just(Step::MakeDirectory),
        2 => Just(Step::Say),
        4 => Just(Step::Push),
        3 => Just(Step::Pull),
        2 => Just(Step::Hear),
        2 => name.prop_map(Step::Evict),
        1 => (1..60_u64).prop_map(Step::KilledPush),
        1 => (1..60_u64).prop_map(Step::KilledPull),
    ];
    (0..SKEWS.len(), step)
}

/// The hosts, and what became of all that was ever written.
struct World {
    hosts: [Host; 3],
    url: String,
    /// Digests of what was written, and of what somebody who saw it removed or replaced.
    written: BTreeSet<String>,
    gone: BTreeSet<String>,
    said: usize,
    /// Last: the hosts use it.
    _shared: TempDir,
}

impl World {
    fn new() -> Self {
        let shared = tempfile::Builder::new().prefix("ctxfs-bucket-").tempdir().unwrap();
        let url = format!("file://{}/bucket", shared.path().display());
        let hosts = SKEWS.map(|skew| Host::new(&url, skew));
        let (written, gone) = (BTreeSet::new(), BTreeSet::new());
        Self { hosts, url, written, gone, said: 0, _shared: shared }
    }

    fn step(&mut self, host: usize, step: Step) {
        match step {
            Step::Write(name) => self.write(host, NAMES[name], false),
            Step::Append(name) => self.append(host, NAMES[name]),
            Step::Replace(name) => self.write(host, NAMES[name], true),
            Step::Rename(from, to) => self.rename(host, NAMES[from], NAMES[to]),
            Step::Remove(name) => self.remove(host, NAMES[name]),
            Step::MakeDirectory => fs::create_dir_all(self.hosts[host].at("d/empty")).unwrap(),
            Step::Say => self.say(host),
            Step::Push => {
                self.push(host);
            }
            Step::Pull => self.pull(host),
            Step::Hear => {
                let host = &self.hosts[host];
                let came = host.sync(|sync| sync.hear(&host.conversation)).unwrap();
                assert!(came.error.is_none(), "{came:?}");
            }
            Step::Evict(name) => {
                while_none_starts(|| self.hosts[host].evict(NAMES[name]));
            }
            Step::KilledPush(pause) => self.killed(host, "push", pause),
            Step::KilledPull(pause) => self.killed(host, "pull", pause),
        }
    }

    /// Returns bytes that nobody wrote before.
    fn bytes(&mut self) -> Vec<u8> {
        let number = self.written.len();
        let is_large = number.is_multiple_of(LARGE_EVERY);
        let text = format!("text {number}\n");
        let bytes = if is_large { noise(&text, LARGE) } else { text.into_bytes() };
        self.written.insert(digest(&bytes));
        bytes
    }

    /// What has the name at this host is to be removed or replaced.
    fn goes(&mut self, host: usize, name: &str) {
        if let Ok(bytes) = fs::read(self.hosts[host].at(name)) {
            self.gone.insert(digest(&bytes));
        }
    }

    /// Returns the file, if the bytes of that name are not elsewhere: only a mount fetches these.
    fn place(&self, host: usize, name: &str) -> Option<PathBuf> {
        let host = &self.hosts[host];
        (!host.is_far(name)).then(|| host.at(name))
    }

    fn write(&mut self, host: usize, name: &str, is_new_file: bool) {
        let Some(place) = self.place(host, name) else { return };
        self.goes(host, name);
        let bytes = self.bytes();
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        if is_new_file {
            let beside = self.hosts[host].store.scratch("beside").join("new");
            while_none_starts(|| fs::write(&beside, &bytes)).unwrap();
            fs::rename(beside, place).unwrap();
        } else {
            while_none_starts(|| fs::write(place, &bytes)).unwrap();
        }
    }

    fn append(&mut self, host: usize, name: &str) {
        let place = self.hosts[host].at(name);
        let Ok(mut bytes) = fs::read(&place) else { return };
        self.goes(host, name);
        let line = format!("more {}\n", self.written.len());
        bytes.extend_from_slice(line.as_bytes());
        self.written.insert(digest(&bytes));
        append(&place, &line);
    }

    fn rename(&mut self, host: usize, from: &str, to: &str) {
        let (Some(old), Some(new)) = (self.place(host, from), self.place(host, to)) else {
            return;
        };
        if from != to && old.exists() {
            self.goes(host, to);
            fs::create_dir_all(new.parent().unwrap()).unwrap();
            fs::rename(old, new).unwrap();
        }
    }

    fn remove(&mut self, host: usize, name: &str) {
        self.goes(host, name);
        fs::remove_file(self.hosts[host].at(name)).ok();
    }

    fn say(&mut self, host: usize) {
        let log = self.hosts[host].store.path().join("context/c7/history/messages.jsonl");
        self.said += 1;
        let line = format!("{{\"role\":\"user\",\"content\":\"message {}\"}}\n", self.said);
        append(&log, &line);
    }

    /// Returns true if there was nothing to send.
    fn push(&self, host: usize) -> bool {
        let host = &self.hosts[host];
        let sent = host.sync(|sync| sync.push(&host.conversation)).unwrap();
        assert!(!sent.is_partial, "{sent:?}");
        sent.segments.is_empty() && sent.live.is_empty() && sent.left.is_empty()
    }

    fn pull(&self, host: usize) {
        let host = &self.hosts[host];
        let came = host.sync(|sync| sync.pull(&host.conversation)).unwrap();
        assert!(came.error.is_none() && came.refused.is_empty(), "{came:?}");
    }

    fn killed(&self, host: usize, command: &str, pause: u64) {
        let command = self.hosts[host].store.ctxfs(command, &["--quiet", "c7"]);
        let command = command.env("CTXFS_REMOTE_URL", &self.url).with(|inner| {
            inner.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        });
        let mut child = command.spawn();
        thread::sleep(Duration::from_millis(pause));
        child.kill().ok();
        child.wait().unwrap();
    }

    /// All hosts meet until nothing is new to any of them.
    fn meet(&self) {
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

    /// Returns the digests of the artifacts of a host, by name. What records say is right.
    fn files(&self, host: usize) -> BTreeMap<String, String> {
        let host = &self.hosts[host];
        let top = host.at("");
        let is_one =
            |file: &PathBuf| !file.file_name().unwrap().as_encoded_bytes().starts_with(b".");
        let mut found = BTreeMap::new();
        for file in files(&top).into_iter().filter(is_one) {
            let name = file.strip_prefix(&top).unwrap().to_str().unwrap().to_owned();
            let digest = digest(&fs::read(&file).unwrap());
            let stat = host.conversation.dir().stat_at(&path(&name)).unwrap();
            let record = host.conversation.record(&path(&name)).unwrap();
            // A file that was written over by hand has the record of what it was.
            let said = record.filter(|record| stat.is_recorded(record));
            let said = said.and_then(|record| Some(record.analysis?.digest));
            assert!(said.is_none_or(|said| said == digest), "{name}");
            found.insert(name, digest);
        }
        found
    }

    /// Nothing was lost but what somebody removed, and nothing came back; all messages are there,
    /// in one order.
    fn check(&self) {
        let there: BTreeSet<String> = self.files(0).into_values().collect();
        let living = self.written.difference(&self.gone);
        let lost: Vec<_> = living.filter(|each| !there.contains(*each)).collect();
        assert!(lost.is_empty(), "lost: {lost:?} of {:?}", self.files(0));
        let back: Vec<_> = self.gone.intersection(&there).collect();
        assert!(back.is_empty(), "came back: {back:?}");
        if self.said > 0 {
            let told = |host: &Host| host.store.ctxfs("log", &["c7", "--json"]).text();
            let [first, others @ ..] = self.hosts.each_ref().map(told);
            assert!(others.iter().all(|other| *other == first), "{first} {others:?}");
            assert_eq!(first.lines().count(), self.said, "{first}");
        }
    }
}

fn append(path: &Path, line: &str) {
    while_none_starts(|| {
        let mut file = File::options().append(true).create(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    });
}

fn digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

#[test]
fn hosts_that_meet_are_the_same_and_nothing_is_lost() {
    let (config, most) = crate::model::size(2, 40);
    let config = Config { max_shrink_iters: MOST_SHRINKING, ..config };
    holds(config, &proptest::collection::vec(step(), 1..most), |steps| {
        let mut world = World::new();
        for (host, step) in steps {
            world.step(host, step);
        }
        world.meet();
        world.check();
    });
}

#[test]
fn what_came_may_be_written_over() {
    let mut world = World::new();
    for (host, step) in
        [(2, Step::Replace(1)), (2, Step::Push), (1, Step::Pull), (1, Step::Write(1))]
    {
        world.step(host, step);
    }
    world.meet();
    world.check();
}
