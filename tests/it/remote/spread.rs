//! The operations of file tools, spread over three mounts that share a bucket: each is done on one
//! that chance chooses. Once the hosts have met, all show the same, and the same as `head`, `tail`,
//! `sed`, `grep` and `rg` find in a copy outside.
//!
//! `CTXFS_SPREAD_ROUNDS` sets how often they meet.

mod shown;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{array, env, fs, mem};

use ctxfs_store::RemovalOutcome;
use proptest::prelude::*;
use proptest::test_runner::Config;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::remote::host::Sharing;
use crate::remote::mounts::store;
use crate::support::{
    Mode, TestMount, TestStore, errno, eventually, holds, need, while_none_starts,
};

const HOSTS: usize = 3;
/// The names of artifacts. Each is also seen in the directory [`MOVED`].
const NAMES: [&str; 4] = ["a.txt", "b.txt", "c.txt", "d.txt"];
const MOVED: &str = "moved";
/// The rounds of operations after each of which the hosts meet: a few seconds each.
const ROUNDS: usize = 5;
/// The word that searches look for.
const WORD: &str = "ERROR";
/// Every so many outputs one is large enough for an object of its own.
const LARGE_EVERY: usize = 3;

/// An operation on one artifact. All but the first write a new one where there is none.
#[derive(Debug, Clone, Copy)]
enum Op {
    /// A new file gets the name, as file servers write.
    Replace,
    /// Other bytes in the same file.
    WriteOver,
    Append,
    /// A file with one other word gets the name.
    Edit,
    Empty,
    /// Half of it stays.
    Cut,
    Move,
    Remove,
    /// Tries to write to views.
    Guard,
    /// Lets go of the local copy.
    Evict,
    /// Appends and keeps it open: the others see that when it is closed, in the next round.
    Hold,
}

/// Operations of hosts on each artifact, and what happens besides before they meet.
#[derive(Debug, Clone)]
struct Round {
    ops: [(usize, Op); NAMES.len()],
    /// The host that appends a message.
    says: usize,
    /// The host that is unmounted and mounted again.
    again: Option<usize>,
}

fn round() -> impl Strategy<Value = Round> {
    let op = prop_oneof![
        3 => Just(Op::Replace),
        2 => Just(Op::WriteOver),
        2 => Just(Op::Append),
        2 => Just(Op::Edit),
        1 => Just(Op::Empty),
        1 => Just(Op::Cut),
        3 => Just(Op::Move),
        2 => Just(Op::Remove),
        1 => Just(Op::Guard),
        3 => Just(Op::Evict),
        2 => Just(Op::Hold),
    ];
    let ops = proptest::array::uniform4((0..HOSTS, op));
    let again = proptest::option::weighted(0.4, 0..HOSTS);
    (ops, 0..HOSTS, again).prop_map(|(ops, says, again)| Round { ops, says, again })
}

/// An artifact as all hosts must show it.
#[derive(Debug, Clone)]
struct Artifact {
    bytes: Vec<u8>,
    /// Its writer told this.
    exit_code: usize,
}

/// An artifact that a host writes.
struct Live {
    host: usize,
    name: String,
    file: File,
    bytes: Vec<u8>,
}

struct World {
    live: Vec<Live>,
    mounts: [TestMount; HOSTS],
    /// The artifacts that all hosts must show, by names below `artifacts/tool`.
    artifacts: BTreeMap<String, Artifact>,
    messages: String,
    /// The number of outputs so far.
    written: usize,
    /// Last: the hosts use it.
    shared: TempDir,
}

impl World {
    fn new() -> Self {
        let shared = TempDir::with_prefix("ctxfs-bucket-").unwrap();
        let mounts = array::from_fn(|host| mount(&store(shared.path()), host));
        let (live, artifacts, messages) = (Vec::new(), BTreeMap::new(), String::new());
        Self { live, mounts, artifacts, messages, written: 0, shared }
    }

    fn round(&mut self, round: &Round) {
        let ended = self.end_live();
        for (name, (host, op)) in NAMES.into_iter().zip(round.ops) {
            let there = [name.to_owned(), format!("{MOVED}/{name}")];
            match there.into_iter().find(|name| self.artifacts.contains_key(name)) {
                // The others have not seen its end yet.
                Some(name) if ended.contains(&name) => {}
                Some(name) => self.step(host, &name, op),
                None => self.replace(host, name, None),
            }
        }
        self.say(round.says);
        self.mount_again(round.again);
        self.meet();
        self.check();
    }

