//! The index of tools in a conversation: `catalog/index.json` and `catalog/tools/<name>.json`.

use std::ffi::OsStr;
use std::io;

use crate::conversation::Conversation;
use crate::dir::Dir;
use crate::error::StoreError;
use crate::{atomic, layout};
use ctxfs_core::model::Component;

/// The directories of an index, which exist.
#[derive(Debug)]
pub struct CatalogWriter<'a> {
    conversation: &'a Conversation,
    catalog: Dir,
    tools: Dir,
}

impl Conversation {
    /// Opens the directories of the index. A reader sees each file whole. Nothing is synced, as the
    /// next start of a gateway writes all of it again.
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
    /// Writes the file of a tool. Others stay, as another gateway may have written them.
    pub fn tool(&self, name: &Component, text: &str) -> Result<(), StoreError> {
        let written = atomic::replace(&self.tools, name.as_os_str(), text.as_bytes());
        written.map_err(|error| error_of(self.conversation, error))
    }

    /// Replaces the index.
    pub fn index(&self, text: &str) -> Result<(), StoreError> {
        let name = OsStr::new(layout::CATALOG_INDEX);
        let written = atomic::replace(&self.catalog, name, text.as_bytes());
        written.map_err(|error| error_of(self.conversation, error))
    }
}

fn error_of(conversation: &Conversation, error: io::Error) -> StoreError {
    StoreError::io("write", &conversation.path().join(layout::CATALOG), error)
}

/// Opens a directory, which is made if it is missing.
fn below(dir: &Dir, name: &str) -> io::Result<Dir> {
    dir.ensure_dir(OsStr::new(name), layout::DIRECTORY_MODE)?;
    dir.open_dir(OsStr::new(name))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Store;

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
