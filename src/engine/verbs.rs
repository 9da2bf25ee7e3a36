//! Methods of the engine that combine several components: room, showing, counts and removal.

use std::io::{self, Write as _};

use crate::patience::allow_slow;
use crate::quota::RoomRequest;
use crate::{
    Engine, EngineError, FileChange, OpenFile, Recipe, Reservation, Result, SourceDir, Version,
    manifest, search,
};
use ctxfs_core::model::{Component, Counts, Limits, Record, RelPath};
use ctxfs_store::{Conversation, FarArtifact, ManifestLock, Usage};

/// Room for outputs and other files.
impl Engine {
    /// Checks the cap of the changed file and the free space on disk, and reserves room below the
    /// quota of the file's conversation. The caller drops the reservation after the change. Calls a
    /// method of `change` only if a limit needs it.
    pub fn reserve_for_change(&self, change: &dyn FileChange) -> Result<Reservation> {
        self.check_cap(&|| change.is_terminal(), &|| change.size(), change.end()?)?;
        self.check_disk(change.length())?;
        if self.options.quota.is_none() {
            return Ok(Reservation::default());
        }
        match change.charged_to() {
            Some(id) => self.reserve_in(&id, change.growth()?),
            None => Ok(Reservation::default()),
        }
    }

    /// Reserves `growth` bytes below the quota of the conversation `id`.
    pub fn reserve_in(&self, id: &Component, growth: u64) -> Result<Reservation> {
        if self.options.quota.is_none() || growth == 0 {
            return Ok(Reservation::default());
        }
        let conversation = match self.conversation(id) {
            Err(EngineError::NotFound) => None,
            found => Some(found?),
        };
        let conversation = conversation.as_deref();
        self.space.reserve(&RoomRequest { id, conversation, growth, partly: false })
    }

    /// Reserves room for the file or directory at `path` of the conversation `from`, which is moved
    /// to the conversation `to`.
    pub fn reserve_for_move(
        &self,
        from: &Component,
        path: &RelPath,
        to: &Component,
    ) -> Result<Reservation> {
        if self.options.quota.is_none() || from == to {
            return Ok(Reservation::default());
        }
        allow_slow()?;
        let from = self.conversation(from)?;
        let growth = Usage::of_path(&from, path)?.bytes;
        self.reserve_in(to, growth)
    }

    /// Checks that a file stays below its cap. It has `size` bytes and will end at the offset
    /// `end`.
    pub fn check_cap(
        &self,
        is_terminal: &dyn Fn() -> bool,
        size: &dyn Fn() -> Result<u64>,
        end: u64,
    ) -> Result<()> {
        self.space.check_cap(is_terminal, size, end)
    }

    /// Checks that `length` more bytes leave enough free space on the disk.
    pub fn check_disk(&self, length: u64) -> Result<()> {
        self.space.check_disk(length, true)
    }

    /// Writes a file for each of the `tools`, and then replaces the index. The room for the index
    /// is reserved first. If there is too little room for all files, some files of tools are
    /// missing.
    pub fn write_catalog(
        &self,
        conversation: &Conversation,
        index: &str,
        tools: impl Iterator<Item = (Component, String)>,
    ) -> Result<()> {
        let writer = conversation.write_catalog()?;
        let reserve = |text: &str| self.space.reserve_file(conversation, text.len() as u64);
        let _room = reserve(index)?;
        let mut write = |(name, text): (Component, String)| -> Result<()> {
            let _room = reserve(&text)?;
            Ok(writer.tool(&name, &text)?)
        };
        let written = tools.into_iter().try_for_each(&mut write);
        writer.index(index)?;
        written
    }
}

/// Showing.
impl Engine {
    /// Returns the limits for the outputs of a tool. `None` stands for an unknown tool.
    pub fn limits(&self, tool: Option<&str>) -> Limits {
        self.options.limits.limits(tool)
    }

    /// Returns the form in which a model may see an output that is not stored: unchanged except for
    /// masked secrets.
    pub fn shown(&self, output: &[u8]) -> io::Result<Vec<u8>> {
        let mut shown = self.secrets.shown_form(Vec::with_capacity(output.len()));
        shown.write_all(output)?;
        shown.finish()?;
        Ok(shown.into_inner())
    }

    /// Opens a remote artifact of the conversation `id`. Sends no request yet.
    pub fn open_far(&self, id: &Component, artifact: &FarArtifact) -> OpenFile {
        OpenFile::far(&self.options, id, artifact)
    }

    /// Returns the version of the computed file that `recipe` makes from the directory `dir`.
    pub fn version(&self, recipe: &Recipe, dir: &dyn SourceDir) -> Result<Version> {
        match recipe {
            Recipe::Manifest(reader) => manifest::version(self, dir, reader),
            Recipe::Search(..) => search::version(self, dir),
            _ => Ok(Version::default()),
        }
    }
}

/// Counting and removing.
impl Engine {
    /// Adds to the counts of a tool. If counting was started, the counts are in the store a few
    /// seconds later. Otherwise they are in the store when counting ends.
    pub fn count(&self, id: &Component, tool: String, counts: &Counts) {
        self.counting.add(id.clone(), tool, counts);
    }

    /// Removes a conversation that contains only the store's own files. Fails with ENOTEMPTY if it
    /// contains other files.
    pub fn remove_conversation(&self, id: &Component) -> Result<()> {
        self.conversations.remove(id);
        self.counting.forget(id);
        self.space.forget(id);
        self.store.remove_conversation(id)?;
        self.changed(id, None);
        Ok(())
    }

    /// Forgets the artifact at `path`, whose file of `bytes` bytes was removed. The caller must
    /// hold the manifest lock.
    pub fn forget_artifact(
        &self,
        conversation: &Conversation,
        manifest: &ManifestLock,
        path: &RelPath,
        bytes: u64,
    ) -> Result<()> {
        let record = conversation.forget_locked(manifest, path)?;
        self.note_removed(conversation, bytes, record);
        Ok(())
    }

    /// Counts the removal of an artifact of `bytes` bytes that had this `record`.
    pub fn note_removed(&self, conversation: &Conversation, bytes: u64, record: Option<Record>) {
        self.space.freed(conversation.id());
        self.changed(conversation.id(), None);
        self.counting.deleted(conversation.id(), bytes, record);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{EngineOptions, quota};
    use ctxfs_store::Store;

    #[test]
    fn what_does_not_fit_below_the_quota_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let quota = quota::fixture::of_new_conversation(40 << 10);
        let options = EngineOptions { quota: Some(quota), ..EngineOptions::default() };
        let engine = Engine::new(Store::open(dir.path()).unwrap(), options);
        let conversation =
            engine.store().create_conversation(&Component::new("c").unwrap()).unwrap();
        let tool = |n: usize| (Component::new(format!("{n}.json")).unwrap(), "x".repeat(5000));
        let write = |tools| engine.write_catalog(&conversation, "index", (0..tools).map(tool));
        assert!(matches!(write(20), Err(EngineError::OverQuota(_))));
        let catalog = dir.path().join("context/c/catalog");
        assert_eq!(fs::read(catalog.join("index.json")).unwrap(), b"index");
        let written = fs::read_dir(catalog.join("tools")).unwrap().count();
        assert!((2..=4).contains(&written), "{written}");
    }
}
