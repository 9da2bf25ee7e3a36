//! A language model, its requests and replies, and the estimated size of a request.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use ctxfs_core::materialize::token_count;

/// A language model behind an endpoint, or a substitute in tests.
pub trait LanguageModel: Send + Sync {
    /// Returns the settings of the model.
    fn profile(&self) -> &ModelProfile;

    /// Sends a request and waits for the complete reply. Retries if this may help. Soon after
    /// `stopped` returns true, fails with [`ModelFailureKind::Stopped`], and the endpoint stops
    /// generating the reply.
    fn ask(
        &self,
        request: &ModelRequest,
        stopped: &Stopped<'_>,
    ) -> Result<ModelReply, ModelFailure>;
}

/// A function that returns true once no caller waits for the answer any longer.
pub type Stopped<'a> = dyn Fn() -> bool + Sync + 'a;

/// The settings of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelProfile {
    /// The provider and the name, such as `local/qwen`.
    pub target: String,
    /// Maximum number of tokens of a request and its reply together.
    pub context_tokens: u64,
    /// Maximum number of tokens of a reply.
    pub max_output_tokens: u64,
    /// How the model requests looks into a document.
    pub tools: ToolUse,
    /// Price of a million request tokens, in dollars.
    pub price_in: f64,
    /// Price of a million reply tokens, in dollars.
    pub price_out: f64,
}

/// How a model requests a look into a document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToolUse {
    /// By tool calls. If the first reply has none, as in [`Self::None`].
    #[default]
    Auto,
    /// By tool calls.
    Native,
    /// By one JSON object per turn, in the format of a schema.
    None,
}

/// A request: a conversation whose last turn is from the program.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ModelRequest {
    /// The system message.
    pub system: String,
    /// The turns. The first is a [`Turn::User`].
    pub turns: Vec<Turn>,
    /// The tools that the model may call.
    pub tools: Vec<ToolSpec>,
    /// The JSON Schema of the reply, if the reply must be JSON.
    pub schema: Option<Value>,
    /// Maximum number of tokens of the reply.
    pub max_output_tokens: u64,
}

/// A turn of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Turn {
    /// A message from the program.
    User(String),
    /// A reply of the model.
    Model {
        /// The text. It may be empty.
        text: String,
        /// The tool calls.
        calls: Vec<ToolCall>,
    },
    /// The results of all calls of the previous turn, in the same order.
    Results(Vec<CallResult>),
}

/// A tool that a model may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name: letters and underscores.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The JSON Schema of the arguments. It describes an object.
    pub parameters: Value,
}

/// A call of a tool by a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The id of the call. The result repeats it.
    pub id: String,
    /// The name of the tool. There may be no tool with this name.
    pub name: String,
    /// The arguments as written by the model. They may not be valid JSON.
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
    /// The text, without the parts that the endpoint marked as thinking.
    pub text: String,
    /// The tool calls.
    pub calls: Vec<ToolCall>,
    /// The reason why the reply ends.
    pub end: ReplyEnd,
    /// The number of tokens.
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
    /// The model or its provider refuses to answer.
    Refused,
}

/// Tokens as counted by the endpoint; 0 if it does not count them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Number of request tokens.
    pub input: u64,
    /// Number of reply tokens.
    pub output: u64,
}

/// The reason why a request got no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ModelFailure {
    /// The kind of the failure. It determines what to do next.
    pub kind: ModelFailureKind,
    /// The text for the user: the fault, the endpoint, and advice. It contains neither the key nor
    /// any part of the document.
    pub message: String,
    /// The tokens of the failed attempts.
    pub usage: TokenUsage,
}

/// The kind of a failure. It determines what to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ModelFailureKind {
    /// The request and the reply do not fit into the context. A shorter request may fit.
    Overflow,
    /// The endpoint does not answer, cannot answer at present, or ended its answer early. Retries
    /// did not help.
    Unavailable,
    /// The endpoint rejects the request, for example because of a wrong key or an unknown model.
    /// Retries do not help.
    Rejected,
    /// The question was stopped.
    Stopped,
}

impl TokenUsage {
    /// Returns the sum of request and reply tokens.
    pub fn total(self) -> u64 {
        self.input.saturating_add(self.output)
    }
}

impl std::ops::AddAssign for TokenUsage {
    fn add_assign(&mut self, more: Self) {
        // The counts of an endpoint may have any value.
        self.input = self.input.saturating_add(more.input);
        self.output = self.output.saturating_add(more.output);
    }
}

impl ModelProfile {
    /// Returns the token limit of a reply. It is at most a quarter of the context, so that there is
    /// room for the document.
    pub(super) fn reply_tokens(&self) -> u64 {
        self.max_output_tokens.min(self.context_tokens / 4)
    }

    /// Returns the price of `usage` in billionths of a dollar.
    pub fn nanodollars(&self, usage: TokenUsage) -> u64 {
        // A dollar per million tokens is a thousand billionths of a dollar per token.
        let price = |tokens: u64, price: f64| tokens as f64 * price * 1e3;
        (price(usage.input, self.price_in) + price(usage.output, self.price_out)).round() as u64
    }
}

impl ReplyEnd {
    /// Returns the name that is used in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Length => "length",
            Self::Refused => "refused",
        }
    }
}

impl ModelFailureKind {
    /// Returns the name that is used in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Overflow => "overflow",
            Self::Unavailable => "unavailable",
            Self::Rejected => "rejected",
            Self::Stopped => "stopped",
        }
    }
}

/// Number of tokens that endpoints add to each turn for its role and delimiters. In the templates
/// of chat models, there are 3 to 5.
const TURN: u64 = 5;

pub(super) fn estimate(request: &ModelRequest) -> u64 {
    let tools = request.tools.iter().map(|tool| {
        of(&tool.name) + of(&tool.description) + of(&tool.parameters.to_string()) + TURN
    });
    let schema = request.schema.as_ref().map_or(0, |schema| of(&schema.to_string()));
    let turns = request.turns.iter().map(|turn| of_turn(turn) + TURN);
    of(&request.system) + TURN + tools.sum::<u64>() + schema + turns.sum::<u64>()
}

/// Estimates how many tokens of the context are needed for a request and its reply.
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
