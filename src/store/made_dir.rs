//! Directories that are made for files of other hosts, and go with the last of them.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::conversation::Conversation;
use crate::dir::Dir;
use crate::layout;
use crate::removal::parent_dir;
use ctxfs_core::model::RelPath;

/// The attribute of a directory that was made for a file of another host. Without it, as on a disk
/// that has no attributes, an empty directory stays.
const MADE: &str = "user.ctx.made";

impl Conversation {
    /// Opens the directory of `path`. Makes those on the way that are missing, and syncs their
    /// names. Fails with ENOTDIR or EEXIST if a file is in the way.
    pub(super) fn made_parent(&self, path: &RelPath) -> io::Result<Dir> {
        match parent_dir(self.dir(), path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        let (mut dir, mut at) = (self.dir().try_clone()?, None);
        let Some(parent) = path.parent() else { return Ok(dir) };
        for name in parent.as_os_str().as_bytes().split(|byte| *byte == b'/') {
            let name = OsStr::from_bytes(name);
            let is_new = dir.ensure_dir(name, layout::DIRECTORY_MODE)?;
            let inner = dir.open_dir(name)?;
            at = RelPath::below(at.as_ref(), name).ok();
            if is_new {
                mark(&inner, at.as_ref())?;
                dir.sync()?;
            }
            dir = inner;
        }
        Ok(dir)
    }

    /// Removes the directories above `path` that were made for files of other hosts and are empty
    /// now: they have no artifact without a file either.
    pub(super) fn remove_made_parents(&self, path: &RelPath) {
        let mut at = path.parent();
        let is_empty =
            |path: &RelPath| is_made(self.dir(), path) && !self.has_far(Some(path)).unwrap_or(true);
        while let Some(path) = at.filter(is_empty) {
            let removed = parent_dir(self.dir(), &path).and_then(|dir| dir.rmdir(path.file_name()));
            at = path.parent().filter(|_| removed.is_ok());
        }
    }
}

/// Returns true if the directory at `path` was made for a file of another host.
pub(super) fn is_made(conversation: &Dir, path: &RelPath) -> bool {
    let dir = conversation.open_dir_at(path);
    dir.is_ok_and(|dir| rustix::fs::fgetxattr(&dir, MADE, &mut [0_u8; 0]).is_ok())
}

fn mark(dir: &Dir, path: Option<&RelPath>) -> io::Result<()> {
    if path.is_some_and(layout::is_standard) {
        return Ok(());
    }
    match rustix::fs::fsetxattr(dir, MADE, b"1", XattrFlags::empty()) {
        Ok(()) | Err(Errno::NOTSUP | Errno::NOSPC | Errno::DQUOT | Errno::PERM) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