    /// Closes the artifacts that were kept open, and returns their names.
    fn end_live(&mut self) -> BTreeSet<String> {
        let mut ended = BTreeSet::new();
        for Live { name, file, bytes, .. } in mem::take(&mut self.live) {
            while_none_starts(|| drop(file));
            self.artifact(&name).bytes = bytes;
            ended.insert(name);
        }
        ended
    }

    fn step(&mut self, host: usize, name: &str, op: Op) {
        // Where what another host has replaced takes longer than a look-up waits for a look.
        eventually("its name is there", || self.at(host, name).exists());
        match op {
            Op::Replace => self.replace(host, name, None),
            Op::WriteOver => {
                let bytes = self.bytes();
                self.write_over(host, name, bytes);
            }
            Op::Append => self.append(host, name),
            Op::Edit => self.edit(host, name),
            Op::Empty => self.write_over(host, name, Vec::new()),
            Op::Cut => self.cut(host, name),
            Op::Move => self.rename(host, name),
            Op::Remove => {
                fs::remove_file(self.at(host, name)).unwrap();
                self.artifacts.remove(name);
            }
            Op::Guard => guard(&self.at(host, name)),
            Op::Evict => self.evict(host, name),
            Op::Hold => self.hold(host, name),
        }
    }

    fn at(&self, host: usize, name: &str) -> PathBuf {
        self.mounts[host].tool("c7").join(name)
    }

    fn artifact(&mut self, name: &str) -> &mut Artifact {
        self.artifacts.get_mut(name).unwrap()
    }

    /// Returns a log that nobody wrote before.
    fn bytes(&mut self) -> Vec<u8> {
        self.written += 1;
        let number = self.written;
        let lines = if number.is_multiple_of(LARGE_EVERY) { 8000 } else { 150 + number % 300 };
        (1..=lines).flat_map(|line| line_of(number, line).into_bytes()).collect()
    }

    /// Gives the name to a new file, by way of one beside it.
    fn replace(&mut self, host: usize, name: &str, bytes: Option<Vec<u8>>) {
        let bytes = bytes.unwrap_or_else(|| self.bytes());
        self.written += 1;
        let exit_code = self.written % 4;
        let place = self.at(host, name);
        let beside = self.at(host, &format!("{name}.{:016x}.tmp", self.written));
        while_none_starts(|| fs::write(&beside, &bytes)).unwrap();
        let (key, value) = ("user.ctx.exit_code", exit_code.to_string());
        rustix::fs::setxattr(&beside, key, value.as_bytes(), XattrFlags::empty()).unwrap();
        fs::rename(beside, place).unwrap();
        self.artifacts.insert(name.to_owned(), Artifact { bytes, exit_code });
    }

    fn write_over(&mut self, host: usize, name: &str, bytes: Vec<u8>) {
        while_none_starts(|| fs::write(self.at(host, name), &bytes)).unwrap();
        self.artifact(name).bytes = bytes;
    }

    fn append(&mut self, host: usize, name: &str) {
        let Live { file, bytes, .. } = self.opened(host, name);
        while_none_starts(|| drop(file));
        self.artifact(name).bytes = bytes;
    }

    fn hold(&mut self, host: usize, name: &str) {
        let live = self.opened(host, name);
        self.live.push(live);
    }

    /// Opens an artifact and appends to it.
    fn opened(&mut self, host: usize, name: &str) -> Live {
        self.written += 1;
        let more = [39, 40, 41].map(|line| line_of(self.written, line)).concat();
        let mut file = File::options().append(true).open(self.at(host, name)).unwrap();
        file.write_all(more.as_bytes()).unwrap();
        let bytes = [&*self.artifact(name).bytes, more.as_bytes()].concat();
        Live { host, name: name.to_owned(), file, bytes }
    }

    fn edit(&mut self, host: usize, name: &str) {
        let text = fs::read_to_string(self.at(host, name)).unwrap();
        assert_eq!(text.as_bytes(), self.artifact(name).bytes, "{name}");
        let edited = text.replacen("INFO", WORD, 1);
        self.replace(host, name, Some(edited.into_bytes()));
    }

