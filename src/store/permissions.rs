//! The rules of what may be called, and the log of what was decided by them.

use std::ffi::OsStr;
use std::io;
use std::io::Read as _;

use rustix::fs::OFlags;

use crate::conversation::Conversation;
use crate::error::StoreError;
use crate::file_lock::{LockKind, LockedFile};
use crate::{Store, atomic, file_lock, layout};

/// The most bytes of rules that are read.
const MOST_BYTES: u64 = 1 << 20;

/// The rules of a store under their lock: nobody else changes them until this is dropped.
#[derive(Debug)]
pub struct LockedPermissions {
    store: Store,
    _locked: LockedFile,
}

impl Store {
    /// Returns the text of the rules, empty if there are none. A change by another process shows as
    /// a whole or not at all.
    pub fn permissions(&self) -> Result<String, StoreError> {
        self.read_permissions().map_err(|error| self.permissions_error("read", error))
    }

    /// Waits for the lock of the rules.
    pub fn lock_permissions(&self) -> Result<LockedPermissions, StoreError> {
        let name = layout::PERMISSIONS_LOCK;
        let locked = file_lock::lock_by_name(&self.0.dir, name, LockKind::Exclusive);
        let locked = locked.map_err(|error| StoreError::io("lock", &self.0.root.join(name), error));
        Ok(LockedPermissions { store: self.clone(), _locked: locked? })
    }

    fn read_permissions(&self) -> io::Result<String> {
        let opened = self.0.dir.open_file(layout::PERMISSIONS.as_ref(), OFlags::RDONLY);
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
            opened => opened?,
        };
        let mut text = String::new();
        file.take(MOST_BYTES + 1).read_to_string(&mut text)?;
        let is_too_long = text.len() as u64 > MOST_BYTES;
        if is_too_long { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(text) }
    }

    fn permissions_error(&self, action: &'static str, error: io::Error) -> StoreError {
        StoreError::io(action, &self.0.root.join(layout::PERMISSIONS), error)
    }
}

impl LockedPermissions {
    /// Returns the text of the rules, as [`Store::permissions`] does.
    pub fn text(&self) -> Result<String, StoreError> {
        self.store.permissions()
    }

    /// Replaces the rules. They are on the disk when this returns.
    pub fn replace(&self, text: &str) -> Result<(), StoreError> {
        let name = OsStr::new(layout::PERMISSIONS);
        let written = atomic::write(&self.store.0.dir, name, text.as_bytes());
        written.map_err(|error| self.store.permissions_error("write", error))
    }
}

impl Conversation {
    /// Appends whole lines to the log of decisions.
    pub fn append_permissions(&self, lines: &[u8]) -> Result<(), StoreError> {
        self.append_to_history(layout::PERMISSIONS_LOG, lines)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use super::*;
    use ctxfs_core::model::Component;

    fn store() -> (tempfile::TempDir, Store) {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(temporary.path()).unwrap();
        (temporary, store)
    }

    #[test]
    fn rules_are_replaced_as_a_whole() {
        let (temporary, store) = store();
        assert_eq!(store.permissions().unwrap(), "");
        let locked = store.lock_permissions().unwrap();
        locked.replace("# a\n").unwrap();
        assert_eq!(
            (locked.text().unwrap(), store.permissions().unwrap()),
            ("# a\n".into(), "# a\n".into())
        );
        drop(locked);
        store.lock_permissions().unwrap().replace("# b\n").unwrap();
        assert_eq!(store.permissions().unwrap(), "# b\n");
        assert_eq!(fs::read(temporary.path().join("permissions.toml")).unwrap(), b"# b\n");
    }

    #[test]
    fn no_change_of_several_writers_is_lost() {
        let (_temporary, store) = store();
        thread::scope(|scope| {
            for writer in 0..4 {
                let store = &store;
                scope.spawn(move || {
                    for n in 0..10 {
                        let locked = store.lock_permissions().unwrap();
                        let text = locked.text().unwrap();
                        locked.replace(&format!("{text}{writer} {n}\n")).unwrap();
                    }
                });
            }
        });
        assert_eq!(store.permissions().unwrap().lines().count(), 40);
    }

    #[test]
    fn what_is_no_text_or_too_long_is_an_error_with_its_path() {
        let (temporary, store) = store();
        let path = temporary.path().join("permissions.toml");
        for content in [vec![0xff], vec![b'#'; MOST_BYTES as usize + 1]] {
            fs::write(&path, content).unwrap();
            let error = store.permissions().unwrap_err().to_string();
            assert!(error.starts_with(&format!("cannot read `{}`", path.display())), "{error}");
        }
    }

    #[test]
    fn decisions_are_appended() {
        let (temporary, store) = store();
        let conversation = store.create_conversation(&Component::new("c7").unwrap()).unwrap();
        fs::remove_dir_all(temporary.path().join("context/c7/history")).unwrap();
        conversation.append_permissions(b"{\"a\":1}\n").unwrap();
        conversation.append_permissions(b"{\"a\":2}\n").unwrap();
        let log = temporary.path().join("context/c7/history/permissions.jsonl");
        assert_eq!(fs::read(log).unwrap(), b"{\"a\":1}\n{\"a\":2}\n");
    }
}
