//! Renames of files and directories, and of the records of artifacts.

use std::ffi::OsStr;
use std::sync::Arc;

use rustix::fs::{OFlags, RenameFlags};

use crate::life::AfterRename;
use crate::record::{Manifests, MoveOptions, Mover};
use crate::{
    ContextFs, DirNode, FsError, Ino, LinkCell, Node, NodeLink, Result, SealJob, Shared, copies,
    dir, lookup, record, remote, write_once,
};
use ctxfs_core::model::{Component, MAX_DEPTH, NameError, RelPath};
use ctxfs_engine::patience::allow_slow;
use ctxfs_engine::{DirPlace, DoorFile as _, Freed, Growth, Reservation, SourceDir as _};
use ctxfs_store::message::MessageError;
use ctxfs_store::{Stat, message};

/// The treatment of a new name that is taken: replace the existing file, fail, or exchange the
/// names of the two files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenameMode {
    Replace,
    KeepExisting,
    Exchange,
}

impl RenameMode {
    fn flags(self) -> RenameFlags {
        match self {
            Self::Replace => RenameFlags::empty(),
            Self::KeepExisting => RenameFlags::NOREPLACE,
            Self::Exchange => RenameFlags::EXCHANGE,
        }
    }
}

struct End<'a> {
    parent: &'a Arc<Node>,
    dir: &'a Arc<DirNode>,
    name: &'a OsStr,
}

impl End<'_> {
    fn conversation(&self) -> Option<Component> {
        if self.parent.is_root() {
            return Component::new(self.name).ok();
        }
        self.parent.conversation()
    }

    fn keeps_artifacts(&self, node: &Node) -> bool {
        let Ok(place) = self.dir.place() else { return false };
        let Ok(path) = RelPath::below(place.path(), self.name) else { return false };
        match node.as_file() {
            Ok(_) => path.is_artifact(),
            Err(_) => place
                .conversation()
                .is_some_and(|id| DirPlace::Below(id.clone(), path.clone()).holds_artifacts()),
        }
    }
}

struct PlannedRename<'a> {
    node: &'a Arc<Node>,
    target: Option<&'a Arc<Node>>,
    from: &'a End<'a>,
    to: &'a End<'a>,
    mode: RenameMode,
}

impl ContextFs {
    pub fn rename(
        &self,
        parent: Ino,
        name: &OsStr,
        new_parent: Ino,
        new_name: &OsStr,
        mode: RenameMode,
    ) -> Result<()> {
        let fs = &self.0;
        let parent = fs.nodes.get(parent)?;
        let new_parent = fs.nodes.get(new_parent)?;
        let from = End { parent: &parent, dir: parent.as_dir()?, name };
        let to = End { parent: &new_parent, dir: new_parent.as_dir()?, name: new_name };
        let node = source(fs, &from)?;
        let done = rename_node(fs, &node, &from, &to, mode);
        if node.as_dir().is_ok() || mode == RenameMode::Exchange {
            fs.promises.end_all();
        } else {
            fs.promises.end(from.dir.id, name);
            fs.promises.end(to.dir.id, new_name);
        }
        if done.is_ok()
            && mode != RenameMode::Exchange
            && let Err(error) = copies::remove_copied_views(self, &node)
        {
            tracing::debug!(%error, "a copy of a view was not removed");
        }
        fs.nodes.forget(node.ino, 1);
        for id in [&from, &to].into_iter().filter_map(End::conversation) {
            fs.engine.freed(&id, Freed::default());
        }
        done
    }
}

fn source(fs: &Shared, from: &End<'_>) -> Result<Arc<Node>> {
    match lookup::find_real(fs, from.parent, from.dir, from.name) {
        Err(FsError::NotFound) => {
            dir::check_not_computed(fs, from.parent, from.dir, from.name)?;
            Err(FsError::NotFound)
        }
        found => found,
    }
}

