//! Other hosts, of which one wrote outputs under names that are in use here.
#![allow(
    dead_code,
    missing_debug_implementations,
    missing_docs,
    clippy::unwrap_used,
    reason = "a fixture, of which tests of other crates use a part"
)]

use std::sync::Arc;
use std::time::Duration;

use crate::sync::Mutex;
use ctxfs_core::model::{Component, HostsReport, LetGo, LettingGo, OtherHosts, RelPath};

/// A host that wrote what a test says, and that counts who asks for that.
#[derive(Debug, Default)]
pub struct Rival {
    /// Pairs: the path of an output, and the one that it asked for.
    wrote: Mutex<Vec<[String; 2]>>,
    asked: Mutex<usize>,
}

impl Rival {
    /// From now on the output `name` is one that asked for the name `asked`.
    pub fn wrote(&self, name: &str, asked: &str) {
        self.wrote.lock().push([name, asked].map(|name| format!("artifacts/tool/{name}")));
    }

    /// Returns how often it was asked since the last time.
    pub(crate) fn asked(&self) -> usize {
        std::mem::take(&mut *self.asked.lock())
    }
}

impl OtherHosts for Rival {
    fn changed(&self, _: &Component, _: Option<u64>) {}

    fn is_look_due(&self, _: Option<&Component>) -> bool {
        false
    }

    fn look(&self, _: Option<&Component>, _: Duration) -> bool {
        false
    }

    fn conversations(&self) -> Arc<[Component]> {
        Arc::default()
    }

    fn letting_go(&self, _: &Component) -> LettingGo<'_> {
        Box::new(|_: &RelPath| LetGo::NotShared)
    }

    fn evicts(&self) -> bool {
        false
    }

    fn same_name(&self, _: &Component, path: &RelPath) -> Vec<String> {
        *self.asked.lock() += 1;
        let (path, wrote) = (path.to_text(), self.wrote.lock());
        let of_it = wrote.iter().filter(|pair| pair.contains(&path));
        of_it.flatten().filter(|other| **other != path).cloned().collect()
    }

    fn report(&self) -> HostsReport {
        HostsReport::default()
    }
}
