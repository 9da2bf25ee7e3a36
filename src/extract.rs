//! Extraction: a language model reads an output and answers a question about it.
//!
//! Policy alone, over two traits: a [`Document`] to read and a [`LanguageModel`] to ask. Nothing
//! here opens a file, a socket or a conversation.

mod document;
mod language_model;
mod settings;

pub use document::Document;
pub use document::DocumentError;
pub use document::DocumentFacts;
pub use language_model::FailureKind;
pub use language_model::LanguageModel;
pub use language_model::ModelFailure;
pub use language_model::ModelProfile;
pub use language_model::ModelReply;
pub use language_model::ModelRequest;
pub use language_model::ReplyEnd;
pub use language_model::Stopped;
pub use language_model::TokenUsage;
pub use language_model::ToolCall;
pub use language_model::ToolResult;
pub use language_model::ToolSpec;
pub use language_model::ToolUse;
pub use language_model::Turn;
pub use settings::ExtractSettings;
pub use settings::ProviderKind;
pub use settings::TargetSettings;
