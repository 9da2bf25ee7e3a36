//! Finding the file that a reference from a model means.

use std::ffi::OsStr;
use std::io;

use rustix::io::Errno;

use crate::Store;
use crate::conversation::Conversation;
use crate::error::StoreError;
use crate::layout::is_bookkeeping;
use crate::stat::FileType;
use ctxfs_core::model::{Component, RelPath, is_scratch, readings};

impl Store {
    /// Finds the file that a handle, a reference or a path means. Returns its conversation and its
    /// path in there.
    ///
    /// Finds only files that have views: no scratch files, no files of the store itself and nothing
    /// outside the store, whatever `text` is and whatever links the store contains.
    pub fn resolve(&self, text: &str) -> Result<Option<(Component, RelPath)>, StoreError> {
        for (id, path) in readings(text) {
            let Some(conversation) = self.conversation(&id)? else { continue };
            if is_kept(&path) && is_file(&conversation, &path)? {
                return Ok(Some((id, path)));
            }
        }
        Ok(None)
    }
}

fn is_kept(path: &RelPath) -> bool {
    let first = path.to_text();
    let first = first.split('/').next().unwrap_or_default();
    !is_bookkeeping(OsStr::new(first)) && !is_scratch(path.file_name())
}

fn is_file(conversation: &Conversation, path: &RelPath) -> Result<bool, StoreError> {
    match conversation.dir().stat_at(path) {
        Ok(stat) => Ok(stat.kind() == FileType::File),
        Err(error) if is_absence(&error) => Ok(false),
        Err(error) => Err(conversation.error_at("look at", path, error)),
    }
}

/// Returns true if the error means that there is no such file. A link counts as no file.
fn is_absence(error: &io::Error) -> bool {
    let absent = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::NAMETOOLONG];
    Errno::from_io_error(error).is_some_and(|errno| absent.contains(&errno))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    /// A store with some files, beside a secret.
    fn with_store(test: impl FnOnce(&Store, &std::path::Path)) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("secret"), "secret").unwrap();
        let store = Store::open(&dir.path().join("store")).unwrap();
        for id in ["c7", "c8", &format!("session-{ID}")] {
            let conversation = store.create_conversation(&Component::new(id).unwrap()).unwrap();
            let root = store.root().join("context").join(conversation.id().as_os_str());
            for path in [
                "artifacts/tool/9f3k.txt",
                &format!("artifacts/tool/{ID}.json"),
                "artifacts/tool/half.tmp",
                "artifacts/terminal/s1.log",
                "history/messages.jsonl",
                "manifest.jsonl",
            ] {
                std::fs::write(root.join(path), "text").unwrap();
            }
        }
        test(&store, dir.path());
    }

    fn found(store: &Store, text: &str) -> Option<String> {
        let found = store.resolve(text).unwrap();
        found.map(|(id, path)| format!("{id}/{path}"))
    }

    #[test]
    fn what_ctxfs_hands_out_is_found() {
        with_store(|store, _| {
            let found = |text: &str| found(store, text).unwrap();
            let file = "c7/artifacts/tool/9f3k.txt";
            for text in [
                "c7/9f3k.txt",
                "c7/9f3k",
                file,
                "ctx://c7/artifacts/tool/9f3k.txt",
                "/ctx/c7/artifacts/tool/9f3k.txt",
            ] {
                assert_eq!(found(text), file, "{text}");
            }
            let session = format!("session-{ID}/artifacts/tool/{ID}.json");
            assert_eq!(found(&format!("session-{ID}/{ID}")), session);
            assert_eq!(found("c8/s1.log"), "c8/artifacts/terminal/s1.log");
            assert_eq!(found("c7/history/messages.jsonl"), "c7/history/messages.jsonl");
        });
    }

    #[test]
    fn nothing_else_is() {
        with_store(|store, root| {
            let tools = store.root().join("context/c7/artifacts/tool");
            symlink(root.join("secret"), tools.join("link.txt")).unwrap();
            symlink(root, tools.join("out")).unwrap();
            symlink(root, store.root().join("context/c9")).unwrap();
            let secret = root.join("secret").display().to_string();
            for text in [
                "",
                "c7",
                "c7/",
                "c7/none",
                "c7/artifacts",
                "c7/half.tmp",
                "c7/manifest.jsonl",
                "c7/.ctxfs-manifest",
                "c7/link.txt",
                "c7/artifacts/tool/link.txt",
                "c7/artifacts/tool/out/secret",
                "c7/9f3k.txt/x",
                "c7/../c8/9f3k.txt",
                "../../secret",
                "ctx://c7/../../../../secret",
                "/c7/artifacts/../../../secret",
                &secret,
                "c7/\0",
                &"x/".repeat(5000),
                &format!("c7/{}", "x".repeat(250)),
            ] {
                assert_eq!(found(store, text), None, "{text:?}");
            }
            assert!(store.resolve("c9/secret").map_or(true, |found| found.is_none()));
        });
    }
}
