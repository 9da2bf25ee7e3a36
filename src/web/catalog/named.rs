//! The outputs that messages name, so that the others can be shown among them.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::catalog::outputs::OutputRow;
use crate::error::WebError;
use ctxfs_core::model::Component;
use ctxfs_engine::{Engine, MessageRange};
use ctxfs_store::message::MessageEntry;

/// Messages that are read at a time, and the time for reading on.
const MESSAGES: usize = 500;
const PATIENCE: Duration = Duration::from_millis(500);
/// The conversations whose names are kept, and the names of one. A longer name is kept for none.
const KEPT: usize = 8;
const NAMES: usize = 200_000;
const LONGEST: usize = 512;

/// What the messages of some conversations name.
#[derive(Debug, Default)]
pub(super) struct NamedOutputs(Mutex<VecDeque<(Component, Names)>>);

#[derive(Debug, Default)]
struct Names {
    /// Paths of outputs and ids of calls.
    names: HashSet<String>,
    /// The bytes of the log that were read.
    read: u64,
}

impl NamedOutputs {
    /// Returns the rows that no message of the conversation `id` names, as far as the log could be
    /// read in a moment; the next look goes on from there.
    pub(super) fn unnamed(
        &self,
        engine: &Engine,
        id: &Component,
        rows: &[OutputRow],
    ) -> Result<Vec<OutputRow>, WebError> {
        let known = {
            let mut kept = self.0.lock();
            let at = kept.iter().position(|(other, _)| other == id);
            at.and_then(|at| kept.remove(at)).map(|(_, names)| names)
        };
        let mut names = known.unwrap_or_default();
        names.read_on(engine, id)?;
        let is_named =
            |row: &&OutputRow| names.names.contains(&row.path) || names.names.contains(&row.call);
        let unnamed = rows.iter().filter(|row| !is_named(row)).cloned().collect();
        let mut kept = self.0.lock();
        kept.push_back((id.clone(), names));
        while kept.len() > KEPT {
            kept.pop_front();
        }
        Ok(unnamed)
    }
}

impl Names {
    fn read_on(&mut self, engine: &Engine, id: &Component) -> Result<(), WebError> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until && self.names.len() < NAMES {
            let page = engine.messages(id, MessageRange::From(self.read), MESSAGES)?;
            if page.end < self.read {
                // The log is another one.
                *self = Self::default();
                continue;
            }
            if page.messages.is_empty() {
                return Ok(());
            }
            self.read = page.end;
            for logged in &page.messages {
                let path = logged.output.as_ref().map(|(path, _)| path.to_text());
                let call = logged.message.as_ref().ok().map(MessageEntry::call_id);
                let names = path.into_iter().chain(call);
                self.names.extend(names.filter(|name| !name.is_empty() && name.len() <= LONGEST));
            }
        }
        Ok(())
    }
}
