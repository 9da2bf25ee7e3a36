//! Computed files as the kernel sees them: one node a version, whose size is exact once it is known.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::Base;
use crate::engine::Computed;
use crate::engine::Recipe;
use crate::engine::Version;
use crate::fs::Attr;
use crate::fs::Entry;
use crate::fs::FileKind;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::TimedAttr;
use crate::fs::key::Key;
use crate::fs::node::ComputedNode;
use crate::fs::node::Node;
use crate::fs::node::NodeKind;
use crate::store::Stat;

/// How long the kernel may believe the attributes of a computed file. They never change, so for ever
/// would do; an hour is as good and keeps forgotten mistakes short.
const SETTLED: Duration = Duration::from_hours(1);

/// Returns the node of a computed file, counted as looked up. `origin` has the times and the owner of
/// what it is computed from.
pub(crate) fn intern(
    fs: &Shared,
    recipe: Recipe,
    version: Version,
    of: Option<&Arc<Node>>,
    (base, origin): (Base, Stat),
) -> Result<Arc<Node>> {
    let key = Key::Computed(of.map(|of| of.ino), recipe.clone(), version);
    fs.nodes.intern(key, |_| {
        let computed = Arc::new(Computed::new(recipe, base, version));
        let node = ComputedNode { of: of.cloned(), origin, computed };
        Ok(NodeKind::Computed(Box::new(node)))
    })
}

/// Returns the attributes of a computed file: exact and lasting once it has been computed, else with
/// size 0 and for no time at all, so that a caller who wants the size asks for it.
pub(crate) fn attr(node: &Node, of: &ComputedNode) -> TimedAttr {
    let size = of.computed.size();
    let attr = Attr::of_computed(node.ino, FileKind::File, size.unwrap_or(0), &of.origin);
    let is_public = matches!(&node.key, Key::Computed(_, recipe, _) if recipe.is_public());
    let attr = if is_public { attr.for_all() } else { attr };
    TimedAttr { attr, ttl: if size.is_some() { SETTLED } else { Duration::ZERO } }
}

/// Returns the entry of a computed file. Its name holds for no time, so that the next version is seen
/// at once.
pub(crate) fn entry(node: &Node, of: &ComputedNode) -> Entry {
    let TimedAttr { attr, ttl } = attr(node, of);
    Entry { attr, attr_ttl: ttl, entry_ttl: Duration::ZERO }
}
