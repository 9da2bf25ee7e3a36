//! Calls a model within the token limit of a question, and records each call.

use parking_lot::Mutex;

use crate::extract::language_model::estimate;
use crate::extract::{
    LanguageModel, ModelFailure, ModelFailureKind, ModelReply, ModelRequest, ReplyEnd, Stopped,
    TokenUsage,
};

/// Purpose of a call: reading a chunk, combining findings, or a turn of the reading agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub enum CallKind {
    Map,
    Reduce,
    Agent,
}

/// A finished call of a model. `target` is a text such as `local/qwen`. `usage` has the tokens as
/// counted by the endpoint. `ended` is `done`, `length`, `refused`, or the kind of failure.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct CallRecord {
    pub kind: CallKind,
    pub target: String,
    pub usage: TokenUsage,
    pub nanodollars: u64,
    pub millis: u64,
    pub ended: &'static str,
}

/// The calls of one question and its token limit. Each call is recorded and reported.
pub(super) struct QuestionBudget<'a> {
    pub(super) stopped: &'a Stopped<'a>,
    most_tokens: u64,
    tell: &'a (dyn Fn(&CallRecord) + Sync),
    so_far: Mutex<SoFar>,
}

#[derive(Default)]
struct SoFar {
    calls: Vec<CallRecord>,
    tokens: u64,
}

/// Reason why a request has no answer. `Spent` means that the request was not sent, because the
/// question would exceed its token limit. `used` includes the estimate for this request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe variants and fields")]
pub enum AskError {
    #[error("{0}")]
    Model(ModelFailure),
    #[error("`{target}` refuses to answer: ask in other words, or add a second target")]
    Refused { target: String },
    #[error(
        "the question has cost {used} tokens, of at most {most} (`max_tokens_per_question`): ask a \
         narrower one, or raise the limit"
    )]
    Spent { used: u64, most: u64 },
}

impl<'a> QuestionBudget<'a> {
    pub(super) fn new(
        stopped: &'a Stopped<'a>,
        most_tokens: u64,
        tell: &'a (dyn Fn(&CallRecord) + Sync),
    ) -> Self {
        Self { stopped, most_tokens, tell, so_far: Mutex::default() }
    }

    pub(super) fn ask(
        &self,
        kind: CallKind,
        model: &dyn LanguageModel,
        request: &ModelRequest,
    ) -> Result<ModelReply, AskError> {
        let expected = estimate(request);
        let left = self.reserve(expected)?;
        let began = std::time::Instant::now();
        let request = ModelRequest { most_tokens: Some(left), ..request.clone() };
        let asked = model.ask(&request, self.stopped);
        let (usage, ended) = match &asked {
            Ok(reply) => (reply.usage, reply.end.name()),
            Err(failure) => (failure.usage, failure.kind.name()),
        };
        let profile = model.profile();
        let record = CallRecord {
            kind,
            target: profile.target.clone(),
            usage,
            nanodollars: profile.nanodollars(usage),
            millis: began.elapsed().as_millis() as u64,
            ended,
        };
        // If the endpoint does not count all tokens, the estimate is used.
        let input = if asked.is_ok() { usage.input.max(expected) } else { usage.input };
        self.ended(record, expected, input.saturating_add(usage.output));
        match asked {
            Ok(ModelReply { end: ReplyEnd::Refused, .. }) => {
                Err(AskError::Refused { target: profile.target.clone() })
            }
            asked => asked.map_err(AskError::Model),
        }
    }

    pub(super) fn calls(&self) -> Vec<CallRecord> {
        self.so_far.lock().calls.clone()
    }

    /// Reserves tokens for a request. Returns the number of tokens that its attempts may cost.
    fn reserve(&self, tokens: u64) -> Result<u64, AskError> {
        let mut so_far = self.so_far.lock();
        let (used, most) = (so_far.tokens.saturating_add(tokens), self.most_tokens);
        if used > most {
            return Err(AskError::Spent { used, most });
        }
        so_far.tokens = used;
        Ok(most - used + tokens)
    }

    fn ended(&self, record: CallRecord, expected: u64, cost: u64) {
        (self.tell)(&record);
        let mut so_far = self.so_far.lock();
        so_far.tokens = (so_far.tokens - expected).saturating_add(cost);
        so_far.calls.push(record);
    }
}

impl CallKind {
    /// Returns the name that is used in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Map => "map",
            Self::Reduce => "reduce",
            Self::Agent => "agent",
        }
    }
}

impl AskError {
    /// Returns true if a different model may be able to answer.
    pub(super) fn is_of_target(&self) -> bool {
        match self {
            Self::Model(failure) => failure.kind != ModelFailureKind::Stopped,
            Self::Refused { .. } => true,
            Self::Spent { .. } => false,
        }
    }

    /// Returns true if the question was stopped.
    pub(super) fn is_stop(&self) -> bool {
        matches!(self, Self::Model(failure) if failure.kind == ModelFailureKind::Stopped)
    }

    pub(super) fn is_overflow(&self) -> bool {
        matches!(self, Self::Model(failure) if failure.kind == ModelFailureKind::Overflow)
    }
}

/// Number of calls and tokens of a question so far, for progress messages.
#[derive(Debug, Default)]
pub struct CallTally {
    calls: u64,
    tokens: u64,
}

impl CallTally {
    /// Adds a call. Returns the number of calls so far, and a text with the model and the numbers
    /// of calls and tokens.
    pub fn add(&mut self, call: &CallRecord) -> (u64, String) {
        self.calls += 1;
        self.tokens = self.tokens.saturating_add(call.usage.total());
        let Self { calls, tokens } = self;
        (*calls, format!("{}: {calls} calls, {tokens} tokens", call.target))
    }
}
