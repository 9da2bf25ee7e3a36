//! Places to measure: a plain directory, a minimal FUSE filesystem and a mount in each mode, and
//! bindfs if it is installed.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, Signal};

/// A column of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    BarePassthrough,
    Passthrough,
    BareCached,
    Cached,
    Bindfs,
}

impl Kind {
    /// Returns all kinds that are available on this machine.
    pub(crate) fn all() -> Vec<Self> {
        let ours =
            [Self::Plain, Self::BarePassthrough, Self::Passthrough, Self::BareCached, Self::Cached];
        ours.into_iter().chain(has_bindfs().then_some(Self::Bindfs)).collect()
    }

    /// Returns the minimal FUSE filesystem of the same mode, for comparison.
    pub(crate) fn bare(self) -> Option<Self> {
        match self {
            Self::Passthrough => Some(Self::BarePassthrough),
            Self::Cached => Some(Self::BareCached),
            _ => None,
        }
    }

    /// Returns the name of the directory for this kind.
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::BarePassthrough => "bare-passthrough",
            Self::Passthrough => "passthrough",
            Self::BareCached => "bare-cached",
            Self::Cached => "cached",
            Self::Bindfs => "bindfs",
        }
    }

    /// Returns the argument of `--passthrough`.
    fn passthrough(self) -> &'static str {
        if matches!(self, Self::Cached | Self::BareCached) { "off" } else { "auto" }
    }
}

/// Returns true if `bindfs` is installed.
pub(crate) fn has_bindfs() -> bool {
    Command::new("bindfs").arg("--version").output().is_ok_and(|ran| ran.status.success())
}

/// A directory to measure, and the daemon that serves it.
pub(crate) struct Place {
    pub(crate) kind: Kind,
    dir: PathBuf,
    daemon: Option<Child>,
    /// Seconds from starting the daemon until its mount answered.
    pub(crate) start: f64,
}

impl Place {
    /// Returns a place of each kind below `dir`, each with a separate store.
    pub(crate) fn all(program: &Path, dir: &Path) -> Vec<Self> {
        let new = |kind: Kind| {
            let own = dir.join(kind.name());
            fs::create_dir(&own).unwrap();
            if !matches!(kind, Kind::Passthrough | Kind::Cached) {
                fs::create_dir_all(own.join("store/context")).unwrap();
            }
            Self::over(&own.join("store"), program, &own, kind)
        };
        Kind::all().into_iter().map(new).collect()
    }

    /// Returns a place that shows `store`, mounted below `dir`.
    pub(crate) fn over(store: &Path, program: &Path, dir: &Path, kind: Kind) -> Self {
        let (files, mount) = (store.join("context"), dir.join("mnt"));
        let mut command = match kind {
            Kind::Plain => return Self { kind, dir: files, daemon: None, start: 0.0 },
            Kind::BarePassthrough | Kind::BareCached => {
                let mut command = Command::new(env::current_exe().unwrap());
                command.arg("--serve").arg(&files).arg(&mount).arg(kind.passthrough());
                command
            }
            Kind::Passthrough | Kind::Cached => {
                let mut command = Command::new(program);
                command.arg("mount").arg(&mount).arg("--store").arg(store);
                command.args(["--foreground", "--log", "warn"]);
                command.args(["--passthrough", kind.passthrough()]);
                command
            }
            Kind::Bindfs => {
                let mut command = Command::new("bindfs");
                command.arg("-f").arg(&files).arg(&mount);
                command
            }
        };
        fs::create_dir_all(&mount).unwrap();
        let started = Instant::now();
        let mut daemon = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let outside = fs::metadata(dir).unwrap().dev();
        while fs::metadata(&mount).unwrap().dev() == outside {
            assert!(daemon.try_wait().unwrap().is_none(), "the daemon ended");
            thread::sleep(Duration::from_millis(1));
        }
        Self { kind, dir: mount, daemon: Some(daemon), start: started.elapsed().as_secs_f64() }
    }

    /// Returns true if files have views here.
    pub(crate) fn has_views(&self) -> bool {
        matches!(self.kind, Kind::Passthrough | Kind::Cached)
    }

    /// Returns true if this is another FUSE filesystem, for comparison.
    pub(crate) fn is_bare(&self) -> bool {
        !self.has_views() && self.kind != Kind::Plain
    }

    /// Returns the directory of tool outputs of the conversation `name`.
    pub(crate) fn stored(&self, name: &str) -> PathBuf {
        self.dir.join(name).join("artifacts/tool")
    }

    /// Creates a directory for artifacts. In a mount, it belongs to a new conversation.
    pub(crate) fn fresh(&self, name: &str) -> PathBuf {
        let dir = self.dir.join(name);
        fs::create_dir(&dir).unwrap();
        self.folder(name)
    }

    /// Returns the directory that [`Self::fresh`] created.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let dir = self.dir.join(name);
        if self.has_views() { dir.join("artifacts/tool") } else { dir }
    }

    /// Removes the directory that [`Self::fresh`] created. Syncs the disk, so that pending writes
    /// do not affect the next measurement.
    pub(crate) fn clear(&self, name: &str) {
        fs::remove_dir_all(self.dir.join(name)).unwrap();
        rustix::fs::sync();
    }

    /// Waits until the daemon has sealed all written files.
    pub(crate) fn settle(&self) {
        let status = self.dir.join(".ctxfs/status.json");
        let idle = || fs::read_to_string(&status).unwrap().contains("\"waitingToSeal\": 0");
        while self.has_views() && !idle() {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the peak memory of the daemon so far, in MB.
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
            match self.kind {
                Kind::Passthrough | Kind::Cached => {
                    rustix::process::kill_process(Pid::from_child(daemon), Signal::TERM).ok();
                }
                _ => unmount(&self.dir, UnmountFlags::DETACH).unwrap(),
            }
            daemon.wait().ok();
        }
    }
}
