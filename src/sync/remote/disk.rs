//! Small state files, and the limits of disk space for downloads.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::io::{BufWriter, IntoInnerError, Read as _, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, RenameFlags, StatVfs};
use serde::{Deserialize, Serialize};

use crate::remote::RemoteError;
use ctxfs_store::{Dir, Stat, StoreError};

pub(super) const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;
const NEW: OFlags = OFlags::WRONLY.union(OFlags::TRUNC);
const NO_FLAGS: RenameFlags = RenameFlags::empty();

/// A directory of small state files. Each error names the action and the path.
///
/// A file is replaced atomically: a reader sees either the old or the new content, even after a
/// crash. Only one process may write at a time, the holder of the push lock.
#[derive(Debug)]
pub(super) struct StateDir {
    pub(super) dir: Dir,
    pub(super) path: PathBuf,
}

impl StateDir {
    pub(super) fn subdirectory(&self, name: &OsStr) -> Result<Self, RemoteError> {
        let dir = directory(&self.dir, name).map_err(self.failed("open", name))?;
        Ok(Self { dir, path: self.path.join(name) })
    }

    /// Returns a function that adds `action` and the path of the file `name` to an error.
    pub(super) fn failed<P: AsRef<Path>>(
        &self,
        action: &'static str,
        name: P,
    ) -> impl FnOnce(io::Error) -> RemoteError + use<P> {
        let path = self.path.join(name);
        move |error| StoreError::io(action, &path, error).into()
    }

    pub(super) fn stat(&self, name: impl AsRef<OsStr>) -> Result<Option<Stat>, RemoteError> {
        let name = name.as_ref();
        found(self.dir.stat(name)).map_err(self.failed("look at", name))
    }

    pub(super) fn read(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, RemoteError> {
        read(&self.dir, name, most).map_err(self.failed("read", name))
    }

    pub(super) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), RemoteError> {
        write(&self.dir, name, bytes).map_err(self.failed("write", name))
    }

    pub(super) fn write_json(
        &self,
        name: &str,
        value: &impl serde::Serialize,
    ) -> Result<(), RemoteError> {
        self.write(name, &serde_json::to_vec(value).expect("state has plain fields"))
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), RemoteError> {
        remove(&self.dir, name).map_err(self.failed("remove", name))
    }

    /// Replaces several files. Syncs them in one pass, because a disk usually writes the changes of
    /// all files with the first sync.
    pub(super) fn write_all(&self, files: &[(String, &[u8])]) -> Result<(), RemoteError> {
        let dir = &self.dir;
        let new = |(name, _): &(String, &[u8])| format!("{name}.new");
        let write = |file: &(String, &[u8])| {
            let mut made = dir.create_file(new(file).as_ref(), NEW, FILE_MODE)?;
            made.write_all(file.1)?;
            Ok(made)
        };
        let made: io::Result<Vec<File>> = files.iter().map(write).collect();
        let synced = made.and_then(|made| made.iter().try_for_each(File::sync_all));
        let written = synced.and_then(|()| {
            let rename = |file| dir.rename(new(file).as_ref(), dir, file.0.as_ref(), NO_FLAGS);
            files.iter().try_for_each(rename)
        });
        if written.is_err() {
            for file in files {
                dir.unlink(new(file).as_ref()).ok();
            }
        }
        written.and_then(|()| dir.sync()).map_err(RemoteError::at("write to", &self.path))
    }
}

/// Replaces the file `name` atomically: see [`StateDir`].
pub(super) fn write(dir: &Dir, name: &str, bytes: &[u8]) -> io::Result<()> {
    write_with(dir, name, |file| file.write_all(bytes))
}

/// Like [`write`], but `print` writes the new content.
pub(super) fn write_with(
    dir: &Dir,
    name: &str,
    print: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let new = format!("{name}.new");
    let written = write_new(dir, &new, print)
        .and_then(|()| dir.rename(new.as_ref(), dir, name.as_ref(), NO_FLAGS));
    if written.is_err() {
        // Report the first failure only.
        dir.unlink(new.as_ref()).ok();
    }
    written.and_then(|()| dir.sync())
}

fn write_new(
    dir: &Dir,
    name: &str,
    print: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = BufWriter::new(dir.create_file(name.as_ref(), NEW, FILE_MODE)?);
    print(&mut file)?;
    file.into_inner().map_err(IntoInnerError::into_error)?.sync_all()
}

pub(super) fn read(dir: &Dir, name: &str, most: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = open(dir, name, OFlags::RDONLY)? else { return Ok(None) };
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

pub(super) fn open(dir: &Dir, name: &str, flags: OFlags) -> io::Result<Option<File>> {
    found(dir.open_file(name.as_ref(), flags))
}

pub(super) fn remove(dir: &Dir, name: &str) -> io::Result<()> {
    match found(dir.unlink(name.as_ref()))? {
        Some(()) => dir.sync(),
        None => Ok(()),
    }
}

pub(super) fn directory(dir: &Dir, name: &OsStr) -> io::Result<Dir> {
    dir.ensure_synced_dir(name, DIRECTORY_MODE)?;
    dir.open_dir(name)
}

fn found<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Downloads keep `min_free` bytes free, plus `min_free` divided by this number. Without this
/// reserve, local writers could find the disk full right after a pull.
const BESIDE: u64 = 4;

/// Limits of downloads. `min_free` is the number of bytes to keep free on the disk. `quota` is the
/// maximum number of bytes of a conversation; `None` means that there is no maximum. Local writers
/// have the same limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct Limits {
    pub min_free: u64,
    pub quota: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Shortage {
    #[error(
        "it needs {needed} bytes, and {free} are free on the store's disk, of which {kept} stay free \
         for what is written here (`min_free`, and a quarter more): make room, or lower `min_free`"
    )]
    Disk { needed: u64, free: u64, kept: u64 },
    #[error(
        "it needs {needed} bytes, and its conversation has {used} of the {quota} of its quota: \
         remove outputs, or raise `quota`"
    )]
    Quota { needed: u64, used: u64, quota: u64 },
}

impl Limits {
    pub(super) fn check_disk(self, disk: &StatVfs, needed: u64) -> Result<(), Shortage> {
        let kept = self.min_free.saturating_add(self.min_free / BESIDE);
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if needed.saturating_add(kept) <= free {
            Ok(())
        } else {
            Err(Shortage::Disk { needed, free, kept })
        }
    }

    pub(super) fn check_quota(self, used: u64, needed: u64) -> Result<(), Shortage> {
        match self.quota {
            Some(quota) if used.saturating_add(needed) > quota => {
                Err(Shortage::Quota { needed, used, quota })
            }
            _ => Ok(()),
        }
    }
}
