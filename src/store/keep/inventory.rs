//! The artifacts that a sweep looks at, with their sizes and their last use.

use std::sync::Arc;

use crate::keep::references;
use crate::keep::rules::SweepScope;
use crate::{Conversation, Stat, Store, StoreError, UnreadPlaces};
use ctxfs_core::model::{Component, RelPath};

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
    /// The time of the last change of bytes or attributes, in nanoseconds since the epoch.
    pub(super) changed: i64,
    /// The time of the last read according to the disk, in milliseconds since the epoch.
    pub(super) read: i64,
    /// The time it was last created, changed or read, in milliseconds since the epoch; see
    /// [`last_use`].
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
    store: Store,
    pub(super) conversation: Arc<Conversation>,
    pub(super) artifacts: Vec<StoredArtifact>,
    /// True once `referenced` of each artifact is set.
    references_found: bool,
}

impl Inventory {
    /// Takes the inventory of a conversation at the moment `now`, in milliseconds since the epoch.
    /// Adds what cannot be read to `unread`, by its path in the conversation.
    fn of(
        store: &Store,
        conversation: Arc<Conversation>,
        now: i64,
        unread: &mut UnreadPlaces,
    ) -> Result<Self, StoreError> {
        let found = conversation.artifacts()?;
        unread.extend(found.unread);
        let artifact = |(path, stat): (RelPath, Stat)| StoredArtifact::new(path, &stat, now);
        let mut artifacts: Vec<_> = found.files.into_iter().map(artifact).collect();
        let paths = artifacts.iter().map(|artifact| artifact.path.to_text());
        let live = conversation.manifest().live(paths)?;
        for (artifact, live) in artifacts.iter_mut().zip(live) {
            // Most live ones have a writer. If the writer died, recovery makes it an ordinary one.
            artifact.live = live
                && conversation.recover(&artifact.path).map_or_else(
                    |error| conversation.pass_over(error, unread).map(|()| true),
                    |recovered| Ok(recovered.is_none()),
                )?;
        }
        Ok(Self { store: store.clone(), conversation, artifacts, references_found: false })
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

    /// Finds out which artifacts messages refer to. Reads the log on the first call only. If it
    /// cannot be read, every artifact counts as one that a message refers to.
    pub(super) fn find_references(&mut self, unread: &mut UnreadPlaces) -> Result<(), StoreError> {
        if std::mem::replace(&mut self.references_found, true) {
            return Ok(());
        }
        let paths: Vec<_> = self.artifacts.iter().map(|artifact| &artifact.path).collect();
        let published = self.store.published_messages(self.id());
        let published = published.map_err(|error| self.conversation.log_error("read", error));
        let referenced = published
            .and_then(|published| references::referenced(&self.conversation, published, &paths));
        let referenced = match referenced {
            Ok(referenced) => referenced,
            Err(error) => {
                let mut below = UnreadPlaces::default();
                self.conversation.pass_over(error, &mut below)?;
                unread.extend(below.below(&self.id().to_text()));
                vec![true; self.artifacts.len()]
            }
        };
        for (artifact, referenced) in self.artifacts.iter_mut().zip(referenced) {
            artifact.referenced = referenced;
        }
        Ok(())
    }
}

impl StoredArtifact {
    fn new(path: RelPath, stat: &Stat, now: i64) -> Self {
        Self {
            path,
            ino: stat.ino,
            size: stat.size,
            on_disk: stat.blocks * 512,
            changed: stat.ctime.as_nanos(),
            read: stat.atime.as_millis(),
            used: last_use(stat, now),
            live: false,
            referenced: false,
            chosen: false,
        }
    }
}

/// Returns the time of the last use of a file at the moment `now`, both in milliseconds since the
/// epoch.
///
/// A program that may write a file may set the times of its last read and of the last change of its
/// bytes to anything. So a change counts by the time that the kernel alone sets, and a read in the
/// future does not count. A file cannot pass for one that was used after it was touched.
fn last_use(stat: &Stat, now: i64) -> i64 {
    let changed = stat.ctime.as_millis().min(now);
    let read = Some(stat.atime.as_millis()).filter(|read| *read <= now);
    read.map_or(changed, |read| read.max(changed))
}

/// Returns the ids of the conversations in `scope`, sorted.
pub(super) fn ids(store: &Store, scope: &SweepScope) -> Result<Vec<Component>, StoreError> {
    match scope {
        SweepScope::Store => store.conversations(),
        SweepScope::Conversation(id) => Ok(vec![id.clone()]),
    }
}

/// Takes the inventory of each conversation in `scope`, sorted by id, at the moment `now`. Ends
/// early once `stop` returns true. Adds what cannot be read to `unread`.
pub(super) fn inventories(
    store: &Store,
    scope: &SweepScope,
    now: i64,
    stop: &dyn Fn() -> bool,
    unread: &mut UnreadPlaces,
) -> Result<Vec<Inventory>, StoreError> {
    let ids = ids(store, scope)?;
    let mut inventories = Vec::with_capacity(ids.len());
    for id in ids {
        if stop() {
            break;
        }
        let take = |conversation: Arc<Conversation>, below: &mut UnreadPlaces| {
            Inventory::of(store, conversation, now, below)
        };
        inventories.extend(in_conversation(store, &id, unread, take)?);
    }
    Ok(inventories)
}

/// Returns the result of `work` in the conversation `id`, which gets the places in it that cannot
/// be read. Returns `None` if the conversation is gone, or if it cannot be read, which is added to
/// `unread`.
pub(super) fn in_conversation<T>(
    store: &Store,
    id: &Component,
    unread: &mut UnreadPlaces,
    work: impl FnOnce(Arc<Conversation>, &mut UnreadPlaces) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    let conversation = match store.conversation(id) {
        Ok(Some(conversation)) => conversation,
        Ok(None) => return Ok(None),
        Err(error) => return store.pass_over(error, unread).map(|()| None),
    };
    let mut below = UnreadPlaces::default();
    let worked = match work(Arc::clone(&conversation), &mut below) {
        Ok(worked) => Some(worked),
        Err(error) => {
            conversation.pass_over(error, &mut below)?;
            None
        }
    };
    unread.extend(below.below(&id.to_text()));
    Ok(worked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;

    #[test]
    fn no_writer_sets_the_time_of_the_last_use() {
        let stat = |read, changed| {
            let (atime, ctime) =
                (Time { seconds: read, nanos: 0 }, Time { seconds: changed, nanos: 0 });
            // What a client claims of the bytes has no effect.
            let mtime = Time { seconds: 4_000_000_000, nanos: 0 };
            Stat { atime, mtime, ctime, ..Stat::imagined() }
        };
        let now = 1000;
        for (read, changed, used) in [
            (700, 600, 700),
            (500, 600, 600),
            (1000, 600, 1000),
            (1001, 600, 600),
            (2000, 3000, 1000),
        ] {
            assert_eq!(last_use(&stat(read, changed), now * 1000), used * 1000, "{read} {changed}");
        }
    }
}