fn rename_node(
    fs: &Shared,
    node: &Arc<Node>,
    from: &End<'_>,
    to: &End<'_>,
    mode: RenameMode,
) -> Result<()> {
    Component::new(to.name)?;
    dir::check_not_computed(fs, to.parent, to.dir, to.name)?;
    if from.parent.is_root() != to.parent.is_root() {
        return Err(FsError::RootHoldsConversations);
    }
    let target = match lookup::find_real(fs, to.parent, to.dir, to.name) {
        Ok(target) => Some(target),
        Err(FsError::NotFound) => None,
        Err(error) => return Err(error),
    };
    let done = check_log(node, to)
        .and_then(|()| match &target {
            Some(target) if mode == RenameMode::Exchange => check_log(target, from),
            _ => Ok(()),
        })
        .and_then(|()| {
            let rename = PlannedRename { node, target: target.as_ref(), from, to, mode };
            rename.check_depth()?;
            rename.check_conversations(fs)?;
            rename.check_write_once(fs)?;
            if rename.rename_remote(fs)? { Ok(()) } else { rename.on_disk(fs) }
        });
    if let Some(target) = target {
        fs.nodes.forget(target.ino, 1);
    }
    done
}

/// Fails if the move of `node` would put a directory too deep. A node that does not move deeper is
/// not checked.
fn check_depth(node: &Node, from: &End<'_>, to: &End<'_>) -> Result<()> {
    let (before, after) = (from.dir.depth()?, to.dir.depth()?);
    if node.as_dir().is_err() || after <= before {
        return Ok(());
    }
    let left = MAX_DEPTH.checked_sub(after + 1).ok_or(NameError::TooDeep)?;
    match from.dir.open()?.height(from.name, left)? {
        Some(height) if height <= left => Ok(()),
        Some(_) => Err(NameError::TooDeep.into()),
        None => Err(FsError::TooManyDirectories),
    }
}

