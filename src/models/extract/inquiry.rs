//! A question to a model about a document.

use crate::extract::asking::{AskError, CallKind, QuestionBudget};
use crate::extract::extraction::ModeError;
use crate::extract::prompt::{Prompt, Wrapper, is_nothing};
use crate::extract::{
    Document, ExtractSettings, LanguageModel, ModelReply, ModelRequest, ReplyEnd, Turn, prompt,
};

pub(super) struct Inquiry<'a> {
    pub(super) document: &'a dyn Document,
    pub(super) question: &'a str,
    pub(super) model: &'a dyn LanguageModel,
    pub(super) settings: &'a ExtractSettings,
    pub(super) asking: &'a QuestionBudget<'a>,
    pub(super) nonce: &'a (dyn Fn() -> String + Sync),
}

impl Inquiry<'_> {
    pub(super) fn wrapper(&self) -> Wrapper {
        Wrapper::new((self.nonce)())
    }

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

    /// Returns a prompt with its placeholders filled in: the question, the facts about the
    /// document, the tags of the wrapper, and `more`.
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

    pub(super) fn no_answer(&self, is_cut: bool) -> ModeError {
        let profile = self.model.profile();
        let target = profile.target.clone();
        if is_cut {
            return ModeError::Cut { target, most: profile.reply_tokens() };
        }
        ModeError::NoForm { target }
    }

    /// Requests an answer in a wrapper. Repeats the request once if the first reply has no answer.
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

#[derive(Debug)]
pub(super) struct WrappedReply {
    pub(super) answer: Option<String>,
    pub(super) is_cut: bool,
}

impl WrappedReply {
    pub(super) fn of(reply: &ModelReply, wrapper: &Wrapper) -> Self {
        let answer = wrapper.answer(&reply.text).map(str::to_owned);
        let is_cut = reply.end == ReplyEnd::Length && wrapper.is_open(&reply.text);
        Self { answer, is_cut }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChunkFinding {
    pub(super) part: String,
    pub(super) found: FindingKind,
    pub(super) is_cut: bool,
}

/// Content of a reply about a part of the document. `Nothing` means that nothing in the part is
/// relevant, and contains a description of the part. `NoForm` means that the reply does not have
/// the required format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FindingKind {
    Something(String),
    Nothing(String),
    NoForm,
}

impl ChunkFinding {
    pub(super) fn new(part: String, reply: WrappedReply) -> Self {
        let found = match reply.answer {
            None => FindingKind::NoForm,
            Some(text) if is_nothing(&text) => FindingKind::Nothing(text),
            Some(text) => FindingKind::Something(text),
        };
        Self { part, found, is_cut: reply.is_cut }
    }
}
