//! A language model, its requests and replies, and the estimated size of a request.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use ctxfs_core::materialize::token_count;

/// A language model behind an endpoint, or a stand-in of tests.
pub trait LanguageModel: Send + Sync {
    /// Returns the settings of the model.
    fn profile(&self) -> &ModelProfile;

    /// Sends a request, and waits for the whole reply. Retries if that may help. Ends soon after
    /// `stopped` returns true, with [`ModelFailureKind::Stopped`], and the endpoint stops working
    /// on the reply.
    fn ask(
        &self,
        request: &ModelRequest,
        stopped: &Stopped<'_>,
    ) -> Result<ModelReply, ModelFailure>;
}

/// Returns true once no caller waits for the answer.
pub type Stopped<'a> = dyn Fn() -> bool + Sync + 'a;

/// The settings of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelProfile {
    /// The provider and the name, as in `local/qwen`.
    pub target: String,
    /// Tokens of a request and its reply together.
    pub context_tokens: u64,
    /// Tokens of a reply, at most.
    pub max_output_tokens: u64,
    /// The way in which the model looks into a document.
    pub tools: ToolUse,
    /// Dollars for a million tokens of requests.
    pub price_in: f64,
    /// Dollars for a million tokens of replies.
    pub price_out: f64,
}

/// The way in which a model requests a look into a document.
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

/// A request: a conversation whose last turn is that of the program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The system message.
    pub system: String,
    /// The turns, the first of which is [`Turn::User`].
    pub turns: Vec<Turn>,
    /// The tools that the model may call.
    pub tools: Vec<ToolSpec>,
    /// The JSON Schema of the reply, if it has to be JSON.
    pub schema: Option<Value>,
    /// Tokens of the reply, at most.
    pub max_output_tokens: u64,
}

/// A turn of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Turn {
    /// A message of the program.
    User(String),
    /// A reply of the model.
    Model {
        /// The text, which may be empty.
        text: String,
        /// The tool calls.
        calls: Vec<ToolCall>,
    },
    /// The results of all calls of the turn before, in their order.
    Results(Vec<CallResult>),
}

/// A tool that a model may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name: letters and underscores.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The JSON Schema of the arguments, an object.
    pub parameters: Value,
}

/// A call of a tool by a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id, which the result repeats.
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
    /// The text for the model.
    pub text: String,
}

/// The reply of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelReply {
    /// The text, without the parts that the endpoint marks as thinking.
    pub text: String,
    /// The tool calls.
    pub calls: Vec<ToolCall>,
    /// The reason why the reply ends.
    pub end: ReplyEnd,
    /// The cost.
    pub usage: TokenUsage,
}

/// The reason why a reply ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplyEnd {
    /// The reply is complete.
    #[default]
    Done,
    /// The model ran out of tokens.
    Length,
    /// The model, or its provider, will not answer.
    Refused,
}

/// Tokens as the endpoint counted them; 0 if it does not count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Tokens of requests.
    pub input: u64,
    /// Tokens of replies.
    pub output: u64,
}

/// A request that has no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ModelFailure {
    /// The kind, which decides what to do.
    pub kind: ModelFailureKind,
    /// The text for the user: the fault, the endpoint, and advice. Contains no key and nothing of the
    /// document.
    pub message: String,
    /// The cost of the failed attempts.
    pub usage: TokenUsage,
}

/// The kind of a failure, by what may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModelFailureKind {
    /// The request and the reply do not fit into the context: a shorter request may.
    Overflow,
    /// The endpoint does not answer, cannot answer now, or broke its answer off, and retries did
    /// not help.
    Unavailable,
    /// The endpoint rejects the request: a wrong key, an unknown model. Retries do not help.
    Rejected,
    /// The question was stopped.
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
    /// Returns the limit of a reply in tokens: at most a quarter of the context, so that there is
    /// room for the document.
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
    /// Returns the name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Length => "length",
            Self::Refused => "refused",
        }
    }
}

impl ModelFailureKind {
    /// Returns the name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Overflow => "overflow",
            Self::Unavailable => "unavailable",
            Self::Rejected => "rejected",
            Self::Stopped => "stopped",
        }
    }
}

/// Tokens that endpoints add around each turn, for its role and its delimiters: 3 to 5 in the
/// templates of chat models.
const TURN: u64 = 5;

pub(super) fn estimate(request: &ModelRequest) -> u64 {
    let tools = request.tools.iter().map(|tool| {
        of(&tool.name) + of(&tool.description) + of(&tool.parameters.to_string()) + TURN
    });
    let schema = request.schema.as_ref().map_or(0, |schema| of(&schema.to_string()));
    let turns = request.turns.iter().map(|turn| of_turn(turn) + TURN);
    of(&request.system) + TURN + tools.sum::<u64>() + schema + turns.sum::<u64>()
}

/// Estimates the tokens of a context that a request and its reply need.
pub(super) fn needed(request: &ModelRequest) -> u64 {
    estimate(request) + request.max_output_tokens
}

fn of_turn(turn: &Turn) -> u64 {
    match turn {
        Turn::User(text) => of(text),
        Turn::Model { text, calls } => {
            let calls = calls.iter().map(|call| of(&call.name) + of(&call.arguments) + TURN);
            of(text) + calls.sum::<u64>()
        }
        Turn::Results(results) => results.iter().map(|result| of(&result.text) + TURN).sum(),
    }
}

fn of(text: &str) -> u64 {
    token_count(text.as_bytes())
}
