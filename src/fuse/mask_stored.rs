//! Masking secrets in stored files.
//!
//! A file is masked in place after its last writer has gone and before it is recorded as sealed: a
//! mask is as long as its secret. Until then its bytes are on disk as they were written.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;

use crate::Result;
use crate::node::file::FileNode;
use ctxfs_core::model::{Content as _, is_scratch};
use ctxfs_core::redact::{BLOCK, SecretRules, masks, settled};
use ctxfs_engine::{Engine, STEP, SourceFile as _};
use ctxfs_store::{Artifact, stat_file};

/// Returns true if the secrets in the stored bytes of `file` are masked once it is closed: those of
/// scratch files are not, and the message log takes only messages that are masked already.
pub(super) fn is_to_be_masked(engine: &Engine, file: &FileNode) -> bool {
    let is_scratch = || file.place().is_none_or(|(_, path)| is_scratch(path.file_name()));
    engine.secrets.stored_rules().is_some() && !file.is_message_log() && !is_scratch()
}

/// Masks the secrets in the stored bytes of a file that nobody writes: one step of them, or all if
/// the mount is `ending`. Returns true if nothing is left to do.
pub(super) fn mask_stored(engine: &Engine, file: &FileNode, ending: bool) -> Result<bool> {
    let Some(rules) = engine.secrets.stored_rules() else { return Ok(true) };
    let open = Arc::new(file.open(OFlags::RDWR | OFlags::NOATIME)?);
    let mut steps = STEP / BLOCK;
    while ending || steps > 0 {
        if mask_block(file, &open, rules)? {
            return Ok(true);
        }
        steps = steps.saturating_sub(1);
    }
    Ok(false)
}

/// Returns the number of the block at which to go on after a block that was masked without any
/// change, in a file of `length` bytes: in the middle of a hole, all blocks are alike.
///
/// The masks of a block depend on the bytes that are up to a block away, so this block and all that
/// are skipped have a hole on both sides.
fn after_hole(open: &File, number: u64, length: u64) -> u64 {
    let from = number.saturating_sub(1) * BLOCK;
    let data = match rustix::fs::seek(open, SeekFrom::Data(from)) {
        Err(Errno::NXIO) => length,
        found => found.unwrap_or(from),
    };
    (data / BLOCK).saturating_sub(1)
}

/// Masks the next block, while nothing can be written. Returns true if it was the last.
fn mask_block(file: &FileNode, open: &Arc<File>, rules: &SecretRules) -> Result<bool> {
    let mut life = file.life();
    let content = Artifact::new(Arc::clone(open), stat_file(open)?.size);
    if life.has_writers() {
        return Ok(true);
    }
    let number = life.redacted() / BLOCK;
    let read = |offset, length| content.bytes(offset, length);
    let masks = masks(rules, number, content.len(), read)?;
    for (offset, mask) in &masks {
        open.write_all_at(mask, *offset)?;
    }
    let changed = if masks.is_empty() { None } else { Some(stat_file(open)?) };
    let skipped = if masks.is_empty() { after_hole(open, number, content.len()) } else { 0 };
    let end = skipped.max(number + 1) * BLOCK;
    let done = end >= content.len();
    let masked = if done { settled(content.len()) } else { end };
    life.masked(masked, changed.as_ref());
    Ok(done)
}
