//! The text that goes to a model in place of an output: what the mount's views print.

use std::io;
use std::sync::Arc;

use crate::analysis::sniff;
use crate::redaction::Secrets;
use crate::shown::{FileFacts, ShownFile};
use crate::{Engine, Redaction, Result, same_name};
use ctxfs_core::materialize::{Checkpoints, PlainText, analyze, analyze_log, token_count};
use ctxfs_core::model::{
    Amount, Analysis, Component, Content, Limits, NoFilters, Place, Record, RelPath, Subject,
};
use ctxfs_core::redact::Masked;
use ctxfs_store::{Artifact, Conversation, provenance_of};
use ctxfs_view::{Audience, Form, StandIn, View};

/// The most characters of a stand-in, in thirds of those of its output.
const MOST_THIRDS: u64 = 2;

/// The condition on which a stand-in takes the place of an output.
///
/// [`Self::Always`] apart, a stand-in has to pay: it has at most two thirds of the characters of its
/// output, else the output is shown whole. Three kinds are exempt: an envelope, which has the limits
/// of its protocol; an output that is not text, of which no bytes are shown; and an incomplete one,
/// which never passes for a complete one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    /// The caller asks for the stand-in, whatever the output is.
    Always,
    /// The output passes the limits of the form.
    OverLimits,
    /// The caller finds the output too long.
    TooLong,
    /// The stand-in has at most a third of the tokens of the output.
    Economy,
}

/// A request for the text that goes to a model in place of an output.
#[derive(Debug, Clone, Copy)]
pub struct StandInRequest<'a> {
    /// The form of the text.
    pub form: Form,
    /// The condition on which the output is replaced.
    pub replace: Replace,
    /// True if the reader has seen the output itself already.
    pub seen: bool,
    /// The reader.
    pub audience: Audience<'a>,
}

/// The parts of an output whose bytes are all there.
#[derive(Debug)]
pub struct OutputParts {
    /// The stored bytes.
    pub content: Artifact,
    /// The analysis of these bytes.
    pub analysis: Arc<Analysis>,
    /// The record, or what would be recorded of the output.
    pub record: Record,
    /// The name that readers use for it.
    pub place: Place,
    /// The limits for its tool.
    pub limits: Limits,
}

/// An output as its stand-ins show it: the text of a log without its escape sequences, and without
/// secrets if they are masked.
pub struct ShownOutput {
    /// The stored bytes.
    content: Artifact,
    /// The characters of the stored bytes, escape sequences included.
    chars: u64,
    file: ShownFile<'static>,
    secrets: Secrets,
}

/// An output in a conversation of the store.
#[derive(Debug)]
pub struct StoredOutput {
    conversation: Component,
    path: RelPath,
    shown: ShownOutput,
}

impl ShownOutput {
    /// Returns what stand-ins show of an output under `redaction`. Reads a log that has escape
    /// sequences to its end.
    pub fn new(output: OutputParts, redaction: Option<&Redaction>) -> io::Result<Self> {
        let OutputParts { content, analysis, record, place, limits } = output;
        let facts = FileFacts { record, place, limits, same_name: Vec::new() };
        let secrets = Secrets(redaction.cloned());
        let is_counted = analysis.bytes == content.len();
        let chars = if is_counted { analysis.chars } else { content.len() };
        let (shown, analysis): (Box<dyn Content>, _) = if analysis.has_escapes() {
            let (checkpoints, _) = Checkpoints::of(&content, &|| false)?;
            let text = PlainText::new(content.clone(), checkpoints)?;
            (Box::new(text), Arc::new(analysis.of_text()))
        } else {
            (Box::new(content.clone()), analysis)
        };
        let file = ShownFile::new(&secrets, shown, analysis, facts);
        Ok(Self { content, chars, file, secrets })
    }

    /// Returns the stored bytes, without secrets if they are masked.
    pub fn bytes(&self) -> Box<dyn Content + '_> {
        let masked = self.secrets.masked(&self.content);
        let plain = || Box::new(&self.content) as Box<dyn Content>;
        masked.map_or_else(plain, |masked: Masked<'_>| Box::new(masked))
    }

    /// Returns the answer to `request`: the output itself or its stand-in.
    pub fn stand_in(&self, request: &StandInRequest<'_>) -> Result<StandIn> {
        let is_limited = request.replace == Replace::OverLimits;
        let make = if is_limited { ctxfs_view::stand_in } else { ctxfs_view::stand_in_always };
        let answer = self.with_subject(|subject| make(request.form, subject, &request.audience))?;
        Ok(match answer {
            StandIn::Replaced(text) if self.is_replaced_by(&text, request) => {
                StandIn::Replaced(text)
            }
            StandIn::Replaced(_) | StandIn::Unchanged => StandIn::Unchanged,
        })
    }

    /// Returns true if `text`, made for `request`, pays.
    fn is_replaced_by(&self, text: &str, request: &StandInRequest<'_>) -> bool {
        let ShownFile { analysis, facts, .. } = &self.file;
        let is_exempt = request.replace == Replace::Always
            || request.form == Form::Envelope
            || analysis.is_binary()
            || facts.record.incomplete().is_some();
        let is_cheap = || {
            request.replace != Replace::Economy
                || 3 * token_count(text.as_bytes()) <= analysis.tokens
        };
        is_exempt || (pays(text, self.chars) && is_cheap())
    }

