mod same_name;

use std::path::Path;
use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::patience::promptly;
use crate::sync::{Mutex, now};
use crate::{EngineOptions, Tree};
use ctxfs_core::model::{EvictionResult, Evictor, Folder, HostsReport, OtherHosts, Provenance};
use ctxfs_store::{ArtifactWriter, Store};

/// Hosts that have the output `x` of `c7`. The output arrives with the first request.
#[derive(Debug)]
struct ScriptedHosts {
    store: Store,
    looks: Mutex<Vec<String>>,
}

fn engine(only: Option<&str>) -> (TempDir, Arc<ScriptedHosts>, Arc<Engine>) {
    let temporary = tempfile::tempdir().unwrap();
    let store = Store::open(temporary.path()).unwrap();
    let others = Arc::new(ScriptedHosts { store: store.clone(), looks: Mutex::default() });
    let other_hosts = Some(Arc::clone(&others) as Arc<dyn OtherHosts>);
    let only = only.map(|id| Component::new(id).unwrap());
    let options = EngineOptions { only, other_hosts, ..EngineOptions::default() };
    (temporary, others, Engine::new(store, options))
}

impl OtherHosts for ScriptedHosts {
    fn changed(&self, _: &Component, _: Option<u64>) {}

    fn is_look_due(&self, _: Option<&Component>) -> bool {
        true
    }

    fn look(&self, at: Option<&Component>, _: Duration) -> bool {
        let at = at.map(Component::to_text).unwrap_or_default();
        if at == "c7" && self.looks.lock().is_empty() {
            let id = Component::new("c7").unwrap();
            let conversation = self.store.create_conversation(&id).unwrap();
            let provenance = Provenance::default();
            ArtifactWriter::create_for_call(&conversation, Folder::Tool, "x", provenance)
                .and_then(ArtifactWriter::seal)
                .unwrap();
        }
        self.looks.lock().push(at);
        true
    }

    fn conversations(&self) -> Arc<[Component]> {
        ["c7", "c8"].map(|id| Component::new(id).unwrap()).into()
    }

    fn evictor(&self, _: &Component) -> Evictor<'_> {
        Box::new(|_: &RelPath| EvictionResult::NotShared)
    }

    fn evicts(&self) -> bool {
        false
    }

    fn report(&self) -> HostsReport {
        HostsReport::default()
    }
}

#[test]
fn only_a_name_that_nothing_has_is_asked_for() {
    let (_temporary, others, engine) = engine(None);
    let tree = Tree::new(engine);
    let asked = || std::mem::take(&mut *others.looks.lock());
    let found = |path: &str| tree.open(Path::new(path)).is_ok();
    let slow = promptly(now(), || tree.open(Path::new("c7/artifacts/tool/x.txt")));
    assert!(matches!(slow, Err(EngineError::Slow)), "a thread that others need");
    assert!(asked().is_empty());
    assert!(found("c7/artifacts/tool/x.txt"));
    assert_eq!(asked(), ["c7"]);
    assert!(found("c7/artifacts/tool/x.txt.summary"));
    assert!(!found("c7/artifacts/tool/.gitignore") && !found("c7/artifacts/tool/y.tmp"));
    assert!(asked().is_empty());
    assert!(!found("c7/artifacts/tool/y.txt.summary"));
    assert_eq!(asked(), ["c7"]);
}

#[test]
fn a_search_and_the_manifest_ask_for_all_outputs() {
    for path in ["c7/manifest.json", "c7/.grep/x", "c7/artifacts/tool/.find/x"] {
        let (_temporary, others, engine) = engine(None);
        others.store.create_conversation(&Component::new("c7").unwrap()).unwrap();
        let tree = Tree::new(engine);
        let slow = promptly(now(), || tree.open(Path::new(path)));
        assert!(matches!(slow, Err(EngineError::Slow)), "a thread that others need");
        assert!(tree.open(Path::new(path)).is_ok());
        assert_eq!(*others.looks.lock(), ["c7"], "{path}");
        tree.open(Path::new("README.md")).unwrap();
        assert_eq!(others.looks.lock().len(), 1);
    }
}

#[test]
fn only_what_is_not_here_is_elsewhere() {
    let (_temporary, others, engine_of_all) = engine(None);
    let id = Component::new("c7").unwrap();
    others.store.create_conversation(&id).unwrap();
    let elsewhere = engine_of_all.others().conversations_elsewhere().unwrap();
    assert_eq!(elsewhere, [Component::new("c8").unwrap()]);
    assert_eq!(*others.looks.lock(), [""]);
    let (_temporary, others, engine_of_one) = engine(Some("c7"));
    assert!(engine_of_one.others().conversations_elsewhere().unwrap().is_empty());
    assert!(others.looks.lock().is_empty());
}