    fn cut(&mut self, host: usize, name: &str) {
        let half = self.artifact(name).bytes.len() / 2;
        while_none_starts(|| {
            let file = File::options().write(true).open(self.at(host, name)).unwrap();
            file.set_len(half as u64).unwrap();
        });
        self.artifact(name).bytes.truncate(half);
    }

    fn rename(&mut self, host: usize, name: &str) {
        fs::create_dir_all(self.at(host, MOVED)).unwrap();
        let back = name.strip_prefix(MOVED).and_then(|name| name.strip_prefix('/'));
        let to = back.map_or_else(|| format!("{MOVED}/{name}"), str::to_owned);
        fs::rename(self.at(host, name), self.at(host, &to)).unwrap();
        let artifact = self.artifacts.remove(name).unwrap();
        self.artifacts.insert(to, artifact);
    }

    /// The hosts have met, so the bucket has it.
    fn evict(&self, host: usize, name: &str) {
        let url = format!("file://{}/bucket", self.shared.path().display());
        let sharing = Sharing::new(&self.mounts[host].store().path(), &url, 0);
        let name = format!("tool/{name}");
        if !sharing.is_far(&name) {
            eventually("it is evicted", || {
                while_none_starts(|| sharing.evict(&name)) == RemovalOutcome::Removed
            });
            assert!(sharing.is_far(&name), "{name}");
        }
    }

    fn say(&mut self, host: usize) {
        let line = format!("{{\"role\":\"user\",\"content\":\"message {}\"}}\n", self.written);
        // Where the others have not sent anything yet, it is made.
        self.mounts[host].tool("c7");
        let mut log = File::options().append(true).create(true).open(self.log(host)).unwrap();
        log.write_all(line.as_bytes()).unwrap();
        while_none_starts(|| drop(log));
        self.messages.push_str(&line);
    }

    fn log(&self, host: usize) -> PathBuf {
        self.mounts[host].path().join("c7/history/messages.jsonl")
    }

    /// Mounts a host again, unless it is writing.
    fn mount_again(&mut self, host: Option<usize>) {
        let Some(host) = host else { return };
        if self.live.iter().all(|live| live.host != host) {
            assert_eq!(self.mounts[host].end(Signal::INT), Some(0));
            let store = Arc::clone(self.mounts[host].store());
            self.mounts[host] = mount(&store, host);
        }
    }
}

/// The kernel reads what is here by itself on all hosts but one. Texts name the same paths on all.
fn mount(store: &Arc<TestStore>, host: usize) -> TestMount {
    let mode = if host == 0 { Mode::Cached } else { Mode::Passthrough };
    TestMount::of(store, mode, &["--advertise", "/ctx"])
}

/// Returns a line of an output. All are equally long.
fn line_of(output: usize, line: usize) -> String {
    let level = if line.is_multiple_of(40) { WORD } else { "INFO " };
    format!("{level} {line:06} of output {output:04}: path=/api/v{}\n", line % 5)
}

/// Nothing is written to a view, and nothing gets the name of one.
fn guard(artifact: &Path) {
    let view = |suffix: &str| {
        let mut path = artifact.as_os_str().to_owned();
        path.push(suffix);
        PathBuf::from(path)
    };
    for suffix in [".summary", ".tail", ".grep/text"] {
        assert_eq!(errno(fs::write(view(suffix), "x")), Errno::PERM, "{suffix}");
        assert_eq!(errno(fs::rename(artifact, view(suffix))), Errno::PERM, "{suffix}");
    }
}

#[test]
fn what_hosts_do_in_turn_is_the_same_on_all_of_them() {
    need("rg", "ripgrep");
    let rounds = env::var("CTXFS_SPREAD_ROUNDS").map_or(ROUNDS, |rounds| rounds.parse().unwrap());
    let config =
        Config { cases: 1, max_shrink_iters: 0, failure_persistence: None, ..Config::default() };
    holds(config, &proptest::collection::vec(round(), rounds), |rounds| {
        let mut world = World::new();
        for (number, round) in rounds.iter().enumerate() {
            println!("round {number}: {round:?}");
            world.round(round);
        }
    });
}
