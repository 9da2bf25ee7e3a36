//! Objects that were stored and that no segment names yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::DAY;
use super::parts::PartBytes;
use crate::bucket::ObjectPlace;
use crate::remote::Moment;
use crate::replica::{FileKey, FileVersion, LocalPut};

/// What a process has in mind about a conversation between two pushes. A process that starts begins
/// with an empty one.
#[derive(Debug, Default)]
pub struct Session {
    /// When it last looked into the bucket to know what this host had sent.
    pub(super) looked: Option<Moment>,
    pub(super) uploads: Uploads,
}

/// Objects that were stored for files, by path. What is forgotten is collected later.
#[derive(Debug, Default)]
pub(super) struct Uploads(BTreeMap<String, Upload>);

/// An object that was stored.
#[derive(Debug, Clone)]
pub(super) struct Upload {
    pub(super) key: FileKey,
    pub(super) version: FileVersion,
    pub(super) digest: String,
    /// Before it was stored.
    pub(super) since: Moment,
    pub(super) object: ObjectPlace,
    /// The bytes that go into the segment, too.
    pub(super) parts: Option<Arc<PartBytes>>,
}

impl Uploads {
    /// Returns the object that has these bytes and may still be named.
    pub(super) fn fitting(&self, path: &str, put: &LocalPut, now: &Moment) -> Option<Upload> {
        let known = self.0.get(path)?;
        let is_it = known.key == put.key && known.version == put.version;
        let has_digest = put.digest.as_deref() == Some(&*known.digest);
        let is_young = now.since(&known.since) <= DAY;
        (is_it && has_digest && is_young).then(|| known.clone())
    }

    pub(super) fn insert(&mut self, path: &str, upload: Upload) {
        self.0.insert(path.to_owned(), upload);
    }

    /// Forgets what a segment names now: an object belongs to one record.
    pub(super) fn remove<'a>(&mut self, paths: impl Iterator<Item = &'a String>) {
        for path in paths {
            self.0.remove(path);
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
