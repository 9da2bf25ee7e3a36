//! Requests that wait for another process or for the disk: nobody else waits for them.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fs, thread};

use rustix::fs::{FlockOperation, XattrFlags};
use rustix::process::Signal;

use crate::support::{
    Client, Fault, FaultyDisk, Mode, TestMount, TestStore, eventually, listing, sealed_paths,
    within,
};

/// The time after which whoever is not served counts as held up.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) const MESSAGE: &[u8] = b"{\"role\":\"user\",\"content\":\"hello\"}\n";

pub(super) type Work = Box<dyn FnOnce() + Send>;

/// Clients that wait in the kernel.
pub(super) struct Waiting(Vec<JoinHandle<()>>);

impl Waiting {
    /// Starts `work`, each on a thread of its own, and returns once all of them sleep.
    pub(super) fn start(work: Vec<Work>) -> Self {
        let (send, receive) = mpsc::channel();
        let start = |work: Work| {
            let send = send.clone();
            thread::spawn(move || {
                send.send(rustix::thread::gettid().as_raw_nonzero()).unwrap();
                work();
            })
        };
        let threads: Vec<_> = work.into_iter().map(start).collect();
        for tid in receive.iter().take(threads.len()) {
            eventually("it waits", || {
                let stat = fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap();
                stat.contains(") S ") || stat.contains(") D ")
            });
        }
        Self(threads)
    }

    /// Fails if one of them has been answered.
    pub(super) fn assert_waiting(&self) {
        assert!(self.0.iter().all(|thread| !thread.is_finished()), "one did not wait");
    }

    pub(super) fn join(self) {
        self.0.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// Does all that a client does in a conversation of its own, and waits until it is sealed.
pub(super) fn serves_others(mount: &TestMount) {
    let (root, store) = (mount.path().to_owned(), mount.store().path());
    let served = within(PATIENCE, move || {
        let dir = root.join("other");
        fs::create_dir(&dir).unwrap();
        let path = dir.join("artifacts/tool/x.txt");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"one\ntwo\n").unwrap();
        file.sync_all().unwrap();
        drop(file);
        assert_eq!(fs::read(path.with_file_name("x.txt.grep/two")).unwrap(), b"2:two\n");
        let renamed = path.with_file_name("y.txt");
        fs::rename(&path, &renamed).unwrap();
        rustix::fs::setxattr(&renamed, "user.ctx.tool", b"bash", XattrFlags::empty()).unwrap();
        let removed = path.with_file_name("z.txt");
        fs::write(&removed, b"z\n").unwrap();
        fs::remove_file(&removed).unwrap();
        fs::write(dir.join("history/messages.jsonl"), MESSAGE).unwrap();
        assert!(listing(&dir.join("artifacts/tool")).contains(&"y.txt".to_owned()));
        let manifest = store.join("context/other/manifest.jsonl");
        eventually("it is sealed", || {
            let records = fs::read_to_string(&manifest).unwrap_or_default();
            records.lines().any(|line| line.contains("y.txt") && line.contains("\"digest\""))
        });
    });
    served.expect("another conversation is held up");
}

pub(super) fn manifest(mount: &TestMount) -> PathBuf {
    mount.store().path().join("context/c7/manifest.jsonl")
}

fn records(mount: &TestMount) -> String {
    fs::read_to_string(manifest(mount)).unwrap_or_default()
}

/// Locks a file as another process does.
pub(super) fn lock(path: &Path) -> File {
    let lock = File::open(path).unwrap();
    rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
    lock
}

/// Makes artifacts `0.txt` and so on in `c7`, and waits until they are sealed.
pub(super) fn sealed(mount: &TestMount, count: usize) -> PathBuf {
    for number in 0..count {
        mount.artifact("c7", &format!("{number}.txt"), b"one\ntwo\n");
    }
    eventually("all are sealed", || sealed_paths(&records(mount)) == count);
    mount.tool("c7")
}

#[test]
fn a_locked_manifest_holds_up_its_own_conversation_alone() {
    const FILES: usize = 10;
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let dir = sealed(&mount, FILES);
        let held = lock(&manifest(&mount));
        let mut work: Vec<Work> = Vec::new();
        for number in 2..FILES {
            let path = dir.join(format!("{number}.txt"));
            work.push(Box::new(move || {
                let (tool, flags) = (format!("t{number}"), XattrFlags::CREATE);
                rustix::fs::setxattr(&path, "user.ctx.tool", tool.as_bytes(), flags).unwrap();
            }));
        }
        let (from, to) = (dir.join("0.txt"), dir.join("moved.txt"));
        work.push(Box::new(move || fs::rename(from, to).unwrap()));
        let removed = dir.join("1.txt");
        work.push(Box::new(move || fs::remove_file(removed).unwrap()));
        let waiting = Waiting::start(work);
        serves_others(&mount);
        waiting.assert_waiting();
        drop(held);
        waiting.join();
        let recorded = records(&mount);
        for number in 2..FILES {
            assert!(recorded.contains(&format!("\"t{number}\"")), "{mode:?} {recorded}");
        }
        assert!(recorded.contains("moved.txt") && !dir.join("1.txt").exists());
    }
}

