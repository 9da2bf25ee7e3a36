//! Writing the index of tools to a conversation, within its quota.

use crate::{Engine, Reservation, Result};
use ctxfs_core::model::Component;
use ctxfs_store::{Conversation, LEAST, whole_blocks};

impl Engine {
    /// Writes the files of single `tools`, and then replaces the index. If there is too little room
    /// for all files, some are missing: the index itself comes before them.
    pub fn write_catalog(
        &self,
        conversation: &Conversation,
        index: &str,
        tools: impl Iterator<Item = (Component, String)>,
    ) -> Result<()> {
        let writer = conversation.write_catalog()?;
        let _room = self.room_for_file(conversation, index)?;
        let mut write = |(name, text): (Component, String)| -> Result<()> {
            let _room = self.room_for_file(conversation, &text)?;
            Ok(writer.tool(&name, &text)?)
        };
        let written = tools.into_iter().try_for_each(&mut write);
        writer.index(index)?;
        written
    }

    /// Reserves room below the quota for a file, and checks the disk.
    fn room_for_file(&self, conversation: &Conversation, text: &str) -> Result<Reservation> {
        let length = text.len() as u64;
        self.check_disk(length)?;
        self.reserve_in(conversation.id(), whole_blocks(length).max(LEAST))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{EngineError, EngineOptions, quota};
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
