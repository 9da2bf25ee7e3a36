//! Reserving room for a file, and giving it back.

use rustix::fs::FallocateFlags;

use crate::change::Change;
use crate::{Fh, FsError, Result, Shared};
use ctxfs_store::stat_file;

/// The flags that are known. The kernel lets no others through.
const KNOWN: FallocateFlags =
    FallocateFlags::KEEP_SIZE.union(FallocateFlags::PUNCH_HOLE).union(FallocateFlags::ZERO_RANGE);

pub(super) fn fallocate(fs: &Shared, fh: Fh, offset: u64, length: u64, mode: i32) -> Result<()> {
    let handle = fs.handles.file(fh)?;
    let flags = FallocateFlags::from_bits_retain(mode as u32);
    if handle.node.is_message_log() || !KNOWN.contains(flags) {
        return Err(FsError::Unsupported);
    }
    let file = handle.node.as_file()?;
    let punches = flags.contains(FallocateFlags::PUNCH_HOLE);
    let change = Change { node: file, open: &handle.file, offset: Some(offset), length };
    let _room = if punches {
        None
    } else {
        check_can_be_counted(fs, &change, flags)?;
        Some(fs.engine.reserve_for_change(&change)?)
    };
    let mut life = file.life();
    life.noticed(&stat_file(&handle.file)?, fs.engine.store.clock());
    rustix::fs::fallocate(&*handle.file, flags, offset, length)?;
    life.rewritten();
    life.left_as(&stat_file(&handle.file)?);
    drop(life);
    if punches && let Some(id) = file.charged_to() {
        fs.engine.space.freed(&id);
    }
    Ok(())
}

/// Fails for room beyond the end of a file that is to keep its length, where there is a quota: a
/// file with more blocks than its length needs could have holes that are taken for data.
fn check_can_be_counted(fs: &Shared, change: &Change<'_>, flags: FallocateFlags) -> Result<()> {
    let keeps = flags.contains(FallocateFlags::KEEP_SIZE);
    if keeps && fs.engine.options.quota.is_some() && change.is_beyond_end()? {
        return Err(FsError::Unsupported);
    }
    Ok(())
}
