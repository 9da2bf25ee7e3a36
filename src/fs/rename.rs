//! Renaming: names move, and what is known of an artifact moves along.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::PoisonError;

use rustix::fs::OFlags;
use rustix::fs::RenameFlags;

use crate::fs::ContextFs;
use crate::fs::FsError;
use crate::fs::Ino;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::messages::is_message_log;
use crate::fs::node::DirNode;
use crate::fs::node::Link;
use crate::fs::node::Node;
use crate::fs::seal::Job;
use crate::fs::sync::hold;
use crate::message;
use crate::message::MessageError;
use crate::model::Component;
use crate::model::Record;
use crate::model::RelPath;
use crate::model::Provenance;
use crate::model::ArtifactState;
use crate::store::Conversation;
use crate::store::Held;
use crate::store::this_process;

/// What happens to a name that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenameMode {
    /// What it stood for is removed.
    Replace,
    /// The rename fails.
    KeepExisting,
    /// The two change places.
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
    dir: &'a DirNode,
    name: &'a OsStr,
}

impl ContextFs {
    /// Renames `name` in `parent` to `new_name` in `new_parent`.
    pub fn rename(
        &self,
        parent: Ino,
        name: &OsStr,
        new_parent: Ino,
        new_name: &OsStr,
        mode: RenameMode,
    ) -> Result<()> {
        let parent = self.0.nodes.get(parent)?;
        let new_parent = self.0.nodes.get(new_parent)?;
        let from = End { parent: &parent, dir: parent.as_dir()?, name };
        let to = End { parent: &new_parent, dir: new_parent.as_dir()?, name: new_name };
        let node = self.0.source(&from)?;
        let done = self.0.rename_node(&node, &from, &to, mode);
        self.0.nodes.forget(node.ino, 1);
        done
    }
}

impl Shared {
    /// What is to be renamed: only what is on disk can be.
    fn source(&self, from: &End<'_>) -> Result<Arc<Node>> {
        match self.find_real(from.parent, from.dir, from.name) {
            Err(FsError::NotFound) => {
                Self::check_not_computed(from.parent, from.dir, from.name)?;
                Err(FsError::NotFound)
            }
            found => found,
        }
    }

    fn rename_node(
        &self,
        node: &Arc<Node>,
        from: &End<'_>,
        to: &End<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        Component::new(to.name)?;
        Self::check_not_computed(to.parent, to.dir, to.name)?;
        if from.parent.is_root() != to.parent.is_root() {
            return Err(FsError::RootHoldsConversations);
        }
        let target = match self.find_real(to.parent, to.dir, to.name) {
            Ok(target) => Some(target),
            Err(FsError::NotFound) => None,
            Err(error) => return Err(error),
        };
        let done = check_log(node, to)
            .and_then(|()| match &target {
                Some(target) if mode == RenameMode::Exchange => check_log(target, from),
                _ => Ok(()),
            })
            .and_then(|()| self.check_replaceable(node, target.as_ref()))
            .and_then(|()| self.rename_on_disk(node, target.as_ref(), from, to, mode));
        if let Some(target) = target {
            self.nodes.forget(target.ino, 1);
        }
        done
    }

    fn check_replaceable(&self, node: &Node, target: Option<&Arc<Node>>) -> Result<()> {
        match target.map(|target| (target, target.as_file())) {
            Some((target, Ok(file))) if target.ino != node.ino => {
                self.check_not_sealed(target, file)
            }
            _ => Ok(()),
        }
    }

    /// Renames, and lets nodes and records follow.
    fn rename_on_disk(
        &self,
        node: &Arc<Node>,
        target: Option<&Arc<Node>>,
        from: &End<'_>,
        to: &End<'_>,
        mode: RenameMode,
    ) -> Result<()> {
        let manifests = self.hold_manifests(node, from, to)?;
        let places = self.places.write().unwrap_or_else(PoisonError::into_inner);
        let done = self.rename_held(node, target, (from, to), mode, manifests.as_ref());
        drop(places);
        manifests.into_iter().for_each(Manifests::release);
        done
    }

