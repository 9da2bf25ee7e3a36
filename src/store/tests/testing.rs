//! Fixtures for the tests of this crate and of other crates.
#![allow(
    dead_code,
    missing_debug_implementations,
    missing_docs,
    clippy::unwrap_used,
    reason = "fixtures, of which tests of other crates use a part"
)]

/// The clock that dates files. It may advance in steps of several milliseconds.
pub mod disk_clock {
    use std::thread;
    use std::time::Duration;

    use crate::stat_file;

    /// Waits until a new file gets a later creation time than all existing files, compared in
    /// milliseconds as in records.
    pub fn moves_on() {
        let now = || stat_file(tempfile::tempfile().unwrap()).unwrap().created().as_millis();
        let before = now();
        while now() == before {
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Runs code with the rights of an ordinary user.
pub mod mere_owner {
    use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

    /// Runs `work` in a thread with the rights of an ordinary user: only the rights that file modes
    /// give to the owner.
    pub fn as_mere_owner<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        let limited = || {
            let CapabilitySets { permitted, inheritable, .. } = capabilities(None).unwrap();
            let over = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
            let effective = permitted - over;
            set_capabilities(None, CapabilitySets { effective, permitted, inheritable }).unwrap();
            work()
        };
        std::thread::scope(|scope| scope.spawn(limited).join()).unwrap()
    }
}
