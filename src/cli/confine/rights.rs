//! Capabilities: those that serving needs, and no other.

use rustix::thread::CapabilitySet;
use rustix::thread::CapabilitySets;
use rustix::thread::capabilities;
use rustix::thread::remove_capability_from_bounding_set;
use rustix::thread::set_capabilities;
use rustix::thread::set_no_new_privs;

/// Of who computes only.
pub(super) const NONE: CapabilitySet = CapabilitySet::empty();

/// Of a server that root started: it makes files for whoever asks, and reads them whatever their
/// modes are, since the kernel has asked already. Another user's server has none anyway.
///
/// Passthrough wants `CAP_SYS_ADMIN` at every open.
pub(super) fn of_server(passthrough: bool) -> CapabilitySet {
    let serving = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::LEASE;
    if passthrough { serving | CapabilitySet::SYS_ADMIN } else { serving }
}

/// Keeps of this thread's capabilities those of `kept`, and lets no program that it starts have others.
pub(super) fn keep(kept: CapabilitySet) -> anyhow::Result<()> {
    let now = capabilities(None)?;
    if now.effective.contains(CapabilitySet::SETPCAP) {
        for other in (!kept).iter() {
            // Those that this kernel does not have are not there either.
            remove_capability_from_bounding_set(other).ok();
        }
    }
    let permitted = now.permitted & kept;
    let sets = CapabilitySets { effective: permitted, permitted, inheritable: NONE };
    set_capabilities(None, sets)?;
    Ok(set_no_new_privs(true)?)
}
