//! The artifacts that a sweep looks at, with their sizes and their last use.

use std::sync::Arc;

use crate::keep::references;
use crate::keep::rules::SweepScope;
use crate::model::Component;
use crate::model::RelPath;
use crate::store::Conversation;
use crate::store::FileType;
use crate::store::Stat;
use crate::store::Store;
use crate::store::StoreError;

/// An artifact, as it was when the sweep looked at it: about 100 bytes and its path.
#[derive(Debug)]
pub(super) struct StoredArtifact {
    /// The path in its conversation.
    pub(super) path: RelPath,
    /// The inode number.
    pub(super) ino: u64,
    /// The size in bytes.
    pub(super) size: u64,
    /// The bytes that it takes on the disk.
    pub(super) on_disk: u64,
    /// The time of the last change of the bytes, in nanoseconds since the epoch.
    pub(super) modified: i64,
    /// The time of the last read according to the disk, in milliseconds since the epoch.
    pub(super) read: i64,
    /// The latest of the times it was created, changed and read, in milliseconds since the epoch.
    pub(super) used: i64,
    /// True if it is being written. Then it stays, by any rule.
    pub(super) live: bool,
    /// True if a message refers to it. Then it goes last. Set by [`Inventory::find_references`].
    pub(super) referenced: bool,
    /// True if a rule has chosen it for removal.
    pub(super) chosen: bool,
}

/// The artifacts of a conversation.
#[derive(Debug)]
pub(super) struct Inventory {
    pub(super) conversation: Arc<Conversation>,
    pub(super) artifacts: Vec<StoredArtifact>,
    /// True once `referenced` of each artifact is set.
    references_found: bool,
}

impl Inventory {
    fn of(conversation: Arc<Conversation>) -> Result<Self, StoreError> {
        let mut artifacts = Vec::new();
        for path in conversation.artifacts()? {
            // An error means that it was removed meanwhile.
            let Ok(stat) = conversation.dir().stat_at(&path) else { continue };
            if stat.kind() == FileType::File {
                artifacts.push(StoredArtifact::new(path, &stat));
            }
        }
        let paths = artifacts.iter().map(|artifact| artifact.path.to_text());
        let live = conversation.manifest().live(paths)?;
        for (artifact, live) in artifacts.iter_mut().zip(live) {
            // Most live ones have a writer. If the writer died, recovery makes it an ordinary one.
            artifact.live = live && conversation.recover(&artifact.path)?.is_none();
        }
        Ok(Self { conversation, artifacts, references_found: false })
    }

    /// Returns the id of the conversation.
    pub(super) fn id(&self) -> &Component {
        self.conversation.id()
    }

    /// Returns the bytes of the artifacts that no rule has chosen yet.
    pub(super) fn bytes(&self) -> u64 {
        let stays = self.artifacts.iter().filter(|artifact| !artifact.chosen);
        stays.map(|artifact| artifact.size).sum()
    }

    /// Finds out which artifacts messages refer to. Reads the log on the first call only.
    pub(super) fn find_references(&mut self) -> Result<(), StoreError> {
        if std::mem::replace(&mut self.references_found, true) {
            return Ok(());
        }
        let paths: Vec<_> = self.artifacts.iter().map(|artifact| &artifact.path).collect();
        let referenced = references::referenced(&self.conversation, &paths)?;
        for (artifact, referenced) in self.artifacts.iter_mut().zip(referenced) {
            artifact.referenced = referenced;
        }
        Ok(())
    }
}

impl StoredArtifact {
    fn new(path: RelPath, stat: &Stat) -> Self {
        let read = stat.atime.as_millis();
        Self {
            path,
            ino: stat.ino,
            size: stat.size,
            on_disk: stat.blocks * 512,
            modified: stat.mtime.as_nanos(),
            read,
            used: read.max(stat.mtime.as_millis()).max(stat.created().as_millis()),
            live: false,
            referenced: false,
            chosen: false,
        }
    }
}

/// Returns the ids of the conversations in `scope`, sorted.
pub(super) fn ids(store: &Store, scope: &SweepScope) -> Result<Vec<Component>, StoreError> {
    match scope {
        SweepScope::Store => store.conversations(),
        SweepScope::Conversation(id) => Ok(vec![id.clone()]),
    }
}

/// Takes the inventory of each conversation in `scope`, sorted by id. Ends early once `stop`
/// returns true.
pub(super) fn inventories(
    store: &Store,
    scope: &SweepScope,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Inventory>, StoreError> {
    let ids = ids(store, scope)?;
    let mut inventories = Vec::with_capacity(ids.len());
    for id in ids {
        if stop() {
            break;
        }
        if let Some(conversation) = store.conversation(&id)? {
            inventories.push(Inventory::of(conversation)?);
        }
    }
    Ok(inventories)
}
