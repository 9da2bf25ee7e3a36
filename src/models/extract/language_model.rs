//! A language model, its requests and replies, and the estimated size of a request.

use serde::{Deserialize, Serialize};
use serde_json::Value;

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

/// Settings of a model. `target` has the provider and the name, such as `local/qwen`.
/// `context_tokens` limits a request and its reply together. `tools` tells how the model requests
/// looks into a document. Prices are in dollars per million tokens of requests and of replies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct ModelProfile {
    pub target: String,
    pub context_tokens: u64,
    pub max_output_tokens: u64,
    pub tools: ToolUse,
    pub price_in: f64,
    pub price_out: f64,
}

/// Way in which a model requests a look into a document: by tool calls (`Native`), or by one JSON
/// object per turn, in the format of a schema (`None`). `Auto` begins with tool calls, and changes
/// to `None` if the first reply neither calls a tool nor answers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub enum ToolUse {
    #[default]
    Auto,
    Native,
    None,
}

/// A request: a conversation that starts with a [`Turn::User`], and whose last turn is from the
/// program. `schema` is the JSON Schema of the reply, if the reply must be JSON.
/// `max_output_tokens` limits the reply. After a failed attempt, there is no further one that would
/// cost more than `most_tokens` together with the others.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct ModelRequest {
    pub system: String,
    pub turns: Vec<Turn>,
    pub tools: Vec<ToolSpec>,
    pub schema: Option<Value>,
    pub max_output_tokens: u64,
    pub most_tokens: Option<u64>,
}

/// A turn of a conversation: a message from the program, a reply of the model, or the results of
/// all calls of the previous turn, in the order of the calls. The text of a reply may be empty.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub enum Turn {
    User(String),
    Model { text: String, calls: Vec<ToolCall> },
    Results(Vec<CallResult>),
}

/// A tool that a model may call. The name consists of letters and underscores. `parameters` is the
/// JSON Schema of the arguments, which are an object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    pub parameters: Value,
}

/// A call of a tool by a model. The call is not validated: there may be no tool with this name, and
/// the arguments may not be valid JSON. The result repeats the id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    pub arguments: String,
}

/// Result of a call, as a text for the model. `id` is the id of the call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct CallResult {
    pub id: String,
    pub text: String,
}

/// Reply of a model. The text does not include the parts that the endpoint marked as thinking.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct ModelReply {
    pub text: String,
    pub calls: Vec<ToolCall>,
    pub end: ReplyEnd,
    pub usage: TokenUsage,
}

/// Reason why a reply ends: the reply is complete, the model ran out of tokens, or the model or its
/// provider refuses to answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub enum ReplyEnd {
    #[default]
    Done,
    Length,
    Refused,
}

/// Tokens of requests and of replies, as counted by the endpoint; 0 if it does not count them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct TokenUsage {
    pub input: u64,
    pub output: u64,
}

/// Reason why a request got no reply. The kind determines what to do next. The message is for the
/// user: the fault, the endpoint, and advice. It contains neither the key nor any part of the
/// document. `usage` has the tokens of the failed attempts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
#[expect(missing_docs, reason = "described above")]
pub struct ModelFailure {
    pub kind: ModelFailureKind,
    pub message: String,
    pub usage: TokenUsage,
}

/// Kind of a failure:
///
/// - `Overflow`: the request and its reply do not fit into the context. A shorter request may fit.
/// - `Unavailable`: the endpoint does not answer, cannot answer at present, or ended its reply
///   early. Retries did not help.
/// - `Rejected`: the endpoint refuses the request, for example because of a wrong key or an unknown
///   model. Retries do not help.
/// - `Stopped`: the question was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub enum ModelFailureKind {
    Overflow,
    Unavailable,
    Rejected,
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

/// Estimates the number of tokens of a request.
pub(crate) fn estimate(request: &ModelRequest) -> u64 {
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
    ctxfs_core::materialize::token_count(text.as_bytes())
}
