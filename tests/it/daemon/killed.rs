//! Clients that are told to end while they wait for what another process holds.

use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::Signal;

use super::waiting::{MESSAGE, lease, lock, manifest, sealed};
use crate::support::{Command, Mode, TestMount, eventually, signal};

/// The longest time from a signal to the end of the process.
const AT_ONCE: Duration = Duration::from_secs(5);

/// The time for which a client sleeps only if it waits.
const ASLEEP: Duration = Duration::from_millis(150);

/// A client that waits for the mount. It is killed when it is dropped, and ends by itself once what
/// it waits for is given up.
struct Waiting(Child);

impl Waiting {
    /// Starts a client, which prints a line first. Returns once it sleeps for so long that it must
    /// be waiting.
    fn start(command: Command) -> Self {
        let mut client = Self(
            command
                .with(|inner| {
                    inner.stdout(Stdio::piped());
                })
                .spawn(),
        );
        client.0.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
        let stat = format!("/proc/{}/stat", client.0.id());
        let mut asleep = Instant::now();
        eventually("it waits", || {
            let stat = fs::read_to_string(&stat).unwrap();
            if !stat.contains(") S ") && !stat.contains(") D ") {
                asleep = Instant::now();
            }
            asleep.elapsed() > ASLEEP
        });
        assert!(client.0.try_wait().unwrap().is_none(), "it did not wait");
        client
    }

    /// Starts a shell that runs `script`.
    fn shell(script: &str, paths: &[&Path]) -> Self {
        Self::start(Command::shell(&format!("echo begun\n{script}"), paths))
    }

    /// Starts a script of Python with `path` as `path`, which has a handler of its own for SIGINT.
    fn python(script: &str, path: &Path) -> Self {
        let begin = "import os, signal, sys, time\npath = sys.argv[1]\n\
                     signal.signal(signal.SIGUSR1, lambda *_: None)";
        Self::start(Command::python(&format!("{begin}\n{script}"), &[path]))
    }

    fn signal(&self, with: Signal) {
        signal(self.0.id(), with);
    }

    /// Returns how it ended, or `None` if it has not in time.
    fn ended(&mut self) -> Option<ExitStatus> {
        let started = Instant::now();
        loop {
            match self.0.try_wait().unwrap() {
                None if started.elapsed() < AT_ONCE => {
                    thread::sleep(Duration::from_millis(5));
                }
                ended => return ended,
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.try_wait().ok();
    }
}

/// Checks that signals end a client that runs `script`, which waits.
fn end_at_once(script: &str, paths: &[&Path]) {
    for with in [Signal::KILL, Signal::INT, Signal::TERM] {
        let mut waiting = Waiting::shell(script, paths);
        waiting.signal(with);
        let ended = waiting.ended().unwrap_or_else(|| panic!("{script} lives on after {with:?}"));
        assert_eq!(ended.signal(), Some(with.as_raw()), "{script}: {ended:?}");
    }
}

#[test]
fn clients_that_wait_for_a_manifest_can_be_ended() {
    let mount = TestMount::new(Mode::Cached);
    let dir = sealed(&mount, 2);
    let (from, to, other) = (dir.join("0.txt"), dir.join("moved.txt"), dir.join("1.txt"));
    let held = lock(&manifest(&mount));
    end_at_once("exec mv \"$1\" \"$2\"", &[&from, &to]);
    end_at_once("exec rm \"$1\"", &[&other]);
    drop(held);
    assert!(from.exists() && other.exists() && !to.exists());
    fs::rename(from, to).unwrap();
}

#[test]
fn clients_that_wait_for_a_message_log_can_be_ended() {
    let mount = TestMount::new(Mode::Cached);
    mount.tool("c7");
    let log = mount.path().join("c7/history/messages.jsonl");
    fs::write(&log, MESSAGE).unwrap();
    let held = lock(&mount.store().path().join("context/c7/history/messages.jsonl"));
    let message = String::from_utf8_lossy(MESSAGE.trim_ascii_end());
    end_at_once(&format!("echo '{message}' >> \"$1\""), &[&log]);
    // The end of this one comes with the end of the file.
    end_at_once(&format!("printf %s '{message}' >> \"$1\""), &[&log]);
    drop(held);
    eventually("what was closed is there", || fs::read(&log).unwrap() == MESSAGE.repeat(4));
}

/// The kernel closes the files of a process that was killed, and tells nobody why.
#[test]
fn a_client_that_was_killed_waits_for_nothing_when_its_files_are_closed() {
    let mount = TestMount::new(Mode::Cached);
    mount.tool("c7");
    let log = mount.path().join("c7/history/messages.jsonl");
    fs::write(&log, MESSAGE).unwrap();
    let held = lock(&mount.store().path().join("context/c7/history/messages.jsonl"));
    let line = String::from_utf8_lossy(MESSAGE.trim_ascii_end());
    let script = format!(
        "log = os.open(path, os.O_WRONLY | os.O_APPEND)\nos.write(log, b'{line}')\n\
         print('begun', flush=True)\ntime.sleep(1000)"
    );
    let mut killed = Waiting::python(&script, &log);
    killed.signal(Signal::KILL);
    assert!(killed.ended().is_some(), "it lives on");
    drop(held);
    eventually("its line is appended", || fs::read(&log).unwrap() == MESSAGE.repeat(2));
}

#[test]
fn clients_that_wait_for_a_lease_can_be_ended() {
    let mount = TestMount::new(Mode::Cached);
    let dir = sealed(&mount, 1);
    let leased = lease(&mount.store().plain("c7", "0.txt"));
    let to = mount.store().scratch("copy").join("x");
    end_at_once("exec cp \"$1\" \"$2\"", &[&dir.join("0.txt"), &to]);
    end_at_once("exec cat \"$1\"", &[&dir.join("0.txt.tail")]);
    drop(leased);
}

/// Ctrl-C reaches a program that has a handler for it; what it handles otherwise ends no wait.
#[test]
fn handlers_run_where_they_mean_to_end() {
    let mount = TestMount::new(Mode::Cached);
    let path = sealed(&mount, 1).join("0.txt");
    let held = lock(&manifest(&mount));
    let script = "print('begun', flush=True)\ntry:\n    \
                  os.setxattr(path, 'user.ctx.tool', b'x')\n\
                  except KeyboardInterrupt:\n    sys.exit(7)";
    let mut waiting = Waiting::python(script, &path);
    waiting.signal(Signal::INT);
    assert_eq!(waiting.ended().and_then(|ended| ended.code()), Some(7));
    let mut waiting = Waiting::python(script, &path);
    waiting.signal(Signal::USR1);
    assert!(!comes_true_soon(|| waiting.0.try_wait().unwrap().is_some()), "it was interrupted");
    drop(held);
    assert_eq!(waiting.ended().and_then(|ended| ended.code()), Some(0));
}

/// Returns true if `happened` does, within the time of some looks at those who wait.
fn comes_true_soon(mut happened: impl FnMut() -> bool) -> bool {
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(400) {
        if happened() {
            return true;
        }
        thread::sleep(Duration::from_millis(5));
    }
    false
}
