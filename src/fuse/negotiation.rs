//! What the kernel and the adaptor agree upon at the start.

use fuser::InitFlags;
use fuser::KernelConfig;

use crate::fuse::SessionOptions;
use crate::fuse::passthrough::Passthrough;

/// Bytes of one write request: what the kernel gives by default (`fs.fuse.max_pages_limit`).
pub(super) const MAX_WRITE: u32 = 1024 * 1024;
/// Requests that the kernel may have under way in the background.
const MAX_BACKGROUND: u16 = 64;
/// FUSE 7.41 came with Linux 6.12, the first whose passthrough keeps sizes right after writes.
const PASSTHROUGH_ABI: (u32, u32) = (7, 41);

/// Asks for what `options` want and this kernel has; none of it is needed.
pub(super) fn negotiate(
    config: &mut KernelConfig,
    options: &SessionOptions,
    passthrough: &Passthrough,
) {
    for wanted in [
        InitFlags::FUSE_PARALLEL_DIROPS,
        InitFlags::FUSE_AUTO_INVAL_DATA,
        InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
    ] {
        if config.add_capabilities(wanted).is_err() {
            tracing::info!(?wanted, "this kernel does not have it");
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
        tracing::info!("this kernel keeps its own sizes");
    }
}
