//! Attributes of nodes, and the time for which the kernel may cache them.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::asker::Asker;
use crate::attr::Inherited;
use crate::key::Key;
use crate::node::file::FileNode;
use crate::node::{Node, NodeKind};
use crate::promises::Mark;
use crate::{
    Attr, Caller, Entry, FileKind, FsError, Ino, Result, Shared, TimedAttr, computed_node,
    message_log,
};

/// The time for which the kernel may cache a directory. It sees a change through the mount at once,
/// and one by another process after this time.
const DIR_TTL: Duration = Duration::from_secs(1);
/// The time for which the kernel may cache the attributes of a file. Each look-up of its name
/// brings fresh ones; this only covers operations that follow at once, such as opening it.
pub(super) const FILE_ATTR_TTL: Duration = Duration::from_millis(100);
/// The time after a change before anything is promised about a file: it may change again.
const MOMENT: Duration = Duration::from_millis(50);

pub(super) fn getattr(
    fs: &Arc<Shared>,
    ino: Ino,
    caller: Caller,
    done: impl FnOnce(Result<TimedAttr>) + Send + 'static,
) {
    let node = match fs.nodes.get(ino) {
        Ok(node) => node,
        Err(error) => return done(Err(error)),
    };
    let NodeKind::Computed(of) = &node.kind else {
        let entry = entry(fs, &node);
        return done(entry.map(|entry| TimedAttr { attr: entry.attr, ttl: entry.attr_ttl }));
    };
    let known = computed_node::attr(&node, of);
    // Whoever holds it found it when it could be read, and a known size is that of then.
    if of.closed || !known.ttl.is_zero() {
        return done(Ok(known));
    }
    if let Err(error) = Asker::new(fs, caller).check(of) {
        return done(Err(error));
    }
    let again = Arc::clone(&node);
    fs.engine.text(&of.computed, move |text| {
        done(text.map_err(FsError::from).and_then(|_| match &again.kind {
            NodeKind::Computed(of) => Ok(computed_node::attr(&again, of)),
            _ => Err(FsError::Stale),
        }));
    });
}

/// Returns the entry of a node.
pub(super) fn entry(fs: &Shared, node: &Node) -> Result<Entry> {
    let is_computed = matches!(node.kind, NodeKind::ViewDir { .. });
    let timed = |attr, attr_ttl, entry_ttl| Entry { attr, attr_ttl, entry_ttl, is_computed };
    Ok(match &node.kind {
        NodeKind::Computed(of) => computed_node::entry(node, of),
        NodeKind::File(file) => {
            let (attr, lasts) = promised(fs, node, file)?;
            // The kernel may believe the name for longer, and not look it up again.
            let attr_ttl = if fs.promises.are_given() { lasts } else { FILE_ATTR_TTL };
            timed(attr, attr_ttl, lasts)
        }
        NodeKind::Dir(_) | NodeKind::Control => timed(attr(fs, node)?, DIR_TTL, DIR_TTL),
        NodeKind::ViewDir { .. } => timed(attr(fs, node)?, DIR_TTL, Duration::ZERO),
    })
}

/// Returns the attributes of a file, and the time for which they and its name are promised.
fn promised(fs: &Shared, node: &Node, file: &FileNode) -> Result<(Attr, Duration)> {
    let link = file.link.get();
    let mark = link.as_ref().and_then(|link| Mark::of(fs, &link.parent));
    let attr = attr(fs, node)?;
    let lasts = match (link, mark) {
        (Some(link), Some(mark)) if is_at_rest(file, attr.ctime) && !node.is_message_log() => {
            mark.give(&link.name, node.ino)
        }
        _ => Duration::ZERO,
    };
    Ok((attr, lasts))
}

/// Returns true if nobody writes `file` here, and nobody has `changed` it for a moment.
pub(super) fn is_at_rest(file: &FileNode, changed: SystemTime) -> bool {
    let is_settled = changed.elapsed().is_ok_and(|age| age >= MOMENT);
    is_settled && file.far_stat().is_none() && {
        let life = file.life();
        !life.has_writers() && !life.is_unsealed()
    }
}

/// Returns the attributes of a node. Those of a computed file may lack its size.
fn attr(fs: &Shared, node: &Node) -> Result<Attr> {
    Ok(match &node.kind {
        NodeKind::File(file) => {
            let (shown, _) = message_log::shown_with(&fs.engine, node, file.stat()?)?;
            Attr::of_disk(node.ino, &shown)
        }
        NodeKind::Dir(dir) => {
            let mut attr = Attr::of_disk(node.ino, &dir.stat()?);
            if node.is_root() {
                attr.perm = fs.options.root_mode;
            }
            attr
        }
        NodeKind::ViewDir { of, .. } => {
            check_name(fs, node, of)?;
            let stat = match &of.kind {
                NodeKind::Dir(dir) => dir.stat()?,
                _ => of.as_file()?.stat()?,
            };
            Attr::of_computed(node.ino, FileKind::Directory, 0, &Inherited::of(&stat))
        }
        NodeKind::Control => {
            let inherited = Inherited::of(&fs.top_stat()?);
            Attr::of_computed(node.ino, FileKind::Directory, 0, &inherited)
        }
        NodeKind::Computed(of) => computed_node::attr(node, of).attr,
    })
}

/// Fails with [`FsError::Stale`] if `node`, a directory of views, was found beside a name that its
/// file has no more, and the kernel may not have looked it up since.
pub(super) fn check_name(fs: &Shared, node: &Node, of: &Node) -> Result<()> {
    match node.key {
        Key::ViewDir(_, _, _, name) if fs.promises.are_given() && name != of.number_of_name() => {
            Err(FsError::Stale)
        }
        _ => Ok(()),
    }
}
