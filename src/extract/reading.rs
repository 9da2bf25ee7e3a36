//! One question about one document, put to one model.

use crate::extract::Document;
use crate::extract::ExtractSettings;
use crate::extract::LanguageModel;
use crate::extract::ModelRequest;
use crate::extract::Turn;
use crate::extract::asking::AskError;
use crate::extract::asking::Asking;
use crate::extract::asking::CallKind;
use crate::extract::prompt::Prompt;
use crate::extract::wrapper::Wrapper;
use crate::extract::wrapper::is_nothing;

/// A question, and what it takes to answer it.
pub(super) struct Reading<'a> {
    pub(super) document: &'a dyn Document,
    pub(super) question: &'a str,
    pub(super) model: &'a dyn LanguageModel,
    pub(super) settings: &'a ExtractSettings,
    pub(super) asking: &'a Asking<'a>,
    /// Returns a new nonce: letters and digits that nobody can guess.
    pub(super) nonce: &'a (dyn Fn() -> String + Sync),
}

impl Reading<'_> {
    /// Asks for an answer in a wrapper; once more, if the first reply has none. `None` if neither
    /// has.
    pub(super) fn wrapped(
        &self,
        kind: CallKind,
        mut request: ModelRequest,
        wrapper: &Wrapper,
    ) -> Result<Option<String>, AskError> {
        let reply = self.asking.ask(kind, self.model, &request)?;
        if let Some(answer) = wrapper.answer(&reply.text) {
            return Ok(Some(answer.to_owned()));
        }
        let (opening, closing) = (wrapper.opening(), wrapper.closing());
        let values = [("opening", &*opening), ("closing", &*closing)];
        request.turns.push(Turn::Model { text: reply.text, calls: Vec::new() });
        request.turns.push(Turn::User(Prompt::Form.with(&values)));
        let reply = self.asking.ask(kind, self.model, &request)?;
        Ok(wrapper.answer(&reply.text).map(str::to_owned))
    }
}

/// What a model found in a part of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// The part, as in `part 3 of 7`.
    pub(super) part: String,
    pub(super) found: Found,
}

/// The outcome of reading a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    /// Something that was asked for.
    Something(String),
    /// Nothing of that. The text says what there is.
    Nothing(String),
    /// The model kept to no form, so nothing is known.
    NoForm,
}

impl Finding {
    pub(super) fn new(part: String, answer: Option<String>) -> Self {
        let found = match answer {
            None => Found::NoForm,
            Some(text) if is_nothing(&text) => Found::Nothing(text),
            Some(text) => Found::Something(text),
        };
        Self { part, found }
    }
}
