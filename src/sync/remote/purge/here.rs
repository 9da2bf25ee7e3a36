
use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::remote::here::here_now;
use crate::remote::mark::{key_of, mark_of, version_of};
use crate::remote::notes::Purging;
use crate::remote::purge::known::is_log;
use crate::remote::{Notes, Push, RemoteError, Session, Sync, own_log};
use crate::replica::{Changes, FileKey, FileVersion};
use ctxfs_core::model::RelPath;
use ctxfs_store::{Conversation, FileMark, RemovalOutcome};

type Files = BTreeMap<RelPath, (FileKey, FileVersion)>;

impl Sync<'_> {
    ///+ Publishes the removal of messages that were deleted from the local log.
    pub(super) fn push_removed_messages(
        &self,
        push: &Push<'_>,
        conversation: &Conversation,
        session: &mut Session,
    ) -> Result<(), RemoteError> {
        let (notes, before) = (push.notes, push.notes.agreement()?);
        if own_log::is_rewritten(conversation, before.messages)? {
            let removed = own_log::own(notes, before.writer)?;
            if !removed.is_empty() {
                push.run(&Changes { removed, ..Changes::default() }, session)?;
            }
            let (before, messages) = (notes.agreement()?, own_log::beginning(conversation)?);
            notes.save(&before, &before.without_log(messages))?;
        } else if own_log::found_again(conversation, before.messages)?.is_some() {
            return Ok(());
        }
        self.push(conversation).map(drop)
    }

    ///+ Removes local files of purged artifacts, including renamed ones. Returns true if there were
    ///+ any, and the reason if one was kept.
    pub(super) fn remove_here(
        &self,
        notes: &Notes,
        conversation: Option<&Conversation>,
        place: (&RelPath, &Purging),
    ) -> Result<(bool, Option<&'static str>), RemoteError> {
        let mut touched = BTreeSet::new();
        if let Some(conversation) = conversation {
            let now = (self.now)().wall as i64;
            for (path, (key, version)) in self.files_of(notes, conversation, place)? {
                let outcome = match (key, mark_of(key, version)) {
                    (FileKey::Elsewhere(origin), _) => {
                        conversation.depart_far(&path, &origin.to_string(), now)?
                    }
                    (_, Some(mark)) => conversation.depart(&path, &mark, now)?,
                    (_, None) => continue,
                };
                match outcome {
                    RemovalOutcome::Removed => _ = touched.insert(path.parent()),
                    RemovalOutcome::Kept(why) => return Ok((!touched.is_empty(), Some(why))),
                }
            }
        }
        let is_removed = !touched.is_empty();
        if let Some(conversation) = conversation {
            conversation.sync_parents(touched)?;
            // Records of removed files contain their arguments, and perhaps their names.
            conversation.manifest().compact()?;
        }
        // Cached views may contain the bytes, also of remote artifacts.
        self.store.clear_cache()?;
        Ok((is_removed, None))
    }

    pub(super) fn is_here(
        &self,
        notes: &Notes,
        conversation: Option<&Conversation>,
        place: (&RelPath, &Purging),
    ) -> Result<bool, RemoteError> {
        let files = conversation.map(|conversation| self.files_of(notes, conversation, place));
        Ok(files.transpose()?.is_some_and(|files| !files.is_empty()))
    }

    fn files_of(
        &self,
        notes: &Notes,
        conversation: &Conversation,
        (path, wanted): (&RelPath, &Purging),
    ) -> Result<Files, RemoteError> {
        if is_log(path) || wanted.origins.is_empty() {
            return Ok(Files::new());
        }
        let (agreement, here) = here_now(conversation, notes, self.store.clock())?;
        let goes = |origin| wanted.origins.contains(&origin);
        let entries = agreement.base.entries.iter();
        let entries = entries.filter(|entry| entry.origins.iter().copied().any(goes));
        let keys: HashSet<_> = entries.map(|entry| entry.key).collect();
        let found = here.found.iter().filter(|(_, found)| match found.key {
            FileKey::Elsewhere(origin) => goes(origin),
            key @ FileKey::Here { .. } => keys.contains(&key),
        });
        let found = found.filter_map(|(path, found)| {
            Some((RelPath::from_text(path).ok()?, (found.key, found.version)))
        });
        let mut files: Files = found.collect();
        if let Ok(stat) = conversation.dir().stat_at(path) {
            let mark = FileMark::of(&stat);
            files.entry(path.clone()).or_insert((key_of(&mark), version_of(&mark)));
        }
        Ok(files)
    }
}
