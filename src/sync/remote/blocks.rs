//! Cache of fetched blocks on the local disk.
//!
//! ```text
//! <store>/remote/<bucket>/blocks/
//!   <object, 32 digits>-<block, 8 digits>   frame of a block, as in the object
//!   <object, 32 digits>.blocks              table of the object's blocks
//!   .new-<16 digits>                        incomplete file
//! ```
//!
//! A cached block is used only if its digest is correct. So the files need not be synced to disk,
//! and all of them may be deleted at any time.

mod source;

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use parking_lot::Mutex;
use rustix::fs::{OFlags, RenameFlags};

use crate::bucket::ObjectName;
use crate::remote::{Limits, disk};
use ctxfs_store::{Dir, FileType, Time};

pub(super) use source::{BlockSource, ObjectContent, ObjectLocation};

pub(super) const BLOCKS: &str = "blocks";
const NEW: &str = ".new-";
/// Percentage of the limit that remains after an eviction.
const STAYS: u64 = 90;

/// Cache of blocks with a maximum size. It evicts the least recently used blocks first. A full disk
/// is not an error: blocks are then fetched each time.
#[derive(Debug)]
pub(super) struct BlockCache {
    dir: Dir,
    most: u64,
    limits: Limits,
    /// Bytes in the cache as far as this process can tell. Other processes write to the directory
    /// too.
    kept: AtomicU64,
    names: RandomState,
    next: AtomicU64,
    sweeping: Mutex<()>,
}

struct CachedFile {
    used: Time,
    bytes: u64,
    name: OsString,
}

impl BlockCache {
    /// Opens the cache in `dir`. It holds at most `most` bytes, or less if the limits of disk space
    /// require it.
    pub(super) fn new(dir: Dir, (most, limits): (u64, Limits)) -> io::Result<Self> {
        let (kept, names, next) = (AtomicU64::new(0), RandomState::new(), AtomicU64::new(0));
        let cache = Self { dir, most, limits, kept, names, next, sweeping: Mutex::new(()) };
        let kept = cache.files()?.iter().map(|file| file.bytes).sum();
        cache.kept.store(kept, Relaxed);
        Ok(cache)
    }

    pub(super) fn get(&self, name: &str) -> Option<Vec<u8>> {
        let mut file = self.dir.open_file(name.as_ref(), OFlags::RDONLY).ok()?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).ok()?;
        // If this fails, the block is only evicted earlier.
        let _noted = file.set_modified(std::time::SystemTime::now());
        Some(bytes)
    }

    pub(super) fn put(&self, name: &str, bytes: &[u8]) -> bool {
        let needed = bytes.len() as u64;
        if !self.has_room(needed) {
            let kept = self.kept.load(Relaxed);
            // Evict more than needed, because each eviction lists the directory.
            self.make_room(kept.saturating_sub(needed.max(kept / 100 * (100 - STAYS))));
            if kept == 0 || !self.has_room(needed) {
                tracing::debug!(name, "the disk has no room to keep a block");
                return false;
            }
        }
        if let Err(error) = self.write(name, bytes) {
            tracing::debug!(%error, name, "a block is not kept");
            return false;
        }
        let kept = self.kept.fetch_add(bytes.len() as u64, Relaxed) + bytes.len() as u64;
        if kept > self.most {
            self.make_room(self.most / 100 * STAYS);
        }
        true
    }

    pub(super) fn forget(&self, name: &str) {
        // A missing entry is not an error.
        let _removed = self.dir.unlink(name.as_ref());
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let number = self.names.hash_one(self.next.fetch_add(1, Relaxed));
        let new = format!("{NEW}{number:016x}");
        let flags = OFlags::WRONLY | OFlags::EXCL;
        let mut file = self.dir.create_file(new.as_ref(), flags, disk::FILE_MODE)?;
        let written = file.write_all(bytes).and_then(|()| {
            self.dir.rename(new.as_ref(), &self.dir, name.as_ref(), RenameFlags::empty())
        });
        if written.is_err() {
            self.forget(&new);
        }
        written
    }

    fn has_room(&self, needed: u64) -> bool {
        self.dir.space().is_ok_and(|disk| self.limits.check_disk(&disk, needed).is_ok())
    }

    fn make_room(&self, most: u64) {
        let Some(_sweeping) = self.sweeping.try_lock() else { return };
        let Ok(mut files) = self.files() else { return };
        files.sort_unstable_by_key(|file| file.used);
        let mut kept: u64 = files.iter().map(|file| file.bytes).sum();
        for file in &files {
            if kept <= most {
                break;
            }
            if self.dir.unlink(&file.name).is_ok() {
                kept -= file.bytes;
            }
        }
        self.kept.store(kept, Relaxed);
    }

    fn files(&self) -> io::Result<Vec<CachedFile>> {
        let mut files = Vec::new();
        self.dir.each_entry(|name: &OsStr, kind, _| {
            if kind == FileType::File
                && let Ok(stat) = self.dir.stat(name)
            {
                let (used, bytes, name) = (stat.mtime, stat.size, name.to_owned());
                files.push(CachedFile { used, bytes, name });
            }
            Ok(())
        })?;
        Ok(files)
    }
}

pub(super) fn forget_objects(dir: &Dir, objects: &BTreeSet<ObjectName>) -> io::Result<()> {
    let objects: Vec<String> = objects.iter().map(ToString::to_string).collect();
    for entry in dir.entries()? {
        let name = entry.name.as_bytes();
        if objects.iter().any(|object| name.starts_with(object.as_bytes())) {
            match dir.unlink(&entry.name) {
                // Another process has evicted the block.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                removed => removed?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
