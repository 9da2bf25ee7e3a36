//! One question about one document, put to one model.

use crate::extract::asking::{AskError, Asking, CallKind};
use crate::extract::mode_error::ModeError;
use crate::extract::prompt::Prompt;
use crate::extract::wrapper::{Wrapper, is_nothing};
use crate::extract::{
    Document, ExtractSettings, LanguageModel, ModelReply, ModelRequest, ReplyEnd, Turn, prompt,
};

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

    /// Returns the error of a model whose last reply has no answer, and whether that was cut.
    pub(super) fn no_answer(&self, is_cut: bool) -> ModeError {
        let profile = self.model.profile();
        let target = profile.target.clone();
        if is_cut {
            return ModeError::Cut { target, most: profile.reply_tokens() };
        }
        ModeError::NoForm { target }
    }

    /// Asks for an answer in a wrapper; once more, if the first reply has none.
    pub(super) fn wrapped(
        &self,
        kind: CallKind,
        mut request: ModelRequest,
        wrapper: &Wrapper,
    ) -> Result<WrappedReply, AskError> {
        let reply = self.asking.ask(kind, self.model, &request)?;
        let first = WrappedReply::of(&reply, wrapper);
        if first.answer.is_some() {
            return Ok(first);
        }
        request.turns.push(Turn::Model { text: reply.text, calls: Vec::new() });
        request.turns.push(Turn::User(self.filled(Prompt::Form, wrapper, &[])));
        let reply = self.asking.ask(kind, self.model, &request)?;
        Ok(WrappedReply::of(&reply, wrapper))
    }
}

/// A reply that should have its answer in a wrapper.
#[derive(Debug)]
pub(super) struct WrappedReply {
    /// The answer. `None` if the reply has none.
    pub(super) answer: Option<String>,
    /// True if the model had no tokens left before the end of the answer.
    pub(super) is_cut: bool,
}

impl WrappedReply {
    pub(super) fn of(reply: &ModelReply, wrapper: &Wrapper) -> Self {
        let answer = wrapper.answer(&reply.text).map(str::to_owned);
        let is_cut = reply.end == ReplyEnd::Length && wrapper.is_open(&reply.text);
        Self { answer, is_cut }
    }
}

/// The finding of a model in a part of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// The part, as in `part 3 of 7`.
    pub(super) part: String,
    pub(super) found: Found,
    /// True if the model had no tokens left to tell all of it.
    pub(super) is_cut: bool,
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
    pub(super) fn new(part: String, reply: WrappedReply) -> Self {
        let found = match reply.answer {
            None => Found::NoForm,
            Some(text) if is_nothing(&text) => Found::Nothing(text),
            Some(text) => Found::Something(text),
        };
        Self { part, found, is_cut: reply.is_cut }
    }
}
