//! For tests: work with the rights of a user who is not root.
#![allow(
    dead_code,
    missing_debug_implementations,
    missing_docs,
    clippy::unwrap_used,
    reason = "a fixture, of which tests of other crates use a part"
)]

use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

/// Does `work` in a thread that has only the rights which the modes of files give to their owner,
/// as the server of an ordinary user has.
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
