//! The files that writes which were cut off leave in a bucket that is a directory.
//!
//! The client writes to a file beside the key's, `<key>#<number>`, and then gives it its name. No
//! list shows such files, and no request of the client takes their names.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::AtFlags;
use rustix::fs::FileType;
use rustix::fs::Mode;
use rustix::fs::OFlags;
use rustix::fs::ResolveFlags;
use rustix::fs::StatxFlags;
use rustix::io::Errno;

use super::Bucket;
use super::Listed;
use super::fault::Fault;
use crate::bucket::error::BucketError;
use crate::bucket::name::staged_for;

/// Nothing outside the bucket is reached, whatever lies in it.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

impl Bucket {
    /// Lists what writes to keys of ctxfs left in these directories when they were cut off, and
    /// what those write that go on. Each has its whole key, and [`Self::delete`] takes it. Makes no
    /// request: only a directory shows such files, and their times are those of its clock.
    pub fn list_staged(&self, directories: &[String]) -> Result<Vec<Listed>, BucketError> {
        let Some(root) = self.url().local_directory() else { return Ok(Vec::new()) };
        let mut staged = Vec::new();
        for directory in directories {
            let found = staged_in(root, directory);
            let fault = |error| of_disk((root, directory), &error).into_error("list", directory);
            staged.extend(found.map_err(fault)?);
        }
        staged.sort_unstable();
        Ok(staged)
    }

    /// Removes such a file. `None` if that is none.
    pub(super) fn remove_staged(&self, key: &str) -> Option<Result<(), Fault>> {
        let root = self.url().local_directory()?;
        staged_for(key)?;
        Some(remove(root, key).map_err(|error| of_disk((root, key), &error)))
    }
}

/// Returns what an error with the file or directory `key` below `root` means.
fn of_disk((root, key): (&Path, &str), error: &io::Error) -> Fault {
    Fault::of_disk(error, format!("`{}`: {error}", root.join(key).display()))
}

fn staged_in(root: &Path, directory: &str) -> io::Result<Vec<Listed>> {
    let Some(opened) = open(root, directory)? else { return Ok(Vec::new()) };
    let mut staged = Vec::new();
    for entry in rustix::fs::Dir::read_from(&opened)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        let key = format!("{directory}{name}");
        if staged_for(&key).is_some()
            && let Some(listed) = listed(&opened, name, key)?
        {
            staged.push(listed);
        }
    }
    Ok(staged)
}

/// Returns what the disk says of a file. `None` if it is none, or has gone.
fn listed(directory: &OwnedFd, name: &str, key: String) -> io::Result<Option<Listed>> {
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    let found = rustix::fs::statx(directory, name, flags, StatxFlags::BASIC_STATS);
    let Some(stat) = unless_gone(found)? else { return Ok(None) };
    let seconds = u64::try_from(stat.stx_mtime.tv_sec).unwrap_or_default();
    let millis = u64::from(stat.stx_mtime.tv_nsec / 1_000_000);
    let modified_ms = seconds.saturating_mul(1000).saturating_add(millis);
    let is_file = FileType::from_raw_mode(u32::from(stat.stx_mode)) == FileType::RegularFile;
    Ok(is_file.then_some(Listed { name: key, size: stat.stx_size, modified_ms }))
}

fn remove(root: &Path, key: &str) -> io::Result<()> {
    let start = key.rfind('/').map_or(0, |slash| slash + 1);
    let (directory, name) = key.split_at(start);
    let Some(directory) = open(root, directory)? else { return Ok(()) };
    unless_gone(rustix::fs::unlinkat(&directory, name, AtFlags::empty()))?;
    Ok(())
}

/// Opens a directory of the bucket. `None` if there is none.
fn open(root: &Path, directory: &str) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(root, flags, Mode::empty())?;
    let path = if directory.is_empty() { "." } else { directory };
    match rustix::fs::openat2(&root, path, flags, Mode::empty(), BENEATH) {
        // It leads elsewhere, or this kernel cannot tell.
        Err(Errno::LOOP | Errno::XDEV | Errno::NOTDIR | Errno::NOSYS) => Ok(None),
        opened => unless_gone(opened),
    }
}

