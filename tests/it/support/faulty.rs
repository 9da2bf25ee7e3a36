//! A disk that fails by rule: a directory, mirrored through FUSE, on which calls can be made to
//! fail.
//!
//! The process of the test serves it. Nothing is cached, so every call of the program under test
//! reaches it.

mod fault;
mod mirror;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use fuser::{BackgroundSession, Config, MountOption};
use rustix::mount::UnmountFlags;

use fault::Faults;
pub(crate) use fault::{Call, Fault};
use mirror::{Mirror, Times};

use crate::support::TestStore;

/// A store on a disk that can be made to fail.
pub(crate) struct FaultyDisk {
    store: Arc<TestStore>,
    faults: Arc<Faults>,
    /// The directory in which the bytes really are.
    behind: PathBuf,
    session: Option<BackgroundSession>,
}

impl FaultyDisk {
    /// Creates a store. Nothing fails yet.
    pub(crate) fn new() -> Self {
        Self::with(Times::Exact)
    }

    /// Creates a store as [`Self::new`] does, on a disk that keeps times in whole seconds.
    pub(crate) fn with_coarse_times() -> Self {
        Self::with(Times::Seconds)
    }

    fn with(times: Times) -> Self {
        let store = Arc::new(TestStore::new());
        let behind = store.scratch("disk");
        let faults = Arc::new(Faults::default());
        let mirror = Mirror::new(&behind, &faults, times);
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("faulty".to_owned())];
        let session = fuser::spawn_mount(mirror, store.path(), &config).unwrap();
        Self { store, faults, behind, session: Some(session) }
    }

    pub(crate) fn store(&self) -> &Arc<TestStore> {
        &self.store
    }

    /// Adds a fault.
    pub(crate) fn fail(&self, fault: Fault) {
        self.faults.begin(fault);
    }

    /// Removes all faults. Returns the number of calls that have failed.
    pub(crate) fn mend(&self) -> usize {
        self.faults.end()
    }

    /// Returns the number of calls that have failed since the fault was set.
    pub(crate) fn struck(&self) -> usize {
        self.faults.struck()
    }

    /// Returns the stored bytes of a tool's artifact, bypassing the disk that fails.
    pub(crate) fn truth(&self, conversation: &str, name: &str) -> Vec<u8> {
        fs::read(self.path_behind(conversation, name)).unwrap()
    }

    /// Returns the inode number of the file with this name.
    pub(crate) fn number(&self, conversation: &str, name: &str) -> u64 {
        self.path_behind(conversation, name).metadata().unwrap().ino()
    }

    fn path_behind(&self, conversation: &str, name: &str) -> PathBuf {
        let tools = self.behind.join("context").join(conversation).join("artifacts/tool");
        tools.join(name)
    }
}

impl Drop for FaultyDisk {
    fn drop(&mut self) {
        self.faults.end();
        rustix::mount::unmount(self.store.path(), UnmountFlags::DETACH).ok();
        drop(self.session.take());
    }
}
