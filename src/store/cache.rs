//! The cache of views that took long to compute.
//!
//! Each result is a file in one directory, named by a hash of everything that it depends on. Any
//! change leads to another name, so no result is ever stale. When the directory passes its bound,
//! the results that were used longest ago are removed. The directory may be removed at any time, as
//! a whole or file by file; a reader keeps the result that it has open.
//!
//! A result gets its name when it is complete. It is not used after the next boot: after a power
//! cut it is unknown which bytes have reached the disk.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, LazyLock};

use rustix::fs::{OFlags, RenameFlags, Timespec, Timestamps, UTIME_NOW};

use crate::{Dir, FileType, Store, StoreError, file_lock, layout, stat_file};

/// Version of the names. Raised if the same name would stand for other bytes in the same version of
/// ctxfs.
const FORMAT: u32 = 1;

static BOOT: LazyLock<Option<String>> =
    LazyLock::new(|| std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok());

/// The cached results of a store, up to a number of bytes. All caches of a store are one directory,
/// so each process keeps its own bound.
#[derive(Debug, Clone)]
pub struct Cache {
    store: Store,
    bound: u64,
}

/// The name of a result: a hash of everything that the result depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheKey(OsString);

/// A result that is being written. Dropping it before it is kept removes it.
#[derive(Debug)]
pub struct Draft {
    dir: Dir,
    name: OsString,
    file: Arc<File>,
}

impl Store {
    /// Returns the cache of views. Keeping a result removes others until at most `bound` bytes are
    /// left.
    pub fn cache(&self, bound: u64) -> Cache {
        Cache::new(self.clone(), bound)
    }

    /// Removes everything from the cache of views. A reader keeps the result that it has open.
    pub fn clear_cache(&self) -> Result<(), StoreError> {
        let path = self.root().join(layout::CACHE);
        self.cache(0).clear().map_err(|error| StoreError::io("clear", &path, error))
    }
}

impl CacheKey {
    /// Returns the name of the result that depends on `parts`, on the version of ctxfs and on
    /// nothing else. Returns `None` if one boot cannot be told from the next.
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

    /// Returns the name: 64 hexadecimal digits.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl Cache {
    pub(super) fn new(store: Store, bound: u64) -> Self {
        Self { store, bound }
    }

    /// Opens the result of this name, if it is kept. It counts as just used.
    pub fn open(&self, key: &CacheKey) -> Option<File> {
        let file = self.dir().ok()?.open_file(&key.0, OFlags::RDONLY).ok()?;
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let used = Timestamps { last_access: now, last_modification: now };
        // If this fails, the result is removed a little earlier.
        rustix::fs::futimens(&file, &used).ok();
        Some(file)
    }

    /// Creates a file for a result, locked while its writer lives.
    pub fn draft(&self) -> io::Result<Draft> {
        // The directory may be removed at any time; the second try creates it again.
        self.try_draft().or_else(|_| self.try_draft())
    }

    /// Keeps a complete result under its name. Returns false if the result is larger than the bound
    /// of the cache, or its draft has been removed. Such a result lasts as long as its file is
    /// open.
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

    /// Removes the drafts of processes that have ended.
    pub fn remove_abandoned(&self) -> io::Result<()> {
        match self.dir() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            dir => shrink(&dir?, u64::MAX),
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
        file_lock::try_lock(&file)?;
        Ok(Draft { dir, name, file: Arc::new(file) })
    }
}

impl Draft {
    /// Returns the file, open for reading and writing.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // A draft that was kept has another name.
        self.dir.unlink(&self.name).ok();
    }
}

/// Removes the results that were used longest ago until `bound` bytes are left, and the drafts of
/// processes that have ended.
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
            // Another process may have removed it first.
            dir.unlink(&name).ok();
        }
    }
    Ok(())
}

fn is_draft(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".ctxfs")
}

/// Removes a draft unless its writer holds its lock. A draft that is removed between its creation
/// and its locking only fails to be kept.
fn remove_abandoned(dir: &Dir, name: &OsStr) {
    if let Ok(file) = dir.open_file(name, OFlags::RDWR)
        && file_lock::try_lock(&file).unwrap_or(false)
    {
        dir.unlink(name).ok();
    }
}

#[cfg(test)]
mod tests;
