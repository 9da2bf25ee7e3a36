//! Writers by every route at once, and readers who check what they see.
//!
//! A file only grows, by lines of one length, so its size tells which writes a reader has seen. A
//! write is counted once it has returned. Whoever opens a file after that must see it; whoever asks
//! for its size must see it within the time that docs/semantics/mounts.md allows.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::support::{Mode, TestMount, TestStore};

const LINE: &[u8] = b"a line\n";
const FILES: usize = 6;
/// The bytes of the last 200 lines, which `.tail` shows.
const TAIL: u64 = 200 * LINE.len() as u64;
/// The time of a run.
const RUN: Duration = Duration::from_secs(6);
/// The longest time for which a size may be an old one, and some for a busy machine.
const STALE: Duration = Duration::from_secs(3);

/// The directories that lead to the files, and the lines that each file has at least.
struct Hammered {
    routes: Vec<PathBuf>,
    lines: Vec<AtomicU64>,
    ended: AtomicBool,
}

impl Hammered {
    fn path(&self, route: usize, file: usize) -> PathBuf {
        self.routes[route].join(format!("{file}.txt"))
    }

    /// Appends to files by one route, with pauses in which they come to rest.
    fn write(&self, route: usize) {
        let mut random = Random(route as u64 + 1);
        while !self.ended.load(SeqCst) {
            let file = random.below(FILES as u64) as usize;
            let lines = random.below(5) + 1;
            let mut open = File::options().append(true).open(self.path(route, file)).unwrap();
            for _ in 0..lines {
                open.write_all(LINE).unwrap();
                self.lines[file].fetch_add(1, SeqCst);
            }
            drop(open);
            thread::sleep(Duration::from_millis(random.below(60)));
        }
    }

    /// Opens and asks by one route.
    fn read(&self, route: usize) -> u64 {
        let (mut random, mut looks) = (Random(100 + route as u64), 0);
        while !self.ended.load(SeqCst) {
            let file = random.below(FILES as u64) as usize;
            let (path, least) = (self.path(route, file), self.least(file));
            match random.below(4) {
                0 => opens(least, &path),
                1 => opens(least.min(TAIL), &view(&path)),
                2 => asks(least, &path),
                _ => asks(least.min(TAIL), &view(&path)),
            }
            looks += 1;
        }
        looks
    }

    fn least(&self, file: usize) -> u64 {
        self.lines[file].load(SeqCst) * LINE.len() as u64
    }
}

fn opens(least: u64, path: &Path) {
    let read = fs::read(path).unwrap();
    assert!(read.len() as u64 >= least, "{}: {} of {least} bytes", path.display(), read.len());
    assert!(read.chunks(LINE.len()).all(|line| line == LINE), "{}", path.display());
}

fn asks(least: u64, path: &Path) {
    let asked = Instant::now();
    while fs::metadata(path).unwrap().len() < least {
        assert!(asked.elapsed() < STALE, "{} keeps an old size", path.display());
    }
}

/// Returns a view that is as long as its file, up to [`TAIL`].
fn view(path: &Path) -> PathBuf {
    PathBuf::from(format!("{}.tail", path.display()))
}

/// Numbers that look random, by xorshift.
struct Random(u64);

impl Random {
    /// Returns the next number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn hammer(coherence: [&str; 2]) {
    let store = Arc::new(TestStore::new());
    let mounts = [(Mode::Passthrough, coherence[0]), (Mode::Cached, coherence[1])]
        .map(|(mode, coherence)| TestMount::of(&store, mode, &["--coherence", coherence]));
    let dirs = mounts.each_ref().map(|mount| mount.tool("c7"));
    let plain = store.plain("c7", "");
    let hammered = Hammered {
        routes: dirs.into_iter().chain([plain]).collect(),
        lines: (0..FILES).map(|_| AtomicU64::new(0)).collect(),
        ended: AtomicBool::new(false),
    };
    for file in 0..FILES {
        fs::write(hammered.path(0, file), "").unwrap();
    }
    let looks: u64 = thread::scope(|scope| {
        for route in 0..hammered.routes.len() {
            let hammered = &hammered;
            scope.spawn(move || hammered.write(route));
        }
        let readers: Vec<_> = [0, 1]
            .map(|route| {
                scope.spawn({
                    let hammered = &hammered;
                    move || hammered.read(route)
                })
            })
            .into();
        let put = scope.spawn(|| {
            for number in 0..5 {
                let name = store.put("c7", &format!("call_{number}"), LINE);
                let seen = hammered.routes[0].join(name);
                assert_eq!(fs::read(view(&seen)).unwrap(), LINE);
                thread::sleep(RUN / 6);
            }
        });
        put.join().unwrap();
        hammered.ended.store(true, SeqCst);
        readers.into_iter().map(|reader| reader.join().unwrap()).sum()
    });
    assert!(looks > 100, "{looks} looks");
    for file in 0..FILES {
        let expected = hammered.least(file);
        for route in 0..hammered.routes.len() {
            assert_eq!(fs::read(hammered.path(route, file)).unwrap().len() as u64, expected);
        }
    }
}

#[test]
fn nobody_sees_stale_bytes() {
    hammer(["relaxed", "relaxed"]);
}

#[test]
fn a_strict_mount_beside_a_relaxed_one() {
    hammer(["strict", "relaxed"]);
}
