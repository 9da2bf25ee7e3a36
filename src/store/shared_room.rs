//! The room below its quota that a conversation has left, as far as it was measured: all processes
//! that write to it take from the same.

use std::io;
use std::os::unix::fs::FileExt as _;

use rustix::fs::OFlags;

use crate::artifact::read_full_at;
use crate::conversation::Conversation;
use crate::file_lock::LockedFile;
use crate::layout;

/// The bytes that may be written to a conversation before its room is measured again, with the lock
/// that keeps other processes from taking of them.
///
/// The file holds two numbers: the quota, and what is left of the last measurement. It may be
/// removed at any time: then the room is measured again.
#[derive(Debug)]
pub struct SharedRoom(LockedFile);

impl SharedRoom {
    /// Locks a conversation's room. If another process has the lock, waits for it if the caller
    /// `may_wait`, and fails with EAGAIN otherwise. Returns `None` if the conversation is gone.
    pub fn lock(conversation: &Conversation, may_wait: bool) -> io::Result<Option<Self>> {
        let name = layout::ROOM.as_ref();
        let file = match conversation.dir().create_file(name, OFlags::RDWR, layout::FILE_MODE) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            made => made?,
        };
        if may_wait {
            return Ok(Some(Self(LockedFile::wait(file)?)));
        }
        let locked = LockedFile::at_once(file)?;
        locked.map(Self).map(Some).ok_or_else(|| io::Error::from_raw_os_error(libc::EAGAIN))
    }

    /// Returns what is left below `quota`: 0 if that was never measured.
    pub fn left(&self, quota: u64) -> io::Result<u64> {
        let mut numbers = [0; 16];
        if read_full_at(&self.0, 0, &mut numbers)? < numbers.len() {
            return Ok(0);
        }
        let number = u128::from_le_bytes(numbers);
        let (of, left) = (number as u64, (number >> 64) as u64);
        Ok(if of == quota { left } else { 0 })
    }

    /// Notes that `left` bytes are left below `quota`.
    pub fn set(&self, quota: u64, left: u64) -> io::Result<()> {
        let number = u128::from(left) << 64 | u128::from(quota);
        self.0.write_all_at(&number.to_le_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Store;
    use ctxfs_core::model::Component;

    #[test]
    fn it_is_shared_and_holds_for_one_quota() {
        let temporary = tempfile::tempdir().unwrap();
        let id = Component::new("c").unwrap();
        let open = || Store::open(temporary.path()).unwrap().create_conversation(&id).unwrap();
        let (here, there) = (open(), open());
        let room = SharedRoom::lock(&here, true).unwrap().unwrap();
        assert_eq!(room.left(100).unwrap(), 0);
        room.set(100, 70).unwrap();
        let taken = SharedRoom::lock(&there, false).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::WouldBlock);
        drop(room);
        let room = SharedRoom::lock(&there, false).unwrap().unwrap();
        assert_eq!((room.left(100).unwrap(), room.left(50).unwrap()), (70, 0));
        drop(room);
        std::fs::remove_dir_all(temporary.path().join("context/c")).unwrap();
        assert!(SharedRoom::lock(&here, true).unwrap().is_none());
    }
}
