//! Stand-ins: the text that a model gets in place of an output. It is the same text as in the views
//! of the mount.

use std::io::{self, Write as _};
use std::sync::Arc;

use crate::{Engine, FileFacts, Redaction, Result, Secrets, ShownFile, others_of, sniff};
use ctxfs_core::materialize::{PlainText, analyze, analyze_log, token_count};
use ctxfs_core::model::{
    Amount, Analysis, Component, Content, ContextRef, Earlier, Limits, NoFilters, Place, Record,
    RelPath, Subject,
};
use ctxfs_core::redact::{Masked, settled};
use ctxfs_store::{Artifact, Conversation, provenance_of};
use ctxfs_view::{Audience, Form, StandIn, View};

const MOST_THIRDS: u64 = 2;

/// The condition under which a stand-in replaces an output.
///
/// Except with [`Self::Always`], a stand-in must save enough: if it has more than two thirds of the
/// characters of the output, the output is shown whole. Three kinds of stand-ins are exempt: an
/// envelope, because its protocol sets the limits; the stand-in of a binary output, because it
/// shows no bytes; and the stand-in of an incomplete output, which must never pass for a complete
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// Replaces every output. The caller requests the stand-in explicitly.
    Always,
    OverLimits,
    TooLong,
    Economy,
    /// Replaces no output.
    Never,
}

/// A request for the text that goes to a model in place of an output.
///
/// - `replace`: the condition under which the output is replaced
/// - `seen`: true if the reader has already seen the output itself
/// - `audience`: the model that gets the text
#[derive(Debug, Clone, Copy)]
pub struct StandInRequest<'a> {
    pub form: Form,
    pub replace: Replace,
    pub seen: bool,
    pub audience: Audience<'a>,
}

/// The parts of a complete output.
///
/// - `content`: the stored bytes
/// - `place`: the place, as seen by readers
/// - `limits`: the limits for outputs of its tool
#[derive(Debug)]
pub struct OutputParts {
    pub content: Artifact,
    pub analysis: Arc<Analysis>,
    pub record: Record,
    pub place: Place,
    pub limits: Limits,
}

/// An output as stand-ins show it. The text of a log has no escape sequences. Secrets are masked if
/// redaction is configured.
pub struct ShownOutput {
    content: Artifact,
    /// The number of characters of the stored bytes, including escape sequences.
    chars: u64,
    pub(crate) file: ShownFile<'static>,
    pub(crate) secrets: Secrets,
}

/// An output in a conversation of the store.
#[derive(Debug)]
pub struct StoredOutput {
    conversation: Component,
    path: RelPath,
    shown: ShownOutput,
}

impl ShownOutput {
    /// Returns the output as stand-ins show it under `redaction`. If its text is not the bytes as
    /// they are, reads it to its end.
    pub fn new(output: OutputParts, redaction: Option<&Redaction>) -> io::Result<Self> {
        let OutputParts { content, analysis, record, place, limits } = output;
        let facts = FileFacts { record, place, limits, same_name: Vec::new() };
        let secrets = Secrets(redaction.cloned());
        let is_counted = analysis.bytes == content.len();
        let chars = if is_counted { analysis.chars } else { content.len() };
        let (shown, analysis): (Box<dyn Content>, _) = if analysis.is_decoded() {
            let text = PlainText::whole(content.clone(), analysis.text_reading())?;
            (Box::new(text), Arc::new(analysis.of_text()))
        } else {
            (Box::new(content.clone()), analysis)
        };
        let file = ShownFile::new(&secrets, shown, analysis, facts);
        Ok(Self { content, chars, file, secrets })
    }

    /// Returns the stored bytes, with secrets masked if redaction is configured.
    pub fn bytes(&self) -> Box<dyn Content + '_> {
        let masked = self.secrets.masked(&self.content);
        let plain = || Box::new(&self.content) as Box<dyn Content>;
        masked.map_or_else(plain, |masked: Masked<'_>| Box::new(masked))
    }

