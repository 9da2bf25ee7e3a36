//! The lock under which the outputs of messages are stored.

use crate::conversation::Conversation;
use crate::error::StoreError;
use crate::file_lock::{LockKind, LockedFile};
use crate::{file_lock, layout};

/// The lock of a conversation that keeps other processes from storing the output of a message until
/// it is dropped. Thus an output that arrives twice is stored once.
#[derive(Debug)]
pub struct OutputLock {
    _locked: LockedFile,
}

impl OutputLock {
    /// Waits for the lock of `conversation`.
    pub fn wait(conversation: &Conversation) -> Result<Self, StoreError> {
        let name = layout::OUTPUT_LOCK;
        let locked = file_lock::lock_by_name(conversation.dir(), name, LockKind::Exclusive);
        let path = conversation.path().join(name);
        let locked = locked.map_err(|error| StoreError::io("lock", &path, error))?;
        Ok(Self { _locked: locked })
    }
}
