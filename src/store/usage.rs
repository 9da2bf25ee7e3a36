//! Disk space: the usage of a conversation, the growth caused by a write, and the number of bytes
//! left below a quota.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;

use rustix::fs::{OFlags, SeekFrom};

use crate::file_lock::LockedFile;
use crate::{Conversation, Dir, FileType, Stat, StoreError, attributes, dir, layout};
use ctxfs_core::model::RelPath;

/// Assumed allocation unit of disks, in bytes. Most disks use this value.
pub const BLOCK: u64 = 4096;
/// Minimum number of bytes that count for a file or directory. This is about the size of an inode
/// and a name, which `st_blocks` does not include.
pub const LEAST: u64 = 512;
/// Maximum number of pieces of data that are examined in a range. The rest of the range counts as a
/// hole.
const MAX_PIECES: usize = 1024;

/// Disk space used by the files of a conversation, including the store's own files. `entries` is
/// the number of files and directories. `bytes` is their size on the disk as counted by
/// [`room_of`].
///
/// `artifacts` is the total length of the artifacts in bytes. `is_whole` is false if a place could
/// not be read and is therefore not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct Usage {
    pub entries: u64,
    pub bytes: u64,
    pub artifacts: u64,
    pub is_whole: bool,
}

/// Returns the number of bytes that a file or directory uses on the disk: its blocks, but at least
/// [`LEAST`]. Holes do not count.
pub fn room_of(stat: &Stat) -> u64 {
    (stat.blocks * 512).max(LEAST)
}

/// Returns `bytes` rounded up to whole blocks, or `u64::MAX` on overflow.
pub fn whole_blocks(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX)
}

