//! Temporary files of interrupted writes in a bucket that is a directory.
//!
//! The client writes to `<key>#<number>` next to the key, and renames that file when it is
//! complete. The lists of the client leave such files out, and its requests refuse their names.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::AtFlags;

use super::fault::Fault;
use super::{Bucket, Listed};
use crate::bucket::directory;
use crate::bucket::directory::Directory;
use crate::bucket::error::BucketError;
use crate::bucket::name::staged_for;

impl Bucket {
    ///+ Lists the temporary files of writes to keys of ctxfs in these directories, of interrupted
    ///+ writes and of running ones. Each `name` is a whole key that [`Self::delete`] takes; the
    ///+ times are by the clock of the disk. Buckets other than directories show no such files: this
    ///+ makes no request there.
    pub fn list_staged(&self, directories: &[String]) -> Result<Vec<Listed>, BucketError> {
        let Some(bucket) = self.0.store.directory() else { return Ok(Vec::new()) };
        let mut staged = Vec::new();
        for directory in directories {
            let found = staged_in(bucket, directory);
            let fault = |error: io::Error| {
                Fault::at(bucket, directory, &error).into_error("list", directory)
            };
            staged.extend(found.map_err(fault)?);
        }
        staged.sort_unstable();
        Ok(staged)
    }

    pub(super) fn remove_staged(&self, key: &str) -> Option<Result<(), Fault>> {
        let bucket = self.0.store.directory()?;
        staged_for(key)?;
        Some(remove(bucket, key).map_err(|error| Fault::at(bucket, key, &error)))
    }
}

fn staged_in(bucket: &Directory, prefix: &str) -> io::Result<Vec<Listed>> {
    let Some(opened) = open(bucket, prefix)? else { return Ok(Vec::new()) };
    let mut staged = Vec::new();
    for name in directory::names_of(&opened)? {
        let key = format!("{prefix}{name}");
        if staged_for(&key).is_some()
            && let Some(file) = directory::file_at(&opened, &name)?
        {
            staged.push(Listed { name: key, size: file.size, modified_ms: file.modified_ms });
        }
    }
    Ok(staged)
}

fn remove(bucket: &Directory, key: &str) -> io::Result<()> {
    let start = key.rfind('/').map_or(0, |slash| slash + 1);
    let (prefix, name) = key.split_at(start);
    let Some(opened) = open(bucket, prefix)? else { return Ok(()) };
    directory::unless_gone(rustix::fs::unlinkat(&opened, name, AtFlags::empty()))?;
    Ok(())
}

///+ Returns `None` also for a path over a link.
fn open(bucket: &Directory, prefix: &str) -> io::Result<Option<OwnedFd>> {
    match bucket.open(prefix) {
        Err(error) if directory::is_odd(&error) => Ok(None),
        opened => opened,
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
