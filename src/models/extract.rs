//! Extraction: a language model reads an output and answers a question about it.
//!
//! Policy alone, over two traits: a [`Document`] to read and a [`LanguageModel`] to ask. Nothing
//! here opens a file, a socket or a conversation.

mod agent;
mod asking;
mod call_tally;
mod chunk;
mod cited_lines;
mod document;
mod extraction;
mod extractor;
mod first_look;
#[cfg(any(test, feature = "testing"))]
pub mod fixture;
mod full;
mod inquiry;
mod language_model;
mod look;
mod mode;
mod mode_error;
mod models;
mod plan;
mod prompt;
mod quotes;
mod reduce;
mod request_size;
mod settings;
mod stoppable;
mod truncate;
mod wrapper;

pub use asking::{AskError, CallKind, CallRecord};
pub use call_tally::CallTally;
pub use document::{Document, DocumentError, DocumentFacts};
pub use extraction::{AnswerText, Extraction};
pub use extractor::Extractor;
pub use language_model::{
    CallResult, LanguageModel, ModelFailure, ModelFailureKind, ModelProfile, ModelReply,
    ModelRequest, ReplyEnd, Stopped, TokenUsage, ToolCall, ToolSpec, ToolUse, Turn,
};
pub use mode::{Mode, UnknownMode};
pub use mode_error::ModeError;
pub use models::Models;
pub use plan::ExtractPlan;
pub use prompt::PROMPT_VERSION;
pub use settings::{ExtractSettings, ProviderKind, TargetSettings};

#[cfg(test)]
mod tests;
