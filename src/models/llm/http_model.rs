//! A model behind an endpoint: its attempts and the texts of its failures. Also a model whose
//! configuration makes it unusable.

use std::time::Duration;
use std::{fmt, io};

use parking_lot::Mutex;

use crate::extract::{
    LanguageModel, ModelFailure, ModelFailureKind, ModelProfile, ModelReply, ModelRequest, Stopped,
    TargetSettings, TokenUsage, estimate,
};
use crate::llm::address::{Address, AddressError, ApiKey};
use crate::llm::dialect::Dialect;
use crate::llm::endpoint::{EndpointConnections, ModelEndpoint};
use crate::llm::fault::{AttemptFault, FaultKind, Hint};
use crate::llm::patience::WaitLimit;
use crate::llm::{patience, wire};
use ctxfs_core::model::visible;

/// A model behind an endpoint.
///
/// Several threads may call the model at the same time, but not from asynchronous code. The model
/// keeps connections and a thread until it is dropped, and records which parameters the endpoint
/// accepts.
pub struct HttpModel {
    target: TargetSettings,
    endpoint: ModelEndpoint,
    key: Option<ApiKey>,
    timeout: Duration,
    dialect: Mutex<Dialect>,
    pauses: Vec<Duration>,
}

/// Reason why a model cannot be used with its settings. The text contains neither an address nor a
/// key. `System` means that the system lacks something that connections require, such as
/// certificates.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe variants and fields")]
pub enum TargetError {
    #[error("the `base_url` of `{target}` {error}")]
    Address { target: String, error: AddressError },
    #[error("the key in the variable `{variable}` has spaces or other characters that no key has")]
    Key { variable: String },
    #[error("`{target}` cannot be asked: {error}")]
    System { target: String, error: io::Error },
}

impl HttpModel {
    /// Creates the model of a target. Makes no request.
    ///
    /// `timeout` limits a single attempt, from the connection to the last byte. `key` is the secret
    /// in the variable `api_key_env`. It is only sent to the endpoint.
    pub fn new(
        settings: &TargetSettings,
        timeout: Duration,
        key: Option<String>,
    ) -> Result<Self, TargetError> {
        let target = &settings.profile.target;
        let address = Address::new(&settings.base_url, wire::call(settings.kind))
            .map_err(|error| TargetError::Address { target: target.clone(), error })?;
        let key = key.map(|key| ApiKey::new(&key)).transpose().map_err(|_| TargetError::Key {
            variable: settings.api_key_env.clone().unwrap_or_default(),
        })?;
        let key = key.flatten();
        let connections = EndpointConnections::new(address.is_secure())
            .map_err(|error| TargetError::System { target: target.clone(), error })?;
        let headers = wire::headers(settings.kind, key.as_ref());
        Ok(Self {
            target: settings.clone(),
            endpoint: ModelEndpoint { kind: settings.kind, address, headers, connections },
            key,
            timeout,
            dialect: Mutex::default(),
            pauses: patience::PAUSES.to_vec(),
        })
    }

    #[cfg(test)]
    pub(super) fn with_pauses(self, pauses: &[Duration]) -> Self {
        Self { pauses: pauses.to_vec(), ..self }
    }

    fn attempt(
        &self,
        request: &ModelRequest,
        dialect: Dialect,
        stopped: &Stopped<'_>,
    ) -> Result<ModelReply, AttemptFault> {
        let body = wire::body(&self.target, request, dialect);
        let patience = WaitLimit::new(self.timeout, stopped);
        self.endpoint.connections.handle.block_on(self.endpoint.attempt(body, patience))
    }

    /// Returns `dialect` without the parameter that the endpoint rejected, and records the change
    /// for later requests. Returns `None` if `fault` is not about such a parameter.
    fn learn(&self, dialect: Dialect, fault: &AttemptFault) -> Option<Dialect> {
        if fault.kind != FaultKind::Rejected {
            return None;
        }
        let mut known = self.dialect.lock();
        *known = known.without(&fault.complaint).unwrap_or(*known);
        dialect.without(&fault.complaint)
    }

