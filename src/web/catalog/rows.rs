//! Rows of outputs and conversations, as shown in lists.

use crate::error::WebError;
use ctxfs_core::model::{ArtifactState, Component, Counts, visible};
use ctxfs_engine::{Engine, ListedArtifact};

// Maximum length of shown arguments in bytes.
const ARGUMENTS: usize = 300;

/// An output in a list. Paths, ids and names are text. Times are in milliseconds since the epoch.
/// `lines` is `None` before the output is analyzed. `is_long` is true if the output exceeds the
/// limits for outputs given to a model whole. `errors` is the number of lines that look like
/// errors, and `error_line` the most significant of them.
#[derive(Debug, Clone)]
pub(crate) struct OutputRow {
    pub(crate) path: String,
    pub(crate) call: String,
    pub(crate) tool: String,
    pub(crate) arguments: String,
    pub(crate) size: u64,
    pub(crate) lines: Option<u64>,
    pub(crate) created: i64,
    pub(crate) modified: i64,
    pub(crate) exit: Option<i32>,
    pub(crate) duration: Option<u64>,
    pub(crate) is_live: bool,
    pub(crate) is_incomplete: bool,
    pub(crate) is_long: bool,
    pub(crate) errors: u64,
    pub(crate) error_line: Option<u64>,
}

/// All outputs of a conversation, newest first. `unread` is the number of directories that could
/// not be read.
#[derive(Debug, Default)]
pub(crate) struct OutputList {
    pub(crate) rows: Vec<OutputRow>,
    by_path: Vec<usize>,
    pub(crate) unread: u64,
}

impl OutputList {
    pub(super) fn list(engine: &Engine, id: &Component) -> Result<Self, WebError> {
        let listing = engine.list_known_artifacts(id, |listed| OutputRow::of(engine, listed))?;
        let mut rows = listing.rows;
        rows.sort_unstable_by(|a, b| (b.created, &b.path).cmp(&(a.created, &a.path)));
        let mut by_path: Vec<usize> = (0..rows.len()).collect();
        by_path.sort_unstable_by(|a, b| rows[*a].path.cmp(&rows[*b].path));
        Ok(Self { rows, by_path, unread: listing.unread.count() })
    }

    pub(crate) fn is_live(&self) -> bool {
        self.rows.iter().any(|row| row.is_live)
    }

    pub(crate) fn at(&self, path: &str) -> Option<&OutputRow> {
        let at = self.by_path.binary_search_by(|at| self.rows[*at].path.as_str().cmp(path)).ok()?;
        Some(&self.rows[self.by_path[at]])
    }
}

impl OutputRow {
    // Returns true if the record says that the output failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.exit.is_some_and(|code| code != 0) || self.is_incomplete
    }

    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    fn of(engine: &Engine, listed: &ListedArtifact) -> Self {
        let ListedArtifact { path, stat, record } = listed;
        let found = record.analysis.as_ref();
        let chars = found.map_or(stat.size, |found| found.chars);
        let limits = engine.options.limits.limits(record.provenance.tool_name().as_deref());
        let arguments = record.provenance.args.as_deref().unwrap_or_default();
        Self {
            path: path.to_text(),
            call: visible::whole(record.call()),
            tool: record
                .provenance
                .tool_name()
                .map(|name| visible::whole(&name))
                .unwrap_or_default(),
            arguments: visible::escaped(arguments, ARGUMENTS),
            size: stat.size,
            lines: found.map(|found| found.lines),
            created: record.created,
            modified: stat.mtime.as_millis(),
            exit: record.provenance.exit_code,
            duration: record.provenance.duration_ms,
            is_live: record.state == ArtifactState::Live,
            is_incomplete: record.incomplete().is_some(),
            is_long: !limits.are_kept_by(stat.size, chars),
            errors: found.map_or(0, |found| found.errors.count),
            error_line: found.and_then(|found| Some(found.errors.shown.first()?.line)),
        }
    }
}

/// A conversation in the list of all conversations.
///
/// `used` is the time of its last output or message, in milliseconds since the epoch. `long` is the
/// number of outputs that exceed the limits, for which a model gets a stand-in. `stored`, `handed`
/// and `saved` are numbers of tokens. `errors` is the number of failed calls. If the conversation
/// exists only on other hosts, only its name is known.
#[derive(Debug)]
pub(crate) struct ConversationRow {
    pub(crate) id: Component,
    pub(crate) name: String,
    pub(crate) used: i64,
    pub(crate) outputs: u64,
    pub(crate) bytes: u64,
    pub(crate) long: u64,
    pub(crate) stored: u64,
    pub(crate) handed: u64,
    pub(crate) saved: i64,
    pub(crate) errors: u64,
    pub(crate) last_failure: Option<OutputRow>,
    pub(crate) live: u64,
    pub(crate) is_elsewhere: bool,
}

impl ConversationRow {
    pub(super) fn of(engine: &Engine, id: &Component) -> Result<Self, WebError> {
        let outputs = OutputList::list(engine, id)?;
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
