//! Extraction: a language model reads an output and answers a question about it.
//!
//! This module depends only on two traits: [`Document`] for the output and [`LanguageModel`] for
//! the model. It does not open files, sockets or conversations.

mod agent;
mod asking;
mod cited_lines;
mod document;
mod extraction;
mod extractor;
#[cfg(any(test, feature = "testing"))]
#[path = "extract/tests/fixture.rs"]
pub mod fixture;
mod full;
mod inquiry;
mod language_model;
mod look;
mod prompt;
mod settings;

pub use asking::{AskError, CallKind, CallRecord, CallTally};
pub use document::{Document, DocumentError, DocumentFacts};
pub use extraction::{AnswerText, Extraction, ModeError};
pub use extractor::{ExtractPlan, Extractor};
pub(crate) use language_model::estimate;
pub use language_model::{
    CallResult, LanguageModel, ModelFailure, ModelFailureKind, ModelProfile, ModelReply,
    ModelRequest, ReplyEnd, Stopped, TokenUsage, ToolCall, ToolSpec, ToolUse, Turn,
};
pub use prompt::PROMPT_VERSION;
pub use settings::{ExtractSettings, Mode, Models, ProviderKind, TargetSettings, UnknownMode};

#[cfg(test)]
mod tests;