    fn rename_held(
        &self,
        node: &Arc<Node>,
        target: Option<&Arc<Node>>,
        (from, to): (&End<'_>, &End<'_>),
        mode: RenameMode,
        manifests: Option<&Manifests>,
    ) -> Result<()> {
        let before = node.place();
        // A conversation that is only a skeleton counts as empty, as for rmdir.
        if from.parent.is_root() && mode == RenameMode::Replace && target.is_some() {
            self.store.remove_conversation(&Component::new(to.name)?)?;
        }
        from.dir.dir.rename(from.name, &to.dir.dir, to.name, mode.flags())?;
        let target = target.filter(|target| target.ino != node.ino);
        set_link(node, Some(Link::new(to.parent, to.name)));
        if let Some(target) = target {
            let swapped = mode == RenameMode::Exchange;
            set_link(target, swapped.then(|| Link::new(from.parent, from.name)));
        }
        if from.parent.is_root() {
            return Ok(());
        }
        let after = node.place();
        let swapped = target.filter(|_| mode == RenameMode::Exchange);
        if let (Some((_, before)), Some((_, after)), Some(held)) = (before, after, manifests) {
            self.room.freed(held.source.id());
            self.room.freed(held.goal.id());
            let moved = held.move_records((node, &before), (target, &after), swapped.is_some());
            moved.inspect_err(|_| self.take_back(node, target, (from, to), mode))?;
        }
        self.seal_renamed(node)?;
        swapped.map_or(Ok(()), |target| self.seal_renamed(target))
    }

    /// Takes back a rename whose records could not follow, unless it has replaced something. What
    /// could not be recorded of the files is recorded once the disk works again.
    fn take_back(
        &self,
        node: &Arc<Node>,
        target: Option<&Arc<Node>>,
        (from, to): (&End<'_>, &End<'_>),
        mode: RenameMode,
    ) {
        let swapped = target.filter(|_| mode == RenameMode::Exchange);
        let back = if swapped.is_some() { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        let replaced = target.is_some() && swapped.is_none();
        if !replaced && to.dir.dir.rename(to.name, &from.dir.dir, from.name, back).is_ok() {
            set_link(node, Some(Link::new(from.parent, from.name)));
            if let Some(target) = swapped {
                set_link(target, Some(Link::new(to.parent, to.name)));
            }
        }
        let again = |node: &Node| node.as_file().is_ok_and(|file| file.writing().record_again());
        for node in [Some(node), swapped].into_iter().flatten().filter(|node| again(node)) {
            self.sealer.submit(Job::Seal(Arc::clone(node)));
        }
    }

    /// Holds the manifests in which a renaming changes records; none, where it changes none.
    fn hold_manifests(
        &self,
        node: &Node,
        from: &End<'_>,
        to: &End<'_>,
    ) -> Result<Option<Manifests>> {
        let records = [from, to].iter().any(|end| end.parent.holds_artifacts());
        let (Some(source), Some(goal)) = (from.parent.conversation(), to.parent.conversation())
        else {
            return Ok(None);
        };
        if !records && node.as_file().is_ok() {
            return Ok(None);
        }
        Manifests::hold(self.conversation(&source)?, self.conversation(&goal)?).map(Some)
    }

    /// A file that has just got an artifact's name is materialized; one that is still written to
    /// will be when it is closed, and one that had such a name before needs nothing.
    fn seal_renamed(&self, node: &Arc<Node>) -> Result<()> {
        let Ok(file) = node.as_file() else { return Ok(()) };
        let Some((id, path)) = node.place().filter(|(_, path)| path.is_artifact()) else {
            return Ok(());
        };
        let record = self.conversation(&id)?.record(&path)?;
        let mut writing = file.writing();
        // What is recorded under the new name counts on from there.
        writing.noted = None;
        writing.lives = writing.lives.min(u64::from(writing.writers > 0));
        writing.unsealed |= record.is_none_or(|record| record.state == ArtifactState::Live);
        let (unsealed, closed) = (writing.unsealed, writing.writers == 0);
        drop(writing);
        match (unsealed, closed) {
            (false, _) => {}
            (true, true) => self.sealer.submit(Job::Seal(Arc::clone(node))),
            (true, false) => self.sealer.submit(Job::Opened(Arc::clone(node))),
        }
        Ok(())
    }
}

/// The manifests of the conversations from which and to which something is renamed.
struct Manifests {
    source: Arc<Conversation>,
    goal: Arc<Conversation>,
    of_source: Held,
    /// None, where that is the same one.
    of_goal: Option<Held>,
}

impl Manifests {
    /// Always in the same order, so that no two renamings wait for each other.
    fn hold(source: Arc<Conversation>, goal: Arc<Conversation>) -> Result<Self> {
        let (of_source, of_goal) = match source.id().cmp(goal.id()) {
            Ordering::Equal => (hold(&source)?, None),
            Ordering::Less => (hold(&source)?, Some(hold(&goal)?)),
            Ordering::Greater => {
                let of_goal = hold(&goal)?;
                (hold(&source)?, Some(of_goal))
            }
        };
        Ok(Self { source, goal, of_source, of_goal })
    }

