//! Write-once mounts: the content of a sealed artifact cannot change.

use std::time::Duration;

use crate::engine::sync::thread;
use crate::fs::FsError;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::node::file::FileNode;

/// The longest time that an open for writing waits for a close that is under way.
const CLOSING: Duration = Duration::from_millis(50);

/// On a write-once mount, refuses to change a sealed artifact. Waits for a close that is under way,
/// since the user of the file believes that it is closed.
pub(super) fn check(fs: &Shared, file: &FileNode) -> Result<()> {
    if !fs.options.write_once || !file.is_artifact() {
        return Ok(());
    }
    let step = Duration::from_millis(1);
    for _ in 0..CLOSING.as_millis() {
        if !file.life().has_writers() {
            return Err(FsError::WriteOnce);
        }
        thread::sleep(step);
    }
    Ok(())
}
