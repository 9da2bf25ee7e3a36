
use std::borrow::Cow;
use std::collections::BTreeSet;

use super::{LeftOut, Push, Pushed};
use crate::remote::RemoteError;
use crate::replica::{Base, Changes, Origin};

///+ Name of the message log in reports.
pub(super) const MESSAGES: &str = "messages";

impl Push<'_> {
    ///+ Returns the changes that the bucket accepts. For a write-once bucket, drops and reports
    ///+ changes that replace or remove something.
    pub(super) fn taken<'c>(
        &self,
        changes: &'c Changes,
        pushed: &mut Pushed,
    ) -> Result<Cow<'c, Changes>, RemoteError> {
        let adds_only =
            changes.removed.is_empty() && changes.puts.values().all(|put| put.replaces.is_empty());
        if adds_only || !self.home.is_write_once()? {
            return Ok(Cow::Borrowed(changes));
        }
        let mut taken = changes.clone();
        let mut left = removed_from(&self.notes.agreement()?.base, &changes.removed);
        taken.removed.clear();
        taken.puts.retain(|path, put| {
            // A file that is being written is not sent anyway.
            let is_left = !put.replaces.is_empty() && put.digest.is_some();
            if is_left {
                left.insert(path.clone());
            }
            !is_left
        });
        pushed.left.extend(left.into_iter().map(|path| (path, LeftOut::WriteOnce)));
        Ok(Cow::Owned(taken))
    }
}

///+ Returns the paths of removed artifacts. All messages have one path.
fn removed_from(base: &Base, removed: &BTreeSet<Origin>) -> BTreeSet<String> {
    let mut messages = removed.clone();
    let mut paths = BTreeSet::new();
    for entry in &base.entries {
        for origin in entry.origins.iter().filter(|origin| removed.contains(*origin)) {
            messages.remove(origin);
            paths.insert(entry.path.clone());
        }
    }
    if !messages.is_empty() {
        paths.insert(MESSAGES.to_owned());
    }
    paths
}