fn measure(base: &Dir, start: Option<RelPath>) -> io::Result<Usage> {
    let mut usage = Usage { is_whole: true, ..Usage::default() };
    if start.is_none() {
        usage.add_own_files(base)?;
    }
    let mut walk = crate::walk::DirWalk::new(base.try_clone()?, start, |dir: &Dir| {
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
    /// Measures everything in the directory of a conversation. Calls `stat` on each file.
    pub fn of(conversation: &Conversation) -> Result<Self, StoreError> {
        let usage = measure(conversation.dir(), None);
        usage.map_err(|error| conversation.listing_error(error))
    }

    /// Measures the file or directory at `path` in a conversation, including everything below it.
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

    fn add_own_files(&mut self, dir: &Dir) -> io::Result<()> {
        for entry in dir.entries()?.iter().filter(|entry| is_own(&entry.name)) {
            // An error means that the file was removed in the meantime.
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

fn is_own(name: &OsStr) -> bool {
    RelPath::below(None, name).is_err()
}

/// Returns the size of the extended attributes of a file in bytes. On some disks, the blocks of the
/// file do not include them.
fn attribute_bytes(dir: &Dir, name: &OsStr) -> u64 {
    let mut path = format!("{}/", dir::proc_path(dir)).into_bytes();
    path.extend_from_slice(name.as_bytes());
    attributes::bytes_at(OsStr::from_bytes(&path))
}

/// Returns an upper bound of the disk space that a write of `length` bytes at `offset` adds to
/// `file`: blocks beyond its end, and blocks in holes. `stat` has the attributes of the file.
/// Overwriting adds nothing.
///
/// In a file with holes, space that is reserved but not yet written counts as a hole too, because
/// no system call distinguishes the two on every disk. Such space is counted twice until the next
/// measurement.
pub fn growth_of_write(file: &File, stat: &Stat, offset: u64, length: u64) -> io::Result<u64> {
    let end = offset.saturating_add(length);
    let (first, last) = (offset / BLOCK * BLOCK, whole_blocks(end));
    let inside = last.min(whole_blocks(stat.size));
    let beyond = last - inside.clamp(first, last);
    let has_holes = stat.blocks.saturating_mul(512) < stat.size;
    if first < inside && has_holes {
        return Ok(beyond + holes(file, first, inside.min(stat.size))?);
    }
    Ok(beyond)
}

fn holes(file: &File, from: u64, end: u64) -> io::Result<u64> {
    let (mut at, mut bytes) = (from, 0);
    for _ in 0..MAX_PIECES {
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            // There is no data from this offset on.
            Err(rustix::io::Errno::NXIO) => end,
            data => data?.min(end),
        };
        bytes += data.saturating_sub(at);
        if data >= end {
            return Ok(bytes);
        }
        at = rustix::fs::seek(file, SeekFrom::Hole(data))?;
        if at >= end {
            return Ok(bytes);
        }
    }
    Ok(bytes + (end - at))
}

/// The number of bytes that may be written to a conversation before its usage is measured again.
/// All processes share this number. It is locked while this value exists.
///
/// The file contains two numbers: the quota, and the number of bytes left below it. If the file is
/// removed, the usage is measured again.
#[derive(Debug)]
pub struct SharedRoom(LockedFile);

impl SharedRoom {
    /// Opens and locks this number for `conversation`. While another process holds the lock, waits
    /// if `may_wait` is true, and fails with EAGAIN otherwise. Returns `None` if the conversation
    /// is gone.
    pub fn lock(conversation: &Conversation, may_wait: bool) -> io::Result<Option<Self>> {
        let name = layout::ROOM.as_ref();
        let made = conversation.dir().create_file(name, OFlags::RDWR, layout::FILE_MODE);
        let Some(file) = crate::if_there(made)? else { return Ok(None) };
        if may_wait {
            return Ok(Some(Self(LockedFile::lock(file)?)));
        }
        let locked = LockedFile::try_lock(file)?;
        locked.map(Self).map(Some).ok_or_else(|| io::Error::from_raw_os_error(libc::EAGAIN))
    }

    /// Returns the number of bytes left below `quota`. Returns 0 if this was never measured, or was
    /// measured for another quota.
    pub fn left(&self, quota: u64) -> io::Result<u64> {
        let mut numbers = [0; 16];
        if crate::read_full_at(&self.0, 0, &mut numbers)? < numbers.len() {
            return Ok(0);
        }
        let number = u128::from_le_bytes(numbers);
        let (of, left) = (number as u64, (number >> 64) as u64);
        Ok(if of == quota { left } else { 0 })
    }

    /// Stores `left` as the number of bytes left below `quota`.
    pub fn set(&self, quota: u64, left: u64) -> io::Result<()> {
        let number = u128::from(left) << 64 | u128::from(quota);
        self.0.write_all_at(&number.to_le_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::XattrFlags;

    use super::*;
    use crate::{Store, stat_file};
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

    fn growth(file: &File, offset: u64, length: u64) -> u64 {
        growth_of_write(file, &stat_file(file).unwrap(), offset, length).unwrap()
    }

    #[test]
    fn what_is_there_is_overwritten_for_nothing() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(growth(&file, 0, 1), BLOCK);
        assert_eq!(growth(&file, 0, 0), 0);
        file.write_all_at(&[b'x'; 10_000], 0).unwrap();
        assert_eq!((growth(&file, 0, 10_000), growth(&file, 5000, 5000)), (0, 0));
        assert_eq!(growth(&file, 9999, 2), 0, "the last block has room");
        assert_eq!(growth(&file, 10_000, 10_000), 2 * BLOCK);
        assert_eq!(growth(&file, 1 << 40, 1), BLOCK, "a hole before it takes none");
        assert!(growth(&file, u64::MAX - 1, 5) > 0);
    }

    #[test]
    fn writing_in_a_hole_takes_room() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(1 << 30).unwrap();
        assert_eq!(growth(&file, 1 << 20, 1 << 20), 1 << 20);
        file.write_all_at(&vec![b'x'; 1 << 16], 1 << 20).unwrap();
        assert_eq!(growth(&file, 1 << 20, 1 << 16), 0);
        assert_eq!(growth(&file, 1 << 20, 1 << 20), (1 << 20) - (1 << 16));
        assert_eq!(growth(&file, 0, 1 << 30), (1 << 30) - (1 << 16));
    }

    #[test]
    fn a_file_of_many_pieces_is_not_looked_at_to_its_end() {
        let file = tempfile::tempfile().unwrap();
        let pieces = 2 * MAX_PIECES as u64;
        file.set_len(2 * BLOCK * pieces).unwrap();
        for piece in 0..pieces {
            file.write_all_at(b"x", 2 * BLOCK * piece).unwrap();
        }
        let least = BLOCK * pieces;
        let all = growth(&file, 0, 2 * BLOCK * pieces);
        assert!(all > least && all <= 2 * least, "{all}");
    }

    #[test]
    fn it_is_shared_and_holds_for_one_quota() {
        let temporary = tempfile::tempdir().unwrap();
        let id = Component::new("c").unwrap();
        let open = || Store::open(temporary.path()).unwrap().create_conversation(&id).unwrap();
        let (here, there) = (open(), open());
        let room = SharedRoom::lock(&here, true).unwrap().unwrap();
        assert_eq!(room.left(100).unwrap(), 0);
        room.set(100, 70).unwrap();
        let taken = SharedRoom::lock(&there, false).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::WouldBlock);
        drop(room);
        let room = SharedRoom::lock(&there, false).unwrap().unwrap();
        assert_eq!((room.left(100).unwrap(), room.left(50).unwrap()), (70, 0));
        drop(room);
        std::fs::remove_dir_all(temporary.path().join("context/c")).unwrap();
        assert!(SharedRoom::lock(&here, true).unwrap().is_none());
    }
}
