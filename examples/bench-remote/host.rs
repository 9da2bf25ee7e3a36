//! A host: a store, commands on the store, and a mount of the store.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use rustix::process::{Pid, Signal};

use crate::measures::Bench;
use crate::program;

/// Interval of polling.
const OFTEN: Duration = Duration::from_millis(5);
/// Time limit for the start and for the end of a mount.
const PATIENCE: Duration = Duration::from_mins(1);

/// A host, whose store is removed on drop.
pub(crate) struct Host<'a> {
    bench: &'a Bench<'a>,
    dir: PathBuf,
}

impl<'a> Host<'a> {
    /// Returns a host without a store, in the directory `name`.
    pub(crate) fn new(bench: &'a Bench<'a>, name: &str) -> Self {
        let dir = bench.dir.join(name);
        fs::create_dir_all(dir.join("mnt")).unwrap();
        Self { bench, dir }
    }

    /// Returns a host whose store has one conversation. `write` writes its outputs through a mount.
    /// Waits until all outputs are sealed.
    pub(crate) fn filled(
        bench: &'a Bench<'a>,
        conversation: &str,
        write: impl FnOnce(&Path) -> std::io::Result<()>,
    ) -> Result<Self, String> {
        let host = Self::new(bench, conversation);
        let mount = host.mount(None)?;
        let written = fs::create_dir(mount.dir.join(conversation))
            .and_then(|()| write(&mount.outputs(conversation)));
        written.map_err(|error| format!("cannot write the outputs: {error}"))?;
        mount.settle()?;
        drop(mount);
        Ok(host)
    }

    /// Returns the directory in the store that has the outputs of a conversation.
    pub(crate) fn outputs(&self, conversation: &str) -> PathBuf {
        self.store().join("context").join(conversation).join("artifacts/tool")
    }

    /// Returns `ctxfs COMMAND --store STORE ARGUMENTS`, with `bucket` as its remote, if any.
    pub(crate) fn ctxfs(&self, bucket: Option<&str>, command: &str, arguments: &[&str]) -> Command {
        let mut ctxfs = Command::new(self.bench.program);
        ctxfs.arg(command).arg("--store").arg(self.store()).args(arguments);
        ctxfs.env("XDG_CONFIG_HOME", "/nonexistent").env_remove("CTXFS_REMOTE_URL");
        ctxfs.envs(self.bench.server.environment());
        if let Some(bucket) = bucket {
            ctxfs.env("CTXFS_REMOTE_URL", format!("s3://{bucket}/hosts"));
        }
        ctxfs
    }

    pub(crate) fn mount(&self, bucket: Option<&str>) -> Result<Mount, String> {
        let dir = self.dir.join("mnt");
        let outside = fs::metadata(&dir).unwrap().dev();
        let mut command = self.ctxfs(bucket, "mount", &["--foreground", "--log", "warn"]);
        command.arg(&dir).stdin(Stdio::null()).stdout(Stdio::null());
        let server = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let mut mount = Mount { dir, server };
        let began = Instant::now();
        while fs::metadata(&mount.dir).is_ok_and(|found| found.dev() == outside) {
            if mount.server.try_wait().unwrap().is_some() || began.elapsed() > PATIENCE {
                return Err(format!("{command:?} does not answer"));
            }
            thread::sleep(OFTEN);
        }
        Ok(mount)
    }

    fn store(&self) -> PathBuf {
        self.dir.join("store")
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        // Anything left is removed with the directory of the benchmark.
        drop(fs::remove_dir_all(self.store()));
    }
}

/// A mount of a store. It is unmounted on drop.
pub(crate) struct Mount {
    dir: PathBuf,
    server: Child,
}

impl Mount {
    /// Returns the directory in the mount that has the outputs of a conversation.
    pub(crate) fn outputs(&self, conversation: &str) -> PathBuf {
        self.dir.join(conversation).join("artifacts/tool")
    }

    /// Returns the peak memory so far of each process of the mount, in MB.
    pub(crate) fn memory(&self) -> BTreeMap<String, f64> {
        program::peaks(self.server.id())
    }

    /// Waits until all written outputs are sealed.
    fn settle(&self) -> Result<(), String> {
        let status = self.dir.join(".ctxfs/status.json");
        loop {
            let text = fs::read_to_string(&status).map_err(|error| format!("status: {error}"))?;
            if text.contains("\"waitingToSeal\": 0") {
                return Ok(());
            }
            thread::sleep(OFTEN);
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // It may have ended already.
        rustix::process::kill_process(Pid::from_child(&self.server), Signal::TERM).ok();
        let began = Instant::now();
        while self.server.try_wait().is_ok_and(|status| status.is_none()) {
            if began.elapsed() > PATIENCE {
                drop(self.server.kill());
                drop(self.server.wait());
                return;
            }
            thread::sleep(OFTEN);
        }
    }
}
