//! Moves the records of files that another process moves in the store while clients write to them.
//!
//! The mount gets no notice of such a move. It detects the move when a look-up finds the file under
//! its new name, or when the file is closed. The next job of the sealing thread then moves the
//! record; see [`settle`].

use std::io;
use std::sync::Arc;

use crate::life::RecordPlace;
use crate::record::{Manifests, MoveOptions, Mover};
use crate::{FileNode, FsError, Ino, LinkCell, Node, NodeKey, Result, Shared, lookup};
use ctxfs_core::model::{ArtifactState, Component, Record, RelPath};
use ctxfs_engine::{FileId, FileLife as _, resolve};
use ctxfs_store::{Conversation, this_process};

/// The owner of the record that the manifest has under a former name of a file:
///
/// - `InUse`: the file still has the name.
/// - `ItsOwn`: the record belongs to the file, or there is no record.
/// - `Others`: the record belongs to a different file, which now has the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OldRecord {
    InUse,
    ItsOwn,
    Others,
}

/// Updates the place of `node` from its open descriptor. Returns true if the file is at a new place
/// in the store.
pub(super) fn find(fs: &Shared, node: &Arc<Node>, open: &std::fs::File) -> Result<bool> {
    let before = node.place();
    if before.as_ref().is_some_and(|(id, path)| is_at(fs, node, (id, path))) {
        return Ok(false);
    }
    let Some(mut names) = fs.engine.store().context().names_of(open)? else { return Ok(false) };
    let Some(name) = names.pop() else { return Ok(false) };
    let mut names = names.iter();
    let top = fs.nodes.get(Ino::ROOT)?;
    let only = top.link().and_then(LinkCell::get);
    if only.is_some_and(|only| names.next() != Some(&only.name)) {
        return Ok(false);
    }
    // Looking up a directory records its place. The kernel may have forgotten the file already.
    let mut way = vec![top];
    let walked = names.try_for_each(|name| {
        let parent = &way[way.len() - 1];
        let next = lookup::find_real(fs, parent, parent.as_dir()?, name)?;
        way.push(next);
        Ok(())
    });
    if walked.is_ok() {
        lookup::relink(node, &way[way.len() - 1], &name);
    }
    way[1..].iter().for_each(|node| fs.nodes.forget(node.ino, 1));
    match walked {
        Err(FsError::NotFound | FsError::NotADirectory | FsError::Stale) => Ok(false),
        walked => walked.map(|()| node.place() != before),
    }
}

/// Moves the record of `node` to the file's current place, if another process has moved the file.
/// Fails with EAGAIN while another process holds a manifest lock.
pub(super) fn settle(fs: &Shared, node: &Arc<Node>) -> Result<()> {
    let file = node.as_file()?;
    let Some(home) = file.life().home() else { return Ok(()) };
    match node.place() {
        Some((id, path)) if (&id, &path) == (&home.conversation, &home.path) => Ok(()),
        Some(here) => follow(fs, node, &home, here),
        None => forget(fs, node, &home),
    }
}

/// Like [`settle`], for a file that is missing at its recorded name. If the file has no name in the
/// store, removes its record.
pub(super) fn settle_lost(fs: &Shared, node: &Arc<Node>) -> Result<()> {
    settle(fs, node)?;
    let home = node.as_file()?.life().home();
    match home {
        Some(home) if !is_at(fs, node, (&home.conversation, &home.path)) => forget(fs, node, &home),
        _ => Ok(()),
    }
}

fn is_at(fs: &Shared, node: &Node, (id, path): (&Component, &RelPath)) -> bool {
    let stat = fs.engine.conversation(id).map(|conversation| conversation.dir().stat_at(path));
    stat.is_ok_and(|stat| stat.is_ok_and(|stat| node.is_at(&stat)))
}

fn follow(
    fs: &Shared,
    node: &Arc<Node>,
    home: &RecordPlace,
    here: (Component, RelPath),
) -> Result<()> {
    let Some(source) = fs.engine.store().conversation(&home.conversation)? else {
        return moved(node, Some(here), None);
    };
    let target = fs.engine.conversation(&here.0)?;
    let manifests = Manifests::hold(fs, source, target)?;
    let places = fs.places.read();
    let followed = follow_locked(fs, node, &manifests, (home, here));
    drop(places);
    manifests.release(fs);
    followed
}

fn follow_locked(
    fs: &Shared,
    node: &Arc<Node>,
    manifests: &Manifests,
    (home, here): (&RecordPlace, (Component, RelPath)),
) -> Result<()> {
    if node.place().as_ref() != Some(&here) {
        return Err(FsError::TryAgain("it is being moved"));
    }
    let mut generation = None;
    match old_record(fs, node.as_file()?, &manifests.source, home)? {
        OldRecord::InUse => return Ok(()),
        OldRecord::Others => {}
        OldRecord::ItsOwn => {
            let options = MoveOptions { swapped: false, traced: fs.options.write_once };
            // The record under the new name belongs to a file that was replaced there.
            let from = Mover { node, path: &home.path, before: None };
            let over = Mover { path: &here.1, ..from };
            manifests.move_records(from, (Some(over), &here.1), options)?;
            let record = manifests.target.record(&here.1)?;
            generation = record.map(|record| record.generation);
        }
    }
    fs.engine.freed(&home.conversation, Vec::new());
    fs.engine.freed(&here.0, Vec::new());
    moved(node, Some(here), generation)
}

fn forget(fs: &Shared, node: &Arc<Node>, home: &RecordPlace) -> Result<()> {
    if let Some(conversation) = fs.engine.store().conversation(&home.conversation)? {
        let manifest = fs.lock_manifest(&conversation)?;
        let places = fs.places.read();
        if old_record(fs, node.as_file()?, &conversation, home)? == OldRecord::ItsOwn
            && conversation.record(&home.path)?.is_some()
        {
            conversation.forget_locked(&manifest, &home.path)?;
        }
        drop((places, manifest));
        fs.compact(&conversation);
    }
    moved(node, None, None)
}

fn moved(node: &Node, here: Option<(Component, RelPath)>, generation: Option<u64>) -> Result<()> {
    let here = here.filter(|(_, path)| path.is_artifact());
    node.as_file()?.life().moved(here, generation);
    Ok(())
}

fn old_record(
    fs: &Shared,
    file: &FileNode,
    conversation: &Conversation,
    home: &RecordPlace,
) -> Result<OldRecord> {
    let id = match conversation.dir().stat_at(&home.path) {
        Err(error)
            if resolve::is_absent(&error) || error.kind() == io::ErrorKind::NotADirectory =>
        {
            return Ok(OldRecord::ItsOwn);
        }
        stat => FileId::of(&stat?),
    };
    if id == file.id() {
        return Ok(OldRecord::InUse);
    }
    let there = fs.nodes.find(&NodeKey::Disk(id));
    let is_written =
        there.is_some_and(|node| node.as_file().is_ok_and(|file| file.life().is_unsealed()));
    let is_noted = |record: Record| {
        record.state == ArtifactState::Live
            && record.owner == this_process()
            && home.noted == Some(record.generation)
    };
    let is_own = !is_written && conversation.record(&home.path)?.is_some_and(is_noted);
    Ok(if is_own { OldRecord::ItsOwn } else { OldRecord::Others })
}
