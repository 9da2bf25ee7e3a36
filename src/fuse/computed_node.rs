//! Computed files as the kernel sees them: one node for each version, with an exact size once the
//! text has been computed.

use std::sync::Arc;
use std::time::Duration;

use crate::asker::Asker;
use crate::attr::Inherited;
use crate::key::{ComputedKey, Key};
use crate::node::{ComputedNode, Node, NodeKind};
use crate::{Attr, Entry, FileKind, Result, Shared, TimedAttr};
use ctxfs_engine::{Base, Computed, Recipe, Version};
use ctxfs_store::Stat;

/// The time for which the kernel may cache the attributes of a computed file. They never change, so
/// any time is right; an hour is as good as for ever, and bounds the harm of a bug.
const SETTLED: Duration = Duration::from_hours(1);

/// The origin of a computed file.
pub(crate) struct Origin {
    pub(crate) base: Base,
    /// The attributes of the file or directory, of which it takes the times and the rights.
    pub(crate) stat: Stat,
}

/// Returns the node of a computed file as `asker` finds it, with one more look-up counted. One who
/// may not read it finds another node, so that the kernel tells nobody the size from its cache.
pub(crate) fn intern(
    fs: &Shared,
    recipe: Recipe,
    version: Version,
    of: Option<&Arc<Node>>,
    origin: Origin,
    asker: Asker<'_>,
) -> Result<Arc<Node>> {
    let inherited = Inherited::of(&origin.stat);
    let rights = inherited.rights;
    let closed = !recipe.is_public() && !asker.may_read(&rights);
    let computed = Arc::new(Computed::new(recipe, origin.base, version));
    let of_ino = of.map(|of| of.ino);
    let key = ComputedKey { of: of_ino, computed: Arc::clone(&computed), rights, closed };
    fs.nodes.intern(Key::Computed(key), |_| {
        let node = ComputedNode { of: of.cloned(), inherited, computed, closed };
        Ok(NodeKind::Computed(Box::new(node)))
    })
}

/// Returns the attributes of a computed file: exact and cacheable once its text has been computed.
/// Until then the size is 0 and nothing may be cached, so that a caller who needs the size asks for
/// it.
pub(crate) fn attr(node: &Node, of: &ComputedNode) -> TimedAttr {
    let size = of.computed.size();
    let attr = Attr::of_computed(node.ino, FileKind::File, size.unwrap_or(0), &of.inherited);
    let attr = if of.computed.recipe().is_public() { attr.for_all() } else { attr };
    TimedAttr { attr, ttl: if size.is_some() { SETTLED } else { Duration::ZERO } }
}

/// Returns the entry of a computed file. Its name is not cached, so that the next version is seen
/// at once.
pub(crate) fn entry(node: &Node, of: &ComputedNode) -> Entry {
    let TimedAttr { attr, ttl } = attr(node, of);
    Entry { attr, attr_ttl: ttl, entry_ttl: Duration::ZERO, is_computed: true }
}
