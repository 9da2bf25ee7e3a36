//! A file as its views and stand-ins see it: one [`Subject`] for every door.

use std::sync::Arc;

use crate::EngineOptions;
use crate::redaction::Secrets;
use ctxfs_core::model::{Analysis, Content, Filters, Limits, Place, Provenance, Record, Subject};

/// The facts about a file beside its bytes.
#[derive(Debug)]
pub(super) struct FileFacts {
    pub(super) record: Record,
    pub(super) place: Place,
    pub(super) limits: Limits,
    /// The names of the other outputs of its name, for views that tell them.
    pub(super) same_name: Vec<String>,
}

impl FileFacts {
    /// Returns the facts about a file, of which the store has `record`. What its writer has `said`
    /// since counts.
    pub(super) fn new(
        options: &EngineOptions,
        said: &Provenance,
        mut record: Record,
        place: Place,
    ) -> Self {
        record.provenance.update(said);
        let limits = options.limits.limits(record.provenance.tool_name().as_deref());
        Self { record, place, limits, same_name: Vec::new() }
    }
}

/// A file as its views see it: the parts of a [`Subject`].
pub(super) struct ShownFile<'a> {
    /// The bytes, or the text of a log.
    pub(super) content: Box<dyn Content + 'a>,
    pub(super) analysis: Arc<Analysis>,
    pub(super) facts: FileFacts,
    /// True if the secrets in the content are still to be masked.
    has_secrets: bool,
}

impl<'a> ShownFile<'a> {
    /// Returns what views see of `content`, and masks the secrets in what is known of it. Those in
    /// the content itself are masked as it is read.
    pub(super) fn new(
        secrets: &Secrets,
        content: Box<dyn Content + 'a>,
        analysis: Arc<Analysis>,
        facts: FileFacts,
    ) -> Self {
        let (mut analysis, mut facts) = (analysis, facts);
        secrets.mask_facts(&mut facts.record, &mut analysis);
        Self { content, analysis, facts, has_secrets: true }
    }

    /// Returns what views see of `content` whose secrets are masked already.
    pub(super) fn of_masked(
        secrets: &Secrets,
        content: Box<dyn Content + 'a>,
        analysis: Arc<Analysis>,
        facts: FileFacts,
    ) -> Self {
        Self { has_secrets: false, ..Self::new(secrets, content, analysis, facts) }
    }

    /// Passes the subject of views to `show`.
    pub(super) fn with_subject<T>(
        &self,
        secrets: &Secrets,
        filters: &dyn Filters,
        show: impl FnOnce(&Subject<'_>) -> T,
    ) -> T {
        let FileFacts { record, place, limits, same_name } = &self.facts;
        let masked = secrets.masked(&*self.content).filter(|_| self.has_secrets);
        show(&Subject {
            content: masked.as_ref().map_or(&*self.content, |masked| masked),
            analysis: &self.analysis,
            record,
            place,
            limits,
            same_name,
            redacts: secrets.redactor(),
            filters,
        })
    }
}

#[cfg(test)]
mod tests;
