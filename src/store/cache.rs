//! The cache of views that took long to compute.
//!
//! Each result is a file in one directory. The name of the file is a hash of everything that the
//! result depends on. If anything changes, the name changes too, so no result is ever stale. When
//! the total size of the results exceeds the bound of the cache, the least recently used results
//! are removed. The directory, or any file in it, may be removed at any time. A result that is open
//! remains readable.
//!
//! A result gets its name when it is complete. Results are not used after a reboot, because a power
//! failure may have left them incomplete on the disk.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, LazyLock};

use rustix::fs::{OFlags, RenameFlags, Timespec, Timestamps, UTIME_NOW};

use crate::{Dir, FileType, Store, StoreError, file_lock, if_there, layout, stat_file};

/// Version of the names. It must be raised if a change within one version of ctxfs would give the
/// same name to different bytes.
const FORMAT: u32 = 1;

static BOOT: LazyLock<Option<String>> =
    LazyLock::new(|| std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok());

/// The cached results of a store, up to a maximum size in bytes. All caches of a store use the same
/// directory, and each process applies its own maximum.
#[derive(Debug, Clone)]
pub struct Cache {
    store: Store,
    bound: u64,
}

/// The name of a result: a hash of everything that the result depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheKey(OsString);

/// A result that is being written. Dropping a draft that was not kept removes its file.
#[derive(Debug)]
pub struct Draft {
    dir: Dir,
    name: OsString,
    file: Arc<File>,
}

impl Store {
    /// Returns the cache of views. Each time a result is kept, the least recently used results are
    /// removed until at most `bound` bytes are left.
    pub fn cache(&self, bound: u64) -> Cache {
        Cache::new(self.clone(), bound)
    }

    /// Removes all results from the cache of views. A result that is open remains readable.
    pub fn clear_cache(&self) -> Result<(), StoreError> {
        let path = self.root().join(layout::CACHE);
        self.cache(0).clear().map_err(|error| StoreError::io("clear", &path, error))
    }
}

impl CacheKey {
    /// Returns the name of a result that depends only on `parts` and on the version of ctxfs.
    /// Returns `None` if the system has no boot id.
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

    /// Returns the name as bytes: 64 hexadecimal digits.
    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl Cache {
    pub(super) fn new(store: Store, bound: u64) -> Self {
        Self { store, bound }
    }

    /// Opens the result with the name `key`, or returns `None` if it is not in the cache. Marks the
    /// result as just used.
    pub fn open(&self, key: &CacheKey) -> Option<File> {
        let file = self.dir().ok()?.open_file(&key.0, OFlags::RDONLY).ok()?;
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let used = Timestamps { last_access: now, last_modification: now };
        // If this fails, the result is only removed somewhat earlier.
        rustix::fs::futimens(&file, &used).ok();
        Some(file)
    }

    /// Creates a file for a result. The file is locked while the draft exists.
    pub fn draft(&self) -> io::Result<Draft> {
        // The directory may be removed at any time; the second try creates it again.
        self.try_draft().or_else(|_| self.try_draft())
    }

    /// Stores a complete result under the name `key`. Returns false if the result is larger than
    /// the bound of the cache, or if its draft file has been removed. In both cases, the result can
    /// still be read while its file is open.
    pub fn keep(&self, draft: Draft, key: &CacheKey) -> io::Result<bool> {
        if stat_file(&draft.file)?.size > self.bound {
            return Ok(false);
        }
        let renamed = draft.dir.rename(&draft.name, &draft.dir, &key.0, RenameFlags::empty());
        if if_there(renamed)?.is_none() {
            return Ok(false);
        }
        let shrunk = shrink(&draft.dir, self.bound);
        drop(draft);
        shrunk.map(|()| true)
    }

    /// Removes all results.
    pub fn clear(&self) -> io::Result<()> {
        if_there(self.dir())?.map_or(Ok(()), |dir| shrink(&dir, 0))
    }

    /// Removes the drafts of processes that have ended.
    pub fn remove_abandoned(&self) -> io::Result<()> {
        if_there(self.dir())?.map_or(Ok(()), |dir| shrink(&dir, u64::MAX))
    }

    fn dir(&self) -> io::Result<Dir> {
        self.store.dir().open_dir(layout::CACHE.as_ref())
    }

    fn try_draft(&self) -> io::Result<Draft> {
        self.store.dir().ensure_dir(layout::CACHE.as_ref(), layout::DIRECTORY_MODE)?;
        let dir = self.dir()?;
        let name = OsString::from(layout::temporary());
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

/// Removes the least recently used results until at most `bound` bytes are left. Also removes the
/// drafts of processes that have ended.
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
            // Another process may have removed the result first.
            dir.unlink(&name).ok();
        }
    }
    Ok(())
}

fn is_draft(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".ctxfs")
}

/// Removes a draft unless its writer holds the lock on it. The writer of a draft that is not locked
/// yet will find that the draft cannot be kept.
fn remove_abandoned(dir: &Dir, name: &OsStr) {
    if let Ok(file) = dir.open_file(name, OFlags::RDWR)
        && file_lock::try_lock(&file).unwrap_or(false)
    {
        dir.unlink(name).ok();
    }
}

#[cfg(test)]
mod tests;
