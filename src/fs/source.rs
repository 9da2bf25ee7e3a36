//! Files and directories of the mount as the engine sees them.

use std::fs::File;

use crate::engine;
use crate::engine::DirPlace;
use crate::engine::Engine;
use crate::engine::EngineError;
use crate::engine::RewriteCount;
use crate::engine::Snapshot;
use crate::engine::SourceDir;
use crate::engine::SourceFile;
use crate::engine::Tracker;
use crate::engine::Version;
use crate::fs::FsError;
use crate::fs::facts;
use crate::fs::message_log;
use crate::fs::node::DirNode;
use crate::fs::node::file::FileNode;
use crate::model::Component;
use crate::store::Dir;
use crate::store::Stat;
use crate::store::stat_file;

impl SourceFile for FileNode {
    fn snapshot(&self, engine: &Engine) -> engine::Result<Snapshot> {
        let file = self.reader()?;
        let life = self.life();
        let (stat, changes, is_written) = (stat_file(&file)?, life.changes(), life.has_writers());
        drop(life);
        let length = message_log::shown(engine, self, stat)?.size;
        let (id, path) = self.place().ok_or(EngineError::Stale)?;
        let record = facts::record(engine, self, &stat)?;
        let place = engine.options.place(&id, &path);
        Ok(Snapshot { file, stat, length, changes, is_written, record, place })
    }

    fn version(&self, engine: &Engine, snapshot: &Snapshot) -> engine::Result<Version> {
        Ok(facts::version(engine, self, &snapshot.stat, snapshot.changes)?)
    }

    fn conversation(&self) -> Option<Component> {
        self.link.get()?.conversation()
    }

    fn is_log(&self) -> bool {
        self.is_terminal_log()
    }

    fn changes(&self) -> u64 {
        self.life().changes()
    }

    fn note_change(&self) {
        self.life().view_was_late();
    }

    fn rewrites(&self, file: &File) -> engine::Result<(RewriteCount, Stat)> {
        Ok(self.notice(file)?)
    }

    fn own_rewrites(&self) -> u64 {
        self.life().rewrites().own
    }

    fn tracker(&self) -> &Tracker {
        &self.tracker
    }
}

impl SourceDir for DirNode {
    fn place(&self) -> engine::Result<DirPlace> {
        if self.is_root {
            return Ok(DirPlace::Root);
        }
        let link = self.link.get().ok_or(FsError::Stale)?;
        if link.parent.is_root() {
            return Ok(DirPlace::Conversation(Component::new(&link.name)?));
        }
        let (id, path) = link.place().ok_or(FsError::Stale)?;
        Ok(DirPlace::Below(id, path))
    }

    fn dir(&self) -> engine::Result<&Dir> {
        Ok(&self.dir)
    }
}
