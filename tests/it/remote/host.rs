//! A host whose store is used from the process of the test, where its clock can be wrong.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ctxfs_core::model::{Component, RelPath};
use ctxfs_store::{Conversation, RemovalOutcome, Store};
use ctxfs_sync::bucket::{Bucket, BucketId, BucketUrl, Deadline, Objects as _};
use ctxfs_sync::remote::{
    Home, Moment, PATIENCE, PushLock, RemoteArtifacts, Synchronizer, standing,
};

use crate::support::{TestStore, eventually};

/// The bytes of blocks that a host keeps.
const CACHE: u64 = 64 << 20;

/// A store that shares the conversation `c7`. It has the right to push only while it does
/// something, so commands may come in between.
pub(crate) struct Sharing {
    pub(crate) conversation: Arc<Conversation>,
    pub(crate) bucket: Bucket,
    opened: Store,
    id: BucketId,
    home: Home,
    /// How far its clock is off, in milliseconds.
    skew: i64,
}

/// The same with a store of its own.
pub(crate) struct Host {
    sharing: Sharing,
    pub(crate) store: TestStore,
}

fn deadline() -> Deadline {
    Deadline::after(Duration::from_mins(1))
}

/// Returns the path of the artifact with this name below `artifacts`.
pub(crate) fn path(name: &str) -> RelPath {
    RelPath::new(format!("artifacts/{name}")).unwrap()
}

impl Host {
    pub(crate) fn new(url: &str, skew: i64) -> Self {
        let store = TestStore::new();
        Self { sharing: Sharing::new(&store.path(), url, skew), store }
    }
}

impl Deref for Host {
    type Target = Sharing;

    fn deref(&self) -> &Sharing {
        &self.sharing
    }
}

impl Sharing {
    pub(crate) fn new(store: &Path, url: &str, skew: i64) -> Self {
        let opened = Store::open(store).unwrap();
        let conversation = opened.create_conversation(&Component::new("c7").unwrap()).unwrap();
        let bucket = Bucket::open(&BucketUrl::parse(url).unwrap(), []).unwrap();
        let id = bucket.found(false, deadline()).unwrap().id;
        let home = Home::open(&opened, id).unwrap();
        Self { conversation, bucket, opened, id, home, skew }
    }

    /// Returns where the file of an artifact is.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.opened.root().join("context/c7/artifacts").join(name)
    }

    /// Returns true if an artifact of this name is known, and its bytes are elsewhere.
    pub(crate) fn is_far(&self, name: &str) -> bool {
        !self.at(name).exists() && self.conversation.far(&path(name)).unwrap().is_some()
    }

    /// Returns true if no file is being written, as far as the disk can tell: all can be published.
    pub(crate) fn is_complete(&self) -> bool {
        let notes = self.home.conversation(self.conversation.id()).unwrap();
        let standing = standing(Some(&*self.conversation), &notes, self.opened.clock());
        standing.unwrap().live == 0
    }

    pub(crate) fn sync<T>(&self, with: impl FnOnce(&Synchronizer<'_>) -> T) -> T {
        let lock = self.locked();
        with(&Synchronizer {
            store: &self.opened,
            bucket: &self.bucket,
            home: &self.home,
            lock: &lock,
            now: &|| self.now(),
            deadline: &deadline,
        })
    }

    /// Waits until no other process uses the bucket for this store.
    fn locked(&self) -> PushLock {
        let mut lock = None;
        eventually("nobody uses the bucket", || {
            lock = self.home.lock().unwrap();
            lock.is_some()
        });
        lock.unwrap()
    }

    fn now(&self) -> Moment {
        let now = Moment::now();
        Moment { wall: now.wall.saturating_add_signed(self.skew), ..now }
    }

    /// Returns the artifacts whose bytes are elsewhere.
    pub(crate) fn far(&self) -> RemoteArtifacts {
        let home = Home::open(&self.opened, self.id).unwrap();
        RemoteArtifacts::new(Arc::new(self.bucket.clone()), home, CACHE, PATIENCE).unwrap()
    }

    /// Lets go of the local copy of an artifact, if that can be.
    pub(crate) fn evict(&self, name: &str) -> RemovalOutcome {
        let _lock = self.locked();
        let notes = self.home.conversation(self.conversation.id()).unwrap();
        let (agreement, path) = (notes.agreement().unwrap(), path(name));
        let entry = agreement.base.entries.iter().find(|entry| entry.path == path.to_text());
        self.far().evict(&self.conversation, &path, entry, self.opened.clock()).unwrap()
    }
}
