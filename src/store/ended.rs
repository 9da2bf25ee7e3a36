//! Conversations that another host removed.

use std::hash::{BuildHasher as _, RandomState};
use std::io;

use crate::conversation::Conversation;
use crate::dir::Dir;
use crate::error::StoreError;
use crate::{Store, layout};

impl Store {
    /// Removes a conversation that holds nothing but the store's own files and a message log, for a
    /// caller that has locked this log and knows that nothing of it is shown. Returns false if
    /// something else is in it; then it stays as it was.
    pub fn remove_ended(&self, conversation: &Conversation) -> Result<bool, StoreError> {
        let dir = conversation.dir();
        let aside = layout::gone(RandomState::new().hash_one(conversation.id()));
        let history = dir.open_dir(layout::HISTORY.as_ref());
        let moved = history.and_then(|history| {
            history.rename_to_free(layout::MESSAGES.as_ref(), dir, aside.as_ref())?;
            Ok(history)
        });
        let history = match moved {
            Ok(history) => Some(history),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(conversation.log_error("rename", error)),
        };
        let removed = self.remove_conversation(conversation.id());
        if removed.is_err()
            && let Some(history) = history
        {
            take_back(dir, &aside, &history).map_err(|e| conversation.log_error("rename", e))?;
        }
        match removed {
            Err(error) if error.raw_os_error() == Some(libc::ENOTEMPTY) => Ok(false),
            removed => removed.map(|()| true),
        }
    }
}

fn take_back(dir: &Dir, aside: &str, history: &Dir) -> io::Result<()> {
    match dir.rename_to_free(aside.as_ref(), history, layout::MESSAGES.as_ref()) {
        // It went, and what came then kept the rest.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use ctxfs_core::model::Component;

    #[test]
    fn it_goes_with_its_log_unless_something_else_is_in_it() {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(temporary.path()).unwrap();
        let conversation = store.create_conversation(&Component::new("c7").unwrap()).unwrap();
        let at = |path: &str| store.root().join("context/c7").join(path);
        fs::write(at("history/messages.jsonl"), "{}\n").unwrap();
        fs::write(at("artifacts/tool/x.tmp"), "half").unwrap();
        assert!(!store.remove_ended(&conversation).unwrap());
        assert_eq!(fs::read(at("history/messages.jsonl")).unwrap(), b"{}\n");
        fs::remove_file(at("artifacts/tool/x.tmp")).unwrap();
        assert!(store.remove_ended(&conversation).unwrap());
        assert!(!at("").exists());
    }
}