    /// Returns the text for `request`: the output itself or its stand-in.
    pub fn stand_in(&self, request: &StandInRequest<'_>) -> Result<StandIn> {
        if request.replace == Replace::Never {
            return Ok(StandIn::Unchanged);
        }
        let is_limited = request.replace == Replace::OverLimits;
        let make = if is_limited { ctxfs_view::stand_in } else { ctxfs_view::stand_in_always };
        let answer = self.file.with_subject(&self.secrets, &NoFilters, |subject| {
            make(request.form, subject, &request.audience)
        })?;
        Ok(match answer {
            StandIn::Replaced(text) if self.is_replaced_by(&text, request) => {
                StandIn::Replaced(text)
            }
            StandIn::Replaced(_) | StandIn::Unchanged => StandIn::Unchanged,
        })
    }

    /// Returns true if `text` may replace the output: the request or the output is exempt, or
    /// `text` saves enough.
    fn is_replaced_by(&self, text: &str, request: &StandInRequest<'_>) -> bool {
        let ShownFile { analysis, facts, .. } = &self.file;
        let is_exempt = request.replace == Replace::Always
            || request.form == Form::Envelope
            || analysis.is_binary()
            || facts.record.incomplete().is_some();
        // The model has both.
        let all = [&*String::from_utf8_lossy(request.audience.above), text].concat();
        let is_cheap = || {
            request.replace != Replace::Economy
                || 3 * token_count(all.as_bytes()) <= analysis.tokens
        };
        is_exempt || (pays(&all, self.chars) && is_cheap())
    }

    /// Returns the text of `view` without its notices.
    pub fn view(&self, view: &View) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        self.file.with_subject(&self.secrets, &NoFilters, |subject| {
            ctxfs_view::render(view, subject, &|| false, &mut text)
        })?;
        Ok(text)
    }

    fn handed(&self, answer: &StandIn, request: &StandInRequest<'_>) -> Amount {
        match answer {
            StandIn::Unchanged if request.seen => Amount::default(),
            StandIn::Unchanged => Amount::once(self.file.content.len(), self.file.analysis.tokens),
            StandIn::Replaced(text) => amount(&[request.audience.above, text.as_bytes()].concat()),
        }
    }
}

impl StoredOutput {
    /// Opens the output with this `record`. If the record has no analysis of all bytes, analyses
    /// them if `needs_all` is true, and otherwise only the first bytes.
    pub fn open(
        engine: &Engine,
        conversation: &Conversation,
        record: Record,
        needs_all: bool,
    ) -> Result<Self> {
        let path = RelPath::from_text(&record.path)?;
        let content = conversation.open_artifact(&path)?;
        let place = engine.options.place(conversation.id(), &path);
        let record = Record { size: content.len(), ..record };
        let newer = provenance_of(content.file())?;
        let facts = FileFacts::new(&*engine.options.limits, &newer, record, place);
        let FileFacts { mut record, place, limits, .. } = facts;
        let recorded = record.analysis.take().filter(|found| found.bytes == content.len());
        let analysis = match recorded {
            Some(recorded) => Arc::new(recorded),
            None if !needs_all => sniff(&content)?.analysis,
            None if path.is_terminal() => Arc::new(analyze_log(&content)?),
            None => Arc::new(analyze(&content)?),
        };
        let parts = OutputParts { content, analysis, record, place, limits };
        let mut shown = ShownOutput::new(parts, engine.options.redaction.as_ref())?;
        shown.file.facts.same_name = others_of(engine, conversation.id(), &path)?;
        Ok(Self { conversation: conversation.id().clone(), path, shown })
    }

