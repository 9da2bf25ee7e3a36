//! Copies of views. A copy of a directory of artifacts also has the views that the directory lists.
//! If a program copies it back, such a copy comes before its artifact, and would then hide the view
//! and never change. It is removed once the artifact is there.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::{ContextFs, DirNode, FsError, Ino, Node, NodeLink, Result, Shared};
use ctxfs_core::model::Limits;
use ctxfs_engine::sync::{Mutex, now};
use ctxfs_store::{Dir, FileType, Time};
use ctxfs_view::{Derived, ViewCopy, listed, readings};

/// Maximum number of bytes at the end of an artifact that are compared with a copy of a view.
const COMPARED: u64 = 1024 * 1024;
/// Maximum length in bytes of a listed view, with its notice.
const LONGEST: u64 = 2 * Limits::VIEW_BYTES as u64;
const WRITABLE: u32 = 0o222;

/// Maximum number of removed views that are remembered.
const MOST_REMOVED: usize = 64;
/// Time in which a thread may not remove a view again.
const AT_ONCE: Duration = Duration::from_secs(1);

/// The views that threads removed last. A removal has no effect. GNU tar removes a file that is in
/// its way until the file is gone, and would try for ever.
#[derive(Default)]
pub(crate) struct RemovedViews(Mutex<VecDeque<(RemovedView, Instant)>>);

/// A removed view: the thread, the directory, the name, and the state of the artifact.
type RemovedView = (u32, Ino, OsString, Option<(u64, Time)>);

impl RemovedViews {
    /// Records that the thread `tid` removes the view `name`. Fails if the thread has just done so,
    /// and the artifact is the same.
    pub(super) fn note(
        &self,
        fs: &Shared,
        (parent, dir, name): (&Node, &DirNode, &OsStr),
        tid: u32,
    ) -> Result<()> {
        let state = |(stem, _)| fs.engine.stat(dir, stem).ok().map(|stat| (stat.ino, stat.ctime));
        let view = (tid, parent.ino, name.to_owned(), readings(name).find_map(state));
        let (mut known, now) = (self.0.lock(), now());
        known.retain(|(_, at)| now - *at < AT_ONCE);
        if let Some((_, at)) = known.iter_mut().find(|(other, _)| *other == view)
            && tid != 0
        {
            *at = now;
            return Err(FsError::Computed);
        }
        if known.len() == MOST_REMOVED {
            known.pop_front();
        }
        known.push_back((view, now));
        Ok(())
    }
}

/// Removes copies of the listed views of the file `node`, which was just written or renamed. If
/// `node` itself is a copy of a view, removes it. Real files that only have the name of a view,
/// or can be written to, stay, and hide it.
pub(super) fn remove_copied_views(fs: &ContextFs, node: &Node) -> Result<()> {
    let Ok(file) = node.as_file() else { return Ok(()) };
    let Some(link) = file.link.get().filter(|_| file.is_artifact()) else { return Ok(()) };
    let dir = link.dir()?;
    for (suffix, derived) in listed() {
        let mut view = link.name.clone();
        view.push(suffix);
        remove_copied_view(fs, &link, &dir, (&link.name, derived, &view))?;
    }
    for (stem, reading) in readings(&link.name).filter(|(_, reading)| reading.base.is_none()) {
        if listed().any(|(_, derived)| *derived == reading.derived) {
            remove_copied_view(fs, &link, &dir, (stem, &reading.derived, &link.name))?;
        }
    }
    Ok(())
}

fn remove_copied_view(
    fs: &ContextFs,
    link: &NodeLink,
    dir: &Arc<Dir>,
    (of, derived, view): (&OsStr, &Derived, &OsStr),
) -> Result<()> {
    let Ok(copy) = dir.stat(view) else { return Ok(()) };
    if copy.mode & WRITABLE != 0 {
        return Ok(());
    }
    let Ok(original) = dir.stat(of) else { return Ok(()) };
    if original.kind() != FileType::File {
        return Ok(());
    }
    match (derived, copy.kind()) {
        // Fails if the directory is not empty. No copy of a directory of views has names.
        (Derived::Dir(_), FileType::Directory) => {
            fs.rmdir(link.parent.ino, view).ok();
        }
        (Derived::File(derived), FileType::File) if copy.size <= LONGEST => {
            let read = |name, from: u64, length: u64| {
                let mut bytes = vec![0; length as usize];
                let open = dir.open_file(name, OFlags::RDONLY | OFlags::NOATIME)?;
                open.read_exact_at(&mut bytes, from).map(|()| bytes)
            };
            let compared = original.size.min(COMPARED);
            let (Ok(text), Ok(end)) =
                (read(view, 0, copy.size), read(of, original.size - compared, compared))
            else {
                return Ok(());
            };
            let copied = ViewCopy { text: &text, of, end: &end };
            if copied.is_of(derived) {
                fs.unlink(link.parent.ino, view, 0)?;
            }
        }
        _ => {}
    }
    Ok(())
}
