//! Random runs on a disk that fails now and then, against plain vectors of bytes.
//!
//! After any fault, the bytes of an acknowledged write are there, those of any other in part or not
//! at all, an error has the disk's errno, and views show only these bytes. Once the disk works
//! again, so does everything else, and all artifacts are sealed.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::{fs, io};

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::Config;
use rustix::process::Signal;
use serde_json::Value;

use super::disk::Ground;
use crate::support::{Call, Fault, Mode, eventually};

const NAMES: [&str; 2] = ["a.txt", "b.txt"];
const MANIFEST: &str = "manifest.jsonl";

/// The faults of the disk, and their errors.
const FAULTS: [(Fault, i32); 13] = [
    (Fault::error(Call::Write, libc::EIO), libc::EIO),
    (Fault::error(Call::Write, libc::EIO).of("a.txt").after(1), libc::EIO),
    (Fault::error(Call::Write, libc::ENOSPC).of(MANIFEST), libc::ENOSPC),
    (Fault::room(1000), libc::ENOSPC),
    (Fault::room(100).of("artifacts"), libc::ENOSPC),
    (Fault::room(50).of(MANIFEST), libc::ENOSPC),
    (Fault::short(Call::Write), 0),
    (Fault::short(Call::Read), 0),
    (Fault::error(Call::Read, libc::EIO), libc::EIO),
    (Fault::error(Call::Read, libc::EIO).of("b.txt").after(2), libc::EIO),
    (Fault::error(Call::Open, libc::EMFILE), libc::EMFILE),
    (Fault::error(Call::Create, libc::ENOSPC), libc::ENOSPC),
    (Fault::error(Call::Sync, libc::EIO), libc::EIO),
];

/// The lines that `.tail` shows.
const TAIL_LINES: usize = 200;
/// Runs that are spent on making a failure smaller: each has a mount of its own.
const MOST_SHRINKING: u32 = 200;

#[derive(Debug, Clone, Copy)]
enum Op {
    Open(usize),
    /// Writes a text of this length, which differs each time.
    Write {
        file: usize,
        at: u16,
        length: u16,
    },
    Truncate(usize, u16),
    Sync(usize),
    Close(usize),
    Look(usize),
    Exchange,
    Fail(usize),
    Mend,
}

fn op() -> impl Strategy<Value = Op> {
    let file = || 0..NAMES.len();
    let at = || prop_oneof![3 => 0..200u16, 1 => 0..9000u16];
    let length = || prop_oneof![3 => 1..100u16, 1 => 1..9000u16];
    prop_oneof![
        3 => file().prop_map(Op::Open),
        8 => (file(), at(), length()).prop_map(|(file, at, length)| Op::Write { file, at, length }),
        1 => (file(), at()).prop_map(|(file, length)| Op::Truncate(file, length)),
        1 => file().prop_map(Op::Sync),
        3 => file().prop_map(Op::Close),
        5 => file().prop_map(Op::Look),
        1 => Just(Op::Exchange),
        3 => select((0..FAULTS.len()).collect::<Vec<_>>()).prop_map(Op::Fail),
        2 => Just(Op::Mend),
    ]
}

/// A file, and the bytes that must be in it.
#[derive(Default)]
struct Known {
    bytes: Vec<u8>,
    writer: Option<File>,
}

struct Run {
    // First: what is open goes before the mount does.
    files: [Known; 2],
    ground: Ground,
    /// The errors that the disk may give now, or to a call that began before.
    errors: Vec<i32>,
    written: u8,
}

impl Run {
    fn new(mode: Mode) -> Self {
        let ground = Ground::new(mode);
        ground.mount.tool("c7");
        for name in NAMES {
            ground.mount.artifact("c7", name, b"");
        }
        Self { files: Default::default(), ground, errors: Vec::new(), written: 0 }
    }

    fn path(&self, file: usize) -> PathBuf {
        self.ground.mount.path().join("c7/artifacts/tool").join(NAMES[file])
    }

