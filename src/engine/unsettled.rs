//! Numbers for the bytes of files that may change with no change of their times.

use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, LazyLock};

use crate::workers::QUICK_INPUT;
use crate::{Engine, Result};
use ctxfs_core::model::Content as _;
use ctxfs_store::{Artifact, Stat};

/// Nobody can choose bytes that have the number of others.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Returns 0 if each change of the file from now on changes its times, of which the disk says
/// `stat`. Otherwise returns a number of its bytes, which are read through `open`; for a large
/// file, one that no other state of it has had.
pub fn number(
    engine: &Engine,
    stat: &Stat,
    open: impl FnOnce() -> Result<Arc<File>>,
) -> Result<u64> {
    // Bytes that are elsewhere do not change.
    if stat.is_far() || !engine.store.clock().is_recent(stat) {
        return Ok(0);
    }
    if stat.size > QUICK_INPUT {
        return Ok(engine.watches.next_number());
    }
    let bytes = Artifact::new(open()?, stat.size).bytes(0, stat.size as usize)?;
    Ok(KEYS.hash_one(&*bytes).max(1))
}
