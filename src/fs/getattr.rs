//! Attributes of nodes, and the time for which the kernel may cache them.

use std::sync::Arc;
use std::time::Duration;

use crate::fs::Attr;
use crate::fs::Caller;
use crate::fs::Entry;
use crate::fs::FileKind;
use crate::fs::FsError;
use crate::fs::Ino;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::TimedAttr;
use crate::fs::asker::Asker;
use crate::fs::attr::Inherited;
use crate::fs::computed_node;
use crate::fs::message_log;
use crate::fs::node::Node;
use crate::fs::node::NodeKind;
use crate::fs::node::file::FileNode;
use crate::store::Stat;

/// The time for which the kernel may cache a directory. It sees a change through the mount at once,
/// and one by another process after this time.
const DIR_TTL: Duration = Duration::from_secs(1);
/// The time for which the kernel may cache the attributes of a file. Each look-up of its name
/// brings fresh ones; this only covers operations that follow at once, such as opening it.
const FILE_ATTR_TTL: Duration = Duration::from_millis(100);

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
        NodeKind::File(_) => timed(attr(fs, node)?, FILE_ATTR_TTL, Duration::ZERO),
        NodeKind::Dir(_) | NodeKind::Control => timed(attr(fs, node)?, DIR_TTL, DIR_TTL),
        NodeKind::ViewDir { .. } => timed(attr(fs, node)?, DIR_TTL, Duration::ZERO),
    })
}

/// Returns the attributes of a node. Those of a computed file may lack its size.
fn attr(fs: &Shared, node: &Node) -> Result<Attr> {
    Ok(match &node.kind {
        NodeKind::File(file) => Attr::of_disk(node.ino, &shown(fs, file)?),
        NodeKind::Dir(dir) => {
            let mut attr = Attr::of_disk(node.ino, &dir.stat()?);
            if node.is_root() {
                attr.perm = fs.options.root_mode;
            }
            attr
        }
        NodeKind::ViewDir { of, .. } => {
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

fn shown(fs: &Shared, file: &FileNode) -> Result<Stat> {
    message_log::shown(&fs.engine, file, file.stat()?)
}
