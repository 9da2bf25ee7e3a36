//! The capabilities that serving needs.

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

/// The number of the user and of the group that own nothing: the kernel's default of `overflowuid`.
const NOBODY: u32 = 65534;
/// The capabilities of a process that only computes.
pub(super) const NONE: CapabilitySet = CapabilitySet::empty();

/// The capabilities of root's process that reads the store: files of any user, and whether somebody
/// writes them.
pub(super) const FOR_READER: CapabilitySet =
    CapabilitySet::DAC_READ_SEARCH.union(CapabilitySet::LEASE);

/// The capabilities of root's process that has a directory which hosts share, and which another user
/// may own.
#[cfg(feature = "remote")]
pub(super) const FOR_DIRECTORY: CapabilitySet =
    CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::FOWNER);

/// Returns the capabilities of a server of root. It creates files on behalf of any user, and reads
/// them whatever their modes, since the kernel has checked permissions already. The server of
/// another user has no capabilities anyway.
///
/// Passthrough requires `CAP_SYS_ADMIN` at every open.
pub(super) fn for_server(passthrough: bool) -> CapabilitySet {
    let serving = CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FOWNER
        | CapabilitySet::FSETID
        | CapabilitySet::LEASE;
    if passthrough { serving | CapabilitySet::SYS_ADMIN } else { serving }
}

/// Makes this thread of root that of a user who owns nothing, so that files which only root may read
/// stay closed to it. Fails where that user does not exist, as in some containers.
pub(super) fn leave_root() -> rustix::io::Result<()> {
    if !geteuid().is_root() {
        return Ok(());
    }
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    set_thread_groups(&[])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_res_uid(user, user, user)
}

/// Drops all capabilities but `kept` from this thread and from the programs that it starts.
pub(super) fn keep(kept: CapabilitySet) -> anyhow::Result<()> {
    let now = capabilities(None)?;
    if now.effective.contains(CapabilitySet::SETPCAP) {
        for other in (!kept).iter() {
            // Fails for capabilities that this kernel does not know.
            remove_capability_from_bounding_set(other).ok();
        }
    }
    let permitted = now.permitted & kept;
    let sets = CapabilitySets { effective: permitted, permitted, inheritable: NONE };
    set_capabilities(None, sets)?;
    Ok(set_no_new_privs(true)?)
}
