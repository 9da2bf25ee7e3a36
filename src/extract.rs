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
#[cfg(test)]
pub(crate) mod fixture;
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

pub use asking::AskError;
pub use asking::CallKind;
pub use asking::CallRecord;
pub use call_tally::CallTally;
pub use document::Document;
pub use document::DocumentError;
pub use document::DocumentFacts;
pub use extraction::AnswerText;
pub use extraction::Extraction;
pub use extractor::Extractor;
pub use language_model::CallResult;
pub use language_model::LanguageModel;
pub use language_model::ModelFailure;
pub use language_model::ModelFailureKind;
pub use language_model::ModelProfile;
pub use language_model::ModelReply;
pub use language_model::ModelRequest;
pub use language_model::ReplyEnd;
pub use language_model::Stopped;
pub use language_model::TokenUsage;
pub use language_model::ToolCall;
pub use language_model::ToolSpec;
pub use language_model::ToolUse;
pub use language_model::Turn;
pub use mode::Mode;
pub use mode::UnknownMode;
pub use mode_error::ModeError;
pub use models::Models;
pub use plan::ExtractPlan;
pub use prompt::PROMPT_VERSION;
pub use settings::ExtractSettings;
pub use settings::ProviderKind;
pub use settings::TargetSettings;

#[cfg(test)]
mod tests;
