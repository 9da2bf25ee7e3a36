//! What there is: every artifact with its size and its last use.

use std::sync::Arc;

use crate::keep::references;
use crate::keep::rules::Scope;
use crate::model::Component;
use crate::model::RelPath;
use crate::store::Conversation;
use crate::store::Kind;
use crate::store::Stat;
use crate::store::Store;
use crate::store::StoreError;

/// An artifact, as it was when it was looked at: about 100 bytes and its path.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: RelPath,
    pub(super) ino: u64,
    pub(super) size: u64,
    /// Bytes that it takes on the disk.
    pub(super) on_disk: u64,
    /// Last change of the bytes, in nanoseconds since the epoch.
    pub(super) modified: i64,
    /// Last read, in milliseconds since the epoch, as the disk knows.
    pub(super) read: i64,
    /// When it was made, changed or read, whichever is the latest; in milliseconds since the epoch.
    pub(super) used: i64,
    /// Somebody writes it: it stays, whatever the rules say.
    pub(super) live: bool,
    /// A message refers to it: it goes last. Known once `Shelf::mark` has looked.
    pub(super) referenced: bool,
    /// It is to go already.
    pub(super) goes: bool,
}

/// The artifacts of a conversation.
#[derive(Debug)]
pub(super) struct Shelf {
    pub(super) conversation: Arc<Conversation>,
    pub(super) found: Vec<Found>,
    marked: bool,
}

impl Shelf {
    fn of(conversation: Arc<Conversation>) -> Result<Self, StoreError> {
        let mut found = Vec::new();
        for path in conversation.artifacts()? {
            // What went meanwhile is not there.
            let Ok(stat) = conversation.dir().stat_at(&path) else { continue };
            if stat.kind() == Kind::File {
                found.push(Found::new(path, &stat));
            }
        }
        let live = conversation.live(found.iter().map(|found| found.path.to_text()))?;
        for (found, live) in found.iter_mut().zip(live) {
            // Most live ones have a writer; one whose writer died is as any other from now on.
            found.live = live && conversation.recover(&found.path)?.is_none();
        }
        Ok(Self { conversation, found, marked: false })
    }

    pub(super) fn id(&self) -> &Component {
        self.conversation.id()
    }

    /// Bytes of what stays, as far as it is decided.
    pub(super) fn bytes(&self) -> u64 {
        self.found.iter().filter(|found| !found.goes).map(|found| found.size).sum()
    }

    /// Finds out what messages refer to; once.
    pub(super) fn mark(&mut self) -> Result<(), StoreError> {
        if !std::mem::replace(&mut self.marked, true) {
            references::mark(&self.conversation, &mut self.found)?;
        }
        Ok(())
    }
}

impl Found {
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
            goes: false,
        }
    }
}

/// The conversations of `scope`, sorted.
pub(super) fn ids(store: &Store, scope: &Scope) -> Result<Vec<Component>, StoreError> {
    match scope {
        Scope::Store => store.conversations(),
        Scope::Conversation(id) => Ok(vec![id.clone()]),
    }
}

/// The shelves of `scope`, in the order of their ids. `stop` is asked between them.
pub(super) fn shelves(
    store: &Store,
    scope: &Scope,
    stop: &dyn Fn() -> bool,
) -> Result<Vec<Shelf>, StoreError> {
    let ids = ids(store, scope)?;
    let mut shelves = Vec::with_capacity(ids.len());
    for id in ids {
        if stop() {
            break;
        }
        if let Some(conversation) = store.conversation(&id)? {
            shelves.push(Shelf::of(conversation)?);
        }
    }
    Ok(shelves)
}
