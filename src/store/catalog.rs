//! The index of tools in a conversation: `catalog/index.json` and `catalog/tools/<name>.json`.

use std::ffi::OsStr;
use std::io;

use crate::model::Component;
use crate::store::atomic;
use crate::store::conversation::Conversation;
use crate::store::dir::Dir;
use crate::store::error::StoreError;
use crate::store::layout;

impl Conversation {
    /// Replaces the index by `index`, and writes the files of single `tools`; others stay, as another
    /// gateway may have written them. A reader sees each file whole. Nothing is synced, as the next
    /// start of a gateway writes all of it again.
    pub fn write_catalog(
        &self,
        index: &str,
        tools: impl Iterator<Item = (Component, String)>,
    ) -> Result<(), StoreError> {
        let path = self.path().join(layout::CATALOG);
        let written = self.try_write_catalog(index, tools);
        written.map_err(|error| StoreError::io("write", &path, error))
    }

    fn try_write_catalog(
        &self,
        index: &str,
        tools: impl Iterator<Item = (Component, String)>,
    ) -> io::Result<()> {
        let catalog = below(self.dir(), layout::CATALOG)?;
        let of_tools = below(&catalog, layout::CATALOG_TOOLS)?;
        for (name, text) in tools {
            atomic::replace(&of_tools, name.as_os_str(), text.as_bytes())?;
        }
        atomic::replace(&catalog, OsStr::new(layout::CATALOG_INDEX), index.as_bytes())
    }
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
    use crate::store::Store;

    #[test]
    fn a_new_index_replaces_the_old_one() {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(temporary.path()).unwrap();
        let conversation = store.create_conversation(&Component::new("c7").unwrap()).unwrap();
        let catalog = temporary.path().join("context/c7/catalog");
        let file = |name: &str, text: &str| (Component::new(name).unwrap(), text.to_owned());
        let read = |name: &str| fs::read_to_string(catalog.join(name)).unwrap();
        let (a, b) = (file("a.json", "1"), file("b.json", "1"));
        conversation.write_catalog("1\n", [a, b].into_iter()).unwrap();
        conversation.write_catalog("2\n", [file("b.json", "2")].into_iter()).unwrap();
        assert_eq!(["index.json", "tools/a.json", "tools/b.json"].map(read), ["2\n", "1", "2"]);
        fs::remove_dir_all(&catalog).unwrap();
        conversation.write_catalog("3\n", [].into_iter()).unwrap();
        assert_eq!(read("index.json"), "3\n");
    }
}
