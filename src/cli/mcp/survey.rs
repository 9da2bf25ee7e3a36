//! A survey of servers: they are started, asked what they offer, and ended.

use std::sync::Arc;

use anyhow::Context as _;
use parking_lot::Mutex;
use tempfile::TempDir;

use crate::mcp::{index, options};
use crate::places;
use crate::settings::Settings;
use ctxfs_core::model::{Component, Limits, LimitsByTool as _};
use ctxfs_engine::{Engine, EngineOptions};
use ctxfs_mcp::{OpenShelf, ServerOptions, Shelf, Survey};
use ctxfs_store::Store;
use ctxfs_view::Form;

/// Asks servers what they offer. Nothing is stored. No process of a server is left.
pub(crate) fn survey(
    mut servers: Vec<ServerOptions>,
    settings: &Arc<Settings>,
) -> anyhow::Result<Survey> {
    for server in &mut servers {
        server.shared = false;
    }
    let options = options(servers, index(settings), true, settings);
    let id = places::conversation_id("survey")?;
    let shelf = TemporaryShelf { settings: Arc::clone(settings), id, dir: Mutex::new(None) };
    ctxfs_mcp::survey(options, Arc::new(shelf)).context("cannot ask the servers")
}

/// A store for messages that are too long for memory. It is made with the first of them, and removed
/// at the end.
struct TemporaryShelf {
    settings: Arc<Settings>,
    id: Component,
    dir: Mutex<Option<TempDir>>,
}

impl TemporaryShelf {
    fn try_open(&self) -> anyhow::Result<OpenShelf> {
        let dir = tempfile::Builder::new().prefix("ctxfs-survey-").tempdir()?;
        let engine = Engine::new(Store::open(dir.path())?, EngineOptions::default());
        *self.dir.lock() = Some(dir);
        let conversation = engine.store().create_conversation(&self.id)?;
        Ok(OpenShelf { engine, conversation, mounted: false, form: Form::Summary })
    }
}

impl Shelf for TemporaryShelf {
    fn limits(&self, tool: &str) -> Limits {
        self.settings.limits(Some(tool))
    }

    fn conversation(&self) -> &Component {
        &self.id
    }

    fn open(&self) -> Result<OpenShelf, String> {
        self.try_open().map_err(|error| error.to_string())
    }
}
