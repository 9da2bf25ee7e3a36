//! Three hosts that share a bucket and do what comes to mind: write, cut, replace, rename, exchange
//! and remove files, move directories, keep files open, say something, let go of local copies, sync
//! or not, with clocks that are an hour off, and are killed in the middle. When they meet, all are
//! the same, with modes, times, attributes and views, and nothing is lost.
//!
//! `CTXFS_MODEL_CASES` and `CTXFS_MODEL_OPS` set the number and length of the runs, as those of
//! `model`.

mod met;
mod steps;

use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, SystemTime};
use std::{fs, thread};

use ctxfs_sync::remote::Downloads;
use proptest::test_runner::Config;
use rustix::fs::{CWD, RenameFlags, XattrFlags};
use tempfile::TempDir;

use crate::remote::host::{Host, path};
use crate::remote::noise;
use crate::support::{holds, while_none_starts};

use met::NOTE;
use steps::{DIRECTORIES, NAMES, SKEWS, Step, step};

/// Every so many files one is large enough for an object of its own.
const LARGE_EVERY: usize = 5;
const LARGE: usize = 300_000;
/// A case that fails is tried this often in smaller forms: each takes seconds.
const MOST_SHRINKING: u32 = 100;

/// The hosts, and what became of all that was ever written.
struct World {
    hosts: [Host; 3],
    /// The files that each host keeps open.
    live: [Vec<File>; 3],
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
        let live = SKEWS.map(|_| Vec::new());
        Self { hosts, live, url, written, gone, said: 0, _shared: shared }
    }

    fn step(&mut self, host: usize, step: Step) {
        match step {
            Step::Write(name) => self.write(host, NAMES[name], false),
            Step::Append(name) => self.append(host, NAMES[name]),
            Step::Cut(name) => self.cut(host, NAMES[name]),
            Step::Replace(name) => self.write(host, NAMES[name], true),
            Step::Begin(name) => self.begin(host, NAMES[name]),
            Step::GoOn => self.go_on(host),
            Step::End => while_none_starts(|| drop(self.live[host].pop())),
            Step::Rename(from, to) => self.rename(host, NAMES[from], NAMES[to]),
            Step::Exchange(one, other) => self.exchange(host, NAMES[one], NAMES[other]),
            Step::MoveDirectory(from, to) => {
                self.move_directory(host, DIRECTORIES[from], DIRECTORIES[to]);
            }
            Step::Remove(name) => self.remove(host, NAMES[name]),
            Step::MakeDirectory => fs::create_dir_all(self.hosts[host].at("d/empty")).unwrap(),
            Step::Say => self.say(host),
            Step::Push => {
                self.push(host);
            }
            Step::Pull => self.pull(host),
            Step::Hear => {
                let host = &self.hosts[host];
                let came =
                    host.sync(|sync| sync.pull(&host.conversation, Downloads::OnRead)).unwrap();
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
        let text = format!("text {number}\nalpha {number}\nbeta {number}\n");
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
            dress(&beside, self.written.len());
            fs::rename(beside, place).unwrap();
        } else {
            while_none_starts(|| fs::write(&place, &bytes)).unwrap();
            dress(&place, self.written.len());
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

    fn cut(&mut self, host: usize, name: &str) {
        let Some(place) = self.place(host, name).filter(|place| place.exists()) else { return };
        self.goes(host, name);
        let line = format!("cut {}\n", self.written.len());
        while_none_starts(|| {
            let mut file = File::options().read(true).append(true).open(&place).unwrap();
            file.set_len(file.metadata().unwrap().len() / 2).unwrap();
            file.write_all(line.as_bytes()).unwrap();
        });
        self.written.insert(digest(&fs::read(place).unwrap()));
    }

    fn begin(&mut self, host: usize, name: &str) {
        let Some(place) = self.place(host, name) else { return };
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        let file = File::options().read(true).append(true).create(true).open(place).unwrap();
        self.live[host].push(file);
        self.go_on(host);
    }

    fn go_on(&mut self, host: usize) {
        let Some(mut file) = self.live[host].last() else { return };
        if file.metadata().unwrap().nlink() == 0 {
            // It was removed or replaced here, with what it had.
            return;
        }
        self.gone.insert(digest(&whole(file)));
        let line = format!("more {}\n", self.written.len());
        file.write_all(line.as_bytes()).unwrap();
        self.written.insert(digest(&whole(file)));
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

    fn exchange(&self, host: usize, one: &str, other: &str) {
        let (Some(one), Some(other)) = (self.place(host, one), self.place(host, other)) else {
            return;
        };
        if one.exists() && other.exists() {
            rustix::fs::renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
        }
    }

    /// Moves a directory, unless there are artifacts in it, or where it would be, whose bytes are
    /// elsewhere: only a mount moves these.
    fn move_directory(&self, host: usize, from: &str, to: &str) {
        let host = &self.hosts[host];
        if [from, to].iter().any(|dir| host.conversation.has_far(Some(&path(dir))).unwrap()) {
            return;
        }
        let (old, new) = (host.at(from), host.at(to));
        fs::create_dir_all(new.parent().unwrap()).unwrap();
        // There may be none, or files where it would be.
        fs::rename(old, new).ok();
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
        let came = host.sync(|sync| sync.pull(&host.conversation, Downloads::Immediate)).unwrap();
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
}

fn append(path: &Path, line: &str) {
    while_none_starts(|| {
        let mut file = File::options().append(true).create(true).open(path).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    });
}

/// Gives a file what a tool that copies keeps: a mode, a time long ago, and another attribute.
fn dress(file: &Path, number: usize) {
    let mode = [0o600, 0o640, 0o644][number % 3];
    fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
    let note = format!("note {number}");
    rustix::fs::setxattr(file, NOTE, note.as_bytes(), XattrFlags::empty()).unwrap();
    let age = Duration::new(1_600_000_000 + number as u64, 123_456_789);
    let opened = File::open(file).unwrap();
    opened.set_modified(SystemTime::UNIX_EPOCH + age).unwrap();
}

fn whole(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; file.metadata().unwrap().len() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
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