    /// Waits before the next attempt. Fails with `fault` if no further attempt is allowed.
    fn pause(
        &self,
        fault: AttemptFault,
        attempts: u32,
        stopped: &Stopped<'_>,
    ) -> Result<(), AttemptFault> {
        let FaultKind::Passing(asked) = fault.kind else { return Err(fault) };
        let Some(pause) = self.pauses.get(attempts as usize - 1) else { return Err(fault) };
        if let Some(asked) = asked.filter(|asked| *asked > patience::LONGEST) {
            let seconds = asked.as_secs();
            let until = patience::time_after(asked);
            let what =
                format!("{}, and is to be left alone for {seconds} s, until {until}", fault.what);
            return Err(AttemptFault { what, ..fault });
        }
        let patience = WaitLimit::new(patience::before_next(*pause, asked), stopped);
        Ok(self.endpoint.connections.handle.block_on(patience.to_its_end())?)
    }
}

impl LanguageModel for HttpModel {
    fn profile(&self) -> &ModelProfile {
        &self.target.profile
    }

    fn ask(
        &self,
        request: &ModelRequest,
        stopped: &Stopped<'_>,
    ) -> Result<ModelReply, ModelFailure> {
        let mut dialect = *self.dialect.lock();
        let (mut attempts, mut usage) = (0, TokenUsage::default());
        let expected = estimate(request);
        loop {
            let fault = match self.attempt(request, dialect, stopped) {
                Ok(mut reply) => {
                    reply.usage += usage;
                    // An endpoint may send the key back.
                    if let Some(key) = self.key.as_ref().filter(|key| key.is_secret()) {
                        let calls = reply.calls.iter_mut().map(|call| &mut call.arguments);
                        for text in calls.chain([&mut reply.text]) {
                            *text = key.removed_from(text);
                        }
                    }
                    return Ok(reply);
                }
                Err(fault) => fault,
            };
            if let Some(cost) = fault.usage {
                // An endpoint that breaks its reply off may not have counted, but has read all.
                usage += TokenUsage { input: cost.input.max(expected), ..cost };
            }
            if let Some(left) = self.learn(dialect, &fault) {
                dialect = left;
                continue;
            }
            attempts += 1;
            let most = request.most_tokens.unwrap_or(u64::MAX);
            let spent = usage.total();
            let is_last = spent > 0 && spent.saturating_add(expected) > most;
            let fault = if is_last { fault.last() } else { fault };
            self.pause(fault, attempts, stopped).map_err(|fault| {
                let (target, key) = (&self.target, self.key.as_ref());
                let host = self.endpoint.address.host();
                let timeout = self.timeout;
                FailureContext { target, host, key, timeout, attempts, usage }.failure(&fault)
            })?;
        }
    }
}

impl fmt::Debug for HttpModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpModel")
            .field("target", &self.target.profile.target)
            .field("address", &self.endpoint.address)
            .finish_non_exhaustive()
    }
}

const SHOWN: usize = 300;

struct FailureContext<'a> {
    target: &'a TargetSettings,
    host: &'a str,
    key: Option<&'a ApiKey>,
    timeout: Duration,
    attempts: u32,
    usage: TokenUsage,
}

impl FailureContext<'_> {
    fn failure(&self, fault: &AttemptFault) -> ModelFailure {
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

    /// Returns `said`, a text of the endpoint, on one line, without hidden characters and without
    /// the key.
    fn shown(&self, said: &str) -> String {
        let line = visible::one_line(said);
        let line = self.key.map_or_else(|| line.clone(), |key| key.removed_from(&line));
        match line.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}...", &line[..end]),
            None => line,
        }
    }

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

/// A model whose configuration makes it unusable. It reports the reason, which contains no key, so
/// that the next target is tried.
#[derive(Debug)]
#[expect(missing_docs, reason = "described above")]
pub struct UnusableModel {
    pub profile: ModelProfile,
    pub why: String,
}

impl LanguageModel for UnusableModel {
    fn profile(&self) -> &ModelProfile {
        &self.profile
    }

    fn ask(&self, _: &ModelRequest, _: &Stopped<'_>) -> Result<ModelReply, ModelFailure> {
        let (message, usage) = (self.why.clone(), TokenUsage::default());
        Err(ModelFailure { kind: ModelFailureKind::Rejected, message, usage })
    }
}