    /// What is recorded of `from` goes where `to` was, and, where the two are swapped, the other
    /// way round.
    fn move_records(
        &self,
        from: (&Arc<Node>, &RelPath),
        to: (Option<&Arc<Node>>, &RelPath),
        swapped: bool,
    ) -> Result<()> {
        let (before, after) = (from.1, to.1);
        let moved = records_of(&self.source, from.0, before)?;
        let there = to.0.map_or(Ok(Vec::new()), |target| records_of(&self.goal, target, after))?;
        // First what is gone, then what has come: the last record of a path wins.
        let gone = |records: &[Record]| records.iter().map(gone).collect::<Vec<_>>();
        let mut here = gone(&moved);
        let mut come = gone(&there);
        come.extend(carried(from.0, &moved, (before, after), &there));
        let back = to.0.filter(|_| swapped);
        let back = back.map(|target| carried(target, &there, (after, before), &moved));
        let Some(of_goal) = &self.of_goal else {
            // In one write, so that there is all of it or nothing.
            here.extend(come.into_iter().chain(back.unwrap_or_default()));
            return Ok(self.source.add(&self.of_source, &here)?);
        };
        self.goal.add(of_goal, &come)?;
        here.extend(back.unwrap_or_default());
        Ok(self.source.add(&self.of_source, &here)?)
    }

    fn release(self) {
        drop((self.of_source, self.of_goal));
        self.source.tidy();
        self.goal.tidy();
    }
}

/// A file that is to be a message log has nothing but messages.
fn check_log(node: &Node, to: &End<'_>) -> Result<()> {
    match node.as_file() {
        Ok(file) if is_message_log(to.parent, to.name) && !node.is_message_log() => {
            message::check(&Arc::new(file.open(OFlags::RDWR)?)).map_err(|error| match error {
                MessageError::NotAMessage(why) => FsError::NotALog(why),
                error => error.into(),
            })
        }
        _ => Ok(()),
    }
}

/// The record of a file at `path`, or those of all files below a directory there.
fn records_of(conversation: &Conversation, node: &Node, path: &RelPath) -> Result<Vec<Record>> {
    if node.as_file().is_ok() {
        return Ok(conversation.record(path)?.into_iter().collect());
    }
    let below = format!("{path}/");
    let mut records = conversation.records()?;
    records.retain(|record| record.path.starts_with(&below));
    Ok(records)
}

/// `records` under their new path; those that are no longer of artifacts are left behind. What
/// takes the place of another file is its next generation.
fn carried(
    node: &Node,
    records: &[Record],
    (from, to): (&RelPath, &RelPath),
    over: &[Record],
) -> Vec<Record> {
    let over = over.first().filter(|record| record.path == to.to_text() && node.as_file().is_ok());
    let from = from.to_text();
    let unknown = over.filter(|_| records.is_empty()).map(|over| Record {
        path: from.clone(),
        state: ArtifactState::Live,
        owner: this_process(),
        provenance: Provenance::default(),
        analysis: None,
        ..over.clone()
    });
    let moved = records.iter().chain(&unknown).filter_map(|record| {
        let rest = record.path.strip_prefix(&from).unwrap_or_default();
        let path = format!("{to}{rest}");
        let generation = over.map_or(record.generation, |over| over.generation + 1);
        let is_artifact = RelPath::from_text(&path).is_ok_and(|path| path.is_artifact());
        is_artifact.then(|| Record { path, generation, ..record.clone() })
    });
    moved.collect()
}

fn gone(record: &Record) -> Record {
    Record { state: ArtifactState::Gone, analysis: None, ..record.clone() }
}

fn set_link(node: &Node, link: Option<Link>) {
    if let Some(linked) = node.link() {
        *linked.lock() = link;
    }
}