impl<'a> PlannedRename<'a> {
    fn other(&self) -> Option<&'a Arc<Node>> {
        self.target.filter(|target| target.ino != self.node.ino)
    }

    fn swapped(&self) -> Option<&'a Arc<Node>> {
        self.other().filter(|_| self.mode == RenameMode::Exchange)
    }

    /// If hosts share conversations, refuses to move a file or directory to another conversation,
    /// because other hosts refer to it as a part of its conversation. For the same reason, refuses
    /// to rename or replace a conversation with remote artifacts.
    fn check_conversations(&self, fs: &Shared) -> Result<()> {
        let Self { from, to, .. } = *self;
        if from.parent.is_root() {
            let check = |end: &End<'_>| remote::check_empty(fs, &Component::new(end.name)?, None);
            check(from).map_err(|error| match error {
                FsError::NotEmpty => FsError::HasRemoteArtifacts,
                error => error,
            })?;
            return self.target.map_or(Ok(()), |_| check(to));
        }
        let crosses = from.parent.conversation() != to.parent.conversation();
        if crosses && fs.engine.options().far.is_some() {
            return Err(FsError::OtherConversation);
        }
        Ok(())
    }

    /// On a write-once mount, refuses to replace a sealed artifact, and to rename one to a name
    /// that is not the name of an artifact. Then waits until the artifacts that the rename moves
    /// are sealed and recorded, because traces of them need the digests.
    fn check_write_once(&self, fs: &Shared) -> Result<()> {
        let Self { node, to, mode, .. } = *self;
        if !fs.engine.options().write_once {
            return Ok(());
        }
        if to.parent.is_root() {
            return self
                .target
                .map_or(Ok(()), |_| write_once::check_conversation(fs, &Component::new(to.name)?));
        }
        let replaced = match self.other() {
            Some(other) if mode == RenameMode::Exchange || other.as_file().is_ok() => {
                write_once::holds_sealed(fs, other)?
            }
            _ => false,
        };
        let leaves = || mode == RenameMode::Exchange || !to.keeps_artifacts(node);
        if replaced || (write_once::holds_sealed(fs, node)? && leaves()) {
            return Err(FsError::WriteOnce);
        }
        if node.as_dir().is_ok() {
            allow_slow()?;
            fs.sealer.settle(fs.engine.options().view_deadline);
        }
        write_once::await_record(fs, node).map(|_| ())
    }

    fn check_depth(&self) -> Result<()> {
        check_depth(self.node, self.from, self.to)?;
        self.swapped().map_or(Ok(()), |swapped| check_depth(swapped, self.to, self.from))
    }

    /// Renames a remote artifact by changing only its record, and returns true. If that is not
    /// possible, fetches the bytes of the artifact, and the bytes of a remote artifact with which
    /// it exchanges names.
    fn rename_remote(&self, fs: &Shared) -> Result<bool> {
        let Self { node, from, to, mode, .. } = *self;
        let away = |node: &'a Arc<Node>| node.as_file().ok().filter(|file| remote::is_remote(file));
        if let Some(target) = self.other()
            && let Some(file) = away(target)
        {
            match mode {
                RenameMode::KeepExisting => return Err(FsError::Exists),
                RenameMode::Exchange => remote::fetch(fs, target, file)?,
                RenameMode::Replace => {}
            }
        }
        let Some(file) = away(node) else { return Ok(false) };
        let is_alone = self.target.is_none() && !from.parent.is_root();
        if is_alone && remote::rename(fs, file, &NodeLink::new(to.parent, to.name))? {
            return Ok(true);
        }
        remote::fetch(fs, node, file)?;
        Ok(false)
    }

    fn on_disk(&self, fs: &Shared) -> Result<()> {
        let _room = self.reserve_room(fs)?;
        let manifests = self.lock_manifests(fs)?;
        let places = fs.places.write();
        let done = self.with_held(fs, manifests.as_ref());
        drop(places);
        if let Some(manifests) = manifests {
            manifests.release(fs);
        }
        done
    }

    fn with_held(&self, fs: &Shared, manifests: Option<&Manifests>) -> Result<()> {
        let Self { node, target, from, to, mode } = *self;
        let before = node.place();
        let stats = [Some(node), self.other()];
        let stats = stats.map(|node| record::on_disk(node?.as_file().ok()?));
        // A conversation without any file counts as empty, as in `rmdir`.
        if from.parent.is_root() && mode == RenameMode::Replace && target.is_some() {
            fs.engine.store().remove_conversation(&Component::new(to.name)?)?;
        }
        self.move_names(from, to, mode.flags())?;
        let (other, swapped) = (self.other(), self.swapped());
        if swapped.is_none()
            && let Some(Ok(replaced)) = other.map(|other| other.as_file())
        {
            dir::note_unlinked(fs, replaced, to.parent.conversation());
        }
        if from.parent.is_root() {
            return Ok(());
        }
        let after = node.place();
        if let (Some((_, before)), Some((_, after)), Some(held)) = (before, after, manifests) {
            self.move_records(fs, held, (&before, &after), &stats)?;
        }
        seal_renamed(fs, node)?;
        swapped.map_or(Ok(()), |swapped| seal_renamed(fs, swapped))
    }

    fn move_records(
        &self,
        fs: &Shared,
        held: &Manifests,
        (before, after): (&RelPath, &RelPath),
        stats: &[Option<Stat>; 2],
    ) -> Result<()> {
        let from = Mover { node: self.node, path: before, before: stats[0].as_ref() };
        let over = |node| Mover { node, path: after, before: stats[1].as_ref() };
        let swapped = self.swapped().is_some();
        let options = MoveOptions { swapped, traced: fs.engine.options().write_once };
        let moved = held.move_records(from, (self.other().map(over), after), options);
        moved.inspect_err(|_| self.undo(fs))
    }

    /// Renames on disk and stores the new names in the links of the nodes. The links stay locked
    /// until both are done. If another thread has read the old names to open a directory, it
    /// notices the rename, and reads the names again.
    fn move_names(&self, from: &End<'_>, to: &End<'_>, flags: RenameFlags) -> Result<()> {
        let (from_dir, to_dir) = (from.dir.open()?, to.dir.open()?);
        let mut link = self.node.link().map(LinkCell::lock);
        let mut others = self.other().and_then(|other| other.link()).map(LinkCell::lock);
        from_dir.rename(from.name, &to_dir, to.name, flags)?;
        if let Some(link) = &mut link {
            **link = Some(NodeLink::new(to.parent, to.name));
        }
        if let Some(others) = &mut others {
            **others = self.swapped().map(|_| NodeLink::new(from.parent, from.name));
        }
        Ok(())
    }

    /// Undoes a rename if its records could not be moved, unless the rename has replaced a file.
    /// The files are recorded again once the disk works.
    fn undo(&self, fs: &Shared) {
        let Self { node, from, to, .. } = *self;
        let swapped = self.swapped();
        let back = if swapped.is_some() { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        let replaced = self.other().is_some() && swapped.is_none();
        if !replaced && let Err(error) = self.move_names(to, from, back) {
            tracing::warn!(%error, "a rename could not be undone");
        }
        let again = |node: &Node| node.as_file().is_ok_and(|file| file.life().needs_record());
        for node in [Some(node), swapped].into_iter().flatten().filter(|node| again(node)) {
            fs.sealer.submit(SealJob::Seal(Arc::clone(node)));
        }
    }

    fn reserve_room(&self, fs: &Shared) -> Result<Vec<Reservation>> {
        let Self { node, from, to, .. } = *self;
        let mut reserved = Vec::new();
        let ends = (from.parent.conversation(), to.parent.conversation());
        let (Some(source), Some(target)) = ends else { return Ok(reserved) };
        let moved = [(Some(node), &source, &target), (self.swapped(), &target, &source)];
        for (node, from, to) in moved {
            if let Some((_, path)) = node.and_then(|node| node.place()) {
                reserved.push(fs.engine.reserve(Growth::Move { from, path: &path, to })?);
            }
        }
        Ok(reserved)
    }

    fn lock_manifests(&self, fs: &Shared) -> Result<Option<Manifests>> {
        let Self { node, from, to, .. } = *self;
        let records = [from, to].iter().any(|end| end.parent.holds_artifacts());
        let (Some(source), Some(target)) = (from.parent.conversation(), to.parent.conversation())
        else {
            return Ok(None);
        };
        if !records && node.as_file().is_ok() {
            return Ok(None);
        }
        let (source, target) = (fs.engine.conversation(&source)?, fs.engine.conversation(&target)?);
        Manifests::hold(fs, source, target).map(Some)
    }
}

/// Submits the jobs that a file needs under its new name. A file that had no artifact name before
/// is sealed now, or when it is closed. A file that had one before needs no job.
fn seal_renamed(fs: &Shared, node: &Arc<Node>) -> Result<()> {
    let Ok(file) = node.as_file() else { return Ok(()) };
    let Some((id, path)) = file.place().filter(|(_, path)| path.is_artifact()) else {
        return Ok(());
    };
    let record = fs.engine.conversation(&id)?.record(&path)?;
    let after = file.life().renamed(record.as_ref());
    match after {
        AfterRename::Nothing => {}
        AfterRename::Seal => fs.sealer.submit(SealJob::Seal(Arc::clone(node))),
        AfterRename::NoteLive => fs.sealer.submit(SealJob::NoteLive(Arc::clone(node))),
    }
    Ok(())
}

fn check_log(node: &Node, to: &End<'_>) -> Result<()> {
    match node.as_file() {
        Ok(file) if to.dir.has_log(to.name) && !node.is_message_log() => {
            message::check(&Arc::new(file.open(OFlags::RDWR)?)).map_err(|error| match error {
                MessageError::NotAMessage(why) => FsError::NotALog(why),
                error => error.into(),
            })
        }
        _ => Ok(()),
    }
}
