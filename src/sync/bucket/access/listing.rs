use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectMeta;
use object_store::list::{PaginatedListOptions, PaginatedListResult};
use object_store::path::Path;
use rustix::fs::{AtFlags, OFlags};

use crate::bucket::access::client::{QUIET, StoreClient};
use crate::bucket::access::fault::Fault;
use crate::bucket::directory;
use crate::bucket::directory::{Directory, PlainFile};
use crate::bucket::name::staged_for;
use crate::bucket::objects::{Deadline, Listed, NameRange, NewNames};
use crate::bucket::url::{CloudStore, OpenStore};

/// Maximum number of objects in a list. Their names take about 100 MB.
const MOST: usize = 1_000_000;
/// Number of names per list page, which is the maximum that the object stores allow.
const PAGE: usize = 1000;
/// Time limit for listing a directory, which may be on a slow network disk.
const SLOW_LIST: Duration = Duration::from_mins(2);

impl StoreClient {
    /// Lists the objects below `directory`, in any order. An object may be in the list twice. Names
    /// in the ranges `known` may be skipped.
    pub(super) async fn list(
        &self,
        directory: &str,
        known: &[NameRange],
        deadline: Deadline,
    ) -> Result<NewNames, Fault> {
        let all = |listed| NewNames { listed, skipped: Vec::new() };
        match &self.opened {
            OpenStore::Directory(bucket) => self.files(bucket, directory, deadline).await.map(all),
            OpenStore::Cloud { store, .. } => self.pages(store, directory, known, deadline).await,
            OpenStore::Memory(_) => {
                Ok(all(listed(&self.names(directory, deadline).await?, directory)))
            }
        }
    }

    /// Lists subdirectories of `directory`: all of them, or at least the first `limit` by name.
    pub(super) async fn list_dirs(
        &self,
        directory: &str,
        limit: usize,
        deadline: Deadline,
    ) -> Result<BTreeSet<String>, Fault> {
        let paths = match &self.opened {
            OpenStore::Directory(bucket) => {
                let list = || self.of_directory(bucket, directory, Directory::directories);
                let names = self.persist(deadline, SLOW_LIST, list).await?;
                return Ok(names.into_iter().collect());
            }
            OpenStore::Cloud { store, .. } => {
                self.page_directories(store, directory, limit, deadline).await?
            }
            OpenStore::Memory(_) => {
                let prefix = exact(directory);
                self.persist(deadline, QUIET, || self.request_prefixes(&prefix)).await?
            }
        };
        Ok(paths.iter().filter_map(Path::filename).map(str::to_owned).collect())
    }

    async fn pages(
        &self,
        store: &Arc<dyn CloudStore>,
        directory: &str,
        known: &[NameRange],
        deadline: Deadline,
    ) -> Result<NewNames, Fault> {
        let mut options = PaginatedListOptions::default();
        let mut new = NewNames::default();
        loop {
            let page = self.page(store, directory, &options, deadline).await?;
            let names = listed(&page.result.objects, directory);
            let skipped = skippable(&names, known);
            new.listed.extend(names);
            if new.listed.len() > MOST {
                return Err(Fault::TooMany { limit: MOST });
            }
            if page.page_token.is_none() {
                return Ok(new);
            }
            let offset = skipped.as_ref().map(|range| format!("{directory}{}", range.last));
            let page_token = page.page_token.filter(|_| offset.is_none());
            options = PaginatedListOptions { offset, page_token, ..options };
            new.skipped.extend(skipped);
        }
    }

    async fn page_directories(
        &self,
        store: &Arc<dyn CloudStore>,
        directory: &str,
        limit: usize,
        deadline: Deadline,
    ) -> Result<Vec<Path>, Fault> {
        let mut options = PaginatedListOptions {
            delimiter: Some("/".into()),
            max_keys: Some(limit.clamp(1, PAGE)),
            ..PaginatedListOptions::default()
        };
        let mut paths = Vec::new();
        loop {
            let page = self.page(store, directory, &options, deadline).await?;
            paths.extend(page.result.common_prefixes);
            if paths.len() >= limit || page.page_token.is_none() {
                return Ok(paths);
            }
            options.page_token = page.page_token;
        }
    }

    async fn page(
        &self,
        store: &Arc<dyn CloudStore>,
        directory: &str,
        options: &PaginatedListOptions,
        deadline: Deadline,
    ) -> Result<PaginatedListResult, Fault> {
        let page = || self.request_page(store, directory, options.clone());
        self.persist(deadline, QUIET, page).await.map_err(no_bucket)
    }

    async fn names(&self, directory: &str, deadline: Deadline) -> Result<Vec<ObjectMeta>, Fault> {
        let prefix = exact(directory);
        let names = self.persist(deadline, QUIET, || self.request_names(&prefix)).await?;
        if names.len() > MOST { Err(Fault::TooMany { limit: MOST }) } else { Ok(names) }
    }

    async fn files(
        &self,
        bucket: &Arc<Directory>,
        prefix: &str,
        deadline: Deadline,
    ) -> Result<Vec<Listed>, Fault> {
        let list =
            || self.of_directory(bucket, prefix, |bucket, prefix| bucket.files(prefix, MOST));
        let files = self.persist(deadline, SLOW_LIST, list).await?;
        if files.len() > MOST {
            return Err(Fault::TooMany { limit: MOST });
        }
        let whole = files.into_iter().filter(|file| !is_staged(&file.name));
        let listed = |PlainFile { name, size, modified_ms }| Listed { name, size, modified_ms };
        Ok(whole.map(listed).collect())
    }
}

