
use std::collections::BTreeMap;
use std::sync::Arc;

use super::DAY;
use super::parts::PartBytes;
use crate::bucket::ObjectPlace;
use crate::remote::Moment;
use crate::replica::{FileKey, FileVersion, LocalPut};

///+ Memory of a process about one conversation between pushes. A new process starts with an empty
///+ one.
#[derive(Debug, Default)]
pub struct Session {
    pub(super) looked: Option<Moment>,
    pub(super) uploads: Uploads,
}

///+ Objects that were uploaded but are not named by a segment yet, by path. Forgotten ones are
///+ collected later.
#[derive(Debug, Default)]
pub(super) struct Uploads(BTreeMap<String, Upload>);

#[derive(Debug, Clone)]
pub(super) struct Upload {
    pub(super) key: FileKey,
    pub(super) version: FileVersion,
    pub(super) digest: String,
    pub(super) since: Moment,
    pub(super) object: ObjectPlace,
    pub(super) parts: Option<Arc<PartBytes>>,
}

impl Uploads {
    ///+ Returns the uploaded object of this file, if it may still be named.
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

    ///+ An object belongs to one record: drops those that a segment names.
    pub(super) fn remove<'a>(&mut self, paths: impl Iterator<Item = &'a String>) {
        for path in paths {
            self.0.remove(path);
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
