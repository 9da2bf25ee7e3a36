//! A language model that can be asked.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A language model behind an endpoint, or a stand-in of tests.
pub trait LanguageModel: Send + Sync {
    /// Returns what is known about it.
    fn profile(&self) -> &ModelProfile;

    /// Asks it, and waits for the whole reply. Tries again by itself where that may help. Ends soon
    /// after `stopped` returns true, with [`ModelFailureKind::Stopped`]; the endpoint then does no
    /// more work for it.
    fn ask(
        &self,
        request: &ModelRequest,
        stopped: &Stopped<'_>,
    ) -> Result<ModelReply, ModelFailure>;
}

/// Returns true once nobody waits for the answer.
pub type Stopped<'a> = dyn Fn() -> bool + Sync + 'a;

/// The settings of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelProfile {
    /// Its provider and its name, as in `local/qwen`.
    pub target: String,
    /// Tokens of a request and its reply together.
    pub context_tokens: u64,
    /// The most tokens of a reply.
    pub max_output_tokens: u64,
    /// The way in which it looks into a document.
    pub tools: ToolUse,
    /// Dollars for a million tokens of requests.
    pub price_in: f64,
    /// Dollars for a million tokens of replies.
    pub price_out: f64,
}

/// How a model says what it wants to look at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolUse {
    /// By tool calls, or as [`Self::None`] if its first reply has none.
    #[default]
    Auto,
    /// By tool calls.
    Native,
    /// By one JSON object a turn, whose form a schema prescribes.
    None,
}

/// A request: a conversation that ends with what the model is to reply to.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// What the model is, and what it has to keep to.
    pub system: String,
    /// The turns, the first of which is [`Turn::User`].
    pub turns: Vec<Turn>,
    /// The tools that it may call.
    pub tools: Vec<ToolSpec>,
    /// The JSON Schema of the reply, if it has to be JSON.
    pub schema: Option<Value>,
    /// The most tokens of the reply.
    pub max_output_tokens: u64,
}

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Turn {
    /// What the program says.
    User(String),
    /// What the model replied.
    Model {
        /// Its text, which may be empty.
        text: String,
        /// Its calls of tools.
        calls: Vec<ToolCall>,
    },
    /// The results of all calls of the turn before, in their order.
    Results(Vec<CallResult>),
}

/// A tool that a model may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Its name: letters and underscores.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON Schema of its arguments, an object.
    pub parameters: Value,
}

/// A call of a tool by a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id by which the result answers it.
    pub id: String,
    /// The name, which may be one that no tool has.
    pub name: String,
    /// The arguments as the model wrote them, which may be no JSON.
    pub arguments: String,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallResult {
    /// The id of the call.
    pub id: String,
    /// What the model gets.
    pub text: String,
}

/// The reply of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelReply {
    /// Its text, without what the endpoint marks as thinking.
    pub text: String,
    /// Its calls of tools.
    pub calls: Vec<ToolCall>,
    /// Why it ends here.
    pub end: ReplyEnd,
    /// What it cost.
    pub usage: TokenUsage,
}

/// The reason why a reply ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplyEnd {
    /// The model had said all.
    #[default]
    Done,
    /// It had no tokens left.
    Length,
    /// The model, or its provider, will not answer.
    Refused,
}

/// Tokens as the endpoint counted them, or 0 where it does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Those of requests.
    pub input: u64,
    /// Those of replies.
    pub output: u64,
}

/// A request that has no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ModelFailure {
    /// What follows from it.
    pub kind: ModelFailureKind,
    /// What failed, where, and what to do. Holds no key and nothing of the document.
    pub message: String,
    /// What it cost all the same.
    pub usage: TokenUsage,
}

/// What follows from a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModelFailureKind {
    /// The request and the reply do not fit into the context: a shorter request may.
    Overflow,
    /// The endpoint does not answer, or cannot for now, or its answer broke off; tried again in
    /// vain.
    Unavailable,
    /// The endpoint rejects the request, whoever sends it how often: a wrong key, an unknown model.
    Rejected,
    /// Nobody waits for the reply any more.
    Stopped,
}

impl TokenUsage {
    /// Returns the sum of both.
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl std::ops::AddAssign for TokenUsage {
    fn add_assign(&mut self, more: Self) {
        // Endpoints count what they like.
        self.input = self.input.saturating_add(more.input);
        self.output = self.output.saturating_add(more.output);
    }
}

impl ModelProfile {
    /// Returns the most tokens of a reply: a quarter of the context at most, so that there is room
    /// for what it is about.
    pub(super) fn reply_tokens(&self) -> u64 {
        self.max_output_tokens.min(self.context_tokens / 4)
    }

    /// Returns the price of `usage` in billionths of a dollar.
    pub fn nanodollars(&self, usage: TokenUsage) -> u64 {
        // A dollar for a million tokens is a thousand billionths for each.
        let price = |tokens: u64, price: f64| tokens as f64 * price * 1e3;
        (price(usage.input, self.price_in) + price(usage.output, self.price_out)).round() as u64
    }
}

impl ReplyEnd {
    /// Returns its name, as records have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Length => "length",
            Self::Refused => "refused",
        }
    }
}

impl ModelFailureKind {
    /// Returns its name, as records have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Overflow => "overflow",
            Self::Unavailable => "unavailable",
            Self::Rejected => "rejected",
            Self::Stopped => "stopped",
        }
    }
}
