//! Other hosts. Fetches the names and outputs that they have published before a name is reported as
//! unknown or a listing is shown. Also finds outputs that two hosts wrote under the same name.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::time::Duration;

use crate::{DirPlace, Engine, EngineError, Result, SourceDir, allow_slow};
use ctxfs_core::model::{Component, Place, RelPath, is_scratch};

/// Maximum wait for news of a conversation: `KNOWN` if this host has it, `UNKNOWN` if it does not.
const KNOWN: Duration = Duration::from_secs(1);
const UNKNOWN: Duration = Duration::from_secs(5);
/// Maximum wait for the outputs of an archive, which must be complete. A fetch usually ends much
/// sooner, unless it transfers a lot of data.
const ALL: Duration = Duration::from_mins(10);

/// The hosts that share the conversations of an engine.
///
/// A request blocks until the answer has arrived or a time limit has passed. It does nothing if the
/// previous request was made a moment ago. On a thread that must not wait, a request that would
/// have to wait fails with [`crate::EngineError::Slow`]. Without other hosts every method returns
/// at once.
#[derive(Debug, Clone, Copy)]
pub struct Others<'a>(&'a Engine);

impl Engine {
    /// Returns the hosts that share the conversations.
    pub fn others(&self) -> Others<'_> {
        Others(self)
    }

    /// Fetches the names in a directory that is about to be listed, if the directory is the root or
    /// may hold artifacts.
    pub fn ask_before_listing(&self, dir: &dyn SourceDir) -> Result<()> {
        if self.options.other_hosts.is_none() {
            return Ok(());
        }
        let place = dir.place()?;
        match &place {
            DirPlace::Root => self.others().look(None, KNOWN).map(drop),
            DirPlace::Below(id, _) if place.holds_artifacts() => self.others().ask_for_outputs(id),
            DirPlace::Conversation(_) | DirPlace::Below(..) => Ok(()),
        }
    }
}

impl Others<'_> {
    pub fn ask_for_outputs(self, id: &Component) -> Result<()> {
        self.look(Some(id), KNOWN).map(drop)
    }

    /// Fetches the outputs of the conversation `id` for an archive, which must be complete. Waits
    /// until the answer has arrived or the request has failed.
    pub fn ask_for_all_outputs(self, id: &Component) -> Result<()> {
        self.look(Some(id), ALL).map(drop)
    }

    /// Requests the outputs of the conversation `id` without waiting for the answer.
    pub fn ask_for_outputs_soon(self, id: &Component) -> Result<()> {
        self.look(Some(id), Duration::ZERO).map(drop)
    }

    pub fn ask_for_conversation(self, id: &Component) -> Result<()> {
        if self.0.options.other_hosts.is_none() || self.0.store.conversation(id)?.is_some() {
            return Ok(());
        }
        self.look(Some(id), UNKNOWN)?;
        self.refuse_arriving(id)
    }

    /// Fails if the conversation is not here, and a part of it has come from other hosts.
    fn refuse_arriving(self, id: &Component) -> Result<()> {
        match &self.0.options.other_hosts {
            Some(others) if others.is_arriving(id) => Err(EngineError::Arriving),
            _ => Ok(()),
        }
    }

    /// Returns the error of the last request, if it failed. A door that shows only one conversation
    /// reports no error.
    pub fn trouble_with_others(self) -> Option<String> {
        if self.0.options.only.is_some() {
            return None;
        }
        self.0.options.other_hosts.as_ref()?.report().error
    }

    /// Fetches and returns the conversations that other hosts have and this host does not. A door
    /// that shows only one conversation returns none.
    pub fn conversations_elsewhere(self) -> Result<Vec<Component>> {
        let Some(others) = &self.0.options.other_hosts else { return Ok(Vec::new()) };
        if self.0.options.only.is_some() {
            return Ok(Vec::new());
        }
        self.look(None, KNOWN)?;
        let here: HashSet<Component> = self.0.store.conversations()?.into_iter().collect();
        Ok(others.conversations().iter().filter(|id| !here.contains(id)).cloned().collect())
    }

    /// Makes a request if one is due. Returns true if a request was made and may have brought
    /// something new.
    fn look(self, at: Option<&Component>, patience: Duration) -> Result<bool> {
        let Some(others) = &self.0.options.other_hosts else { return Ok(false) };
        if !others.is_look_due(at) {
            return Ok(false);
        }
        allow_slow()?;
        Ok(others.look(at, patience))
    }
}

