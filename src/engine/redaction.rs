//! Masking secrets in views and, if so configured, in stored files.

use std::ffi::OsStr;
use std::io;
use std::io::Write;
use std::sync::Arc;

use crate::model::Analysis;
use crate::model::Content;
use crate::model::Json;
use crate::model::Provenance;
use crate::model::Record;
use crate::redact::Masked;
use crate::redact::MaskingWriter;
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

/// A writer of bytes in the form in which they are stored: with secrets masked, if `redact` is
/// `stored`.
pub enum StoredForm<'a, W> {
    /// Bytes go to the disk as they are.
    Plain(W),
    /// Secrets are masked on the way to the disk.
    Masked(MaskingWriter<'a, W>),
}

impl<'a, W: Write> StoredForm<'a, W> {
    /// Returns a writer to `out` under `redaction`.
    pub fn new(redaction: Option<&'a Redaction>, out: W) -> Self {
        match redaction.filter(|redaction| redaction.stored) {
            Some(redaction) => Self::Masked(MaskingWriter::new(&redaction.rules, out)),
            None => Self::Plain(out),
        }
    }

    /// Writes what is held back because it may be part of a secret. No byte may follow.
    pub fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Masked(writer) => writer.finish(),
        }
    }

    /// Returns the underlying writer. What is still held back is lost.
    pub fn into_inner(self) -> W {
        match self {
            Self::Plain(out) => out,
            Self::Masked(writer) => writer.into_inner(),
        }
    }

    /// Returns the underlying writer.
    pub(super) fn get_mut(&mut self) -> &mut W {
        match self {
            Self::Plain(out) => out,
            Self::Masked(writer) => writer.get_mut(),
        }
    }
}

impl<W: Write> Write for StoredForm<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Masked(writer) => writer.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Masked(writer) => writer.flush(),
        }
    }
}

impl<W> std::fmt::Debug for StoredForm<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredForm").finish_non_exhaustive()
    }
}

/// The redaction of an engine; nothing is masked without one.
#[derive(Debug, Clone)]
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

    /// Returns `content` as views show it, if secrets are masked.
    pub(super) fn masked<'a>(&'a self, content: &'a dyn Content) -> Option<Masked<'a>> {
        Some(Masked::new(content, self.rules()?))
    }

    /// Masks the secrets in what is known of an output.
    pub(super) fn mask_facts(&self, record: &mut Record, analysis: &mut Arc<Analysis>) {
        let Some(redaction) = &self.0 else { return };
        redaction.mask_arguments(&mut record.provenance);
        *analysis = Arc::new(redaction.hide_found(analysis));
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

    /// Returns a writer to `out` of bytes in the form in which they are stored.
    pub(super) fn stored_form<W: Write>(&self, out: W) -> StoredForm<'_, W> {
        StoredForm::new(self.0.as_ref(), out)
    }

    /// Returns what is known of a call in the form in which it is stored.
    pub(super) fn provenance_to_store(&self, mut provenance: Provenance) -> Provenance {
        if let Some(redaction) = self.0.as_ref().filter(|redaction| redaction.stored) {
            redaction.mask_arguments(&mut provenance);
        }
        provenance
    }

    /// Returns the value of an extended attribute as it is to be stored.
    pub(crate) fn attribute_to_store(&self, name: &OsStr, value: &[u8]) -> Vec<u8> {
        match (self.stored_rules(), str::from_utf8(value)) {
            (Some(rules), Ok(text)) if name == ARGS => rules.mask_text(text).into_bytes(),
            _ => value.to_vec(),
        }
    }
}
