//! Renaming: names move, and the records of artifacts follow.

use std::ffi::OsStr;
use std::sync::Arc;

use rustix::fs::OFlags;
use rustix::fs::RenameFlags;

use crate::engine::names::is_message_log;
use crate::fs::FsError;
use crate::fs::Ino;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::dir;
use crate::fs::life::AfterRename;
use crate::fs::lookup;
use crate::fs::move_records::Manifests;
use crate::fs::node::DirNode;
use crate::fs::node::Link;
use crate::fs::node::Node;
use crate::fs::seal_queue::SealJob;
use crate::fs::write_once;
use crate::message;
use crate::message::MessageError;
use crate::model::Component;

/// The treatment of a new name that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenameMode {
    /// The file with that name is removed.
    Replace,
    /// The rename fails.
    KeepExisting,
    /// The two files exchange their names.
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

/// One end of a rename.
struct End<'a> {
    parent: &'a Arc<Node>,
    dir: &'a Arc<DirNode>,
    name: &'a OsStr,
}

/// A rename whose nodes are known.
struct Rename<'a> {
    node: &'a Arc<Node>,
    /// The node that has the new name now.
    target: Option<&'a Arc<Node>>,
    from: &'a End<'a>,
    to: &'a End<'a>,
    mode: RenameMode,
}

pub(super) fn rename(
    fs: &Shared,
    (parent, name): (Ino, &OsStr),
    (new_parent, new_name): (Ino, &OsStr),
    mode: RenameMode,
) -> Result<()> {
    let parent = fs.nodes.get(parent)?;
    let new_parent = fs.nodes.get(new_parent)?;
    let from = End { parent: &parent, dir: parent.as_dir()?, name };
    let to = End { parent: &new_parent, dir: new_parent.as_dir()?, name: new_name };
    let node = source(fs, &from)?;
    let done = rename_node(fs, &node, &from, &to, mode);
    fs.nodes.forget(node.ino, 1);
    done
}

/// Finds the node to rename. Only a node on disk can be renamed.
fn source(fs: &Shared, from: &End<'_>) -> Result<Arc<Node>> {
    match lookup::find_real(fs, from.parent, from.dir, from.name) {
        Err(FsError::NotFound) => {
            dir::check_not_computed(from.parent, from.dir, from.name)?;
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
    dir::check_not_computed(to.parent, to.dir, to.name)?;
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
        .and_then(|()| check_replaceable(fs, node, target.as_ref()))
        .and_then(|()| Rename { node, target: target.as_ref(), from, to, mode }.on_disk(fs));
    if let Some(target) = target {
        fs.nodes.forget(target.ino, 1);
    }
    done
}

fn check_replaceable(fs: &Shared, node: &Node, target: Option<&Arc<Node>>) -> Result<()> {
    match target.map(|target| (target, target.as_file())) {
        Some((target, Ok(file))) if target.ino != node.ino => write_once::check(fs, file),
        _ => Ok(()),
    }
}

impl<'a> Rename<'a> {
    /// Returns the node of another file that has the new name.
    fn other(&self) -> Option<&'a Arc<Node>> {
        self.target.filter(|target| target.ino != self.node.ino)
    }

    /// Returns the node that gets the old name.
    fn swapped(&self) -> Option<&'a Arc<Node>> {
        self.other().filter(|_| self.mode == RenameMode::Exchange)
    }

    /// Renames on disk, with manifests and places locked.
    fn on_disk(&self, fs: &Shared) -> Result<()> {
        let manifests = self.hold_manifests(fs)?;
        let places = fs.places.write();
        let done = self.with_held(fs, manifests.as_ref());
        drop(places);
        manifests.into_iter().for_each(Manifests::release);
        done
    }

    fn with_held(&self, fs: &Shared, manifests: Option<&Manifests>) -> Result<()> {
        let Self { node, target, from, to, mode } = *self;
        let before = node.place();
        // A conversation without any file counts as empty, as for rmdir.
        if from.parent.is_root() && mode == RenameMode::Replace && target.is_some() {
            fs.engine.store.remove_conversation(&Component::new(to.name)?)?;
        }
        from.dir.dir.rename(from.name, &to.dir.dir, to.name, mode.flags())?;
        let (other, swapped) = (self.other(), self.swapped());
        set_link(node, Some(Link::new(to.parent, to.name)));
        if let Some(other) = other {
            set_link(other, swapped.map(|_| Link::new(from.parent, from.name)));
        }
        if from.parent.is_root() {
            return Ok(());
        }
        let after = node.place();
        if let (Some((_, before)), Some((_, after)), Some(held)) = (before, after, manifests) {
            fs.engine.space.freed(held.source.id());
            fs.engine.space.freed(held.target.id());
            let moved = held.move_records((node, &before), (other, &after), swapped.is_some());
            moved.inspect_err(|_| self.take_back(fs))?;
        }
        seal_renamed(fs, node)?;
        swapped.map_or(Ok(()), |swapped| seal_renamed(fs, swapped))
    }

    /// Takes back a rename whose records could not follow, unless it has replaced something. The
    /// files are recorded again once the disk works.
    fn take_back(&self, fs: &Shared) {
        let Self { node, from, to, .. } = *self;
        let swapped = self.swapped();
        let back = if swapped.is_some() { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        let replaced = self.other().is_some() && swapped.is_none();
        if !replaced && to.dir.dir.rename(to.name, &from.dir.dir, from.name, back).is_ok() {
            set_link(node, Some(Link::new(from.parent, from.name)));
            if let Some(swapped) = swapped {
                set_link(swapped, Some(Link::new(to.parent, to.name)));
            }
        }
        let again = |node: &Node| node.as_file().is_ok_and(|file| file.life().lost_record());
        for node in [Some(node), swapped].into_iter().flatten().filter(|node| again(node)) {
            fs.sealer.submit(SealJob::Seal(Arc::clone(node)));
        }
    }

    /// Locks the manifests in which it changes records. Returns `None` if it changes none.
    fn hold_manifests(&self, fs: &Shared) -> Result<Option<Manifests>> {
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
        Manifests::hold(source, target).map(Some)
    }
}

/// Submits the jobs that a file needs under its new name. One that has just got an artifact's name
/// is materialized, now or when it is closed. One that had such a name before needs nothing.
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

/// Checks that a file that would become a message log has nothing but messages.
fn check_log(node: &Node, to: &End<'_>) -> Result<()> {
    match node.as_file() {
        Ok(file) if is_message_log(&**to.dir, to.name) && !node.is_message_log() => {
            message::check(&Arc::new(file.open(OFlags::RDWR)?)).map_err(|error| match error {
                MessageError::NotAMessage(why) => FsError::NotALog(why),
                error => error.into(),
            })
        }
        _ => Ok(()),
    }
}

fn set_link(node: &Node, link: Option<Link>) {
    if let Some(linked) = node.link() {
        *linked.lock() = link;
    }
}
