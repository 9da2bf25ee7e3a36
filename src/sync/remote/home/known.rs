
use std::io;

use serde::{Deserialize, Serialize};

use super::{CONVERSATIONS, Home, MOST, REMOTE};
use crate::bucket::BucketId;
use crate::remote::{RemoteError, whole_file};
use ctxfs_core::model::Component;
use ctxfs_store::{Dir, Store};

const BUCKET: &str = "bucket.json";

///+ A bucket that the store was shared through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownBucket {
    ///+ Id of the bucket.
    pub id: BucketId,
    ///+ Last known URL; empty if unknown.
    pub url: String,
}

#[derive(Default, Serialize, Deserialize)]
struct Bucket {
    url: String,
    #[serde(default)]
    write_once: bool,
}

///+ Returns the buckets that the store knows. Makes no request.
pub fn known_buckets(store: &Store) -> Result<Vec<KnownBucket>, RemoteError> {
    let path = store.root().join(REMOTE);
    let opened = Dir::open(store.root()).and_then(|root| root.open_dir(REMOTE.as_ref()));
    let known = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened.and_then(|remote| known_in(&remote)),
    };
    known.map_err(RemoteError::at("read", &path))
}

///+ Returns the bucket that was at `url` when the store last used that URL. Makes no request.
pub fn known_bucket(store: &Store, url: &str) -> Result<Option<BucketId>, RemoteError> {
    let known = known_buckets(store)?.into_iter().find(|bucket| bucket.url == url);
    Ok(known.map(|bucket| bucket.id))
}

fn known_in(remote: &Dir) -> io::Result<Vec<KnownBucket>> {
    let mut known = Vec::new();
    for entry in remote.entries()? {
        let Some(id) = entry.name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let dir = remote.open_dir(&entry.name)?;
        let text = whole_file::read(&dir, BUCKET, MOST)?.unwrap_or_default();
        let Bucket { url, .. } = serde_json::from_slice(&text).unwrap_or_default();
        known.push(KnownBucket { id, url });
    }
    Ok(known)
}

impl Home {
    ///+ Saves the URL of the bucket, and whether it is write-once, for use while the bucket is
    ///+ unreachable. Pushes rely on it: save it after each identity check.
    pub fn keep_bucket(&self, url: &str, write_once: bool) -> Result<(), RemoteError> {
        let text = serde_json::to_vec(&Bucket { url: url.to_owned(), write_once });
        let text = text.expect("a URL can be JSON");
        let path = self.path.join(BUCKET);
        let known = whole_file::read(&self.dir, BUCKET, MOST);
        if known.map_err(RemoteError::at("read", &path))?.as_ref() == Some(&text) {
            return Ok(());
        }
        self.leave_url(url)
            .and_then(|()| whole_file::write(&self.dir, BUCKET, &text))
            .map_err(RemoteError::at("write", &path))
    }

    ///+ Clears the URL of other buckets that were at `url`.
    fn leave_url(&self, url: &str) -> io::Result<()> {
        for KnownBucket { id, .. } in known_in(&self.remote)?.iter().filter(|each| each.url == url)
        {
            let dir = self.remote.open_dir(id.to_string().as_ref())?;
            let text = whole_file::read(&dir, BUCKET, MOST)?.unwrap_or_default();
            let known: Bucket = serde_json::from_slice(&text).unwrap_or_default();
            let text = serde_json::to_vec(&Bucket { url: String::new(), ..known });
            whole_file::write(&dir, BUCKET, &text.expect("a bucket can be JSON"))?;
        }
        Ok(())
    }

    ///+ Returns true if the bucket was last known to be write-once.
    pub fn is_write_once(&self) -> Result<bool, RemoteError> {
        let text = whole_file::read(&self.dir, BUCKET, MOST);
        let text = text.map_err(RemoteError::at("read", &self.path.join(BUCKET)))?;
        let known = text.and_then(|text| serde_json::from_slice::<Bucket>(&text).ok());
        Ok(known.is_some_and(|known| known.write_once))
    }

    ///+ Returns the conversations with local state, sorted.
    pub fn known_conversations(&self) -> Result<Vec<Component>, RemoteError> {
        let entries = self.conversations.entries();
        let entries = entries.map_err(RemoteError::at("list", &self.path.join(CONVERSATIONS)))?;
        let names = entries.into_iter().map(|entry| entry.name);
        let mut known: Vec<_> = names.filter_map(|name| Component::new(name).ok()).collect();
        known.sort_unstable();
        Ok(known)
    }
}
