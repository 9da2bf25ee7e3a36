//! Masking secrets in stored files.
//!
//! A file is masked in place after its last writer has gone and before it is recorded as sealed: a
//! mask is as long as its secret. Until then its bytes are on disk as they were written.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::engine::Engine;
use crate::engine::STEP;
use crate::fs::Result;
use crate::fs::node::file::FileNode;
use crate::model::Content as _;
use crate::redact::BLOCK;
use crate::redact::SecretRules;
use crate::redact::masks;
use crate::redact::settled;
use crate::store::Artifact;
use crate::store::stat_file;

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
    let end = (number + 1) * BLOCK;
    let done = end >= content.len();
    let masked = if done { settled(content.len()) } else { end };
    life.masked(masked, changed.as_ref());
    Ok(done)
}
