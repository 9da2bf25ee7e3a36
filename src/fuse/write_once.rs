//! Write-once mounts: the content of a sealed artifact cannot change, under any name.
//!
//! The name decides whether a sealed file is an artifact, so a sealed artifact must keep an
//! artifact's name. A rename to a scratch name, or out of `artifacts/`, is therefore refused.
//! Removing or renaming a sealed artifact leaves a trace in the manifest.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::{FileNode, FsError, Node, NodeKind, Result, SealJob, Shared};
use ctxfs_core::model::{ArtifactState, Component};
use ctxfs_engine::patience::waited;
use ctxfs_engine::sync::{now, thread};
use ctxfs_engine::{DirPlace, DoorFile as _, FileLife as _, SourceDir as _};
use ctxfs_store::Artifacts;

/// Maximum time that an open for writing waits for a release after a descriptor was closed. There
/// is no release if another descriptor stays open. On a busy machine, the thread that serves the
/// release may get no processor time for much of this period.
const CLOSING: Duration = Duration::from_secs(1);
const STEP: Duration = Duration::from_millis(1);

pub(super) fn check(fs: &Shared, file: &FileNode) -> Result<()> {
    if is_sealed(fs, file)? { Err(FsError::WriteOnce) } else { Ok(()) }
}

/// Returns true for an artifact on a write-once mount that has no writers and so counts as sealed.
/// Fails with EAGAIN if a writer has closed the file, but its handle may not be released yet.
fn is_sealed(fs: &Shared, file: &FileNode) -> Result<bool> {
    if !fs.engine.options().write_once || !file.is_artifact() {
        return Ok(false);
    }
    let waited = waited();
    let life = file.life();
    match (waited, life.last_close()) {
        _ if !life.has_writers() => Ok(true),
        (Some(waited), Some(closed)) if waited < CLOSING && now() - closed < waited + CLOSING => {
            Err(FsError::TryAgain("it is being closed"))
        }
        _ => Ok(false),
    }
}

/// Returns true if the mount is write-once, and `node` is a sealed artifact or a directory that
/// contains artifacts.
pub(super) fn holds_sealed(fs: &Shared, node: &Node) -> Result<bool> {
    match &node.kind {
        _ if !fs.engine.options().write_once => Ok(false),
        NodeKind::File(file) => is_sealed(fs, file),
        NodeKind::Dir(dir) => match dir.place()? {
            place @ DirPlace::Below(..) if place.holds_artifacts() => {
                let conversation = place.conversation().ok_or(FsError::Stale)?;
                let conversation = fs.engine.conversation(conversation)?;
                let found = Artifacts::below(&conversation, place.path(), |_| Ok(true))?;
                Ok(found.count() > 0 || !found.unread().is_empty())
            }
            _ => Ok(false),
        },
        NodeKind::Computed(_) | NodeKind::ViewDir { .. } | NodeKind::Control => Ok(false),
    }
}

/// On a write-once mount, refuses to remove a conversation in which artifacts were removed or
/// renamed, because the removal would delete their traces.
pub(super) fn check_conversation(fs: &Shared, id: &Component) -> Result<()> {
    if !fs.engine.options().write_once {
        return Ok(());
    }
    match fs.engine.store().conversation(id)? {
        Some(conversation) if conversation.manifest().has_traces()? => Err(FsError::WriteOnce),
        _ => Ok(()),
    }
}

/// Waits until a sealed artifact is recorded with its digest, which its trace needs. On a thread
/// that must not wait, fails with EAGAIN instead. Returns false if the artifact needs no trace.
/// Fails with [`FsError::NotSealedYet`] if the wait takes too long.
///
/// An unreadable artifact has no digest, so this does not wait for it.
pub(super) fn await_record(fs: &Shared, node: &Arc<Node>) -> Result<bool> {
    let Ok(file) = node.as_file() else { return Ok(false) };
    if !is_sealed(fs, file)? {
        return Ok(false);
    }
    let (started, most) = (Instant::now(), fs.engine.options().view_deadline);
    let mut asked = false;
    while !is_recorded(fs, file)? {
        if !std::mem::replace(&mut asked, true) {
            let job = if file.life().is_unsealed() { SealJob::Seal } else { SealJob::Analyse };
            fs.sealer.submit(job(Arc::clone(node)));
        }
        match file.reader().map_err(FsError::from) {
            Err(error) if error.must_wait() => return Err(error),
            Err(_) => break,
            Ok(_) if waited().unwrap_or(started.elapsed()) >= most => {
                return Err(FsError::NotSealedYet);
            }
            Ok(_) if waited().is_some() => return Err(FsError::TryAgain("it is being sealed")),
            Ok(_) => thread::sleep(STEP),
        }
    }
    Ok(true)
}

fn is_recorded(fs: &Shared, file: &FileNode) -> Result<bool> {
    let (id, path) = file.place().ok_or(FsError::Stale)?;
    let record = fs.engine.conversation(&id)?.record(&path)?;
    let end = file.stat()?.size;
    Ok(record.is_some_and(|record| {
        record.state != ArtifactState::Live
            && record.analysis.is_some_and(|analysis| analysis.bytes == end)
    }))
}
