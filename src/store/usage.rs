//! The room that the files of a conversation take on the disk.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::ffi::OsStrExt as _;

use crate::attributes;
use crate::conversation::Conversation;
use crate::dir::Dir;
use crate::error::StoreError;
use crate::stat::{FileType, Stat};
use crate::walk::Walk;
use ctxfs_core::model::RelPath;

/// The unit in which disks give room to files, in bytes. Most have this one.
pub const BLOCK: u64 = 4096;
/// The least that a file or directory counts, in bytes: about an inode and a name, of which
/// `st_blocks` says nothing.
pub const LEAST: u64 = 512;

/// The room that the files of a conversation take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// The number of files and directories.
    pub entries: u64,
    /// The bytes that they take on the disk; see [`room_of`].
    pub bytes: u64,
    /// The sum of the lengths of the artifacts.
    pub artifacts: u64,
    /// False if something could not be read. It is not counted.
    pub is_whole: bool,
}

/// Returns the bytes that a file or directory takes on the disk: its blocks, and at least
/// [`LEAST`]. A hole takes none.
pub fn room_of(stat: &Stat) -> u64 {
    (stat.blocks * 512).max(LEAST)
}

/// Returns `bytes` rounded up to whole blocks.
pub fn whole_blocks(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX)
}

/// Measures everything below the directory `start` in `base`, and that directory itself.
fn measure(base: &Dir, start: Option<RelPath>) -> io::Result<Usage> {
    let mut usage = Usage { is_whole: true, ..Usage::default() };
    if start.is_none() {
        usage.add_own_files(base)?;
    }
    let mut walk = Walk::new(base.try_clone()?, start, |dir: &Dir| {
        usage.entries += 1;
        usage.bytes += room_of(&dir.stat_self()?) + attribute_bytes(dir, OsStr::new("."));
        Ok(true)
    })?;
    let mut files = Usage::default();
    while let Some(entry) = walk.next()? {
        if entry.kind == FileType::File {
            let ask = |dir: &Dir, name: &OsStr| Ok((dir.stat(name)?, attribute_bytes(dir, name)));
            if let Some((stat, attributes)) = walk.with(&entry, ask)? {
                files.add_file(&stat, attributes, entry.path.is_artifact());
            }
        }
    }
    usage.is_whole = walk.finish().unread.is_empty();
    usage.entries += files.entries;
    usage.bytes += files.bytes;
    usage.artifacts = files.artifacts;
    Ok(usage)
}

impl Usage {
    /// Measures the room that everything in the directory of a conversation takes, with the store's
    /// own files. Asks the disk about each file.
    pub fn of(conversation: &Conversation) -> Result<Self, StoreError> {
        let usage = measure(conversation.dir(), None);
        usage.map_err(|error| conversation.listing_error(error))
    }

    /// Measures the file or directory at `path` in a conversation, with everything in it.
    pub fn of_path(conversation: &Conversation, path: &RelPath) -> Result<Self, StoreError> {
        let dir = conversation.dir();
        let found = dir.stat_at(path).and_then(|stat| match stat.kind() {
            FileType::Directory => measure(dir, Some(path.clone())),
            FileType::File | FileType::Other => {
                Ok(Self { entries: 1, bytes: room_of(&stat), artifacts: 0, is_whole: true })
            }
        });
        found.map_err(|error| conversation.listing_error(error))
    }

    /// Adds the store's own files, which a walk leaves out, in the directory of a conversation.
    fn add_own_files(&mut self, dir: &Dir) -> io::Result<()> {
        for entry in dir.entries()?.iter().filter(|entry| is_own(&entry.name)) {
            // An error means that it was removed meanwhile.
            if let Ok(stat) = dir.stat(&entry.name) {
                self.add_file(&stat, 0, false);
            }
        }
        Ok(())
    }

    fn add_file(&mut self, stat: &Stat, attributes: u64, is_artifact: bool) {
        self.entries += 1;
        self.bytes += room_of(stat) + attributes;
        if is_artifact {
            self.artifacts += stat.size;
        }
    }
}

/// Returns true if no path leads to a name, so that a walk leaves it out.
fn is_own(name: &OsStr) -> bool {
    RelPath::below(None, name).is_err()
}

/// Returns the bytes of the attributes that a writer has given to a file: some disks do not count
/// them among its blocks.
fn attribute_bytes(dir: &Dir, name: &OsStr) -> u64 {
    let mut path = format!("/proc/self/fd/{}/", dir.as_fd().as_raw_fd()).into_bytes();
    path.extend_from_slice(name.as_bytes());
    attributes::bytes_at(OsStr::from_bytes(&path))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt as _;

    use rustix::fs::XattrFlags;

    use super::*;
    use crate::Store;
    use ctxfs_core::model::Component;

    #[test]
    fn everything_counts_by_its_room() {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(temporary.path()).unwrap();
        let conversation = store.create_conversation(&Component::new("c").unwrap()).unwrap();
        let top = temporary.path().join("context/c");
        let mut last = Usage::of(&conversation).unwrap();
        assert!(last.entries == 9 && last.bytes >= 9 * LEAST, "{last:?}");
        let mut grown = |entries: u64| {
            let now = Usage::of(&conversation).unwrap();
            assert_eq!(now.entries, last.entries + entries);
            let bytes = now.bytes - last.bytes;
            last = now;
            bytes
        };
        for path in [
            "artifacts/tool/x",
            "artifacts/tool/x.tmp",
            "history/archive/x",
            "history/messages.torn",
            "catalog/x",
            "manifest.jsonl",
            ".ctxfs-counts.jsonl",
        ] {
            fs::write(top.join(path), vec![b'x'; 100_000]).unwrap();
            let bytes = grown(1);
            assert!((100_000..120_000).contains(&bytes), "{path}: {bytes}");
        }
        let hole = fs::File::create_new(top.join("history/hole")).unwrap();
        hole.set_len(1 << 30).unwrap();
        assert_eq!(grown(1), LEAST);
        hole.write_all_at(&vec![b'x'; 100_000], 1 << 20).unwrap();
        assert!((99_000..120_000).contains(&grown(0)));
        rustix::fs::fsetxattr(&hole, "user.x", &[b'x'; 3000], XattrFlags::empty()).unwrap();
        assert!(grown(0) >= 3000);
        fs::create_dir_all(top.join("catalog/a/b/c")).unwrap();
        assert!(grown(3) >= 3 * LEAST);
        for number in 0..100 {
            fs::write(top.join(format!("catalog/a/{number}")), "").unwrap();
        }
        assert!(grown(100) >= 100 * LEAST);
        assert_eq!(Usage::of(&conversation).unwrap().artifacts, 100_000);
        let path = RelPath::new("catalog/a").unwrap();
        assert_eq!(Usage::of_path(&conversation, &path).unwrap().entries, 103);
    }
}
