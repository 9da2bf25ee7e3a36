//! Files that gateways share: the rules for permitted tool calls, and the index of tools.

use std::ffi::OsStr;
use std::io::{self, Read as _};

use crate::file_lock::{self, LockKind, LockedFile};
use crate::{Conversation, Dir, Store, StoreError, file_io, if_there, layout};
use ctxfs_core::model::Component;

const MAX_BYTES: u64 = 1 << 20;

/// The rules of a store, locked. No other process changes them until this is dropped.
#[derive(Debug)]
pub struct LockedPermissions {
    store: Store,
    _locked: LockedFile,
}

impl Store {
    /// Returns the text of the rules for permitted calls, or an empty text if there are no rules. A
    /// change by another process is visible either completely or not at all.
    pub fn permissions(&self) -> Result<String, StoreError> {
        self.read_permissions().map_err(|error| self.permissions_error("read", error))
    }

    /// Waits for the lock that is needed to change the rules.
    pub fn lock_permissions(&self) -> Result<LockedPermissions, StoreError> {
        let name = layout::PERMISSIONS_LOCK;
        let locked = file_lock::lock_by_name(self.dir(), name, LockKind::Exclusive);
        let locked = locked.map_err(|error| StoreError::io("lock", &self.root().join(name), error));
        Ok(LockedPermissions { store: self.clone(), _locked: locked? })
    }

    fn read_permissions(&self) -> io::Result<String> {
        let opened = self.dir().open_file(layout::PERMISSIONS.as_ref(), rustix::fs::OFlags::RDONLY);
        let mut text = String::new();
        let Some(file) = if_there(opened)? else { return Ok(text) };
        file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
        let is_too_long = text.len() as u64 > MAX_BYTES;
        if is_too_long { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(text) }
    }

    fn permissions_error(&self, action: &'static str, error: io::Error) -> StoreError {
        StoreError::io(action, &self.root().join(layout::PERMISSIONS), error)
    }
}

impl LockedPermissions {
    /// Replaces the text of the rules. The new text is on the disk when this returns.
    pub fn replace(&self, text: &str) -> Result<(), StoreError> {
        let name = OsStr::new(layout::PERMISSIONS);
        let written = file_io::replace_file(self.store.dir(), name, text.as_bytes(), true);
        written.map_err(|error| self.store.permissions_error("write", error))
    }
}

/// A writer of the index of tools: `catalog/index.json` and `catalog/tools/<name>.json`.
///
/// A reader always sees a complete file. Nothing is synced, because a gateway writes all files
/// again when it starts.
#[derive(Debug)]
pub struct CatalogWriter<'a> {
    conversation: &'a Conversation,
    catalog: Dir,
    tools: Dir,
}

impl Conversation {
    /// Opens the directories of the index of tools, creating them if they are missing.
    pub fn write_catalog(&self) -> Result<CatalogWriter<'_>, StoreError> {
        let open = || {
            let catalog = below(self.dir(), layout::CATALOG)?;
            let tools = below(&catalog, layout::CATALOG_TOOLS)?;
            Ok(CatalogWriter { conversation: self, catalog, tools })
        };
        open().map_err(|error| error_of(self, error))
    }
}

impl CatalogWriter<'_> {
    /// Writes the file of one tool. Does not remove files of other tools, which another gateway may
    /// have written.
    pub fn tool(&self, name: &Component, text: &str) -> Result<(), StoreError> {
        let written = file_io::replace_file(&self.tools, name.as_os_str(), text.as_bytes(), false);
        written.map_err(|error| error_of(self.conversation, error))
    }

    /// Replaces the index, which lists the tools.
    pub fn index(&self, text: &str) -> Result<(), StoreError> {
        let name = OsStr::new(layout::CATALOG_INDEX);
        let written = file_io::replace_file(&self.catalog, name, text.as_bytes(), false);
        written.map_err(|error| error_of(self.conversation, error))
    }
}

fn error_of(conversation: &Conversation, error: io::Error) -> StoreError {
    StoreError::io("write", &conversation.path().join(layout::CATALOG), error)
}

fn below(dir: &Dir, name: &str) -> io::Result<Dir> {
    dir.ensure_dir(OsStr::new(name), layout::DIRECTORY_MODE)?;
    dir.open_dir(OsStr::new(name))
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use super::*;
    use crate::history;

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
            (store.permissions().unwrap(), store.permissions().unwrap()),
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
                        let text = store.permissions().unwrap();
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
        for content in [vec![0xff], vec![b'#'; MAX_BYTES as usize + 1]] {
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
        history::append(&conversation, history::PERMISSIONS, b"{\"a\":1}\n").unwrap();
        history::append(&conversation, history::PERMISSIONS, b"{\"a\":2}\n").unwrap();
        let log = temporary.path().join("context/c7/history/permissions.jsonl");
        assert_eq!(fs::read(log).unwrap(), b"{\"a\":1}\n{\"a\":2}\n");
    }

    #[test]
    fn a_new_index_replaces_the_old_one() {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(temporary.path()).unwrap();
        let conversation = store.create_conversation(&Component::new("c7").unwrap()).unwrap();
        let catalog = temporary.path().join("context/c7/catalog");
        let read = |name: &str| fs::read_to_string(catalog.join(name)).unwrap();
        let write = |index: &str, tools: &[(&str, &str)]| {
            let writer = conversation.write_catalog().unwrap();
            for (name, text) in tools {
                writer.tool(&Component::new(*name).unwrap(), text).unwrap();
            }
            writer.index(index).unwrap();
        };
        write("1\n", &[("a.json", "1"), ("b.json", "1")]);
        write("2\n", &[("b.json", "2")]);
        assert_eq!(["index.json", "tools/a.json", "tools/b.json"].map(read), ["2\n", "1", "2"]);
        fs::remove_dir_all(&catalog).unwrap();
        write("3\n", &[]);
        assert_eq!(read("index.json"), "3\n");
    }
}
