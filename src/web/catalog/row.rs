//! A conversation as the list of all shows it.

use crate::catalog::outputs::{OutputRow, Outputs};
use crate::error::WebError;
use ctxfs_core::model::{Component, Counts};
use ctxfs_engine::Engine;

/// A conversation in the list.
#[derive(Debug)]
pub(crate) struct ConversationRow {
    /// Its id.
    pub(crate) id: Component,
    /// Its id as text.
    pub(crate) name: String,
    /// The time of its last output or message, in milliseconds since the epoch.
    pub(crate) used: i64,
    /// Its outputs, and their bytes.
    pub(crate) outputs: u64,
    pub(crate) bytes: u64,
    /// Outputs that are over the limits, so that a model gets a stand-in.
    pub(crate) long: u64,
    /// Tokens that were stored, handed out, and saved.
    pub(crate) stored: u64,
    pub(crate) handed: u64,
    pub(crate) saved: i64,
    /// Calls that failed, and the last of them.
    pub(crate) errors: u64,
    pub(crate) last_failure: Option<OutputRow>,
    /// Outputs that are being written.
    pub(crate) live: u64,
    /// True if only other hosts have it, so that nothing else is known of it.
    pub(crate) is_elsewhere: bool,
}

impl ConversationRow {
    /// Looks at the conversation `id`.
    pub(super) fn of(engine: &Engine, id: &Component) -> Result<Self, WebError> {
        let outputs = Outputs::list(engine, id)?;
        let counts = engine.counts(Some(id))?.by_conversation.remove(id).unwrap_or_default();
        let Counts { stored, handed, .. } = &counts;
        let conversation = engine.conversation(id)?;
        let newest = outputs.rows.iter().map(|row| row.modified).max();
        let used = newest.into_iter().chain(conversation.last_message()).max();
        let used = match used {
            Some(used) => used,
            None => conversation.dir().stat_self()?.mtime.as_millis(),
        };
        let failed = || outputs.rows.iter().filter(|row| row.has_failed());
        Ok(Self {
            id: id.clone(),
            name: id.to_text(),
            used,
            outputs: outputs.rows.len() as u64,
            bytes: outputs.rows.iter().map(|row| row.size).sum(),
            long: outputs.rows.iter().filter(|row| row.is_long).count() as u64,
            stored: stored.tokens,
            handed: handed.tokens,
            saved: counts.saved_tokens(),
            errors: failed().count() as u64,
            last_failure: failed().max_by_key(|row| row.modified).cloned(),
            live: outputs.rows.iter().filter(|row| row.is_live).count() as u64,
            is_elsewhere: false,
        })
    }

    /// Returns the row of a conversation that only other hosts have.
    pub(super) fn elsewhere(id: Component) -> Self {
        Self {
            name: id.to_text(),
            id,
            used: 0,
            outputs: 0,
            bytes: 0,
            long: 0,
            stored: 0,
            handed: 0,
            saved: 0,
            errors: 0,
            last_failure: None,
            live: 0,
            is_elsewhere: true,
        }
    }
}
