//! Computed files, with the files in `.ctxfs`. Each version of a computed file has its own node,
//! with an exact size once its text has been computed.
//!
//! On a mount with `allow_other`, the kernel checks owners and modes as it last saw them. That
//! suffices for files on disk. A computed file shows the content of other files, and a client may
//! open it through a descriptor, or request its size, long after the modes of those files have
//! changed. So the server checks the rights again at each open of a computed file and at each
//! request for its size.

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use serde_json::{Value, json};

use crate::attr::{GROUP, Inherited, OTHERS, OWNER, Rights};
use crate::node::{ComputedKey, ComputedNode};
use crate::process::groups;
use crate::{Attr, Caller, FileKind, FsError, Node, NodeKey, NodeKind, Result, Shared, TimedAttr};
use ctxfs_engine::{
    Base, Computed, EngineError, Reader, Recipe, Result as EngineResult, User, Version,
    version_page,
};
use ctxfs_store::Stat;

/// Cache lifetime of the attributes of a computed file. The attributes never change, so any
/// lifetime is correct; one hour limits the damage of a bug.
const SETTLED: Duration = Duration::from_hours(1);

/// The origin of a computed file. The computed file takes its times and rights from `stat`.
pub(crate) struct ComputedOrigin {
    pub(crate) base: Base,
    pub(crate) stat: Stat,
}

/// Returns the node of a computed file for this caller, and adds one to its look-up count. A caller
/// without read permission gets a separate node, so that the kernel cannot reveal the size from its
/// cache.
pub(crate) fn intern(
    fs: &Shared,
    recipe: Recipe,
    version: Version,
    of: Option<&Arc<Node>>,
    origin: ComputedOrigin,
    access: CallerAccess<'_>,
) -> Result<Arc<Node>> {
    let inherited = Inherited::of(&origin.stat);
    let rights = inherited.rights;
    let closed = !recipe.is_public() && !access.may_read(&rights);
    let computed = Arc::new(Computed::new(recipe, origin.base, version));
    let of_ino = of.map(|of| of.ino);
    let key = ComputedKey { of: of_ino, computed: Arc::clone(&computed), rights, closed };
    fs.nodes.intern(NodeKey::Computed(key), |_| {
        let node = ComputedNode { of: of.cloned(), inherited, computed, closed };
        Ok(NodeKind::Computed(Box::new(node)))
    })
}

/// Returns the attributes of a computed file. They are exact and cacheable once its text has been
/// computed. Until then the size is 0 and the cache lifetime is zero, so that the kernel requests
/// the size when a caller needs it.
pub(crate) fn attr(node: &Node, of: &ComputedNode) -> TimedAttr {
    let size = of.computed.size();
    let attr = Attr::of_computed(node.ino, FileKind::File, size.unwrap_or(0), &of.inherited);
    let attr = if of.computed.recipe().is_public() { attr.for_all() } else { attr };
    TimedAttr { attr, ttl: if size.is_some() { SETTLED } else { Duration::ZERO } }
}

#[derive(Clone, Copy)]
pub(super) struct CallerAccess<'a> {
    fs: &'a Shared,
    caller: Caller,
}

impl<'a> CallerAccess<'a> {
    pub(super) fn new(fs: &'a Shared, caller: Caller) -> Self {
        Self { fs, caller }
    }

    /// Returns true if the caller is root or the user of this server. Without `allow_other`,
    /// returns true for every caller.
    fn is_server(&self) -> bool {
        let uid = self.caller.uid;
        !self.fs.engine.options.allow_other
            || uid == 0
            || uid == rustix::process::geteuid().as_raw()
    }

    pub(super) fn reader(&self) -> Reader {
        if self.is_server() {
            return Reader::Server;
        }
        let Caller { uid, gid, .. } = self.caller;
        Reader::User(Arc::new(User { uid, gid, groups: groups(self.caller) }))
    }

    pub(super) fn may_read(&self, rights: &Rights) -> bool {
        let Caller { uid, gid, .. } = self.caller;
        if self.is_server() {
            true
        } else if uid == rights.uid {
            rights.are_open_to(OWNER)
        } else if rights.are_open_to(GROUP) == rights.are_open_to(OTHERS) {
            rights.are_open_to(OTHERS)
        } else if gid == rights.gid || groups(self.caller).contains(&rights.gid) {
            rights.are_open_to(GROUP)
        } else {
            rights.are_open_to(OTHERS)
        }
    }

    /// Fails unless the caller may open `of` and learn its size.
    ///
    /// Fails with [`FsError::Stale`] if the size is unknown and the rights of the origin have
    /// changed since the look-up. Otherwise a caller that looked the file up before the change
    /// would learn the size.
    pub(super) fn check(&self, of: &ComputedNode) -> Result<()> {
        if of.closed {
            return Err(FsError::NotReadable);
        }
        let recipe = of.computed.recipe();
        if !self.fs.engine.options.allow_other || recipe.is_public() {
            return Ok(());
        }
        let rights = of.origin_rights().unwrap_or(of.inherited.rights);
        if rights != of.inherited.rights && of.computed.size().is_none() {
            return Err(FsError::Stale);
        }
        if self.is_server() {
            return Ok(());
        }
        let is_for_another = recipe.reader().is_some_and(|reader| *reader != self.reader());
        if is_for_another || !self.may_read(&rights) { Err(FsError::NotReadable) } else { Ok(()) }
    }
}

pub(crate) const PAGES: [&str; 3] = ["status.json", "metrics", "version"];

/// Returns the node of a file in `.ctxfs`. The status and the metrics are computed at each look-up.
pub(crate) fn control_page(
    fs: &Arc<Shared>,
    name: &OsStr,
    access: CallerAccess<'_>,
) -> Result<Arc<Node>> {
    let name = PAGES.into_iter().find(|page| name == *page).ok_or(FsError::NotFound)?;
    let moment = if name == "version" { 0 } else { fs.started.elapsed().as_millis() as u64 };
    let version = Version { changes: moment, ..Version::default() };
    let weak = Arc::downgrade(fs);
    let page = move || {
        let fs = weak.upgrade().ok_or(EngineError::Stale)?;
        text(&fs, name)
    };
    let origin = ComputedOrigin { base: Base::Door(Arc::new(page)), stat: fs.top_stat()? };
    intern(fs, Recipe::Door(name), version, None, origin, access)
}

fn text(fs: &Shared, page: &str) -> EngineResult<String> {
    match page {
        "status.json" => fs.engine.status(&status(fs)),
        "metrics" => fs.engine.metrics(&[
            ("ctxfs_nodes", "Nodes that the kernel knows.", fs.nodes.len() as u64),
            ("ctxfs_open_handles", "Open files and directories.", fs.handles.len() as u64),
            ("ctxfs_waiting_to_seal", "Outputs to be sealed.", fs.sealer.waiting() as u64),
        ]),
        _ => Ok(version_page()),
    }
}

fn status(fs: &Shared) -> Value {
    json!({
        "writeOnce": fs.options.write_once,
        "passthrough": fs.engine.counters().passthrough.load(Relaxed) == 1,
        "confinement": &fs.options.confinement,
        "nodes": fs.nodes.len(),
        "openHandles": fs.handles.len(),
        "waitingToSeal": fs.sealer.waiting(),
    })
}
