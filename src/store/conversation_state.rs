//! A number for the state of a conversation, by which a list of its outputs is known to hold still.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;

use crate::conversation::Conversation;
use crate::layout;
use ctxfs_core::model::{Folder, RelPath};

impl Conversation {
    /// Returns a number that changes with every output that appears or goes directly in the
    /// directories of outputs, with every record, count and message, and at a cost that does not
    /// depend on how many there are. It does not change while a live output grows.
    pub fn state_number(&self) -> io::Result<u64> {
        let mut hasher = DefaultHasher::new();
        self.dir().stat_self()?.mtime.hash(&mut hasher);
        let messages = format!("{}/{}", layout::HISTORY, layout::MESSAGES);
        let folders = [Folder::Tool.path(), Folder::Terminal.path(), messages.as_str()];
        for path in folders.into_iter().filter_map(|path| RelPath::new(path).ok()) {
            let stat = self.dir().stat_at(&path).ok();
            stat.map(|stat| (stat.ino, stat.size, stat.mtime)).hash(&mut hasher);
        }
        for name in [layout::MANIFEST, layout::COUNTS] {
            let stat = self.dir().stat(name.as_ref()).ok();
            stat.map(|stat| (stat.ino, stat.size, stat.mtime)).hash(&mut hasher);
        }
        Ok(hasher.finish())
    }

    /// Returns the time of the last message, in milliseconds since the epoch; `None` without a log.
    pub fn last_message(&self) -> Option<i64> {
        let path = RelPath::new(format!("{}/{}", layout::HISTORY, layout::MESSAGES)).ok()?;
        let stat = self.dir().stat_at(&path).ok()?;
        (stat.size > 0).then(|| stat.mtime.as_millis())
    }
}
