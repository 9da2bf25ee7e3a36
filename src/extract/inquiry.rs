//! One question about one document, put to one model.

use crate::extract::Document;
use crate::extract::ExtractSettings;
use crate::extract::LanguageModel;
use crate::extract::ModelRequest;
use crate::extract::Turn;
use crate::extract::asking::AskError;
use crate::extract::asking::Asking;
use crate::extract::asking::CallKind;
use crate::extract::mode_error::ModeError;
use crate::extract::prompt;
use crate::extract::prompt::Prompt;
use crate::extract::wrapper::Wrapper;
use crate::extract::wrapper::is_nothing;

/// A question about a document, and the model that it is put to.
pub(super) struct Inquiry<'a> {
    pub(super) document: &'a dyn Document,
    pub(super) question: &'a str,
    pub(super) model: &'a dyn LanguageModel,
    pub(super) settings: &'a ExtractSettings,
    pub(super) asking: &'a Asking<'a>,
    /// Returns a new nonce: letters and digits that nobody can guess.
    pub(super) nonce: &'a (dyn Fn() -> String + Sync),
}

impl Inquiry<'_> {
    /// Returns a wrapper with a nonce of its own.
    pub(super) fn wrapper(&self) -> Wrapper {
        Wrapper::new((self.nonce)())
    }

    /// Returns a request that begins with these two prompts, with `more` values for them.
    pub(super) fn request(
        &self,
        (system, first): (Prompt, Prompt),
        wrapper: &Wrapper,
        more: &[(&str, &str)],
    ) -> ModelRequest {
        ModelRequest {
            system: self.filled(system, wrapper, more),
            turns: vec![Turn::User(self.filled(first, wrapper, more))],
            max_output_tokens: self.model.profile().reply_tokens(),
            ..ModelRequest::default()
        }
    }

    /// Returns a prompt with the question, the facts about the document, the tags of the wrapper
    /// and `more`.
    pub(super) fn filled(
        &self,
        prompt: Prompt,
        wrapper: &Wrapper,
        more: &[(&str, &str)],
    ) -> String {
        let facts = self.document.facts();
        let (arguments, opening, closing) =
            (prompt::arguments(facts), wrapper.opening(), wrapper.closing());
        let [bytes, lines, tokens] =
            [facts.bytes, facts.lines, facts.tokens].map(|count| count.to_string());
        let values = [
            ("question", self.question),
            ("tool", &prompt::tool(facts)),
            ("arguments", &arguments),
            ("name", &facts.name),
            ("bytes", &bytes),
            ("lines", &lines),
            ("tokens", &tokens),
            ("nonce", wrapper.nonce()),
            ("opening", &opening),
            ("closing", &closing),
        ];
        prompt.with(&[&values, more].concat())
    }

    /// Returns the error of a model that keeps to no form.
    pub(super) fn no_form(&self) -> ModeError {
        ModeError::NoForm { target: self.model.profile().target.clone() }
    }

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
        request.turns.push(Turn::Model { text: reply.text, calls: Vec::new() });
        request.turns.push(Turn::User(self.filled(Prompt::Form, wrapper, &[])));
        let reply = self.asking.ask(kind, self.model, &request)?;
        Ok(wrapper.answer(&reply.text).map(str::to_owned))
    }
}

/// The finding of a model in a part of a document.
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
