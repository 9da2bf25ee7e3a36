//! Where to measure: a plain directory, and in each mode a bare FUSE filesystem and a mount.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use ctxfs::fuse::mount;
use rustix::process::Pid;
use rustix::process::Signal;

/// A column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    BarePassthrough,
    Passthrough,
    BareCached,
    Cached,
}

impl Kind {
    /// What such a filesystem costs by itself.
    pub(crate) fn bare(self) -> Option<Self> {
        match self {
            Self::Passthrough => Some(Self::BarePassthrough),
            Self::Cached => Some(Self::BareCached),
            _ => None,
        }
    }

    /// The argument of `--passthrough`.
    fn passthrough(self) -> &'static str {
        if matches!(self, Self::Cached | Self::BareCached) { "off" } else { "auto" }
    }
}

/// A directory to measure in, and the daemon that serves it.
pub(crate) struct Place {
    pub(crate) kind: Kind,
    dir: PathBuf,
    daemon: Option<Child>,
}

impl Place {
    /// One of each kind, all below `dir`.
    pub(crate) fn all(program: &Path, dir: &Path) -> [Self; 5] {
        let plain = dir.join("plain");
        fs::create_dir(&plain).unwrap();
        [
            Self { kind: Kind::Plain, dir: plain, daemon: None },
            Self::bare(&dir.join("bare-passthrough"), Kind::BarePassthrough),
            Self::mounted(program, &dir.join("passthrough"), Kind::Passthrough),
            Self::bare(&dir.join("bare-cached"), Kind::BareCached),
            Self::mounted(program, &dir.join("cached"), Kind::Cached),
        ]
    }

    fn bare(dir: &Path, kind: Kind) -> Self {
        let store = dir.join("store");
        fs::create_dir_all(&store).unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command.arg("--serve").arg(&store).arg(dir.join("mnt")).arg(kind.passthrough());
        Self::served(command, dir, kind)
    }

    fn mounted(program: &Path, dir: &Path, kind: Kind) -> Self {
        let mut command = Command::new(program);
        command.arg("mount").arg(dir.join("mnt")).arg("--store").arg(dir.join("store"));
        command.args(["--foreground", "--log", "warn", "--passthrough", kind.passthrough()]);
        Self::served(command, dir, kind)
    }

    fn served(mut command: Command, dir: &Path, kind: Kind) -> Self {
        let mount = dir.join("mnt");
        fs::create_dir_all(&mount).unwrap();
        let mut daemon = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let outside = fs::metadata(dir).unwrap().dev();
        while fs::metadata(&mount).unwrap().dev() == outside {
            assert!(daemon.try_wait().unwrap().is_none(), "the daemon ended");
            thread::sleep(Duration::from_millis(5));
        }
        Self { kind, dir: mount, daemon: Some(daemon) }
    }

    /// Whether files have views here.
    pub(crate) fn has_views(&self) -> bool {
        matches!(self.kind, Kind::Passthrough | Kind::Cached)
    }

    /// Whether this is a filesystem that does nothing else.
    pub(crate) fn is_bare(&self) -> bool {
        matches!(self.kind, Kind::BarePassthrough | Kind::BareCached)
    }

    /// Makes a new directory for artifacts: of a conversation of its own, in a mount.
    pub(crate) fn fresh(&self, name: &str) -> PathBuf {
        let dir = self.dir.join(name);
        fs::create_dir(&dir).unwrap();
        self.folder(name)
    }

    /// The directory that [`Self::fresh`] made.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let dir = self.dir.join(name);
        if self.has_views() { dir.join("artifacts/tool") } else { dir }
    }

    /// Removes what [`Self::fresh`] made, and lets the disk catch up, so that the next measure
    /// does not pay for this one.
    pub(crate) fn clear(&self, name: &str) {
        fs::remove_dir_all(self.dir.join(name)).unwrap();
        rustix::fs::sync();
    }

    /// Waits until the daemon has sealed what was written.
    pub(crate) fn settle(&self) {
        let status = self.dir.join(".ctxfs/status.json");
        let idle = || fs::read_to_string(&status).unwrap().contains("\"waitingToSeal\": 0");
        while self.has_views() && !idle() {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Most memory that the daemon has held so far, in MB.
    pub(crate) fn memory(&self) -> Option<f64> {
        let status = format!("/proc/{}/status", self.daemon.as_ref()?.id());
        let status = fs::read_to_string(status).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
        let kilobytes: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kilobytes / 1024.0)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(daemon) = &mut self.daemon {
            if self.kind.bare().is_none() {
                mount::unmount(&self.dir).unwrap();
            }
            rustix::process::kill_process(Pid::from_child(daemon), Signal::TERM).ok();
            daemon.wait().ok();
        }
    }
}