    /// Returns the text of `view`, without its notices.
    pub fn view(&self, view: &View) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        self.with_subject(|subject| ctxfs_view::render(view, subject, &|| false, &mut text))?;
        Ok(text)
    }

    fn with_subject<T>(&self, show: impl FnOnce(&Subject<'_>) -> T) -> T {
        self.file.with_subject(&self.secrets, &NoFilters, show)
    }

    /// Returns the amount that `answer` hands to the reader.
    fn handed(&self, answer: &StandIn, request: &StandInRequest<'_>) -> Amount {
        match answer {
            StandIn::Unchanged if request.seen => Amount::default(),
            StandIn::Unchanged => Amount::once(self.file.content.len(), self.file.analysis.tokens),
            StandIn::Replaced(text) => amount(text.as_bytes()),
        }
    }
}

impl StoredOutput {
    /// Opens the output that is recorded as `record`. Analyses all of its bytes only if the record
    /// has no analysis of them and `needs_all` is set.
    pub(super) fn open(
        engine: &Engine,
        conversation: &Conversation,
        record: Record,
        needs_all: bool,
    ) -> Result<Self> {
        let path = RelPath::from_text(&record.path)?;
        let content = conversation.open_artifact(&path)?;
        let place = engine.options.place(conversation.id(), &path);
        let record = Record { size: content.len(), ..record };
        let said = provenance_of(content.file())?;
        let facts = FileFacts::new(&engine.options, &said, record, place);
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
        shown.file.facts.same_name = same_name::others_of(engine, conversation.id(), &path)?;
        Ok(Self { conversation: conversation.id().clone(), path, shown })
    }

    /// Gives it another name for readers.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.shown.file.facts.place = place;
        self
    }

    /// Returns the conversation that it is in.
    pub fn conversation(&self) -> &Component {
        &self.conversation
    }

    /// Returns the path in the conversation.
    pub fn path(&self) -> &RelPath {
        &self.path
    }

    /// Returns the name that readers use for it.
    pub fn place(&self) -> &Place {
        &self.shown.file.facts.place
    }

    /// Returns the stored bytes.
    pub fn content(&self) -> &Artifact {
        &self.shown.content
    }

    /// Returns the output as its stand-ins show it.
    pub fn shown(&self) -> &ShownOutput {
        &self.shown
    }
}

/// Returns the answer to `request`, and counts it. A reference to any other output of the store
/// makes an output the stand-in that it once was.
pub(super) fn stand_in(
    engine: &Engine,
    output: &StoredOutput,
    request: &StandInRequest<'_>,
) -> Result<StandIn> {
    let is_stored = |reference: &str| {
        is_another(engine, output, reference) || (request.audience.is_stored)(reference)
    };
    let audience = Audience { is_stored: &is_stored, ..request.audience };
    let answer = output.shown.stand_in(&StandInRequest { audience, ..*request })?;
    count(engine, output, output.shown.handed(&answer, request));
    Ok(answer)
}

/// Returns the text of `view` for a model, and counts it.
pub(super) fn view_in_place(
    engine: &Engine,
    output: &StoredOutput,
    view: &View,
) -> Result<Vec<u8>> {
    let text = output.shown.view(view)?;
    count(engine, output, amount(&text));
    Ok(text)
}

/// Returns true if `text` saves enough to take the place of an output of `chars` characters.
pub fn pays(text: &str, chars: u64) -> bool {
    3 * text.chars().count() as u64 <= MOST_THIRDS.saturating_mul(chars)
}

/// Returns true if `output` is a stand-in for a stored output.
pub(super) fn is_stand_in(engine: &Engine, output: &[u8], limits: &Limits) -> io::Result<bool> {
    let subject = Subject {
        content: &output,
        analysis: &sniff(&output)?.analysis,
        record: &Record::default(),
        place: &Place::alone(""),
        limits,
        same_name: &[],
        redacts: None,
        filters: &NoFilters,
    };
    let is_stored = |reference: &str| is_stored(engine, reference);
    ctxfs_view::is_stand_in(&subject, &Audience { tools: &[], is_stored: &is_stored })
}

/// Returns true if `reference` leads to an output of the store.
pub(super) fn is_stored(engine: &Engine, reference: &str) -> bool {
    engine.store.resolve(reference).is_ok_and(|found| found.is_some())
}

/// Returns true if `reference` leads to another output than `output`. One that cannot be resolved
/// does not.
fn is_another(engine: &Engine, output: &StoredOutput, reference: &str) -> bool {
    let found = engine.store.resolve(reference).ok().flatten();
    found.is_some_and(|(id, path)| (&id, &path) != (&output.conversation, &output.path))
}

fn count(engine: &Engine, output: &StoredOutput, amount: Amount) {
    engine.counting.handed(&output.conversation, &output.shown.file.facts.record, amount);
}

fn amount(text: &[u8]) -> Amount {
    Amount::once(text.len() as u64, token_count(text))
}

impl std::fmt::Debug for ShownOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShownOutput").field("content", &self.content).finish_non_exhaustive()
    }
}