    /// Returns the result of a call, or `None` if it failed with an error of the disk.
    fn judged<T>(&self, op: &str, result: io::Result<T>) -> Option<T> {
        result
            .map_err(|error| {
                let errno = error.raw_os_error().unwrap();
                assert!(self.errors.contains(&errno), "{op}: {error}, not of {:?}", self.errors);
            })
            .ok()
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Open(file) => {
                let opened = File::options().write(true).open(self.path(file));
                if let Some(writer) = self.judged("open", opened) {
                    self.files[file].writer = Some(writer);
                }
            }
            Op::Write { file, at, length } => self.write(file, at.into(), length.into()),
            Op::Truncate(file, length) => self.truncate(file, length.into()),
            Op::Sync(file) => {
                if let Some(writer) = &self.files[file].writer {
                    self.judged("sync", writer.sync_all());
                }
            }
            Op::Close(file) => drop(self.files[file].writer.take()),
            Op::Look(file) => self.look(file),
            Op::Exchange => self.exchange(),
            Op::Fail(fault) => {
                let (fault, errno) = FAULTS[fault];
                self.ground.disk.fail(fault);
                self.errors.push(errno);
            }
            Op::Mend => self.mend(),
        }
    }

    fn write(&mut self, file: usize, at: usize, length: usize) {
        let Some(writer) = &self.files[file].writer else { return };
        self.written = self.written % 26 + 1;
        let text: Vec<u8> =
            (1..=length).map(|n| if n % 40 == 0 { b'\n' } else { b'@' + self.written }).collect();
        let done = self.judged("write", writer.write_all_at(&text, at as u64)).is_some();
        let old = self.files[file].bytes.clone();
        let now = self.ground.disk.truth("c7", NAMES[file]);
        // One write of the program may be several of the kernel.
        let least = if done { length } else { 0 };
        let prefixes = (least..=length).rev();
        let found = prefixes.map(|count| over(&old, at, &text[..count])).any(|bytes| bytes == now);
        assert!(found, "{NAMES:?}[{file}]: {length} at {at} of {} left {}", old.len(), now.len());
        self.files[file].bytes = now;
    }

    fn truncate(&mut self, file: usize, length: usize) {
        let Some(writer) = &self.files[file].writer else { return };
        if self.judged("truncate", writer.set_len(length as u64)).is_some() {
            self.files[file].bytes.resize(length, 0);
        }
        assert_eq!(self.ground.disk.truth("c7", NAMES[file]), self.files[file].bytes);
    }

    fn exchange(&mut self) {
        let (from, to) = (self.path(0), self.path(1));
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        let cwd = rustix::fs::CWD;
        let first = self.ground.disk.number("c7", NAMES[0]);
        let exchanged = rustix::fs::renameat_with(cwd, from, cwd, to, flags);
        self.judged("exchange", exchanged.map_err(io::Error::from));
        // What could not be recorded has happened all the same.
        if self.ground.disk.number("c7", NAMES[0]) != first {
            self.files.swap(0, 1);
        }
        for (known, name) in self.files.iter().zip(NAMES) {
            assert_eq!(self.ground.disk.truth("c7", name), known.bytes, "{name}");
        }
    }

    /// Checks the file and its views. Each must be right, or fail with an error of the disk.
    fn look(&self, file: usize) {
        let known = &self.files[file].bytes;
        if let Some(bytes) = self.judged("read", fs::read(self.path(file))) {
            assert!(bytes == *known, "{} bytes, not {}", bytes.len(), known.len());
        }
        let tail = self.path(file).with_file_name(format!("{}.tail", NAMES[file]));
        if let Some(tail) = self.judged("tail", fs::read(tail)) {
            let binary = known.contains(&0);
            let last = last_lines(known, TAIL_LINES);
            assert!(binary || tail == last, "{} bytes, not {}", tail.len(), last.len());
        }
        let meta = self.path(file).with_file_name(format!("{}.meta.json", NAMES[file]));
        if let Some(meta) = self.judged("meta", fs::read(meta)) {
            let meta: Value = serde_json::from_slice(&meta).unwrap();
            assert_eq!(meta["size"], known.len());
            assert_eq!(meta["analysis"]["digest"], blake3::hash(known).to_hex().as_str());
        }
    }

    fn mend(&mut self) {
        self.ground.disk.mend();
        self.errors.clear();
        for file in 0..NAMES.len() {
            self.look(file);
        }
    }

    /// Checks that everything works again, and that closed files are recorded.
    fn finish(mut self) {
        for known in &mut self.files {
            known.writer = None;
        }
        self.mend();
        // The kernel releases a file some time after its close: later, if a child that another test
        // has just forked still has the descriptor.
        for (known, name) in self.files.iter().zip(NAMES) {
            let digest = blake3::hash(&known.bytes).to_hex();
            eventually(&format!("{name} is sealed as it is"), || {
                let record = self.record(name).unwrap_or_default();
                record["state"] != "live" && record["analysis"]["digest"] == digest.as_str()
            });
        }
        self.mend();
        assert_eq!(self.ground.mount.end(Signal::TERM), Some(0));
    }

    /// Returns the last record of a file.
    fn record(&self, name: &str) -> Option<Value> {
        let manifest = self.ground.disk.store().path().join("context/c7").join(MANIFEST);
        let text = fs::read(manifest).ok()?;
        let lines = text.split(|byte| *byte == b'\n').rev();
        let mut records = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
        records.find(|record| record["path"].as_str().unwrap().ends_with(name))
    }
}

/// Returns the last `count` lines of `bytes`.
fn last_lines(bytes: &[u8], count: usize) -> &[u8] {
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    let length: usize = lines.iter().rev().take(count).map(|line| line.len()).sum();
    &bytes[bytes.len() - length..]
}

/// `old` with `text` written over it at `at`; nothing, where that is empty.
fn over(old: &[u8], at: usize, text: &[u8]) -> Vec<u8> {
    let mut bytes = old.to_vec();
    if !text.is_empty() {
        bytes.resize(bytes.len().max(at + text.len()), 0);
        bytes[at..at + text.len()].copy_from_slice(text);
    }
    bytes
}

fn holds(mode: Mode) {
    let (config, ops) = crate::model::size(30, 40);
    let config = Config { max_shrink_iters: MOST_SHRINKING, ..config };
    crate::support::holds(config, &proptest::collection::vec(op(), 1..ops), |ops| {
        let mut run = Run::new(mode);
        for op in ops {
            run.step(op);
        }
        run.finish();
    });
}

#[test]
fn what_was_acknowledged_is_there_with_passthrough() {
    holds(Mode::Passthrough);
}

#[test]
fn what_was_acknowledged_is_there_without_passthrough() {
    holds(Mode::Cached);
}
