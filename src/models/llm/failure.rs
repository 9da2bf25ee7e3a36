//! A fault in words.

use std::time::Duration;

use crate::extract::{ModelFailure, ModelFailureKind, TargetSettings, TokenUsage};
use crate::llm::fault::{Fault, FaultKind, Hint};
use crate::llm::key::Key;
use ctxfs_core::model::visible;

/// The most characters of what an endpoint said that are shown.
pub(super) const SHOWN: usize = 300;

/// The names in words about a fault.
pub(super) struct About<'a> {
    pub(super) target: &'a TargetSettings,
    pub(super) host: &'a str,
    pub(super) key: Option<&'a Key>,
    /// The time of an attempt.
    pub(super) timeout: Duration,
    /// The attempts that failed.
    pub(super) attempts: u32,
    /// What all of them cost.
    pub(super) usage: TokenUsage,
}

impl About<'_> {
    /// Returns the failure: what, where, and what to do next.
    pub(super) fn failure(&self, fault: &Fault) -> ModelFailure {
        let kind = match fault.kind {
            FaultKind::Overflow => ModelFailureKind::Overflow,
            FaultKind::Rejected => ModelFailureKind::Rejected,
            FaultKind::Passing(_) | FaultKind::Lasting => ModelFailureKind::Unavailable,
            FaultKind::Stopped => ModelFailureKind::Stopped,
        };
        let Self { target, host, .. } = self;
        let attempts = match self.attempts {
            0 | 1 => String::new(),
            more => format!(" ({more} attempts)"),
        };
        let said = self.shown(&fault.complaint.message);
        let said = if said.is_empty() { said } else { format!(": {said}") };
        let what =
            format!("`{}` at `{host}` {}{attempts}{said}", target.profile.target, fault.what);
        let message = visible::sentence(what) + &self.next(fault.hint);
        ModelFailure { kind, message, usage: self.usage }
    }

    /// Returns what an endpoint said in one line, without its hidden characters, and without the
    /// key, of which it may show a part.
    fn shown(&self, said: &str) -> String {
        let line = visible::one_line(said);
        let line = self.key.map_or_else(|| line.clone(), |key| key.removed_from(&line));
        match line.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}...", &line[..end]),
            None => line,
        }
    }

    /// Returns what to do next.
    fn next(&self, hint: Hint) -> String {
        let model = &self.target.model;
        match hint {
            Hint::None => String::new(),
            Hint::Server => " Does the server run there, and is `base_url` right?".to_owned(),
            Hint::Address => " Set `base_url` to the address of the API itself.".to_owned(),
            Hint::Model => format!(" Check `base_url`, and the name of the model, `{model}`."),
            Hint::Key => match &self.target.api_key_env {
                Some(name) => format!(" Check the key in the variable `{name}`."),
                None => " Set `api_key_env` to the name of the variable with the key.".to_owned(),
            },
            Hint::Context => format!(
                " Set `context_tokens` of the model, {} now, to what the endpoint allows.",
                self.target.profile.context_tokens
            ),
            Hint::Timeout => format!(
                " Raise `timeout` in `[extract]`, {} s now, or choose a faster model.",
                self.timeout.as_secs_f64()
            ),
            Hint::Account => " Pay for more, or add a second target.".to_owned(),
            Hint::Settings => " Does the `kind` of the provider fit the endpoint?".to_owned(),
            Hint::Later => " Ask again later, or add a second target.".to_owned(),
        }
    }
}
