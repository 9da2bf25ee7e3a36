//! Masking secrets in views and, if so configured, in stored files.

use std::io;
use std::io::Write;
use std::sync::Arc;

use ctxfs_core::materialize::json::{KEY_CHARS, KEY_CUT};
use ctxfs_core::model::{Analysis, Content, Json, Provenance, Record, Redactor};
use ctxfs_core::redact::{Masked, MaskingWriter, SecretRules};

/// The secrets to mask, and the places to mask them in.
#[derive(Debug, Clone)]
pub struct Redaction {
    /// The patterns of secrets.
    pub rules: Arc<SecretRules>,
    /// True if secrets are masked in stored files, too.
    pub stored: bool,
}

impl Redaction {
    /// Masks the secrets in what a writer said of a call.
    pub fn mask_provenance(&self, provenance: &mut Provenance) {
        let Provenance {
            call,
            agent,
            agent_type,
            tool,
            server,
            args,
            mime,
            exit_code: _,
            duration_ms: _,
        } = provenance;
        for said in [call, agent, agent_type, tool, server, args, mime] {
            *said = said.take().map(|said| self.rules.mask_text(&said));
        }
    }

    /// Returns an analysis with secrets masked: keys of JSON may hold some.
    pub fn hide_found(&self, found: &Analysis) -> Analysis {
        let mut found = found.clone();
        match &mut found.json {
            Json::Document { shape, example, .. } => {
                *shape = self.hide_in_shape(shape);
                *example = example.take().map(|path| self.rules.mask_text(&path));
            }
            Json::Lines { shape, example, .. } => {
                *shape = self.hide_in_shape(shape);
                *example = example.take().map(|filter| self.rules.mask_text(&filter));
            }
            Json::No | Json::Broken { .. } => {}
        }
        for trouble in &mut found.trouble {
            trouble.path = self.rules.mask_text(&trouble.path);
        }
        found
    }

    /// Masks the secrets in the keys of a shape, and leaves out what it shows of keys that are cut:
    /// no rule finds part of a secret.
    fn hide_in_shape(&self, shape: &str) -> String {
        let mut parts = shape.split(KEY_CUT).peekable();
        let mut hidden = String::with_capacity(shape.len());
        while let Some(part) = parts.next() {
            let cut = part.char_indices().rev().nth(KEY_CHARS - 1).map(|(at, _)| at);
            let is_key = !part.is_empty() && !part.ends_with([' ', '{', '[', '"', ',']);
            let kept = cut.filter(|_| is_key && parts.peek().is_some()).unwrap_or(part.len());
            hidden.push_str(&part[..kept]);
            hidden.push_str(if parts.peek().is_some() { KEY_CUT } else { "" });
        }
        self.rules.mask_text(&hidden)
    }
}

/// A writer of bytes in the form in which they are stored or shown: with secrets masked, if that is
/// configured.
pub enum MaskedForm<'a, W> {
    /// Bytes pass as they are.
    Plain(W),
    /// Secrets are masked on the way.
    Masked(MaskingWriter<'a, W>),
}

impl<'a, W: Write> MaskedForm<'a, W> {
    /// Returns a writer to `out` of bytes as they are stored under `redaction`.
    pub fn stored(redaction: Option<&'a Redaction>, out: W) -> Self {
        let redaction = redaction.filter(|redaction| redaction.stored);
        Self::of(redaction.map(|redaction| &*redaction.rules), out)
    }

    /// Returns a writer to `out` of bytes as they are shown under `redaction`.
    pub fn shown(redaction: Option<&'a Redaction>, out: W) -> Self {
        Self::of(redaction.map(|redaction| &*redaction.rules), out)
    }

    fn of(rules: Option<&'a SecretRules>, out: W) -> Self {
        match rules {
            Some(rules) => Self::Masked(MaskingWriter::new(rules, out)),
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

impl<W: Write> Write for MaskedForm<'_, W> {
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

impl<W> std::fmt::Debug for MaskedForm<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MaskedForm").finish_non_exhaustive()
    }
}

/// The redaction of an engine; nothing is masked without one.
#[derive(Debug, Clone)]
pub struct Secrets(pub Option<Redaction>);

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
        redaction.mask_provenance(&mut record.provenance);
        *analysis = Arc::new(redaction.hide_found(analysis));
    }

    /// Masks the secrets in the provenance of an output.
    pub(crate) fn mask_provenance(&self, provenance: &mut Provenance) {
        if let Some(redaction) = &self.0 {
            redaction.mask_provenance(provenance);
        }
    }

    /// Returns `text` with its secrets masked.
    pub(crate) fn mask_text(&self, text: String) -> String {
        self.rules().map(|rules| rules.mask_text(&text)).unwrap_or(text)
    }

    /// Returns what masks the secrets in text that views make.
    pub(super) fn redactor(&self) -> Option<&dyn Redactor> {
        self.rules().map(|rules| rules as &dyn Redactor)
    }

    /// Returns the patterns of the secrets that are masked in stored files.
    pub fn stored_rules(&self) -> Option<&SecretRules> {
        self.0.as_ref().filter(|redaction| redaction.stored).map(|redaction| &*redaction.rules)
    }

    /// Returns a writer to `out` of bytes in the form in which they are stored.
    pub(super) fn stored_form<W: Write>(&self, out: W) -> MaskedForm<'_, W> {
        MaskedForm::stored(self.0.as_ref(), out)
    }

    /// Returns a writer to `out` of bytes in the form in which they are shown.
    pub(super) fn shown_form<W: Write>(&self, out: W) -> MaskedForm<'_, W> {
        MaskedForm::of(self.rules(), out)
    }

    /// Returns what is known of a call in the form in which it is stored.
    pub(super) fn provenance_to_store(&self, mut provenance: Provenance) -> Provenance {
        if let Some(redaction) = self.0.as_ref().filter(|redaction| redaction.stored) {
            redaction.mask_provenance(&mut provenance);
        }
        provenance
    }

    /// Returns the value of an extended attribute as it is to be stored.
    pub fn attribute_to_store(&self, value: &[u8]) -> Vec<u8> {
        match (self.stored_rules(), str::from_utf8(value)) {
            (Some(rules), Ok(text)) => rules.mask_text(text).into_bytes(),
            _ => value.to_vec(),
        }
    }
}
