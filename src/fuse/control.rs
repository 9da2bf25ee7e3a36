//! `.ctxfs`: pages about the server, with its state, its counters and its version.

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::{Value, json};

use crate::asker::Asker;
use crate::computed_node::Origin;
use crate::node::Node;
use crate::{FsError, Result, Shared, computed_node};
use ctxfs_engine::{Base, EngineError, Recipe, Result as EngineResult, Version, version_page};

/// The pages in the directory.
pub(crate) const PAGES: [&str; 3] = ["status.json", "metrics", "version"];

/// Finds the page `name`. Status and metrics are computed anew at each look-up.
pub(crate) fn find(fs: &Arc<Shared>, name: &OsStr, asker: Asker<'_>) -> Result<Arc<Node>> {
    let name = PAGES.into_iter().find(|page| name == *page).ok_or(FsError::NotFound)?;
    let moment = if name == "version" { 0 } else { fs.started.elapsed().as_millis() as u64 };
    let version = Version { changes: moment, ..Version::default() };
    let weak = Arc::downgrade(fs);
    let page = move || {
        let fs = weak.upgrade().ok_or(EngineError::Stale)?;
        text(&fs, name)
    };
    let origin = Origin { base: Base::Door(Arc::new(page)), stat: fs.top_stat()? };
    computed_node::intern(fs, Recipe::Door(name), version, None, origin, asker)
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