/// The kernel begins no other rename between directories of the mount while one waits.
#[test]
fn a_rename_between_directories_waits_for_a_moment_only() {
    let mount = TestMount::new(Mode::Cached);
    let from = sealed(&mount, 1).join("0.txt");
    let to = mount.path().join("c7/artifacts/terminal/0.log");
    let held = lock(&manifest(&mount));
    let moved = {
        let (from, to) = (from.clone(), to.clone());
        within(PATIENCE, move || fs::rename(from, to))
    };
    let error = moved.expect("it waits for ever").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EAGAIN));
    drop(held);
    fs::rename(from, to).unwrap();
}

#[test]
fn what_a_crash_left_is_shown_while_the_manifest_is_locked() {
    let store = Arc::new(TestStore::new());
    let mut mount = TestMount::of(&store, Mode::Cached, &[]);
    let path = mount.tool("c7").join("x.txt");
    let mut file = File::create(path).unwrap();
    file.write_all(b"one\n").unwrap();
    eventually("it is recorded", || records(&mount).contains("\"live\""));
    mount.power_cut();
    drop((file, mount));
    let mount = TestMount::of(&store, Mode::Cached, &[]);
    let held = lock(&manifest(&mount));
    let view = mount.path().join("c7/artifacts/tool/x.txt.summary");
    let summary = within(PATIENCE, || fs::read_to_string(view).unwrap());
    assert!(summary.expect("a view is held up").contains("INCOMPLETE"));
    serves_others(&mount);
    drop(held);
}

#[test]
fn locked_message_logs_hold_up_nobody_else() {
    let mount = TestMount::new(Mode::Cached);
    let logs: Vec<PathBuf> = (0..6)
        .map(|number| {
            mount.tool(&format!("c{number}"));
            let log = mount.path().join(format!("c{number}/history/messages.jsonl"));
            fs::write(&log, MESSAGE).unwrap();
            log
        })
        .collect();
    let stored = |log: &PathBuf| {
        mount.store().path().join("context").join(log.strip_prefix(mount.path()).unwrap())
    };
    let held: Vec<File> = logs.iter().map(|log| lock(&stored(log))).collect();
    let append = |log: &PathBuf| -> Work {
        let log = log.clone();
        Box::new(move || {
            let mut log = File::options().append(true).open(log).unwrap();
            log.write_all(MESSAGE).unwrap();
            // The end of this one comes with the end of the file.
            log.write_all(MESSAGE.trim_ascii_end()).unwrap();
        })
    };
    let waiting = Waiting::start(logs.iter().map(append).collect());
    serves_others(&mount);
    waiting.assert_waiting();
    drop(held);
    waiting.join();
    for log in &logs {
        eventually("all is there", || fs::read(log).unwrap() == MESSAGE.repeat(3));
    }
}

/// A long output in a message is stored and flushed before the message is appended.
#[test]
fn long_outputs_of_messages_hold_up_nobody_else() {
    const CLIENTS: usize = 6;
    let disk = FaultyDisk::new();
    let mount = TestMount::of(disk.store(), Mode::Cached, &[]);
    for number in 0..CLIENTS {
        mount.tool(&format!("c{number}"));
    }
    disk.fail(Fault::hang().of("artifacts/tool/"));
    let append = |number: usize| -> Work {
        let log = mount.path().join(format!("c{number}/history/messages.jsonl"));
        let output = "line of text\\n".repeat(100_000);
        let message =
            format!("{{\"role\":\"tool\",\"toolCallId\":\"1\",\"content\":\"{output}\"}}\n");
        Box::new(move || fs::write(log, message).unwrap())
    };
    let waiting = Waiting::start((0..CLIENTS).map(append).collect());
    eventually("the disk is asked", || disk.struck() == CLIENTS);
    let root = mount.path().to_owned();
    let served = within(PATIENCE, move || {
        let log = root.join("other/history/messages.jsonl");
        fs::create_dir(root.join("other")).unwrap();
        fs::write(root.join("other/artifacts/tool/x.txt"), b"x\n").unwrap();
        fs::write(&log, MESSAGE).unwrap();
        fs::read(log).unwrap()
    });
    assert_eq!(served.expect("others are held up"), MESSAGE);
    waiting.assert_waiting();
    disk.mend();
    waiting.join();
    let log = fs::read_to_string(mount.path().join("c0/history/messages.jsonl")).unwrap();
    assert!(log.contains("fullOutputPath") && log.lines().count() == 1);
}