/// Requests `name`, which this host does not have in `dir`. Returns true if the name may exist now.
/// Makes no request for temporary names that programs make up, nor for names that begin with a dot.
pub(crate) fn ask_for(engine: &Engine, dir: &dyn SourceDir, name: &OsStr) -> Result<bool> {
    if engine.options.other_hosts.is_none() || is_scratch(name) {
        return Ok(false);
    }
    match dir.place() {
        Ok(DirPlace::Root) => match Component::new(name) {
            Ok(id) => {
                let others = engine.others();
                let is_new = others.look(Some(&id), UNKNOWN)?;
                match others.refuse_arriving(&id) {
                    // Without the bucket the rest does not come, and local work goes on.
                    Err(_) if others.trouble_with_others().is_some() => Ok(is_new),
                    outcome => outcome.map(|()| is_new),
                }
            }
            Err(_) => Ok(false),
        },
        Ok(DirPlace::Conversation(id) | DirPlace::Below(id, _)) => {
            engine.others().look(Some(&id), KNOWN)
        }
        Err(_) => Ok(false),
    }
}

/// Returns the names of other outputs that were written under the same name as the output at
/// `path`, by hosts that did not see each other's outputs. The summary of the output lists these
/// names.
///
/// Looks for similar names first. An ordinary output therefore costs only one `stat`, and nothing
/// if no other host shares the conversations.
pub fn others_of(engine: &Engine, id: &Component, path: &RelPath) -> Result<Vec<String>> {
    let Some(others) = &engine.options.other_hosts else { return Ok(Vec::new()) };
    let alike = engine.conversation(id)?.alike(path)?;
    if alike.is_empty() {
        return Ok(Vec::new());
    }
    let known = others.same_name(id, path);
    let names = alike.iter().map(RelPath::to_text).filter(|alike| known.contains(alike));
    Ok(names.map(|path| path.rsplit('/').next().unwrap_or_default().to_owned()).collect())
}

pub(crate) fn others_at(engine: &Engine, place: &Place) -> Result<Vec<String>> {
    if engine.options.other_hosts.is_none() {
        return Ok(Vec::new());
    }
    let (id, path) = (place.conversation(), place.path());
    others_of(engine, &Component::from_text(id)?, &RelPath::from_text(path)?)
}

/// For tests: a host that wrote outputs under names that this host uses, too.
#[cfg(any(test, feature = "testing"))]
#[allow(dead_code, missing_docs, reason = "a fixture, of which tests of other crates use a part")]
pub mod fixture {
    use std::sync::Arc;
    use std::time::Duration;

    use crate::sync::Mutex;
    use ctxfs_core::model::{Component, EvictionResult, Evictor, HostsReport, OtherHosts, RelPath};

    /// A host with scripted outputs. It counts the requests for them.
    #[derive(Debug, Default)]
    pub struct Rival {
        /// Pairs of the path of an output and the path under which it was written.
        wrote: Mutex<Vec<[String; 2]>>,
        asked: Mutex<usize>,
    }

    impl Rival {
        pub fn wrote(&self, name: &str, asked: &str) {
            self.wrote.lock().push([name, asked].map(|name| format!("artifacts/tool/{name}")));
        }

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

        fn evictor(&self, _: &Component) -> Evictor<'_> {
            Box::new(|_: &RelPath| EvictionResult::NotShared)
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
}

#[cfg(test)]
mod tests;
