//! Masking secrets in views and, if configured, in stored files. Also builds the [`Subject`] of a
//! view or a stand-in, in the same way for every door.

use std::io::{self, Write};
use std::sync::Arc;

use ctxfs_core::materialize::json::{KEY_CHARS, KEY_CUT};
use ctxfs_core::model::{
    Analysis, Content, Earlier, Filters, Json, Limits, LimitsByTool, Place, Provenance, Record,
    RedactingWriter as _, Redactor, Subject,
};
use ctxfs_core::redact::{Masked, MaskingWriter, SecretRules};

/// The redaction settings: the secrets to mask, and whether stored files are masked, too.
#[derive(Debug, Clone)]
pub struct Redaction {
    pub rules: Arc<SecretRules>,
    /// True if secrets are masked in stored files, too.
    pub stored: bool,
}

impl Redaction {
    fn mask_provenance(&self, provenance: &mut Provenance) {
        let Provenance {
            call,
            agent,
            agent_type,
            tool,
            server,
            args,
            mime,
            directory,
            uri,
            host: _,
            run: _,
            exit_code: _,
            duration_ms: _,
        } = provenance;
        for text in [call, agent, agent_type, tool, server, args, mime, directory, uri] {
            *text = text.take().map(|text| self.rules.mask_text(&text));
        }
    }

    /// Returns the analysis with secrets masked. Keys of JSON may contain secrets.
    fn hide_found(&self, found: &Analysis) -> Analysis {
        let mut found = found.clone();
        match &mut found.json {
            Json::Document { shape, example, .. } | Json::Lines { shape, example, .. } => {
                *shape = self.hide_in_shape(shape);
                *example = example.take().map(|example| self.rules.mask_text(&example));
            }
            Json::No | Json::Broken { .. } => {}
        }
        for trouble in &mut found.trouble {
            trouble.path = self.rules.mask_text(&trouble.path);
        }
        found
    }

    /// Masks the secrets in the keys of a shape. Also drops the visible part of truncated keys,
    /// because no rule recognizes part of a secret.
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

/// A writer that masks secrets, if redaction is configured.
///
/// The writer holds back bytes that may be part of a secret, so [`Self::finish`] must be called at
/// the end.
pub enum MaskedForm<'a, W> {
    Plain(W),
    Masked(MaskingWriter<'a, W>),
}

impl<'a, W: Write> MaskedForm<'a, W> {
    /// Returns a writer that passes bytes to `out` in the form in which they are stored under
    /// `redaction`.
    pub fn stored(redaction: Option<&'a Redaction>, out: W) -> Self {
        Self::shown(redaction.filter(|redaction| redaction.stored), out)
    }

    /// Returns a writer that passes bytes to `out` in the form in which they are shown under
    /// `redaction`.
    pub fn shown(redaction: Option<&'a Redaction>, out: W) -> Self {
        match redaction {
            Some(redaction) => Self::Masked(MaskingWriter::new(&redaction.rules, out)),
            None => Self::Plain(out),
        }
    }

