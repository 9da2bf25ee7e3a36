//! What other hosts did, for who asks here for what nothing has, or lists it.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::time::Duration;

use crate::metrics::Gauge;
use crate::patience::allow_slow;
use crate::{DirPlace, Engine, Result, SourceDir};
use ctxfs_core::model::{Component, HostsReport, is_scratch};

/// The longest wait for what others did in a conversation, and in one that is not known here.
const KNOWN: Duration = Duration::from_secs(1);
const UNKNOWN: Duration = Duration::from_secs(5);
/// The longest wait of who needs all that others did. A look ends long before unless it brings
/// much.
const ALL: Duration = Duration::from_mins(10);

/// Asks others for `name`, which nothing has in `dir`. Returns true if it may be there now. Names
/// that programs make up, and those that begin with a dot, are asked for nowhere.
///
/// On a thread that others need this fails with [`crate::EngineError::Slow`], but only if
/// there is something to wait for.
pub(super) fn ask_for(engine: &Engine, dir: &dyn SourceDir, name: &OsStr) -> Result<bool> {
    if engine.options.other_hosts.is_none() || is_scratch(name) {
        return Ok(false);
    }
    match dir.place() {
        Ok(DirPlace::Root) => match Component::new(name) {
            Ok(id) => look(engine, Some(&id), UNKNOWN),
            Err(_) => Ok(false),
        },
        Ok(DirPlace::Conversation(id) | DirPlace::Below(id, _)) => look(engine, Some(&id), KNOWN),
        Err(_) => Ok(false),
    }
}

impl Engine {
    /// Asks others for what a directory lists: artifacts, or, for the root, conversations. Fails as
    /// a look-up of an unknown name does on a thread that others need.
    pub fn ask_before_listing(&self, dir: &dyn SourceDir) -> Result<()> {
        if self.options.other_hosts.is_none() {
            return Ok(());
        }
        let place = dir.place()?;
        match &place {
            DirPlace::Root => look(self, None, KNOWN).map(drop),
            DirPlace::Below(id, _) if place.holds_artifacts() => {
                look(self, Some(id), KNOWN).map(drop)
            }
            DirPlace::Conversation(_) | DirPlace::Below(..) => Ok(()),
        }
    }

    /// Asks others for what a text gathers from all outputs of the conversation of `dir`: a search,
    /// or the manifest. Fails as [`Self::ask_before_listing`] does.
    pub fn ask_before_gathering(&self, dir: &dyn SourceDir) -> Result<()> {
        if self.options.other_hosts.is_none() {
            return Ok(());
        }
        match dir.place()?.conversation() {
            Some(id) => look(self, Some(id), KNOWN).map(drop),
            None => Ok(()),
        }
    }

    /// Asks others what they did in the conversation `id`, as before a listing of its outputs.
    pub fn ask_for_outputs(&self, id: &Component) -> Result<()> {
        look(self, Some(id), KNOWN).map(drop)
    }

    /// Does that for an archive, which is to be whole: waits until the answer is here, or the look
    /// has failed.
    pub fn ask_for_all_outputs(&self, id: &Component) -> Result<()> {
        look(self, Some(id), ALL).map(drop)
    }

    /// Asks for the same without waiting for the answer.
    pub fn ask_for_outputs_soon(&self, id: &Component) -> Result<()> {
        look(self, Some(id), Duration::ZERO).map(drop)
    }

    /// Returns why others cannot be asked now, or what was wrong the last time. None of that
    /// matters to a door that shows one conversation alone.
    pub fn trouble_with_others(&self) -> Option<String> {
        if self.options.only.is_some() {
            return None;
        }
        self.options.other_hosts.as_ref()?.report().error
    }

    /// Returns the conversations of others that are not here, as far as they are known. Asks for
    /// them first, unless the door shows one conversation alone.
    pub fn conversations_elsewhere(&self) -> Result<Vec<Component>> {
        let Some(others) = &self.options.other_hosts else { return Ok(Vec::new()) };
        if self.options.only.is_some() {
            return Ok(Vec::new());
        }
        look(self, None, KNOWN)?;
        let here: HashSet<Component> = self.store.conversations()?.into_iter().collect();
        Ok(others.conversations().iter().filter(|id| !here.contains(id)).cloned().collect())
    }

