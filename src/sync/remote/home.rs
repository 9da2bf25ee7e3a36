//! Local state about one bucket.
//!
//! ```text
//! <store>/remote/                     0700
//!   lock                              locked by the process that pushes or runs a look
//!   messages/<conversation>/          merged message logs; see `messages`
//!   <32 hexadecimal digits>/          one bucket, by its id
//!     writer.json                     writer id of this store; replaced atomically
//!     bucket.json                     last known URL of the bucket
//!     conversations/<conversation>/   see `notes`
//!     blocks/                         see `blocks`
//! ```
//!
//! Different buckets share no state below their directories.

use std::fs::File;
use std::io;
use std::sync::Arc;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::bucket::BucketId;
use crate::remote::blocks::{BLOCKS, BlockCache};
use crate::remote::disk::StateDir;
use crate::remote::{Limits, Notes, RemoteError, disk};
use crate::replica::WriterId;
use ctxfs_core::model::Component;
use ctxfs_store::{Dir, REMOTE, REMOTE_MESSAGES, Store, file_lock};

const LOCK: &str = "lock";
const WRITER: &str = "writer.json";
const CONVERSATIONS: &str = "conversations";
const MOST: u64 = 4 << 10;

/// Local state about one bucket: the writer id, the push lock, the cached blocks, and the state
/// about each conversation. The state belongs to the id of the bucket, so a new bucket at the same
/// URL starts with an empty state.
#[derive(Debug)]
pub struct Home {
    remote: StateDir,
    dir: Arc<StateDir>,
    conversations: StateDir,
    bucket: BucketId,
    limits: Limits,
}

/// Lock of the store's remote state. Only its holder may push or run a look. Dropping this value
/// releases the lock.
#[derive(Debug)]
pub struct PushLock(File);

impl Drop for PushLock {
    fn drop(&mut self) {
        file_lock::unlock(&self.0);
    }
}

#[derive(Serialize, Deserialize)]
struct WriterFile {
    writer: WriterId,
}

impl Home {
    /// Opens the state about a bucket. Creates it if it is missing.
    pub fn open(store: &Store, bucket: BucketId) -> Result<Self, RemoteError> {
        let path = store.root().join(REMOTE);
        let dir = Dir::open(store.root()).and_then(|root| disk::directory(&root, REMOTE.as_ref()));
        let dir = dir.map_err(RemoteError::at("open", &path))?;
        let remote = StateDir { dir, path };
        let dir = remote.subdirectory(bucket.to_string().as_ref())?;
        let conversations = dir.subdirectory(CONVERSATIONS.as_ref())?;
        let limits = Limits::default();
        Ok(Self { remote, dir: Arc::new(dir), conversations, bucket, limits })
    }

    /// Sets the limits of downloads. Local writers have the same limits.
    #[must_use]
    pub fn within(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    pub(super) fn limits(&self) -> Limits {
        self.limits
    }

    pub(super) fn bucket(&self) -> BucketId {
        self.bucket
    }

    /// Takes the push lock of this store. Returns `None` if another process has it.
    pub fn lock(&self) -> Result<Option<PushLock>, RemoteError> {
        let file = self.remote.dir.create_file(LOCK.as_ref(), OFlags::RDWR, disk::FILE_MODE);
        let locked = file.and_then(|file| Ok(file_lock::try_lock(&file)?.then_some(file)));
        Ok(locked.map_err(self.remote.failed("lock", LOCK))?.map(PushLock))
    }

    /// Returns the writer id of this store. The first call chooses a random id.
    pub fn writer(&self) -> Result<WriterId, RemoteError> {
        let Some(text) = self.dir.read(WRITER, MOST)? else { return self.new_writer() };
        match serde_json::from_slice(&text) {
            Ok(WriterFile { writer }) => Ok(writer),
            // A new id is always safe, because no other store has it.
            Err(_) => self.new_writer(),
        }
    }

    /// Chooses a new writer id for this store, because a copy of the store uses the old one.
    pub fn new_writer(&self) -> Result<WriterId, RemoteError> {
        // A UUID has fixed bits, at different positions in its two halves. XOR makes all bits
        // random.
        let (first, second) = uuid::Uuid::new_v4().as_u64_pair();
        let writer = WriterId(first ^ second);
        self.dir.write_json(WRITER, &WriterFile { writer })?;
        Ok(writer)
    }

    pub(super) fn messages(&self, conversation: &Component) -> Result<Dir, RemoteError> {
        let dir = disk::directory(&self.remote.dir, REMOTE_MESSAGES.as_ref())
            .and_then(|messages| disk::directory(&messages, conversation.as_os_str()));
        let place = std::path::Path::new(REMOTE_MESSAGES).join(conversation.as_os_str());
        dir.map_err(self.remote.failed("open", place))
    }

    pub(super) fn blocks(&self, most: u64) -> Result<BlockCache, RemoteError> {
        let opened = disk::directory(&self.dir.dir, BLOCKS.as_ref())
            .and_then(|dir| BlockCache::new(dir, (most, self.limits)));
        opened.map_err(self.dir.failed("open", BLOCKS))
    }

    /// Returns true if host and bucket agreed on content of a conversation that is no longer in the
    /// store. Creates nothing.
    pub fn is_removed(&self, store: &Store, id: &Component) -> Result<bool, RemoteError> {
        if store.conversation(id)?.is_some() {
            return Ok(false);
        }
        let Some(notes) = self.known_conversation(id)? else { return Ok(false) };
        Ok(!notes.agreement()?.is_new())
    }

    /// Returns true if the conversation is not in the store, and only some of its segments have
    /// arrived from the bucket. Creates nothing.
    pub fn is_arriving(&self, store: &Store, id: &Component) -> Result<bool, RemoteError> {
        let Some(notes) = self.known_conversation(id)? else { return Ok(false) };
        let is_partial = notes.looked()?.is_none() && !notes.segments()?.is_empty();
        Ok(is_partial && store.conversation(id)?.is_none())
    }

    pub(super) fn known_conversation(&self, id: &Component) -> Result<Option<Notes>, RemoteError> {
        let found = self.conversations.stat(id.as_os_str())?;
        found.map(|_| self.conversation(id)).transpose()
    }

    /// Returns the state about a conversation. Creates it if it is missing.
    pub fn conversation(&self, conversation: &Component) -> Result<Notes, RemoteError> {
        let dir = self.conversations.subdirectory(conversation.as_os_str())?;
        Notes::open(conversation.clone(), (Arc::clone(&self.dir), self.limits), dir)
    }
}

const BUCKET: &str = "bucket.json";

/// A bucket through which the store was shared. `url` is its last known URL, or empty if unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct KnownBucket {
    pub id: BucketId,
    pub url: String,
}

