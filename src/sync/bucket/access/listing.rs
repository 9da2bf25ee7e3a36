
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectMeta;
use object_store::list::{PaginatedListOptions, PaginatedListResult};
use object_store::path::Path;

use super::fault::Fault;
use super::retry::QUIET;
use super::{Bucket, Deadline, milliseconds};
use crate::bucket::directory::{Directory, PlainFile};
use crate::bucket::error::BucketError;
use crate::bucket::url::Cloud;

///+ Maximum objects in a list; their names take about 100 MB.
const MOST: usize = 1_000_000;
///+ Names in a page: the maximum of the stores.
const PAGE: usize = 1000;
///+ Time limit for listing a directory, which may be on a slow network disk.
const SLOW_LIST: Duration = Duration::from_mins(2);

///+ An object in a list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    ///+ Key without the prefix of the list.
    pub name: String,
    ///+ Bytes of the object.
    pub size: u64,
    ///+ Time of the write in milliseconds since the epoch, by the store's clock.
    pub modified_ms: u64,
}

impl Bucket {
    ///+ Lists all objects below a directory, sorted by name; at most 1,000,000.
    ///+
    ///+ With `after`, lists only names that sort after it, bytewise.
    pub fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        deadline: Deadline,
    ) -> Result<Vec<Listed>, BucketError> {
        self.run("list", prefix, async {
            let directory = self.directory(prefix)?;
            let mut listed = match (self.0.store.cloud(), self.0.store.directory()) {
                (_, Some(bucket)) => self.files(bucket, &directory, deadline).await?,
                (Some(store), _) => {
                    let objects = self.pages(store, &directory, after, deadline).await?;
                    listed(&objects, &directory)
                }
                (None, None) => listed(&self.names(&directory, deadline).await?, &directory),
            };
            listed.retain(|object| after.is_none_or(|after| object.name.as_str() > after));
            listed.sort_unstable();
            listed.dedup_by(|second, first| second.name == first.name);
            Ok(listed)
        })
    }

    ///+ Lists the first `limit` subdirectories of a directory, sorted by name. Costs one request per
    ///+ 1000 of them.
    pub fn list_dirs(
        &self,
        prefix: &str,
        limit: usize,
        deadline: Deadline,
    ) -> Result<Vec<String>, BucketError> {
        self.run("list", prefix, async {
            let directory = self.directory(prefix)?;
            let names = match (self.0.store.cloud(), self.0.store.directory()) {
                (_, Some(bucket)) => self.directories(bucket, &directory, deadline).await?,
                (Some(store), _) => {
                    last_names(&self.page_directories(store, &directory, limit, deadline).await?)
                }
                (None, None) => last_names(&self.prefixes(&directory, deadline).await?),
            };
            let names: BTreeSet<String> = names.into_iter().collect();
            Ok(names.into_iter().take(limit).collect())
        })
    }

    ///+ Lists the entries of a directory that other lists leave out because ctxfs does not create
    ///+ them: links, special files, and names that are not UTF-8. Only a bucket that is a directory
    ///+ has such entries; for others this makes no request and returns nothing.
    pub fn list_odd(&self, prefix: &str) -> Result<Vec<String>, BucketError> {
        let Some(bucket) = self.0.store.directory() else { return Ok(Vec::new()) };
        let fault = |error: io::Error| Fault::at(bucket, prefix, &error).into_error("list", prefix);
        bucket.odd(prefix).map_err(fault)
    }

    ///+ Returns the full prefix: empty, or with a slash at its end.
    fn directory(&self, prefix: &str) -> Result<String, Fault> {
        let path = self.path(prefix.trim_end_matches('/'))?;
        let path: &str = path.as_ref();
        Ok(if path.is_empty() { String::new() } else { format!("{path}/") })
    }

    async fn pages(
        &self,
        store: &Arc<dyn Cloud>,
        directory: &str,
        after: Option<&str>,
        deadline: Deadline,
    ) -> Result<Vec<ObjectMeta>, Fault> {
        let mut options = PaginatedListOptions {
            offset: after.map(|after| format!("{directory}{after}")),
            ..PaginatedListOptions::default()
        };
        let mut objects = Vec::new();
        loop {
            let page = self.page(store, directory, &options, deadline).await?;
            objects.extend(page.result.objects);
            if objects.len() > MOST {
                return Err(Fault::TooMany { limit: MOST });
            }
            if page.page_token.is_none() {
                return Ok(objects);
            }
            options.page_token = page.page_token;
        }
    }

    async fn page_directories(
        &self,
        store: &Arc<dyn Cloud>,
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

    ///+ Retries a page without starting the list over.
    async fn page(
        &self,
        store: &Arc<dyn Cloud>,
        directory: &str,
        options: &PaginatedListOptions,
        deadline: Deadline,
    ) -> Result<PaginatedListResult, Fault> {
        let page = || self.0.store.page(store, directory, options.clone());
        self.0.store.persist(deadline, QUIET, page).await.map_err(no_bucket)
    }

    async fn names(&self, directory: &str, deadline: Deadline) -> Result<Vec<ObjectMeta>, Fault> {
        let prefix = exact(directory);
        let names = self.0.store.persist(deadline, QUIET, || self.0.store.names(&prefix)).await?;
        if names.len() > MOST { Err(Fault::TooMany { limit: MOST }) } else { Ok(names) }
    }

    async fn prefixes(&self, directory: &str, deadline: Deadline) -> Result<Vec<Path>, Fault> {
        let prefix = exact(directory);
        self.0.store.persist(deadline, QUIET, || self.0.store.prefixes(&prefix)).await
    }

    async fn files(
        &self,
        bucket: &Arc<Directory>,
        prefix: &str,
        deadline: Deadline,
    ) -> Result<Vec<Listed>, Fault> {
        let list = || {
            self.0.store.of_directory(bucket, prefix, |bucket, prefix| bucket.files(prefix, MOST))
        };
        let files = self.0.store.persist(deadline, SLOW_LIST, list).await?;
        if files.len() > MOST {
            return Err(Fault::TooMany { limit: MOST });
        }
        let whole = files.into_iter().filter(|file| !is_staged(&file.name));
        let listed = |PlainFile { name, size, modified_ms }| Listed { name, size, modified_ms };
        Ok(whole.map(listed).collect())
    }

    async fn directories(
        &self,
        bucket: &Arc<Directory>,
        prefix: &str,
        deadline: Deadline,
    ) -> Result<Vec<String>, Fault> {
        let list = || self.0.store.of_directory(bucket, prefix, Directory::directories);
        self.0.store.persist(deadline, SLOW_LIST, list).await
    }
}

///+ Returns a prefix taken literally, or the prefix of all keys.
fn exact(prefix: &str) -> Path {
    Path::parse(prefix).unwrap_or_default()
}

fn last_names(paths: &[Path]) -> Vec<String> {
    paths.iter().filter_map(Path::filename).map(str::to_owned).collect()
}

///+ Returns true for the name of a temporary file of the directory client: `<key>#<number>`.
fn is_staged(name: &str) -> bool {
    let name = name.rsplit_once('/').map_or(name, |(_, name)| name);
    let is_number = |end: &str| !end.is_empty() && end.bytes().all(|byte| byte.is_ascii_digit());
    name.split_once('#').is_some_and(|(_, end)| is_number(end))
}

///+ A prefix cannot be missing, so the bucket is.
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
