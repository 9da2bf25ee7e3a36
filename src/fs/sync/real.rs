//! As the program runs.

pub(crate) use std::sync::Condvar;
pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::MutexGuard;
pub(crate) use std::sync::RwLock;
pub(crate) use std::sync::RwLockReadGuard;
pub(crate) use std::sync::atomic;
#[cfg(test)]
pub(crate) use std::sync::mpsc;
pub(crate) use std::thread;
use std::time::Instant;

pub(crate) use dashmap::DashMap;

use crate::store::Conversation;
use crate::store::ManifestLock;
use crate::store::StoreError;

/// The highest nice value; see setpriority(2).
const LOWEST_PRIORITY: i32 = 19;

/// Lets all others go first: in Linux the priority is that of the calling thread alone.
pub(crate) fn give_way() {
    if let Err(error) = rustix::process::setpriority_process(None, LOWEST_PRIORITY) {
        tracing::debug!(%error, "a thread runs at the priority of everything else");
    }
}

/// The time by which waiting threads are woken.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Waits for the manifest, whoever holds it.
pub(crate) fn hold(conversation: &Conversation) -> Result<ManifestLock, StoreError> {
    conversation.manifest().lock()
}