    /// Changes the name under which readers see the output.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.shown.file.facts.place = place;
        self
    }

    pub fn conversation(&self) -> &Component {
        &self.conversation
    }

    pub fn path(&self) -> &RelPath {
        &self.path
    }

    /// Returns the place of the output, as seen by readers.
    pub fn place(&self) -> &Place {
        &self.shown.file.facts.place
    }

    pub fn content(&self) -> &Artifact {
        &self.shown.content
    }

    pub fn shown(&self) -> &ShownOutput {
        &self.shown
    }

    /// Returns the text for `request`, and counts it. With [`Replace::OverLimits`], an output that
    /// refers to another output of the store is taken for a stand-in, and stays unchanged.
    pub fn stand_in(&self, engine: &Engine, request: &StandInRequest<'_>) -> Result<StandIn> {
        let is_another = |reference: &str| {
            let found = engine.store.resolve(reference).ok().flatten();
            found.is_some_and(|(id, path)| (&id, &path) != (&self.conversation, &self.path))
        };
        let is_stored =
            |reference: &str| is_another(reference) || (request.audience.is_stored)(reference);
        let audience = Audience { is_stored: &is_stored, ..request.audience };
        let answer = self.shown.stand_in(&StandInRequest { audience, ..*request })?;
        let record = &self.shown.file.facts.record;
        let handed = self.shown.handed(&answer, request);
        engine.counting.handed(&self.conversation, record, handed);
        Ok(answer)
    }

    pub fn view_in_place(&self, engine: &Engine, view: &View) -> Result<Vec<u8>> {
        let text = self.shown.view(view)?;
        let record = &self.shown.file.facts.record;
        engine.counting.handed(&self.conversation, record, amount(&text));
        Ok(text)
    }

    /// Returns the line about `dropped` lines that a filter left out of the output: see
    /// [`ctxfs_view::dropped_errors`].
    pub fn dropped_errors(
        &self,
        engine: &Engine,
        shown: &[u8],
        dropped: u64,
        place: &str,
    ) -> Result<Option<String>> {
        let (output, shown) = (&self.shown, engine.shown(shown)?);
        Ok(output.file.with_subject(&output.secrets, &NoFilters, |subject| {
            ctxfs_view::dropped_errors(subject, &shown, dropped, place)
        })?)
    }

    /// Returns the reference that a model gets in place of the output, and counts the text of the
    /// reference.
    pub fn reference(&self, engine: &Engine) -> Result<ContextRef> {
        let shown = &self.shown;
        let reference = shown.file.with_subject(&shown.secrets, &NoFilters, |subject| {
            let Subject { record, place, analysis, .. } = subject;
            ctxfs_view::context_ref(record, place, subject.size(), Some(analysis))
        });
        let text = serde_json::to_string(&reference).map_err(io::Error::from)? + "\n";
        let record = &shown.file.facts.record;
        engine.counting.handed(&self.conversation, record, amount(text.as_bytes()));
        Ok(reference)
    }
}

impl Engine {
    /// Returns the form in which a model may see an output that is not stored: unchanged except for
    /// masked secrets.
    pub fn shown(&self, output: &[u8]) -> io::Result<Vec<u8>> {
        let mut shown = self.secrets.shown_form(Vec::with_capacity(output.len()));
        shown.write_all(output)?;
        shown.finish()?;
        Ok(shown.into_inner())
    }

    /// Returns the same for the beginning of an output that goes on. Leaves out the bytes at the end
    /// that may be the beginning of a secret.
    pub fn shown_so_far(&self, output: &[u8]) -> io::Result<Vec<u8>> {
        let length = output.len() as u64;
        let length = self.secrets.rules().map_or(length, |_| settled(length));
        let mut shown = if length == 0 { Vec::new() } else { self.shown(output)? };
        shown.truncate(length as usize);
        Ok(shown)
    }
}

/// Returns true if `text` saves enough to replace an output of `chars` characters.
pub fn pays(text: &str, chars: u64) -> bool {
    3 * text.chars().count() as u64 <= MOST_THIRDS.saturating_mul(chars)
}

/// Returns true if `output` is a stand-in for an output of the store. Only the reference in
/// `output` matters, not the wording.
pub fn is_stand_in(engine: &Engine, output: &[u8], limits: &Limits) -> io::Result<bool> {
    let subject = Subject {
        content: &output,
        analysis: &sniff(&output)?.analysis,
        record: &Record::default(),
        place: &Place::alone(""),
        limits,
        same_name: &[],
        redacts: None,
        filters: &NoFilters,
        earlier: Earlier::None,
    };
    let is_stored =
        |reference: &str| engine.store.resolve(reference).is_ok_and(|found| found.is_some());
    ctxfs_view::is_stand_in(&subject, &Audience { tools: &[], is_stored: &is_stored, above: b"" })
}

fn amount(text: &[u8]) -> Amount {
    Amount::once(text.len() as u64, token_count(text))
}

impl std::fmt::Debug for ShownOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShownOutput").field("content", &self.content).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
