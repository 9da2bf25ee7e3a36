//! What lies below a prefix.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectMeta;
use object_store::list::PaginatedListOptions;
use object_store::list::PaginatedListResult;
use object_store::path::Path;

use super::Bucket;
use super::Deadline;
use super::fault::Fault;
use super::milliseconds;
use super::retry::QUIET;
use super::retry::persist;
use crate::bucket::error::BucketError;
use crate::bucket::url::Cloud;

/// The most objects that a list returns; their names take some 100 MB.
const MOST: usize = 1_000_000;
/// The names of a page, which is what the stores give at most.
const PAGE: usize = 1000;
/// The time for the list of a directory, as a shared disk may be slow.
const SLOW_LIST: Duration = Duration::from_mins(2);

/// An object below a prefix.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    /// Its key without the prefix that was asked for.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// When the store wrote it, in milliseconds since 1970 by the store's clock.
    pub modified_ms: u64,
}

impl Bucket {
    /// Lists all objects below a directory, in the order of their names; at most 1,000,000.
    ///
    /// `after` is a name: only what comes later in the order of bytes is listed.
    pub fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        deadline: Deadline,
    ) -> Result<Vec<Listed>, BucketError> {
        self.run("list", prefix, async {
            let directory = self.directory(prefix)?;
            let objects = match self.0.store.cloud() {
                Some(store) => self.pages(store, &directory, after, deadline).await?,
                None => self.names(&directory, after, deadline).await?,
            };
            let mut listed: Vec<Listed> =
                objects.iter().filter_map(|object| listed(object, &directory)).collect();
            listed.retain(|object| after.is_none_or(|after| object.name.as_str() > after));
            listed.sort_unstable();
            listed.dedup_by(|second, first| second.name == first.name);
            Ok(listed)
        })
    }

    /// Lists the directories of a directory, the first `limit` in the order of their names. A
    /// page of names is one request, so this costs `limit` / 1000 of them.
    pub fn list_dirs(
        &self,
        prefix: &str,
        limit: usize,
        deadline: Deadline,
    ) -> Result<Vec<String>, BucketError> {
        self.run("list", prefix, async {
            let directory = self.directory(prefix)?;
            let paths = match self.0.store.cloud() {
                Some(store) => self.page_directories(store, &directory, limit, deadline).await?,
                None => self.plain_directories(&directory, deadline).await?,
            };
            let names = paths.iter().filter_map(Path::filename);
            let names: BTreeSet<String> = names.map(str::to_owned).collect();
            Ok(names.into_iter().take(limit).collect())
        })
    }

    /// Returns the full prefix of a directory: empty, or with a slash at its end.
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

    /// A page that fails is asked for again; the pages before it stay.
    async fn page(
        &self,
        store: &Arc<dyn Cloud>,
        directory: &str,
        options: &PaginatedListOptions,
        deadline: Deadline,
    ) -> Result<PaginatedListResult, Fault> {
        let page = || self.0.store.page(store, directory, options.clone());
        persist(&self.0.store.last_failure, deadline, QUIET, page).await.map_err(no_bucket)
    }

    async fn names(
        &self,
        directory: &str,
        after: Option<&str>,
        deadline: Deadline,
    ) -> Result<Vec<ObjectMeta>, Fault> {
        let prefix = exact(directory).unwrap_or_default();
        let offset = after.and_then(|after| exact(&format!("{directory}{after}")));
        let offset = offset.unwrap_or_default();
        let names = || self.0.store.names(&prefix, &offset, MOST);
        persist(&self.0.store.last_failure, deadline, SLOW_LIST, names).await
    }

    async fn plain_directories(
        &self,
        directory: &str,
        deadline: Deadline,
    ) -> Result<Vec<Path>, Fault> {
        let prefix = exact(directory).unwrap_or_default();
        let list = || self.0.store.directories(&prefix);
        Ok(persist(&self.0.store.last_failure, deadline, SLOW_LIST, list).await?.common_prefixes)
    }
}

/// Returns a path as it is written; `None` if it is none.
fn exact(text: &str) -> Option<Path> {
    Path::parse(text).ok()
}

/// A prefix is never absent, so its bucket is.
fn no_bucket(fault: Fault) -> Fault {
    if fault == Fault::Absent { Fault::no_bucket() } else { fault }
}

fn listed(object: &ObjectMeta, directory: &str) -> Option<Listed> {
    let name = object.location.as_ref().strip_prefix(directory)?;
    let modified_ms = milliseconds(object);
    Some(Listed { name: name.to_owned(), size: object.size, modified_ms })
}
