//! Locks, threads and time as the program uses them.

pub(crate) use std::sync::atomic;
pub(crate) use std::sync::mpsc;
pub(crate) use std::thread;
pub(crate) use std::thread_local;
use std::time::Instant;

pub(crate) use dashmap::DashMap;
pub(crate) use parking_lot::Condvar;
pub(crate) use parking_lot::Mutex;
pub(crate) use parking_lot::MutexGuard;
pub(crate) use parking_lot::RwLock;
pub(crate) use parking_lot::RwLockReadGuard;

use rustix::process::getpriority_process;
use rustix::process::setpriority_process;

use crate::store::Conversation;
use crate::store::ManifestLock;
use crate::store::StoreError;

/// How much nicer than others threads are that work in the background; see setpriority(2). Beside a
/// process that computes, such a thread gets a quarter of a processor. With 19 it gets a seventieth: 600 outputs of
/// 5 KB were sealed after 20 to 28 s beside two busy loops on two processors, with 5 after 2 s.
const BACKGROUND: i32 = 5;

/// Makes the calling thread one that works in the background. On Linux this affects that thread
/// alone.
pub(crate) fn lower_priority() {
    let lowered = getpriority_process(None)
        .and_then(|nice| setpriority_process(None, nice.saturating_add(BACKGROUND)));
    if let Err(error) = lowered {
        tracing::debug!(%error, "a background thread runs at normal priority");
    }
}

/// Returns the time by which waiting threads are woken.
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Locks the manifest of `conversation` for a moment. Waits for another process that has it, if the
/// caller `may_wait`, and fails with EAGAIN otherwise.
pub(crate) fn lock_manifest(
    conversation: &Conversation,
    may_wait: bool,
) -> Result<ManifestLock, StoreError> {
    let manifest = conversation.manifest();
    if may_wait { manifest.lock() } else { manifest.lock_in_turn() }
}
