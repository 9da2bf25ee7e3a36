//! An output that was put, and the files it is in.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use ctxfs_core::model::{Limits, Place};
use ctxfs_engine::{Engine, EngineError, ShownOutput, StandInRequest, StoredOutput};
use ctxfs_store::{StoreError, ToolOutputDir};
use ctxfs_view::{Audience, StandIn, View};

const DAY: Duration = Duration::from_hours(24);
/// The shortest retention, even for 0 days: a younger file may still be written, or be read soon.
const GRACE: Duration = Duration::from_hours(1);

/// An output that was put.
pub(crate) enum PutOutput {
    /// It is in a conversation, and perhaps in a file of the tool-output layout too.
    Stored { engine: Arc<Engine>, output: StoredOutput, file: Option<ToolOutputFile> },
    /// It is in a file of the tool-output layout alone.
    File { output: ShownOutput, file: ToolOutputFile },
}

/// A file of the tool-output layout.
pub(crate) struct ToolOutputFile {
    pub(super) dir: ToolOutputDir,
    pub(super) path: PathBuf,
}

impl PutOutput {
    /// Returns the answer to `request`, which knows the outputs in the store already.
    pub(super) fn stand_in(&self, request: &StandInRequest<'_>) -> Result<StandIn, EngineError> {
        let is_stored = |reference: &str| self.file().is_some_and(|file| file.is_beside(reference));
        let audience = Audience { is_stored: &is_stored, ..request.audience };
        let request = StandInRequest { audience, ..*request };
        match self {
            Self::Stored { engine, output, .. } => output.stand_in(engine, &request),
            Self::File { output, .. } => output.stand_in(&request),
        }
    }

    /// Returns the text of `view`.
    pub(super) fn view(&self, view: &View) -> Result<Vec<u8>, EngineError> {
        match self {
            Self::Stored { engine, output, .. } => output.view_in_place(engine, view),
            Self::File { output, .. } => output.view(view),
        }
    }

    /// Returns the output as its stand-ins show it.
    pub(super) fn shown(&self) -> &ShownOutput {
        match self {
            Self::Stored { output, .. } => output.shown(),
            Self::File { output, .. } => output,
        }
    }

    /// Returns the file of the tool-output layout, if there is one.
    pub(super) fn file(&self) -> Option<&ToolOutputFile> {
        match self {
            Self::Stored { file, .. } => file.as_ref(),
            Self::File { file, .. } => Some(file),
        }
    }

    /// Saves what was counted.
    pub(super) fn save_counts(&self) {
        if let Self::Stored { engine, .. } = self {
            engine.finish();
        }
    }
}

impl ToolOutputFile {
    /// Returns the place for readers, a path that begins with `TOOL_OUTPUT_DIR`.
    pub(super) fn place(&self) -> Place {
        Place::alone(&self.name())
    }

    /// Removes files older than the retention from the directory.
    pub(super) fn expire(&self, limits: &Limits) -> Result<u64, StoreError> {
        let age = (DAY * limits.retention_days).max(GRACE);
        self.dir.expire(age, SystemTime::now())
    }

    /// Returns true if `reference` leads to another output in the directory.
    fn is_beside(&self, reference: &str) -> bool {
        self.dir.holds(reference) && self.name() != reference
    }

    fn name(&self) -> String {
        self.path.display().to_string()
    }
}
