//! An output that is kept, and where.

use std::path::PathBuf;
use std::time::Duration;
use std::time::SystemTime;

use crate::cli::args::PutArgs;
use crate::model::Analysis;
use crate::model::Component;
use crate::model::Limits;
use crate::model::Place;
use crate::model::Record;
use crate::model::RelPath;
use crate::model::Said;
use crate::model::Subject;
use crate::store::Artifact;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::ToolOutputDir;

const DAY: Duration = Duration::from_hours(24);
/// What was written within this time stays, even if it is to be kept for no days: somebody may
/// still be writing it, or about to read it.
const GRACE: Duration = Duration::from_hours(1);

/// An output in a conversation, in a directory of the tool-output layout, or in both.
pub(super) struct Output {
    pub(super) content: Artifact,
    /// Speaks of all of `content`.
    pub(super) analysis: Analysis,
    pub(super) record: Record,
    pub(super) stored: Option<Stored>,
    pub(super) filed: Option<Filed>,
}

/// Where it is in the store.
pub(super) struct Stored {
    pub(super) store: Store,
    pub(super) id: Component,
    pub(super) path: RelPath,
    pub(super) place: Place,
}

/// Where it is in the tool-output layout.
pub(super) struct Filed {
    pub(super) dir: ToolOutputDir,
    pub(super) path: PathBuf,
}

impl Output {
    /// How the reader names it; where it is in both, `as_file` chooses.
    pub(super) fn place(&self, as_file: bool) -> Place {
        let filed = || self.filed.as_ref().map(|filed| Place::alone(&filed.name()));
        let stored = self.stored.as_ref().map(|stored| stored.place.clone());
        let place = if as_file { filed().or(stored) } else { stored.or_else(filed) };
        place.expect("an output is kept somewhere")
    }

    pub(super) fn subject<'a>(&'a self, place: &'a Place, limits: &'a Limits) -> Subject<'a> {
        let (analysis, record) = (&self.analysis, &self.record);
        Subject { content: &self.content, analysis, record, place, limits, redacts: &[] }
    }

    /// Whether `reference` leads to an output that is kept where this one is, and is not this one.
    /// What cannot be looked at does not count.
    pub(super) fn is_another(&self, reference: &str) -> bool {
        let stored = self.stored.as_ref().is_some_and(|stored| {
            let found = stored.store.resolve(reference).ok().flatten();
            found.is_some_and(|(id, path)| (id, path) != (stored.id.clone(), stored.path.clone()))
        });
        let filed = self.filed.as_ref();
        stored || filed.is_some_and(|filed| filed.dir.holds(reference) && filed.name() != reference)
    }
}

impl Filed {
    /// Its path as text, as `TOOL_OUTPUT_DIR` names it.
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Removes what has been in the directory for too long.
    pub(super) fn expire(&self, limits: &Limits) -> Result<u64, StoreError> {
        let age = (DAY * limits.retention_days).max(GRACE);
        self.dir.expire(age, SystemTime::now())
    }
}

/// What the options say of the call.
pub(super) fn said(args: &PutArgs) -> Said {
    Said {
        call: args.call.clone(),
        tool: args.tool.clone(),
        server: args.server.clone(),
        args: args.args.clone(),
        exit_code: args.exit_code,
        mime: args.mime.clone(),
    }
}
