//! Results that took long to make, kept for whoever asks next.
//!
//! Each is a file in a directory of its own, named by a hash of all that it depends on: whatever
//! changes, it is another name. Nothing in it is ever corrected, so nothing goes stale; what nobody
//! asks for any more is the first to go when the directory passes its bound. It may be removed at
//! any time, as a whole or file by file: who has a result open keeps it.
//!
//! A result gets its name when it is complete, and counts only until the machine starts again: after
//! a power cut nobody can tell which bytes have reached the disk.

use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs::File;
use std::hash::BuildHasher as _;
use std::hash::RandomState;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::sync::LazyLock;

use rustix::fs::FlockOperation;
use rustix::fs::OFlags;
use rustix::fs::RenameFlags;
use rustix::fs::Timespec;
use rustix::fs::Timestamps;
use rustix::fs::UTIME_NOW;

use crate::store::Store;
use crate::store::dir::Dir;
use crate::store::layout;
use crate::store::stat::FileType;
use crate::store::stat::stat_file;

/// Raised when the same name would stand for other bytes though the version of ctxfs is the same.
const FORMAT: u32 = 1;

/// This start of the machine.
static BOOT: LazyLock<Option<String>> =
    LazyLock::new(|| std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok());

/// The results of a store.
#[derive(Debug, Clone)]
pub struct Cache {
    store: Store,
    bound: u64,
}

/// The name of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheKey(OsString);

/// A result that is being written. Dropped before it is kept, it is gone.
#[derive(Debug)]
pub struct Draft {
    dir: Dir,
    name: OsString,
    file: Arc<File>,
}

impl CacheKey {
    /// The name of the result that depends on `parts`, on the version of ctxfs and on nothing else;
    /// none, where nobody can tell one start of the machine from the next.
    pub fn of(parts: &[&[u8]]) -> Option<Self> {
        let boot = BOOT.as_ref()?;
        let version = env!("CARGO_PKG_VERSION");
        let own = [boot.as_bytes(), version.as_bytes(), &FORMAT.to_le_bytes()];
        let mut hasher = blake3::Hasher::new();
        for part in own.iter().chain(parts) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Some(Self(hasher.finalize().to_hex().as_str().into()))
    }

    /// The name: 64 hexadecimal digits.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl Cache {
    /// Of at most `bound` bytes.
    pub(super) fn new(store: Store, bound: u64) -> Self {
        Self { store, bound }
    }

    /// The result of this name, where it is kept; it counts as just used.
    pub fn open(&self, key: &CacheKey) -> Option<File> {
        let file = self.dir().ok()?.open_file(&key.0, OFlags::RDONLY).ok()?;
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let used = Timestamps { last_access: now, last_modification: now };
        // Where that is refused, the result goes a little earlier.
        rustix::fs::futimens(&file, &used).ok();
        Some(file)
    }

    /// A new file for a result.
    pub fn draft(&self) -> io::Result<Draft> {
        // Somebody may remove the directory at any time.
        self.try_draft().or_else(|_| self.try_draft())
    }

    /// Keeps a complete result under its name; whether it did. Not kept is one that is larger than
    /// all results may be together, and one whose draft somebody has removed: such a result lasts as
    /// long as its file is open.
    pub fn keep(&self, draft: Draft, key: &CacheKey) -> io::Result<bool> {
        if stat_file(&draft.file)?.size > self.bound {
            return Ok(false);
        }
        match draft.dir.rename(&draft.name, &draft.dir, &key.0, RenameFlags::empty()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            renamed => renamed?,
        }
        let shrunk = shrink(&draft.dir, self.bound);
        drop(draft);
        shrunk.map(|()| true)
    }

    /// Removes all results.
    pub fn clear(&self) -> io::Result<()> {
        match self.dir() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            dir => shrink(&dir?, 0),
        }
    }

    fn dir(&self) -> io::Result<Dir> {
        self.store.dir().open_dir(layout::CACHE.as_ref())
    }

    fn try_draft(&self) -> io::Result<Draft> {
        self.store.dir().ensure_dir(layout::CACHE.as_ref(), layout::DIRECTORY_MODE)?;
        let dir = self.dir()?;
        let unique = RandomState::new().hash_one(std::process::id());
        let name = OsString::from(layout::temporary(unique));
        let file = dir.create_file(&name, OFlags::RDWR | OFlags::EXCL, layout::FILE_MODE)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Draft { dir, name, file: Arc::new(file) })
    }
}

impl Draft {
    /// The file, to write to and to read from.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // Kept, it has another name by now.
        self.dir.unlink(&self.name).ok();
    }
}

/// Removes what was used longest ago until `bound` bytes are left, and what a process left behind
/// that ended while it wrote.
fn shrink(dir: &Dir, bound: u64) -> io::Result<()> {
    let mut kept = Vec::new();
    for entry in dir.entries()?.into_iter().filter(|entry| entry.kind == FileType::File) {
        if is_draft(&entry.name) {
            remove_abandoned(dir, &entry.name);
        } else if let Ok(stat) = dir.stat(&entry.name) {
            kept.push((stat.mtime, stat.size, entry.name));
        }
    }
    kept.sort_unstable_by(|a, b| b.cmp(a));
    let mut total = 0_u64;
    for (_, size, name) in kept {
        total = total.saturating_add(size);
        if total > bound {
            // Another process may have been quicker.
            dir.unlink(&name).ok();
        }
    }
    Ok(())
}

fn is_draft(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".ctxfs")
}

/// Who writes a draft holds its lock. Between making and locking it, it may be lost here: then it
/// cannot be kept, and that is all.
fn remove_abandoned(dir: &Dir, name: &OsStr) {
    let lock = FlockOperation::NonBlockingLockExclusive;
    if let Ok(file) = dir.open_file(name, OFlags::RDONLY)
        && rustix::fs::flock(&file, lock).is_ok()
    {
        dir.unlink(name).ok();
    }
}

#[cfg(test)]
mod tests;
