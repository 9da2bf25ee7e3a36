//! Renaming: names move, and what is known of an artifact moves along.

use std::ffi::OsStr;
use std::sync::Arc;

use rustix::fs::RenameFlags;

use crate::fs::ContextFs;
use crate::fs::FsError;
use crate::fs::Ino;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::dir::forget_record;
use crate::fs::node::DirNode;
use crate::fs::node::Link;
use crate::fs::node::Node;
use crate::fs::seal::Job;
use crate::model::Component;
use crate::model::Record;
use crate::model::RelPath;
use crate::model::State;

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
                self.check_not_computed(from.parent, from.dir, from.name)?;
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
        self.check_not_computed(to.parent, to.dir, to.name)?;
        if from.parent.is_root() != to.parent.is_root() {
            return Err(FsError::RootHoldsConversations);
        }
        let target = match self.find_real(to.parent, to.dir, to.name) {
            Ok(target) => Some(target),
            Err(FsError::NotFound) => None,
            Err(error) => return Err(error),
        };
        let done = self
            .check_replaceable(node, target.as_ref())
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
        if let (Some(before), Some(after)) = (before, after) {
            self.move_records(node, &before, &after, mode)?;
        }
        self.seal_renamed(node);
        if let Some(target) = target.filter(|_| mode == RenameMode::Exchange) {
            self.seal_renamed(target);
        }
        Ok(())
    }

    fn move_records(
        &self,
        node: &Node,
        before: &(Component, RelPath),
        after: &(Component, RelPath),
        mode: RenameMode,
    ) -> Result<()> {
        let source = self.conversation(&before.0)?;
        let goal = self.conversation(&after.0)?;
        if node.as_file().is_err() {
            return self.move_tree(&source, &goal, &before.1, &after.1);
        }
        let moved = source.record(&before.1)?;
        let replaced = goal.record(&after.1)?;
        if mode == RenameMode::Exchange {
            let back = replaced.clone().map(|r| Record { path: before.1.to_text(), ..r });
            source.append(back.as_slice())?;
        } else if before.1.is_artifact() {
            forget_record(&source, &before.1)?;
        }
        if !after.1.is_artifact() {
            return Ok(());
        }
        // What was renamed over something is its next generation.
        let generation = match (&moved, &replaced) {
            (Some(moved), None) => moved.generation,
            (_, Some(replaced)) => replaced.generation + 1,
            (None, None) => return Ok(()),
        };
        let record = moved.or(replaced.map(|old| Record {
            state: State::Live,
            said: crate::model::Said::default(),
            analysis: None,
            ..old
        }));
        if let Some(record) = record {
            goal.append(&[Record { path: after.1.to_text(), generation, ..record }])?;
            if let Ok(file) = node.as_file() {
                file.writing().unsealed |= mode == RenameMode::Replace && generation > 1;
            }
        }
        Ok(())
    }

    /// The records of everything below a directory that was renamed.
    fn move_tree(
        &self,
        source: &crate::store::Conversation,
        goal: &crate::store::Conversation,
        before: &RelPath,
        after: &RelPath,
    ) -> Result<()> {
        let old = format!("{before}/");
        for record in source.records()? {
            let Some(rest) = record.path.strip_prefix(&old) else { continue };
            let path = format!("{after}/{rest}");
            let gone = Record { state: State::Gone, analysis: None, ..record.clone() };
            source.append(&[gone])?;
            goal.append(&[Record { path, ..record }])?;
        }
        Ok(())
    }

    /// A file that has just got an artifact's name is materialized; one that is still written to
    /// will be when it is closed.
    fn seal_renamed(&self, node: &Arc<Node>) {
        let Ok(file) = node.as_file() else { return };
        let is_artifact = node.place().is_some_and(|(_, path)| path.is_artifact());
        if !is_artifact {
            return;
        }
        let mut writing = file.writing();
        writing.unsealed = true;
        let closed = writing.writers == 0;
        drop(writing);
        if closed {
            self.sealer.submit(Job::Seal(Arc::clone(node)));
        }
    }
}

fn set_link(node: &Node, link: Option<Link>) {
    if let Some(linked) = node.link() {
        *linked.lock() = link;
    }
}