    /// Asks others for the conversation `id`, if it is not here.
    pub fn ask_for_conversation(&self, id: &Component) -> Result<()> {
        if self.options.other_hosts.is_none() || self.store.conversation(id)?.is_some() {
            return Ok(());
        }
        look(self, Some(id), UNKNOWN).map(drop)
    }
}

/// The names of the metrics of requests, by their kind.
const REQUESTS: [(&str, &str, &str); 5] = [
    ("get", "ctxfs_remote_get_requests", "ctxfs_remote_get_bytes"),
    ("put", "ctxfs_remote_put_requests", "ctxfs_remote_put_bytes"),
    ("list", "ctxfs_remote_list_requests", "ctxfs_remote_list_bytes"),
    ("delete", "ctxfs_remote_delete_requests", "ctxfs_remote_delete_bytes"),
    ("head", "ctxfs_remote_head_requests", "ctxfs_remote_head_bytes"),
];

/// Returns the metrics that say how this host stands to others.
pub(super) fn gauges(report: &HostsReport) -> Vec<Gauge> {
    let oldest = report.oldest_seconds.unwrap_or_default();
    let lag = report.lag_millis.unwrap_or_default();
    let mut gauges = vec![
        ("ctxfs_remote_waiting", "Outputs that are not sent yet.", report.waiting),
        ("ctxfs_remote_waiting_bytes", "Their bytes.", report.waiting_bytes),
        ("ctxfs_remote_oldest_seconds", "Since when the oldest change waits.", oldest),
        ("ctxfs_remote_lag_milliseconds", "How long what was sent last had waited.", lag),
        ("ctxfs_remote_failing", "1 if the last request failed.", report.error.is_some().into()),
    ];
    for count in &report.requests {
        let names = REQUESTS.iter().find(|(kind, ..)| *kind == count.kind);
        let Some((_, requests, bytes)) = names else { continue };
        gauges.push((*requests, "Requests to the bucket.", count.requests));
        gauges.push((*bytes, "Bytes of objects that came or were sent.", count.bytes));
    }
    gauges
}

fn look(engine: &Engine, at: Option<&Component>, patience: Duration) -> Result<bool> {
    let Some(others) = &engine.options.other_hosts else { return Ok(false) };
    if !others.is_look_due(at) {
        return Ok(false);
    }
    allow_slow()?;
    Ok(others.look(at, patience))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use tempfile::TempDir;

    use super::*;
    use crate::patience::promptly;
    use crate::sync::{Mutex, now};
    use crate::{EngineError, EngineOptions, Tree};
    use ctxfs_core::model::{Folder, LetGo, LettingGo, OtherHosts, Provenance, RelPath};
    use ctxfs_store::{ArtifactWriter, Store};

    /// Others that have the output `x` of `c7`, which comes with the first look.
    #[derive(Debug)]
    struct Others {
        store: Store,
        looks: Mutex<Vec<String>>,
    }

    fn engine(only: Option<&str>) -> (TempDir, Arc<Others>, Arc<Engine>) {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(temporary.path()).unwrap();
        let others = Arc::new(Others { store: store.clone(), looks: Mutex::default() });
        let other_hosts = Some(Arc::clone(&others) as Arc<dyn OtherHosts>);
        let only = only.map(|id| Component::new(id).unwrap());
        let options = EngineOptions { only, other_hosts, ..EngineOptions::default() };
        (temporary, others, Engine::new(store, options))
    }

    impl OtherHosts for Others {
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

        fn letting_go(&self, _: &Component) -> LettingGo<'_> {
            Box::new(|_: &RelPath| LetGo::NotShared)
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
        let elsewhere = engine_of_all.conversations_elsewhere().unwrap();
        assert_eq!(elsewhere, [Component::new("c8").unwrap()]);
        assert_eq!(*others.looks.lock(), [""]);
        let (_temporary, others, engine_of_one) = engine(Some("c7"));
        assert!(engine_of_one.conversations_elsewhere().unwrap().is_empty());
        assert!(others.looks.lock().is_empty());
    }
}
