//! The outputs of a conversation as a list shows them.

use crate::engine::Engine;
use crate::engine::ListedArtifact;
use crate::model::ArtifactState;
use crate::model::Component;
use crate::model::visible;
use crate::web::error::WebError;

/// The most bytes of the arguments of a call that a list keeps.
const ARGUMENTS: usize = 300;

/// An output in a list.
#[derive(Debug, Clone)]
pub(in crate::web) struct OutputRow {
    /// Its path in the conversation, as text.
    pub(in crate::web) path: String,
    /// The id of its call.
    pub(in crate::web) call: String,
    /// The tool, with its server; empty if it is not known.
    pub(in crate::web) tool: String,
    /// The beginning of the arguments.
    pub(in crate::web) arguments: String,
    /// Its bytes.
    pub(in crate::web) size: u64,
    /// Its lines; `None` if it was not analysed.
    pub(in crate::web) lines: Option<u64>,
    /// Its first and its last change, in milliseconds since the epoch.
    pub(in crate::web) created: i64,
    pub(in crate::web) modified: i64,
    /// The exit code of a command.
    pub(in crate::web) exit: Option<i32>,
    /// The duration of the call, in milliseconds.
    pub(in crate::web) duration: Option<u64>,
    /// True while it is written.
    pub(in crate::web) is_live: bool,
    /// True if its end is missing.
    pub(in crate::web) is_incomplete: bool,
    /// True if it is over the limits for outputs that a model gets whole.
    pub(in crate::web) is_long: bool,
    /// The lines that look like errors, and the most telling of them.
    pub(in crate::web) errors: u64,
    pub(in crate::web) error_line: Option<u64>,
}

/// All outputs of a conversation, newest first.
#[derive(Debug, Default)]
pub(in crate::web) struct Outputs {
    pub(in crate::web) rows: Vec<OutputRow>,
    /// The indexes of the rows in the order of their paths.
    by_path: Vec<usize>,
    /// The places that could not be read.
    pub(in crate::web) unread: u64,
}

impl Outputs {
    /// Lists the outputs of the conversation `id`, as far as they are known here.
    pub(super) fn list(engine: &Engine, id: &Component) -> Result<Self, WebError> {
        let listing = engine.list_known_artifacts(id, |listed| OutputRow::of(engine, listed))?;
        let mut rows = listing.rows;
        rows.sort_unstable_by(|a, b| (b.created, &b.path).cmp(&(a.created, &a.path)));
        let mut by_path: Vec<usize> = (0..rows.len()).collect();
        by_path.sort_unstable_by(|a, b| rows[*a].path.cmp(&rows[*b].path));
        Ok(Self { rows, by_path, unread: listing.unread.count() })
    }

    /// Returns true if one of them is being written.
    pub(in crate::web) fn is_live(&self) -> bool {
        self.rows.iter().any(|row| row.is_live)
    }

    /// Returns the output at `path`.
    pub(in crate::web) fn at(&self, path: &str) -> Option<&OutputRow> {
        let at = self.by_path.binary_search_by(|at| self.rows[*at].path.as_str().cmp(path)).ok()?;
        Some(&self.rows[self.by_path[at]])
    }
}

impl OutputRow {
    /// Returns true if its call failed, as far as its record tells.
    pub(in crate::web) fn has_failed(&self) -> bool {
        self.exit.is_some_and(|code| code != 0) || self.is_incomplete
    }

    /// Returns its name.
    pub(in crate::web) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    fn of(engine: &Engine, listed: &ListedArtifact) -> Self {
        let ListedArtifact { path, stat, record } = listed;
        let found = record.analysis.as_ref();
        let chars = found.map_or(stat.size, |found| found.chars);
        let limits = engine.limits(record.provenance.tool_name().as_deref());
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
