//! The interface through which the engine reads files and directories of the mount.

use std::fs::File;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::{DirNode, FileNode, FsError, record, remote};
use ctxfs_core::model::Component;
use ctxfs_engine::{
    DirPlace, Engine, EngineError, Identity, OpenFile, RewriteCount, Snapshot, SourceDir,
    SourceFile, Tracker, Version, messages, names,
};
use ctxfs_store::{Dir, MESSAGES, Stat};

impl FileNode {
    fn snapshot_of(&self, engine: &Engine, file: OpenFile) -> ctxfs_engine::Result<Snapshot> {
        let life = self.life();
        let (stat, changes, is_written) = (file.stat()?, life.changes(), life.has_writers());
        drop(life);
        let length = match &file {
            OpenFile::Here(file) => messages::shown_length(engine, self, stat, file)?,
            OpenFile::Far(_) => stat.size,
        };
        let (id, path) = self.place().ok_or(EngineError::Stale)?;
        let record = record::record(engine, self, &stat)?;
        let identity = Identity::of(&record, &stat);
        let place = engine.options.place(&id, &path);
        Ok(Snapshot { file, stat, length, identity, changes, is_written, record, place })
    }
}

/// A file with a separate descriptor that does not update the access time. Sealing must not count
/// as an access by a user.
pub(crate) struct QuietFile {
    pub(crate) node: Arc<FileNode>,
    pub(crate) open: Arc<File>,
}

impl SourceFile for QuietFile {
    fn snapshot(&self, engine: &Engine) -> ctxfs_engine::Result<Snapshot> {
        self.node.snapshot_of(engine, OpenFile::Here(Arc::clone(&self.open)))
    }

    fn version(&self, engine: &Engine, snapshot: &Snapshot) -> ctxfs_engine::Result<Version> {
        self.node.version(engine, snapshot)
    }

    fn conversation(&self) -> Option<Component> {
        self.node.conversation()
    }

    fn is_log(&self) -> bool {
        self.node.is_log()
    }

    fn is_message_log(&self) -> bool {
        self.node.is_message_log()
    }

    fn open_by_name(&self, flags: OFlags) -> ctxfs_engine::Result<File> {
        self.node.open_by_name(flags | OFlags::NOATIME)
    }

    fn changes(&self) -> u64 {
        SourceFile::changes(&*self.node)
    }

    fn note_change(&self) {
        self.node.note_change();
    }

    fn note_repair(&self, stat: &Stat) {
        self.node.note_repair(stat);
    }

    fn rewrites(&self, engine: &Engine, file: &File) -> ctxfs_engine::Result<(RewriteCount, Stat)> {
        self.node.rewrites(engine, file)
    }

    fn own_rewrites(&self) -> u64 {
        self.node.own_rewrites()
    }

    fn tracker(&self) -> &Tracker {
        &self.node.tracker
    }
}

impl SourceFile for FileNode {
    fn snapshot(&self, engine: &Engine) -> ctxfs_engine::Result<Snapshot> {
        self.snapshot_of(engine, self.opened(engine)?)
    }

    fn version(&self, engine: &Engine, snapshot: &Snapshot) -> ctxfs_engine::Result<Version> {
        let Snapshot { file, stat, changes, .. } = snapshot;
        let read = || match file {
            OpenFile::Here(file) => Ok(Arc::clone(file)),
            OpenFile::Far(_) => Err(FsError::Stale),
        };
        Ok(record::version(engine, self, stat, *changes, read)?)
    }

    fn conversation(&self) -> Option<Component> {
        self.link.get()?.conversation()
    }

    fn is_log(&self) -> bool {
        self.place().is_some_and(|(_, path)| path.is_terminal())
    }

    fn is_message_log(&self) -> bool {
        let parent = {
            let link = self.link.lock();
            link.as_ref().filter(|link| link.name == MESSAGES).map(|link| Arc::clone(&link.parent))
        };
        parent.is_some_and(|parent| parent.as_dir().is_ok_and(|dir| names::is_history(&**dir)))
    }

    fn open_by_name(&self, flags: OFlags) -> ctxfs_engine::Result<File> {
        Ok(self.open(flags)?)
    }

    fn is_far(&self) -> bool {
        self.remote_stat().is_some()
    }

    fn opened(&self, engine: &Engine) -> ctxfs_engine::Result<OpenFile> {
        let copy = |error| remote::open_copy(engine, self).map(Arc::new).map_err(|_| error);
        let here = || self.reader().or_else(copy).map(OpenFile::Here);
        match here() {
            // The bytes may be fetched in the meantime.
            Err(FsError::Stale) => Ok(remote::open(engine, self).or_else(|_| here())?),
            opened => Ok(opened?),
        }
    }

    fn changes(&self) -> u64 {
        self.life().changes()
    }

    fn note_change(&self) {
        self.life().view_was_late();
    }

    fn note_repair(&self, stat: &Stat) {
        let mut life = self.life();
        life.rewritten();
        life.left_as(stat);
    }

    fn rewrites(&self, engine: &Engine, file: &File) -> ctxfs_engine::Result<(RewriteCount, Stat)> {
        Ok(self.notice(file, engine.store.clock())?)
    }

    fn own_rewrites(&self) -> u64 {
        self.life().rewrites().own
    }

    fn tracker(&self) -> &Tracker {
        &self.tracker
    }
}

impl SourceDir for DirNode {
    fn place(&self) -> ctxfs_engine::Result<DirPlace> {
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

    fn is_root(&self) -> bool {
        self.is_root
    }

    fn depth(&self) -> ctxfs_engine::Result<usize> {
        if self.is_root {
            return Ok(0);
        }
        let depth = self.link.get().and_then(|link| link.depth());
        Ok(depth.ok_or(FsError::Stale)?)
    }

    fn dir(&self) -> ctxfs_engine::Result<Arc<Dir>> {
        Ok(self.open()?)
    }
}