#[test]
fn a_disk_that_does_not_flush_holds_up_those_who_asked_for_it() {
    const CLIENTS: usize = 6;
    for flags in [0, libc::O_DSYNC] {
        let disk = FaultyDisk::new();
        let mount = TestMount::of(disk.store(), Mode::Cached, &[]);
        let dir = sealed(&mount, CLIENTS);
        disk.fail(Fault::hang().of("c7"));
        let flush = |number: usize| -> Work {
            let path = dir.join(format!("{number}.txt"));
            Box::new(move || {
                let file = File::options().append(true).custom_flags(flags).open(path);
                let mut file = file.unwrap();
                file.write_all(b"three\n").unwrap();
                if flags == 0 {
                    file.sync_all().unwrap();
                }
            })
        };
        let waiting = Waiting::start((0..CLIENTS).map(flush).collect());
        eventually("the disk is asked", || disk.struck() == CLIENTS);
        serves_others(&mount);
        waiting.assert_waiting();
        assert_eq!(disk.mend(), CLIENTS, "each once");
        waiting.join();
        assert_eq!(disk.truth("c7", "0.txt"), b"one\ntwo\nthree\n");
    }
}

/// Starts a process that has a lease of a file: whoever opens that waits until it is given up.
pub(super) fn lease(path: &Path) -> Client {
    const SCRIPT: &str = "
import fcntl, signal, time
F_SETSIG = 10
held = os.open(path, os.O_RDONLY)
fcntl.fcntl(held, F_SETSIG, signal.SIGURG)
while True:
    try:
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        break
    except OSError:
        time.sleep(0.01)
";
    Client::python(SCRIPT, path)
}

#[test]
fn a_leased_file_holds_up_those_who_open_it() {
    let mount = TestMount::new(Mode::Cached);
    let dir = sealed(&mount, 1);
    let leased = lease(&mount.store().plain("c7", "0.txt"));
    let read = |name: &str| -> Work {
        let path = dir.join(name);
        Box::new(move || assert_eq!(fs::read(path).unwrap(), b"one\ntwo\n"))
    };
    let mut work: Vec<Work> = (0..6).map(|_| read("0.txt")).collect();
    work.push(read("0.txt.tail"));
    let waiting = Waiting::start(work);
    serves_others(&mount);
    waiting.assert_waiting();
    drop(leased);
    waiting.join();
}

/// Each of them may find that the file was closed a moment ago.
#[test]
fn an_open_under_write_once_waits_for_a_close_but_not_for_ever() {
    let mount = TestMount::of(&Arc::new(TestStore::new()), Mode::Cached, &["--write-once"]);
    let path = mount.tool("c7").join("x.txt");
    let writer = File::create(&path).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                drop(writer.try_clone().unwrap());
            }
        });
        let path = path.clone();
        let opened = within(PATIENCE, move || {
            let open = || drop(File::options().append(true).open(&path).unwrap());
            thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(open);
                }
            });
        });
        stop.store(true, Relaxed);
        opened.expect("a descriptor that is closed again and again holds up an open");
    });
}

/// A large sparse file takes long to analyse, and many take longer.
#[test]
fn an_output_is_sealed_before_all_the_large_ones_of_another_conversation() {
    const HOLES: usize = 300;
    let mut mount = TestMount::new(Mode::Cached);
    let dir = mount.tool("c7");
    for number in 0..HOLES {
        File::create(dir.join(format!("{number}.bin"))).unwrap().set_len(1 << 40).unwrap();
    }
    let count = || records(&mount).matches("\"sealed\"").count();
    let before = count();
    serves_others(&mount);
    let after = count();
    assert!(after < HOLES, "{before} before, and {after} after");
    assert_eq!(mount.end(Signal::TERM), Some(0), "it does not read terabytes to end");
}

/// Beside processes that compute, a thread of the lowest priority gets a seventieth of a processor.
#[test]
fn what_waits_for_sealing_does_not_wait_for_busy_processes() {
    const MOST: i32 = 5;
    let mount = TestMount::new(Mode::Cached);
    sealed(&mount, 1);
    let threads = format!("/proc/{}/task", mount.pid());
    let nice = |thread: &Path| -> i32 {
        let stat = fs::read_to_string(thread.join("stat")).unwrap();
        // The name may have spaces; see proc_pid_stat(5).
        let (_, rest) = stat.rsplit_once(')').unwrap();
        rest.split_whitespace().nth(16).unwrap().parse().unwrap()
    };
    let first = nice(&Path::new(&threads).join(mount.pid().to_string()));
    let all: Vec<i32> = fs::read_dir(&threads)
        .unwrap()
        .map(|thread| nice(&thread.unwrap().path()) - first)
        .collect();
    let (least, most) = (all.iter().min().unwrap(), all.iter().max().unwrap());
    assert!(*least == 0 && (1..=MOST).contains(most), "{all:?}");
}
