//! Replacing a file at once: whoever reads it, and whoever finds it after a crash, has the old one
//! or the new one.

use std::fs::{File, Metadata};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::fs::{Access, Gid, Uid};

use crate::outcome::{Failure, FailureKind};

/// The mode of a file that is new, and of one that is a program.
const MODE: u32 = 0o644;
const PROGRAM_MODE: u32 = 0o755;

/// Returns the file that `path` leads to through links, which stay, or `path` if there is none.
pub(super) fn behind_links(path: &Path) -> Result<PathBuf, Failure> {
    match path.canonicalize() {
        Ok(real) => Ok(real),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
            Ok(path.to_owned())
        }
        Err(error) => Err(failure("follow", path, &error)),
    }
}

/// Reads a file of text, if it is there.
pub(super) fn read(path: &Path) -> Result<Option<String>, Failure> {
    match read_regular(path) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| {
            let text = format!("`{}` is not text in UTF-8", path.display());
            Failure::new(FailureKind::Failed, text, "nothing was changed; convert it first")
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failure("read", path, &error)),
    }
}

/// Reads a regular file. Another may never end.
fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.is_file() {
        fs::read(path)
    } else {
        Err(io::Error::other("it is no regular file"))
    }
}

/// Fails if the file cannot be replaced, or not created, before anything is changed. A file or a
/// directory without a right to write is left alone, also where root could write all the same.
pub(super) fn check(path: &Path) -> Result<(), Failure> {
    let above = path.ancestors().skip(1).find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    for place in [Some(path).filter(|path| path.exists()), Some(above)].into_iter().flatten() {
        let mode = fs::metadata(place).map_err(|error| failure("look at", place, &error))?;
        if mode.permissions().readonly() {
            let text = format!("`{}` is read-only", place.display());
            return Err(Failure::new(FailureKind::Failed, text, UNCHANGED));
        }
        rustix::fs::access(place, Access::WRITE_OK)
            .map_err(|error| failure("write", place, &error.into()))?;
    }
    Ok(())
}

/// Creates or replaces the file, whose directory is created if it is missing. Mode and owner are
/// those of `like`. A file that begins with the name of its shell may be run.
pub(super) fn replace(path: &Path, text: &str, like: Option<&Metadata>) -> Result<(), Failure> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    let mode = if text.starts_with("#!") { PROGRAM_MODE } else { MODE };
    let write = || -> io::Result<()> {
        fs::create_dir_all(dir)?;
        let mut file = tempfile::Builder::new().prefix(".ctxfs-").tempfile_in(dir)?;
        file.write_all(text.as_bytes())?;
        set_rights(file.as_file(), mode, like)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        File::open(dir)?.sync_all()
    };
    write().map_err(|error| failure("write", path, &error))
}

fn set_rights(file: &File, mode: u32, like: Option<&Metadata>) -> io::Result<()> {
    let mode = like.map_or(mode, |like| like.mode() & 0o7777);
    let own = file.metadata()?;
    if let Some(like) = like
        && (like.uid(), like.gid()) != (own.uid(), own.gid())
    {
        let (uid, gid) = (Uid::from_raw(like.uid()), Gid::from_raw(like.gid()));
        rustix::fs::fchown(file, Some(uid), Some(gid))?;
    }
    // After the owner, as a change of owner takes rights away.
    Ok(rustix::fs::fchmod(file, mode.into())?)
}

/// Removes the file, and the directories up to `base` that are then empty.
pub(super) fn remove(path: &Path, base: &Path) -> Result<(), Failure> {
    fs::remove_file(path).map_err(|error| failure("remove", path, &error))?;
    let above = path.ancestors().skip(1).take_while(|dir| *dir != base && dir.starts_with(base));
    for dir in above {
        if fs::remove_dir(dir).is_err() {
            break;
        }
    }
    Ok(())
}

const UNCHANGED: &str = "it was not changed; `ctxfs install HOST --print` shows what it should get";

fn failure(action: &str, path: &Path, error: &io::Error) -> Failure {
    let text = format!("cannot {action} `{}`: {error}", path.display());
    Failure::new(FailureKind::Failed, text, UNCHANGED)
}
