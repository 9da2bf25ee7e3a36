//! A real mount that a test owns.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{fs, thread};

use rustix::mount::UnmountFlags;
use rustix::process::Signal;
use serde_json::Value;

use crate::support::{
    Command, TestStore, comes_true, eventually, is_mounted, is_trying, processes_of, signal,
    while_none_starts,
};

/// The longest life of a mount. After it, a hung call of a test gets an error. Beside twenty busy
/// processes, the longest test took more than five minutes.
const LIFETIME: Duration = Duration::from_mins(20);

/// Looks, some 60 ms in all, after which nothing more is expected to come.
const QUIET: u32 = 6;

/// The modes of reading artifacts: by the kernel from the store's file, or through the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Passthrough,
    Cached,
}

impl Mode {
    pub(crate) const ALL: [Self; 2] = [Self::Passthrough, Self::Cached];

    fn flag(self) -> &'static str {
        match self {
            Self::Passthrough => "auto",
            Self::Cached => "off",
        }
    }
}

/// A daemon in the foreground and its mountpoint. Both end with it, even if the test panics.
pub(crate) struct TestMount {
    dir: PathBuf,
    daemon: Child,
    log: PathBuf,
    /// Ends the watch over the mount when it is dropped.
    _watch: mpsc::Sender<()>,
    // Last: the mount must be gone before its directory is removed.
    store: Arc<TestStore>,
}

impl TestMount {
    /// Mounts a new store.
    pub(crate) fn new(mode: Mode) -> Self {
        Self::of(&Arc::new(TestStore::new()), mode, &[])
    }

    /// Mounts `store`, with more options.
    pub(crate) fn of(store: &Arc<TestStore>, mode: Mode, options: &[&str]) -> Self {
        Self::start(store, mode, options, None)
    }

    /// Mounts a new store, served by a daemon that may have so many descriptors.
    pub(crate) fn with_descriptors(mode: Mode, most: u64) -> Self {
        Self::start(&Arc::new(TestStore::new()), mode, &[], Some(most))
    }

    fn start(
        store: &Arc<TestStore>,
        mode: Mode,
        options: &[&str],
        descriptors: Option<u64>,
    ) -> Self {
        let dir = store.scratch("mnt");
        let log = dir.with_extension("log");
        let daemon = start(store, mode, options, descriptors, (&dir, &log));
        let watch = watch(dir.clone(), daemon.id());
        let mut mount = Self { dir, daemon, log, _watch: watch, store: Arc::clone(store) };
        mount.await_ready();
        mount
    }

    /// Returns the mountpoint.
    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn store(&self) -> &Arc<TestStore> {
        &self.store
    }

    /// Returns the id of the daemon's process.
    pub(crate) fn pid(&self) -> u32 {
        self.daemon.id()
    }

    /// Creates a conversation, and returns its directory for tool output.
    pub(crate) fn tool(&self, conversation: &str) -> PathBuf {
        let dir = self.dir.join(conversation);
        if !dir.is_dir() {
            fs::create_dir(&dir).unwrap();
        }
        dir.join("artifacts/tool")
    }

    /// Writes an artifact and closes it.
    pub(crate) fn artifact(&self, conversation: &str, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.tool(conversation).join(name);
        while_none_starts(|| fs::write(&path, bytes)).unwrap();
        path
    }

    /// Returns the number of descriptors that the daemon has.
    pub(crate) fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// Kills the daemon and its watchdogs, as a power cut would. The mount may be left dead.
    pub(crate) fn power_cut(&mut self) {
        let all = processes_of(&self.dir);
        for pid in &all {
            signal(*pid, Signal::STOP);
        }
        for pid in all {
            signal(pid, Signal::KILL);
        }
        self.daemon.wait().unwrap();
    }

    /// Ends the daemon with `by` and returns its exit code.
    pub(crate) fn end(&mut self, by: Signal) -> Option<i32> {
        signal(self.daemon.id(), by);
        self.ended()
    }

    /// Waits for the daemon to end and returns its exit code.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let mut ended = None;
        eventually("the daemon ends", || {
            ended = self.daemon.try_wait().unwrap();
            ended.is_some()
        });
        ended.unwrap().code()
    }

    fn await_ready(&mut self) {
        let outside = fs::metadata(self.dir.parent().unwrap()).unwrap().dev();
        let dir = self.dir.clone();
        eventually("the mount is ready", || {
            if let Some(status) = self.daemon.try_wait().unwrap() {
                panic!("the daemon ended ({status}):\n{}", self.said());
            }
            fs::metadata(&dir).is_ok_and(|found| found.dev() != outside)
        });
    }

    /// Returns the status page.
    pub(crate) fn status(&self) -> Value {
        serde_json::from_slice(&fs::read(self.dir.join(".ctxfs/status.json")).unwrap()).unwrap()
    }

    /// Waits until closed files are sealed. The kernel releases a file some time after its close:
    /// later, if a child that another test has just forked still has the descriptor. So some time
    /// without anything to seal is taken for the end.
    pub(crate) fn settle(&self) {
        let mut quiet = 0;
        eventually("all is sealed", || {
            quiet = if self.status()["waitingToSeal"] == 0 { quiet + 1 } else { 0 };
            quiet == QUIET
        });
    }

    /// Returns the output of the daemon so far.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn tear_down(&mut self) {
        signal(self.daemon.id(), Signal::TERM);
        // After a power cut nobody is left to unmount.
        let is_done = || !is_mounted(&self.dir) || processes_of(&self.dir).is_empty();
        if comes_true(|| !matches!(self.daemon.try_wait(), Ok(None)) && is_done())
            && !is_mounted(&self.dir)
        {
            return;
        }
        force(&self.dir, self.daemon.id());
        self.daemon.wait().ok();
    }
}

impl Drop for TestMount {
    fn drop(&mut self) {
        self.tear_down();
        if thread::panicking() && !is_trying() {
            println!("--- the daemon of {} said ---\n{}", self.dir.display(), self.said());
        }
    }
}

fn start(
    store: &TestStore,
    mode: Mode,
    options: &[&str],
    descriptors: Option<u64>,
    (dir, log): (&Path, &Path),
) -> Child {
    let log = File::create(log).unwrap();
    let program = env!("CARGO_BIN_EXE_ctxfs");
    let limited =
        |most| Command::new("prlimit").arg(format!("--nofile={most}:{most}")).arg("setpriv");
    // The daemon ends with the test's thread, whatever becomes of that.
    descriptors
        .map_or_else(|| Command::new("setpriv"), limited)
        .without_settings()
        .with_settings_of(store)
        .args(["--pdeathsig", "TERM", program, "mount"])
        .arg(dir)
        .arg("--store")
        .arg(store.path())
        .args(["--foreground", "--passthrough", mode.flag()])
        .args(options)
        .with(|inner| {
            inner.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        })
        .spawn()
}

/// Ends a mount that outlives its time, so that nothing waits for it any longer.
fn watch(dir: PathBuf, daemon: u32) -> mpsc::Sender<()> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || {
        if receive.recv_timeout(LIFETIME) == Err(mpsc::RecvTimeoutError::Timeout) {
            force(&dir, daemon);
        }
    });
    send
}

fn force(dir: &Path, daemon: u32) {
    rustix::mount::unmount(dir, UnmountFlags::FORCE).ok();
    for pid in processes_of(dir) {
        signal(pid, Signal::KILL);
    }
    signal(daemon, Signal::KILL);
    while is_mounted(dir) && rustix::mount::unmount(dir, UnmountFlags::DETACH).is_ok() {}
}