fn unless_gone<T>(done: rustix::io::Result<T>) -> io::Result<Option<T>> {
    match done {
        Err(Errno::NOENT) => Ok(None),
        done => Ok(Some(done?)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use super::*;
    use crate::bucket::Deadline;
    use crate::bucket::url::BucketUrl;

    const LOG: &str = "conversations/c7/log/";
    const OBJECTS: &str = "conversations/c7/objects/";

    fn ours() -> [String; 4] {
        let object = "000102030405060708090a0b0c0d0e0f";
        [
            "ctxfs.json#1".to_owned(),
            format!("{LOG}0000000000000007-000000000001.tar.zst#12"),
            format!("{OBJECTS}{object}.zst#1"),
            format!("{OBJECTS}{object}.blocks#2"),
        ]
    }

    #[test]
    fn what_is_staged_is_listed_and_deleted_and_nothing_else() {
        let temporary = tempfile::tempdir().unwrap();
        let at = |key: &str| temporary.path().join(key);
        for directory in [LOG, OBJECTS] {
            fs::create_dir_all(at(directory)).unwrap();
        }
        let ours = ours();
        for key in &ours {
            fs::write(at(key), "half").unwrap();
            fs::write(at(key.split_once('#').unwrap().0), "whole").unwrap();
        }
        let others = [
            "notes#1".to_owned(),
            format!("{LOG}mine.tar.zst#1"),
            format!("{}x", ours[1]),
            format!("{LOG}0000000000000007-000000000002.tar.zst#"),
            format!("{OBJECTS}000102030405060708090a0b0c0d0e0f.zst#1#1"),
        ];
        for key in &others {
            fs::write(at(key), "another's").unwrap();
        }
        let url = format!("file://{}", temporary.path().display());
        let bucket = Bucket::open(&BucketUrl::parse(&url).unwrap(), []).unwrap();
        let directories = ["", LOG, OBJECTS, "conversations/none/log/"].map(str::to_owned);
        let listed = bucket.list_staged(&directories).unwrap();
        let keys: BTreeSet<_> = listed.iter().map(|each| each.name.clone()).collect();
        assert_eq!(keys, BTreeSet::from(ours.clone()));
        assert!(listed.iter().all(|each| each.size == 4 && each.modified_ms > 1_600_000_000_000));
        let mixed = [ours[1].clone(), others[1].clone(), ours[2].clone()].to_vec();
        let deadline = Deadline::after(Duration::from_mins(1));
        let outcomes = bucket.delete(mixed.clone(), deadline);
        let kept: Vec<_> = outcomes.iter().map(|(_, outcome)| outcome.is_err()).collect();
        assert_eq!(kept, [false, true, false], "{outcomes:?}");
        assert_eq!(outcomes.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), mixed);
        assert!(!at(&ours[1]).exists() && !at(&ours[2]).exists() && at(&ours[3]).exists());
        assert!(others.iter().all(|key| at(key).exists()));
        assert!(ours.iter().all(|key| at(key.split_once('#').unwrap().0).exists()));
    }

    #[test]
    fn nothing_outside_is_reached() {
        let (temporary, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let name = "000102030405060708090a0b0c0d0e0f.zst#1";
        fs::write(outside.path().join(name), "another's").unwrap();
        fs::create_dir_all(temporary.path().join("conversations/c7")).unwrap();
        let link = temporary.path().join("conversations/c7/objects");
        symlink(outside.path(), link).unwrap();
        let url = format!("file://{}", temporary.path().display());
        let bucket = Bucket::open(&BucketUrl::parse(&url).unwrap(), []).unwrap();
        assert_eq!(bucket.list_staged(&[OBJECTS.to_owned()]).unwrap(), []);
        let deadline = Deadline::after(Duration::from_mins(1));
        bucket.delete(vec![format!("{OBJECTS}{name}")], deadline);
        assert!(outside.path().join(name).exists());
    }
}