#[derive(Default, Serialize, Deserialize)]
struct BucketFile {
    url: String,
    #[serde(default)]
    write_once: bool,
}

/// Returns the buckets through which the store was shared. Makes no request.
pub fn known_buckets(store: &Store) -> Result<Vec<KnownBucket>, RemoteError> {
    let path = store.root().join(REMOTE);
    let opened = Dir::open(store.root()).and_then(|root| root.open_dir(REMOTE.as_ref()));
    let known = match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened.and_then(|remote| known_in(&remote)),
    };
    known.map_err(RemoteError::at("read", &path))
}

/// Returns the id of the bucket that was at `url` when the store last used that URL. Makes no
/// request.
pub fn known_bucket(store: &Store, url: &str) -> Result<Option<BucketId>, RemoteError> {
    let known = known_buckets(store)?.into_iter().find(|bucket| bucket.url == url);
    Ok(known.map(|bucket| bucket.id))
}

fn known_in(remote: &Dir) -> io::Result<Vec<KnownBucket>> {
    let mut known = Vec::new();
    for entry in remote.entries()? {
        let Some(id) = entry.name.to_str().and_then(|name| name.parse().ok()) else { continue };
        let dir = remote.open_dir(&entry.name)?;
        let text = disk::read(&dir, BUCKET, MOST)?.unwrap_or_default();
        let BucketFile { url, .. } = serde_json::from_slice(&text).unwrap_or_default();
        known.push(KnownBucket { id, url });
    }
    Ok(known)
}

impl Home {
    /// Saves the URL of the bucket and its write-once setting, for use while the bucket is
    /// unreachable. Must be called after each identity check, because pushes read the setting from
    /// here.
    pub fn keep_bucket(&self, url: &str, write_once: bool) -> Result<(), RemoteError> {
        let text = serde_json::to_vec(&BucketFile { url: url.to_owned(), write_once });
        let text = text.expect("a URL can be JSON");
        if self.dir.read(BUCKET, MOST)?.as_ref() == Some(&text) {
            return Ok(());
        }
        self.leave_url(url)
            .and_then(|()| disk::write(&self.dir.dir, BUCKET, &text))
            .map_err(self.dir.failed("write", BUCKET))
    }

    fn leave_url(&self, url: &str) -> io::Result<()> {
        for KnownBucket { id, .. } in
            known_in(&self.remote.dir)?.iter().filter(|each| each.url == url)
        {
            let dir = self.remote.dir.open_dir(id.to_string().as_ref())?;
            let text = disk::read(&dir, BUCKET, MOST)?.unwrap_or_default();
            let known: BucketFile = serde_json::from_slice(&text).unwrap_or_default();
            let text = serde_json::to_vec(&BucketFile { url: String::new(), ..known });
            disk::write(&dir, BUCKET, &text.expect("a bucket can be JSON"))?;
        }
        Ok(())
    }

    pub(crate) fn is_write_once(&self) -> Result<bool, RemoteError> {
        let text = self.dir.read(BUCKET, MOST)?;
        let known = text.and_then(|text| serde_json::from_slice::<BucketFile>(&text).ok());
        Ok(known.is_some_and(|known| known.write_once))
    }

    /// Returns the conversations in which this host has removed or merged something lately.
    pub(super) fn untidy_conversations(&self) -> Result<Vec<Component>, RemoteError> {
        let mut known = self.known_conversations()?;
        known.retain(|id| {
            self.conversation(id).is_ok_and(|it| it.untidy().is_ok_and(|it| it.is_some()))
        });
        Ok(known)
    }

    /// Returns the conversations for which there is local state, sorted.
    pub fn known_conversations(&self) -> Result<Vec<Component>, RemoteError> {
        let entries = self.conversations.dir.entries();
        let entries = entries.map_err(RemoteError::at("list", &self.conversations.path))?;
        let names = entries.into_iter().map(|entry| entry.name);
        let mut known: Vec<_> = names.filter_map(|name| Component::new(name).ok()).collect();
        known.sort_unstable();
        Ok(known)
    }
}

#[cfg(test)]
mod tests;