/// Returns the rest of the known range in which a page ends, if the next page can begin after it.
/// Some stores do not sort their lists, and nothing can be skipped in these.
fn skippable(page: &[Listed], known: &[NameRange]) -> Option<NameRange> {
    let last = page.last().filter(|_| page.is_sorted_by(|one, next| one.name < next.name))?;
    let name = &last.name;
    let range = known.iter().find(|range| range.first <= *name && *name < range.last)?;
    Some(NameRange { first: name.clone(), last: range.last.clone() })
}

/// Converts a prefix to a path without encoding it. An empty prefix matches all keys.
fn exact(prefix: &str) -> Path {
    Path::parse(prefix).unwrap_or_default()
}

/// Returns true if `name` has the form `<key>#<number>`, which the directory client gives its
/// temporary files.
fn is_staged(name: &str) -> bool {
    let name = name.rsplit_once('/').map_or(name, |(_, name)| name);
    let is_number = |end: &str| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit());
    name.split_once('#').is_some_and(|(_, end)| is_number(end))
}

fn no_bucket(fault: Fault) -> Fault {
    if fault == Fault::Absent { Fault::no_bucket() } else { fault }
}

fn listed(objects: &[ObjectMeta], directory: &str) -> Vec<Listed> {
    let listed = |object: &ObjectMeta| {
        let name = object.location.as_ref().strip_prefix(directory)?.to_owned();
        Some(Listed { name, size: object.size, modified_ms: milliseconds(object) })
    };
    objects.iter().filter_map(listed).collect()
}

pub(super) fn milliseconds(object: &ObjectMeta) -> u64 {
    u64::try_from(object.last_modified.timestamp_millis()).unwrap_or_default()
}

pub(super) fn staged_in(bucket: &Directory, prefix: &str) -> io::Result<Vec<Listed>> {
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

/// Removes a temporary file. A missing file is not an error.
pub(super) fn remove_staged(bucket: &Directory, key: &str) -> io::Result<()> {
    let start = key.rfind('/').map_or(0, |slash| slash + 1);
    let (prefix, name) = key.split_at(start);
    let Some(opened) = open(bucket, prefix)? else { return Ok(()) };
    directory::unless_gone(rustix::fs::unlinkat(&opened, name, AtFlags::empty()))?;
    Ok(())
}

fn open(bucket: &Directory, prefix: &str) -> io::Result<Option<std::os::fd::OwnedFd>> {
    match bucket.walk(prefix, OFlags::RDONLY) {
        Err(error) if directory::is_odd(&error) => Ok(None),
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::bucket::{Bucket, BucketUrl, Objects as _};

    const LOG: &str = "conversations/c7/log/";
    const OBJECTS: &str = "conversations/c7/objects/";

    fn soon() -> Deadline {
        Deadline::after(Duration::from_mins(1))
    }

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
        let listed = bucket.list_staged(&directories, soon()).unwrap();
        let keys: BTreeSet<_> = listed.iter().map(|each| each.name.clone()).collect();
        assert_eq!(keys, BTreeSet::from(ours.clone()));
        assert!(listed.iter().all(|each| each.size == 4 && each.modified_ms > 1_600_000_000_000));
        let mixed = [ours[1].clone(), others[1].clone(), ours[2].clone()].to_vec();
        let outcomes = bucket.delete(mixed.clone(), soon());
        let kept: Vec<_> = outcomes.iter().map(|(_, outcome)| outcome.is_err()).collect();
        assert_eq!(kept, [false, true, false], "{outcomes:?}");
        assert_eq!(outcomes.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), mixed);
        assert!(!at(&ours[1]).exists() && !at(&ours[2]).exists() && at(&ours[3]).exists());
        assert!(others.iter().all(|key| at(key).exists()));
        assert!(ours.iter().all(|key| at(key.split_once('#').unwrap().0).exists()));
    }

    #[test]
    fn a_list_goes_on_after_what_is_known() {
        let listed = |names: &[&str]| -> Vec<Listed> {
            let listed = |name: &&str| Listed { name: (*name).to_owned(), size: 1, modified_ms: 0 };
            names.iter().map(listed).collect()
        };
        let range = |first: &str, last: &str| {
            let (first, last) = (first.to_owned(), last.to_owned());
            NameRange { first, last }
        };
        let known = [range("a1", "a9"), range("c1", "c5")];
        let after = |names: &[&str]| skippable(&listed(names), &known);
        assert_eq!(after(&["a1", "a2"]), Some(range("a2", "a9")));
        assert_eq!(after(&["a8", "a9"]), None, "that is its end");
        assert_eq!(after(&["a9", "b1", "c3"]), Some(range("c3", "c5")));
        assert_eq!(after(&["b1"]), None, "it is not known");
        assert_eq!(after(&["c1", "a2"]), None, "the list is not sorted");
        assert_eq!(after(&[]), None);
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
        assert_eq!(bucket.list_staged(&[OBJECTS.to_owned()], soon()).unwrap(), []);
        bucket.delete(vec![format!("{OBJECTS}{name}")], soon());
        assert!(outside.path().join(name).exists());
    }
}
