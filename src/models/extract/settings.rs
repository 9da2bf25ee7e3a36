//! The settings of extraction.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::extract::language_model::ModelProfile;

/// The settings of questions.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtractSettings {
    /// The models to ask, in order: the next one where one fails to answer.
    pub targets: Vec<TargetSettings>,
    /// An output of up to so many chunks is read in full.
    pub max_chunks_full: u64,
    /// The average length of a line, in bytes, from which an output is read in full, however large
    /// it is.
    pub long_line_bytes: u64,
    /// The part of a chunk, in percent, that the chunk before it shows too. At most 50.
    pub overlap_percent: u64,
    /// Chunks that are asked about at once.
    pub concurrency: usize,
    /// The most turns of the reading agent.
    pub max_steps: u32,
    /// The most tokens that one question may cost, of requests and replies together.
    pub max_tokens_per_question: u64,
    /// The most bytes of what is shown without a model.
    pub inline_bytes: usize,
    /// The time of one call.
    pub timeout: Duration,
    /// True if a look at `X.extract/<question>` asks a model.
    pub view: bool,
}

/// A model and the endpoint that serves it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetSettings {
    /// The model.
    pub profile: ModelProfile,
    /// The name of the model, as the endpoint knows it.
    pub model: String,
    /// The form of requests and replies.
    pub kind: ProviderKind,
    /// The address before `/v1`, such as `http://127.0.0.1:8080`.
    pub base_url: String,
    /// The name of the environment variable that holds the key. `None` for an endpoint that asks
    /// for none.
    pub api_key_env: Option<String>,
}

/// The form of requests and replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProviderKind {
    /// `POST /v1/chat/completions`.
    OpenAi,
    /// `POST /v1/messages`.
    Anthropic,
}

impl Default for ExtractSettings {
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            max_chunks_full: 1,
            long_line_bytes: 1000,
            overlap_percent: 10,
            concurrency: 3,
            max_steps: 12,
            max_tokens_per_question: 400_000,
            inline_bytes: 12_288,
            timeout: Duration::from_mins(2),
            view: false,
        }
    }
}
