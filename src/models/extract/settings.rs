//! The settings of extraction: its limits and its models.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::extract::LanguageModel;
use crate::extract::language_model::ModelProfile;

/// The settings of questions.
#[derive(Debug, Clone, PartialEq)]
pub struct ExtractSettings {
    /// The models, in the order in which they are tried until one answers.
    pub targets: Vec<TargetSettings>,
    /// Outputs with at most this number of chunks are read in full.
    pub max_chunks_full: u64,
    /// Outputs whose lines have more than this number of bytes on average are read in full,
    /// regardless of their size.
    pub long_line_bytes: u64,
    /// The overlap of neighbouring chunks, in percent of a chunk; at most 50.
    pub overlap_percent: u64,
    /// Maximum number of chunks that are read at the same time.
    pub concurrency: usize,
    /// Maximum number of turns of the reading agent.
    pub max_steps: u32,
    /// Maximum number of tokens of one question, requests and replies together.
    pub max_tokens_per_question: u64,
    /// Maximum number of bytes of the text that is shown without a model.
    pub inline_bytes: usize,
    /// Time limit of one call.
    pub timeout: Duration,
    /// True if reading `X.extract/<question>` calls a model.
    pub view: bool,
}

/// A model and the endpoint that serves it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetSettings {
    /// The model.
    pub profile: ModelProfile,
    /// The name of the model at the endpoint.
    pub model: String,
    /// The format of requests and replies.
    pub kind: ProviderKind,
    /// The part of the address before `/v1`, such as `http://127.0.0.1:8080`.
    pub base_url: String,
    /// The environment variable that contains the key. `None` for an endpoint that needs no key.
    pub api_key_env: Option<String>,
}

/// The format of requests and replies.
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

/// How a question about a document is answered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Selects one of the other modes by the size of the document and of its lines.
    #[default]
    Auto,
    /// The model reads every chunk, and then combines the findings.
    FullChunked,
    /// The model searches, and reads the passages that it finds.
    ReadGrep,
    /// No model is used: the head, the tail and the errors are shown.
    Truncate,
}

impl Mode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::Auto, Self::FullChunked, Self::ReadGrep, Self::Truncate];

    /// Returns the name that is used in settings, arguments and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::FullChunked => "full-chunked",
            Self::ReadGrep => "read-grep",
            Self::Truncate => "truncate",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        let known = Self::ALL.into_iter().find(|mode| mode.name() == name);
        known.ok_or_else(|| UnknownMode(name.to_owned()))
    }
}

/// The name does not belong to a mode.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no mode `{0}`: use auto, full-chunked, read-grep or truncate")]
pub struct UnknownMode(String);

/// Creates the model of a target. If the model cannot be used, it reports the reason when it is
/// called.
type MakeModel = dyn Fn(&TargetSettings) -> Arc<dyn LanguageModel> + Send + Sync;

/// The models of the settings. They are created when a question first needs them.
pub struct Models {
    settings: ExtractSettings,
    make: Box<MakeModel>,
    made: OnceLock<Vec<Arc<dyn LanguageModel>>>,
}

impl Models {
    /// Stores the settings, and a function that creates the model of a target.
    pub fn new(
        settings: ExtractSettings,
        make: impl Fn(&TargetSettings) -> Arc<dyn LanguageModel> + Send + Sync + 'static,
    ) -> Self {
        Self { settings, make: Box::new(make), made: OnceLock::new() }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &ExtractSettings {
        &self.settings
    }

    /// Returns the models of the targets, in the order of the targets.
    pub fn all(&self) -> &[Arc<dyn LanguageModel>] {
        self.made.get_or_init(|| self.settings.targets.iter().map(&self.make).collect())
    }
}

/// No models.
impl Default for Models {
    fn default() -> Self {
        let settings = ExtractSettings::default();
        Self { settings, make: Box::new(|_| unreachable!("no target")), made: OnceLock::default() }
    }
}

impl std::fmt::Debug for Models {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Models").field("settings", &self.settings).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_has_a_name_of_its_own() {
        for mode in Mode::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
        }
        assert!("full".parse::<Mode>().is_err());
    }
}
