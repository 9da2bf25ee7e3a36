//! A bucket that is a directory on disk.
//!
//! The path of the directory itself may contain links. Below the directory, links and special files
//! are refused. The file system client of `object_store` follows links, and fails on names that are
//! not UTF-8. This module therefore lists directories itself, and checks the path of a key before
//! the client opens it. A process with write access to the directory can still create a link after
//! the check and before the client opens the path.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use object_store::local::LocalFileSystem;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Statx, StatxFlags};
use rustix::io::Errno;
use rustix::path::Arg;

const PRIVATE: u32 = 0o700;
const DEEPEST: usize = 8;

/// Directory of a bucket. While the directory is missing, for example because its disk is not
/// mounted, requests fail. The exception is a read of the mark `ctxfs.json`, which reports that the
/// bucket has no mark.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(super) root: PathBuf,
    client: OnceLock<LocalFileSystem>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct PlainFile {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) modified_ms: u64,
}

pub(super) fn is_odd(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

impl Directory {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), client: OnceLock::new() }
    }

    pub(super) fn make(&self) -> io::Result<()> {
        match std::fs::DirBuilder::new().mode(PRIVATE).create(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }

    pub(super) fn client(&self) -> object_store::Result<&LocalFileSystem> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = LocalFileSystem::new_with_prefix(&self.root)?.with_fsync(true);
        Ok(self.client.get_or_init(|| client))
    }

    /// Checks that `key` denotes a plain file or nothing, and that its path contains no link.
    /// Otherwise fails with an error that [`is_odd`] recognizes.
    pub(super) fn check(&self, key: &str) -> io::Result<()> {
        let (directory, name) = key.rsplit_once('/').unwrap_or(("", key));
        let Some(directory) = self.walk(directory, OFlags::PATH)? else { return Ok(()) };
        match kind_of(&directory, name)? {
            None | Some(FileType::RegularFile) => Ok(()),
            Some(_) => Err(Errno::LOOP.into()),
        }
    }

    /// Lists the plain files below a directory. Stops once there are more than `most`. Skips names
    /// that are not UTF-8.
    pub(super) fn files(&self, directory: &str, most: usize) -> io::Result<Vec<PlainFile>> {
        let mut files = Vec::new();
        if let Some(opened) = self.walk(directory, OFlags::RDONLY)? {
            collect(&opened, ("", 0), most, &mut files)?;
        }
        Ok(files)
    }

    pub(super) fn directories(&self, directory: &str) -> io::Result<Vec<String>> {
        let all = self.entries(directory)?.into_iter();
        let directories = all.filter(|(_, kind)| *kind == FileType::Directory);
        Ok(directories.filter_map(|(name, _)| name.into_string().ok()).collect())
    }

    /// Lists the entries that [`Self::files`] and [`Self::directories`] leave out: links, special
    /// files, and names that are not UTF-8.
    pub(super) fn odd(&self, directory: &str) -> io::Result<Vec<String>> {
        let is_plain = |kind| matches!(kind, FileType::Directory | FileType::RegularFile);
        let all = self.entries(directory)?.into_iter();
        let odd = all.filter(|(name, kind)| name.to_str().is_none() || !is_plain(*kind));
        Ok(odd.map(|(name, _)| name.to_string_lossy().into_owned()).collect())
    }

    fn entries(&self, directory: &str) -> io::Result<Vec<(OsString, FileType)>> {
        self.walk(directory, OFlags::RDONLY)?
            .map_or_else(|| Ok(Vec::new()), |opened| entries_of(&opened))
    }

    /// Opens a subdirectory. `directory` is its path relative to the bucket, and `flags` apply to
    /// the last component. Returns `None` if it is missing. Fails with an error that [`is_odd`]
    /// recognizes if a component is a link or not a directory.
    pub(super) fn walk(&self, directory: &str, flags: OFlags) -> io::Result<Option<OwnedFd>> {
        let mut parts = directory.split('/').filter(|part| !part.is_empty()).peekable();
        let flags = |is_last: bool| {
            let flags = if is_last { flags } else { OFlags::PATH };
            flags | OFlags::DIRECTORY | OFlags::CLOEXEC
        };
        let mut at = rustix::fs::open(&self.root, flags(parts.peek().is_none()), Mode::empty())?;
        while let Some(part) = parts.next() {
            if part == ".." {
                return Err(Errno::LOOP.into());
            }
            let flags = flags(parts.peek().is_none()) | OFlags::NOFOLLOW;
            at = match rustix::fs::openat(&at, part, flags, Mode::empty()) {
                Err(Errno::NOENT) => return Ok(None),
                // The component is a link, or not a directory.
                Err(Errno::NOTDIR) => return Err(Errno::LOOP.into()),
                opened => opened?,
            };
        }
        Ok(Some(at))
    }
}

fn collect(
    directory: &OwnedFd,
    (before, depth): (&str, usize),
    most: usize,
    files: &mut Vec<PlainFile>,
) -> io::Result<()> {
    for (name, kind) in entries_of(directory)? {
        let Some(name) = name.to_str() else { continue };
        if files.len() > most {
            break;
        }
        match kind {
            FileType::RegularFile => {
                let file = file_at(directory, name)?;
                files.extend(file.map(|file| file.below(before)));
            }
            FileType::Directory if depth < DEEPEST => {
                let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let opened = rustix::fs::openat(directory, name, flags, Mode::empty());
                let Some(opened) = unless_gone(opened)? else { continue };
                collect(&opened, (&format!("{before}{name}/"), depth + 1), most, files)?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn entries_of(directory: &OwnedFd) -> io::Result<Vec<(OsString, FileType)>> {
    let mut all = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => kind_of(directory, entry.file_name())?,
            kind => Some(kind),
        };
        all.extend(kind.map(|kind| (OsString::from_vec(name.to_owned()), kind)));
    }
    Ok(all)
}

pub(super) fn names_of(directory: &OwnedFd) -> io::Result<Vec<String>> {
    let all = entries_of(directory)?.into_iter();
    Ok(all.filter_map(|(name, _)| name.into_string().ok()).collect())
}

fn kind_of(directory: &OwnedFd, name: impl Arg) -> io::Result<Option<FileType>> {
    Ok(stat(directory, name)?.map(|stat| FileType::from_raw_mode(u32::from(stat.stx_mode))))
}

pub(super) fn file_at(directory: &OwnedFd, name: &str) -> io::Result<Option<PlainFile>> {
    let Some(stat) = stat(directory, name)? else { return Ok(None) };
    let seconds = u64::try_from(stat.stx_mtime.tv_sec).unwrap_or_default();
    let millis = u64::from(stat.stx_mtime.tv_nsec / 1_000_000);
    let modified_ms = seconds.saturating_mul(1000).saturating_add(millis);
    let is_plain = FileType::from_raw_mode(u32::from(stat.stx_mode)) == FileType::RegularFile;
    let file = PlainFile { name: name.to_owned(), size: stat.stx_size, modified_ms };
    Ok(is_plain.then_some(file))
}

fn stat(directory: &OwnedFd, name: impl Arg) -> io::Result<Option<Statx>> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    unless_gone(rustix::fs::statx(directory, name, flags, StatxFlags::BASIC_STATS))
}

pub(super) fn unless_gone<T>(done: rustix::io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(Errno::NOENT) => Ok(None),
        done => Ok(Some(done?)),
    }
}

impl PlainFile {
    fn below(self, before: &str) -> Self {
        Self { name: format!("{before}{}", self.name), ..self }
    }
}

#[cfg(test)]
mod tests;
