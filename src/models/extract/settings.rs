//! The settings of extraction: its limits and its models.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::extract::LanguageModel;

/// Settings of questions. The targets are tried in their order until one answers.
///
/// An output is read in full if it has at most `max_chunks_full` chunks, or if its lines have more
/// than `long_line_bytes` bytes on average. `overlap_percent` is the overlap of neighbouring
/// chunks, at most 50. `concurrency` is the maximum number of chunks that are read at the same
/// time.
///
/// `max_steps` is the maximum number of turns of the reading agent. `max_tokens_per_question`
/// limits the tokens of all requests and replies. `inline_bytes` limits the text that is shown
/// without a model. `timeout` limits a single call. If `view` is true, reading
/// `X.extract/<question>` calls a model.
#[derive(Debug, Clone, PartialEq)]
#[expect(missing_docs, reason = "described above")]
pub struct ExtractSettings {
    pub targets: Vec<TargetSettings>,
    pub max_chunks_full: u64,
    pub long_line_bytes: u64,
    pub overlap_percent: u64,
    pub concurrency: usize,
    pub max_steps: u32,
    pub max_tokens_per_question: u64,
    pub inline_bytes: usize,
    pub timeout: Duration,
    pub view: bool,
}

/// A model and the endpoint that serves it. `model` is the name of the model at the endpoint.
/// `base_url` is the part of the address before `/v1`, such as `http://127.0.0.1:8080`.
/// `api_key_env` is the environment variable that contains the key, and `None` for an endpoint that
/// needs no key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct TargetSettings {
    pub profile: crate::extract::language_model::ModelProfile,
    pub model: String,
    pub kind: ProviderKind,
    pub base_url: String,
    pub api_key_env: Option<String>,
}

/// Format of requests and replies: `POST /v1/chat/completions`, or `POST /v1/messages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub enum ProviderKind {
    OpenAi,
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

/// Way to answer a question about a document.
///
/// In `FullChunked` mode, the model reads every chunk, and then combines the findings. In
/// `ReadGrep` mode, it searches, and reads the passages that it finds. `Truncate` uses no model:
/// the head, the tail and the errors are shown. `Auto` selects one of these by the size of the
/// document and of its lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "described above")]
pub enum Mode {
    #[default]
    Auto,
    FullChunked,
    ReadGrep,
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

impl std::str::FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(name: &str) -> Result<Self, UnknownMode> {
        let known = Self::ALL.into_iter().find(|mode| mode.name() == name);
        known.ok_or_else(|| UnknownMode(name.to_owned()))
    }
}

/// An error: no mode has the given name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no mode `{0}`: use auto, full-chunked, read-grep or truncate")]
pub struct UnknownMode(String);

/// A function that creates the model of a target. It also creates a model that cannot be used; such
/// a model reports the reason when it is called.
type MakeModel = dyn Fn(&TargetSettings) -> Arc<dyn LanguageModel> + Send + Sync;

/// The models of the settings, which are created when a question first needs them.
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

/// No targets, and therefore no models.
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
