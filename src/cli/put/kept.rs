//! A stored output and its locations.

use std::io;
use std::path::PathBuf;
use std::time::Duration;
use std::time::SystemTime;

use crate::cli::put::call::CallSettings;
use crate::engine::Redaction;
use crate::materialize::Checkpoints;
use crate::materialize::PlainText;
use crate::model::Amount;
use crate::model::Analysis;
use crate::model::Component;
use crate::model::Content;
use crate::model::Counts;
use crate::model::Limits;
use crate::model::NoFilters;
use crate::model::Place;
use crate::model::Record;
use crate::model::RelPath;
use crate::model::Subject;
use crate::redact::Masked;
use crate::store::Artifact;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::ToolOutputDir;

const DAY: Duration = Duration::from_hours(24);
/// The shortest retention, even for 0 days: a younger file may still be written, or be read soon.
const GRACE: Duration = Duration::from_hours(1);

/// An output stored in a conversation, in a directory of the tool-output layout, or in both.
pub(in crate::cli) struct KeptOutput {
    pub(super) content: Artifact,
    /// The text of a terminal log with escape sequences.
    text: Option<PlainText<Artifact>>,
    /// The analysis of the content or text, without secrets if they are masked.
    analysis: Analysis,
    /// The record, without secrets if they are masked.
    record: Record,
    redaction: Option<Redaction>,
    pub(super) stored: Option<StoreLocation>,
    pub(super) filed: Option<ToolOutputFile>,
}

/// The location of an output in the store.
pub(super) struct StoreLocation {
    pub(super) store: Store,
    pub(super) id: Component,
    pub(super) path: RelPath,
    pub(super) place: Place,
}

/// A file of the tool-output layout.
pub(super) struct ToolOutputFile {
    pub(super) dir: ToolOutputDir,
    pub(super) path: PathBuf,
}

impl KeptOutput {
    /// Returns an output without a location.
    pub(super) fn new(
        content: Artifact,
        analysis: Analysis,
        record: Record,
        call_settings: &CallSettings,
    ) -> Self {
        let redaction = call_settings.redaction.clone();
        let (mut analysis, mut record) = (analysis, record);
        if let Some(redaction) = &redaction {
            redaction.mask_arguments(&mut record.provenance);
            analysis = redaction.hide_found(&analysis);
        }
        Self { content, text: None, analysis, record, redaction, stored: None, filed: None }
    }

    /// Makes views use the text of a terminal log, which lacks its escape sequences.
    pub(super) fn with_text(mut self) -> io::Result<Self> {
        if self.analysis.has_escapes() {
            let (checkpoints, _) = Checkpoints::of(&self.content, &|| false)?;
            self.text = Some(PlainText::new(self.content.clone(), checkpoints)?);
            self.analysis = self.analysis.of_text();
        }
        Ok(self)
    }

    /// Sets the location in the store.
    pub(super) fn stored_as(self, stored: StoreLocation) -> Self {
        Self { stored: Some(stored), ..self }
    }

    /// Sets the file of the tool-output layout.
    pub(super) fn filed_as(self, filed: ToolOutputFile) -> Self {
        Self { filed: Some(filed), ..self }
    }

    /// Returns the name that readers use. `as_file` decides if the output has both locations.
    pub(in crate::cli) fn place(&self, as_file: bool) -> Place {
        let filed = || self.filed.as_ref().map(|filed| Place::alone(&filed.name()));
        let stored = self.stored.as_ref().map(|stored| stored.place.clone());
        let place = if as_file { filed().or(stored) } else { stored.or_else(filed) };
        place.expect("an output has a location")
    }

    /// Returns the content for views without secrets, if they are masked.
    pub(super) fn masked(&self) -> Option<Masked<'_>> {
        Some(Masked::new(self.shown(), &self.redaction.as_ref()?.rules))
    }

    /// Returns the stored content, without secrets if they are masked.
    pub(super) fn unchanged(&self) -> Box<dyn Content + '_> {
        match &self.redaction {
            Some(redaction) => Box::new(Masked::new(&self.content, &redaction.rules)),
            None => Box::new(&self.content),
        }
    }

    fn shown(&self) -> &dyn Content {
        self.text.as_ref().map_or(&self.content as &dyn Content, |text| text)
    }

    /// Returns the subject for views; `masked` is the result of [`KeptOutput::masked`].
    pub(super) fn subject<'a>(
        &'a self,
        masked: Option<&'a Masked<'a>>,
        place: &'a Place,
        limits: &'a Limits,
    ) -> Subject<'a> {
        let content = masked.map_or(self.shown(), |masked| masked);
        let redacts = self.redaction.as_ref().map_or(&[][..], |redaction| redaction.rules.names());
        Subject {
            content,
            analysis: &self.analysis,
            record: &self.record,
            place,
            limits,
            redacts,
            filters: &NoFilters,
        }
    }

    /// Counts the output as stored, and `handed` as handed out. Only logs errors.
    pub(super) fn count(&self, handed: Amount) {
        let Some(StoreLocation { store, id, .. }) = &self.stored else { return };
        let stored = Amount::once(self.content.len(), self.analysis.tokens);
        let counts = Counts { stored, handed, ..Counts::default() };
        let tool = self.record.provenance.tool_name().unwrap_or_default();
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let counted = store.conversation(id).and_then(|conversation| match conversation {
            Some(conversation) => conversation.count(now.as_millis() as i64, [(tool, counts)]),
            None => Ok(()),
        });
        if let Err(error) = counted {
            tracing::debug!(%error, "a stored output was not counted");
        }
    }

    /// Returns true if `reference` leads to another output in the same location. References that
    /// cannot be resolved do not count.
    pub(super) fn is_another(&self, reference: &str) -> bool {
        let stored = self.stored.as_ref().is_some_and(|stored| {
            let found = stored.store.resolve(reference).ok().flatten();
            found.is_some_and(|(id, path)| (id, path) != (stored.id.clone(), stored.path.clone()))
        });
        let filed = self.filed.as_ref();
        stored || filed.is_some_and(|filed| filed.dir.holds(reference) && filed.name() != reference)
    }
}

impl ToolOutputFile {
    /// Returns the path as text, beginning with `TOOL_OUTPUT_DIR`.
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// Removes files older than the retention from the directory.
    pub(super) fn expire(&self, limits: &Limits) -> Result<u64, StoreError> {
        let age = (DAY * limits.retention_days).max(GRACE);
        self.dir.expire(age, SystemTime::now())
    }
}
