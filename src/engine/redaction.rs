//! Masking secrets in views and, if so configured, in stored files.

use std::ffi::OsStr;
use std::sync::Arc;

use crate::model::Analysis;
use crate::model::Content;
use crate::model::Json;
use crate::model::Provenance;
use crate::model::Record;
use crate::redact::Masked;
use crate::redact::SecretRules;

/// The attribute that holds a call's arguments.
const ARGS: &str = "user.ctx.args";

/// The secrets to mask, and the places to mask them in.
#[derive(Debug, Clone)]
pub struct Redaction {
    /// The patterns of secrets.
    pub rules: Arc<SecretRules>,
    /// True if secrets are masked in stored files, too.
    pub stored: bool,
}

impl Redaction {
    /// Masks the secrets in the arguments of a call.
    pub fn mask_arguments(&self, provenance: &mut Provenance) {
        provenance.args = provenance.args.take().map(|args| self.rules.mask_text(&args));
    }

    /// Returns an analysis with secrets masked: keys of JSON may hold some.
    pub fn hide_found(&self, found: &Analysis) -> Analysis {
        let mut found = found.clone();
        match &mut found.json {
            Json::Document { shape, example, .. } => {
                *shape = self.rules.mask_text(shape);
                *example = example.take().map(|path| self.rules.mask_text(&path));
            }
            Json::Lines { shape, .. } => *shape = self.rules.mask_text(shape),
            Json::No | Json::Broken { .. } => {}
        }
        found
    }
}

/// The redaction of an engine. If `None`, nothing is masked.
#[derive(Debug)]
pub(crate) struct Secrets(pub(super) Option<Redaction>);

impl Secrets {
    /// Returns true if secrets are masked.
    pub(crate) fn are_masked(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the patterns of secrets.
    pub(crate) fn rules(&self) -> Option<&SecretRules> {
        self.0.as_ref().map(|redaction| &*redaction.rules)
    }

    /// Returns `content` with its secrets masked, and masks them in its record and analysis.
    /// Returns `None` if nothing is masked.
    pub(crate) fn mask<'a>(
        &'a self,
        content: &'a dyn Content,
        record: &mut Record,
        analysis: &mut Arc<Analysis>,
    ) -> Option<Masked<'a>> {
        let redaction = self.0.as_ref()?;
        redaction.mask_arguments(&mut record.provenance);
        *analysis = Arc::new(redaction.hide_found(analysis));
        Some(Masked::new(content, &redaction.rules))
    }

    /// Masks the secrets in the provenance of an output.
    pub(crate) fn mask_provenance(&self, provenance: &mut Provenance) {
        if let Some(redaction) = &self.0 {
            redaction.mask_arguments(provenance);
        }
    }

    /// Returns the names that masks in views can have.
    pub(crate) fn mask_names(&self) -> &[String] {
        self.0.as_ref().map_or(&[], |redaction| redaction.rules.names())
    }

    /// Returns the patterns of the secrets that are masked in stored files.
    pub(crate) fn stored_rules(&self) -> Option<&SecretRules> {
        self.0.as_ref().filter(|redaction| redaction.stored).map(|redaction| &*redaction.rules)
    }

    /// Returns the value to store for an extended attribute.
    pub(crate) fn attribute_to_store(&self, name: &OsStr, value: &[u8]) -> Vec<u8> {
        match (self.stored_rules(), str::from_utf8(value)) {
            (Some(rules), Ok(text)) if name == ARGS => rules.mask_text(text).into_bytes(),
            _ => value.to_vec(),
        }
    }
}