    /// Writes the bytes held back. No byte may be written afterwards.
    pub fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Masked(writer) => writer.finish(),
        }
    }

    /// Returns the underlying writer. Bytes that are still held back are lost.
    pub fn into_inner(self) -> W {
        match self {
            Self::Plain(out) => out,
            Self::Masked(writer) => writer.into_inner(),
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut W {
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

/// The redaction of an engine. If `None`, nothing is masked.
#[derive(Debug, Clone)]
pub(crate) struct Secrets(pub(crate) Option<Redaction>);

impl Secrets {
    pub(crate) fn rules(&self) -> Option<&SecretRules> {
        self.0.as_ref().map(|redaction| &*redaction.rules)
    }

    pub(crate) fn masked<'a>(&'a self, content: &'a dyn Content) -> Option<Masked<'a>> {
        Some(Masked::new(content, self.rules()?))
    }

    pub(crate) fn mask_facts(&self, record: &mut Record, analysis: &mut Arc<Analysis>) {
        let Some(redaction) = &self.0 else { return };
        redaction.mask_provenance(&mut record.provenance);
        *analysis = Arc::new(redaction.hide_found(analysis));
    }

    pub(crate) fn mask_provenance(&self, provenance: &mut Provenance) {
        if let Some(redaction) = &self.0 {
            redaction.mask_provenance(provenance);
        }
    }

    pub(crate) fn mask_text(&self, text: String) -> String {
        self.rules().map(|rules| rules.mask_text(&text)).unwrap_or(text)
    }

    pub(crate) fn redactor(&self) -> Option<&dyn Redactor> {
        self.rules().map(|rules| rules as &dyn Redactor)
    }

    pub(crate) fn stored(&self) -> Option<&Redaction> {
        self.0.as_ref().filter(|redaction| redaction.stored)
    }

    pub(crate) fn stored_form<W: Write>(&self, out: W) -> MaskedForm<'_, W> {
        MaskedForm::stored(self.0.as_ref(), out)
    }

    pub(crate) fn shown_form<W: Write>(&self, out: W) -> MaskedForm<'_, W> {
        MaskedForm::shown(self.0.as_ref(), out)
    }

    pub(crate) fn provenance_to_store(&self, mut provenance: Provenance) -> Provenance {
        if let Some(redaction) = self.stored() {
            redaction.mask_provenance(&mut provenance);
        }
        provenance
    }
}

#[derive(Debug)]
pub(crate) struct FileFacts {
    pub(crate) record: Record,
    pub(crate) place: Place,
    pub(crate) limits: Limits,
    /// The names of other outputs that were written under the same name, for views that list them.
    pub(crate) same_name: Vec<String>,
}

impl FileFacts {
    /// Returns the facts about a file with this `record`. `newer` is a newer description of its
    /// call, which updates the record.
    pub(crate) fn new(
        limits: &dyn LimitsByTool,
        newer: &Provenance,
        mut record: Record,
        place: Place,
    ) -> Self {
        record.provenance.update(newer);
        let limits = limits.limits(record.provenance.tool_name().as_deref());
        Self { record, place, limits, same_name: Vec::new() }
    }
}

/// A file as views see it: the parts of a [`Subject`].
///
/// Secrets in the record and the analysis are masked on creation. Secrets in the content are masked
/// when it is read.
pub(crate) struct ShownFile<'a> {
    pub(crate) content: Box<dyn Content + 'a>,
    pub(crate) analysis: Arc<Analysis>,
    pub(crate) facts: FileFacts,
    pub(crate) earlier: Option<EarlierFile>,
    has_secrets: bool,
}

/// The earlier output with which a view compares a file, or the reason why it cannot be read. `run`
/// is the number of its run, if it is a run of the same command.
pub(crate) enum EarlierFile {
    Missing(String),
    Output { run: Option<u64>, file: Box<ShownFile<'static>> },
}

impl<'a> ShownFile<'a> {
    /// Returns a file with this `content`, in which secrets are not masked yet.
    pub(crate) fn new(
        secrets: &Secrets,
        content: Box<dyn Content + 'a>,
        analysis: Arc<Analysis>,
        facts: FileFacts,
    ) -> Self {
        let (mut analysis, mut facts) = (analysis, facts);
        secrets.mask_facts(&mut facts.record, &mut analysis);
        Self { content, analysis, facts, earlier: None, has_secrets: true }
    }

    pub(crate) fn of_masked(
        secrets: &Secrets,
        content: Box<dyn Content + 'a>,
        analysis: Arc<Analysis>,
        facts: FileFacts,
    ) -> Self {
        Self { has_secrets: false, ..Self::new(secrets, content, analysis, facts) }
    }

    pub(crate) fn with_subject<T>(
        &self,
        secrets: &Secrets,
        filters: &dyn Filters,
        show: impl FnOnce(&Subject<'_>) -> T,
    ) -> T {
        let masked = self.masked(secrets);
        let earlier = match &self.earlier {
            Some(EarlierFile::Output { file, .. }) => file.masked(secrets),
            _ => None,
        };
        let output;
        let earlier = match &self.earlier {
            None => Earlier::None,
            Some(EarlierFile::Missing(why)) => Earlier::Missing(why),
            Some(EarlierFile::Output { run, file }) => {
                output = file.subject(earlier.as_ref(), (secrets, filters), Earlier::None);
                Earlier::Output { run: *run, output: &output }
            }
        };
        show(&self.subject(masked.as_ref(), (secrets, filters), earlier))
    }

    fn masked<'s>(&'s self, secrets: &'s Secrets) -> Option<Masked<'s>> {
        secrets.masked(&*self.content).filter(|_| self.has_secrets)
    }

    fn subject<'s>(
        &'s self,
        masked: Option<&'s Masked<'s>>,
        (secrets, filters): (&'s Secrets, &'s dyn Filters),
        earlier: Earlier<'s>,
    ) -> Subject<'s> {
        let FileFacts { record, place, limits, same_name } = &self.facts;
        let content: &dyn Content = match masked {
            Some(masked) => masked,
            None => &*self.content,
        };
        Subject {
            content,
            analysis: &self.analysis,
            record,
            place,
            limits,
            same_name,
            redacts: secrets.redactor(),
            filters,
            earlier,
        }
    }
}
