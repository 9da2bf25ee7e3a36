//! The paths that the settings of hosts name.

use std::path::PathBuf;

/// The paths that settings name.
#[derive(Debug, Clone)]
pub(super) struct NamedPaths {
    /// This program.
    pub(super) program: String,
    /// The mountpoint.
    pub(super) mountpoint: PathBuf,
    /// The mount, as readers see it.
    pub(super) mount: String,
    /// The store.
    pub(super) store: String,
    /// The store of the hook that is there, if it is another one.
    pub(super) former_store: Option<String>,
    /// True if hooks and units would not find the store unless it is named to them.
    pub(super) is_store_named: bool,
}

impl NamedPaths {
    /// Returns the store, if it is to be named.
    pub(super) fn store_to_name(&self) -> Option<&str> {
        self.is_store_named.then_some(&self.store)
    }
}
