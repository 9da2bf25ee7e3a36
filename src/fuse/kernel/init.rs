//! The settings that `FUSE_INIT` negotiates with the kernel.

use fuser::{InitFlags, KernelConfig};

use crate::kernel::SessionOptions;
use crate::kernel::passthrough::PassthroughFiles;

/// Bytes of a write request, at most. It is the kernel's default limit
/// (`fs.fuse.max_pages_limit`).
pub(super) const MAX_WRITE: u32 = 1024 * 1024;
/// Background requests that the kernel may have pending.
const MAX_BACKGROUND: u16 = 64;
/// The protocol of Linux 6.12, the first whose passthrough keeps file sizes right after writes.
const PASSTHROUGH_ABI: (u32, u32) = (7, 41);

/// Requests the features that `options` ask for and this kernel has. None of them is required.
pub(super) fn configure(
    config: &mut KernelConfig,
    options: &SessionOptions,
    passthrough: &PassthroughFiles,
    lists_attributes: bool,
) {
    // With AUTO, the kernel asks for attributes where it has seen look-ups of the names before.
    let listing = InitFlags::FUSE_DO_READDIRPLUS | InitFlags::FUSE_READDIRPLUS_AUTO;
    if lists_attributes && config.add_capabilities(listing).is_err() {
        tracing::info!("this kernel lists no attributes");
    }
    for wanted in [
        InitFlags::FUSE_PARALLEL_DIROPS,
        InitFlags::FUSE_AUTO_INVAL_DATA,
        // Otherwise it first opens a file for writing and then cuts it off, and what is elsewhere
        // would be fetched for nothing.
        InitFlags::FUSE_ATOMIC_O_TRUNC,
        InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    ] {
        if config.add_capabilities(wanted).is_err() {
            tracing::info!(?wanted, "not supported by this kernel");
        }
    }
    let abi = config.kernel_abi();
    if options.passthrough
        && (abi.0, abi.1) >= PASSTHROUGH_ABI
        && config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
    {
        let depth = if options.stacked_store { 2 } else { 1 };
        if config.set_max_stack_depth(depth).is_ok() {
            passthrough.offer();
        }
    }
    if config.set_max_write(MAX_WRITE).is_err()
        || config.set_max_background(MAX_BACKGROUND).is_err()
    {
        tracing::info!("this kernel keeps its own request limits");
    }
}
