//! A model behind an endpoint.

use std::time::Duration;
use std::{fmt, io};

use parking_lot::Mutex;

use crate::extract::{
    LanguageModel, ModelFailure, ModelProfile, ModelReply, ModelRequest, Stopped, TargetSettings,
    TokenUsage,
};
use crate::llm::address::{Address, AddressError};
use crate::llm::attempt::Endpoint;
use crate::llm::connections::Connections;
use crate::llm::dialect::Dialect;
use crate::llm::failure::About;
use crate::llm::fault::{Fault, FaultKind};
use crate::llm::key::Key;
use crate::llm::patience::Patience;
use crate::llm::{pauses, wire};

/// A model behind an endpoint. Several threads may ask it at once, none of which runs asynchronous
/// code. It keeps connections, and one thread, for as long as it is there.
pub struct HttpModel {
    target: TargetSettings,
    endpoint: Endpoint,
    /// Kept to be removed from what the endpoint says.
    key: Option<Key>,
    /// The time of one attempt.
    timeout: Duration,
    /// What the endpoint was found to take.
    dialect: Mutex<Dialect>,
    pauses: Vec<Duration>,
}

/// Settings by which no model can be asked. Repeats no address and no key.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The address is wrong.
    #[error("the `base_url` of `{target}` {error}")]
    Address {
        /// The model.
        target: String,
        /// What is wrong.
        error: AddressError,
    },
    /// The key is no word.
    #[error("the key in the variable `{variable}` has spaces or other characters that no key has")]
    Key {
        /// The variable.
        variable: String,
    },
    /// The system lacks what connections need, such as its certificates.
    #[error("`{target}` cannot be asked: {error}")]
    System {
        /// The model.
        target: String,
        /// What is missing.
        error: io::Error,
    },
}

impl HttpModel {
    pub(super) fn new(
        settings: &TargetSettings,
        timeout: Duration,
        key: Option<String>,
    ) -> Result<Self, TargetError> {
        let target = &settings.profile.target;
        let address = Address::new(&settings.base_url, wire::call(settings.kind))
            .map_err(|error| TargetError::Address { target: target.clone(), error })?;
        let key = key.map(|key| Key::new(&key)).transpose().map_err(|_| TargetError::Key {
            variable: settings.api_key_env.clone().unwrap_or_default(),
        })?;
        let key = key.flatten();
        let connections = Connections::new(address.is_secure())
            .map_err(|error| TargetError::System { target: target.clone(), error })?;
        let headers = wire::headers(settings.kind, key.as_ref());
        Ok(Self {
            target: settings.clone(),
            endpoint: Endpoint { kind: settings.kind, address, headers, connections },
            key,
            timeout,
            dialect: Mutex::default(),
            pauses: pauses::PAUSES.to_vec(),
        })
    }

    /// Takes other pauses between attempts.
    #[cfg(test)]
    pub(super) fn with_pauses(self, pauses: &[Duration]) -> Self {
        Self { pauses: pauses.to_vec(), ..self }
    }

    fn attempt(
        &self,
        request: &ModelRequest,
        dialect: Dialect,
        stopped: &Stopped<'_>,
    ) -> Result<ModelReply, Fault> {
        let body = wire::body(&self.target, request, dialect);
        let patience = Patience::new(self.timeout, stopped);
        self.endpoint.connections.run(self.endpoint.attempt(body, patience))
    }

    /// Returns what is left of a dialect without what the endpoint rejects, and remembers it.
    fn learn(&self, dialect: Dialect, fault: &Fault) -> Option<Dialect> {
        if fault.kind != FaultKind::Rejected {
            return None;
        }
        let mut known = self.dialect.lock();
        *known = known.without(&fault.complaint).unwrap_or(*known);
        dialect.without(&fault.complaint)
    }

    /// Waits before the next attempt. Returns the fault if there is none.
    fn pause(&self, fault: Fault, attempts: u32, stopped: &Stopped<'_>) -> Result<(), Fault> {
        let FaultKind::Passing(asked) = fault.kind else { return Err(fault) };
        let Some(pause) = self.pauses.get(attempts as usize - 1) else { return Err(fault) };
        if let Some(asked) = asked.filter(|asked| *asked > pauses::LONGEST) {
            let seconds = asked.as_secs();
            let until = pauses::time_after(asked);
            let what =
                format!("{}, and is to be left alone for {seconds} s, until {until}", fault.what);
            return Err(Fault { what, ..fault });
        }
        let patience = Patience::new(pauses::before_next(*pause, asked), stopped);
        Ok(self.endpoint.connections.run(patience.to_its_end())?)
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
        loop {
            let fault = match self.attempt(request, dialect, stopped) {
                Ok(mut reply) => {
                    reply.usage += usage;
                    return Ok(reply);
                }
                Err(fault) => fault,
            };
            usage += fault.usage;
            if let Some(left) = self.learn(dialect, &fault) {
                dialect = left;
                continue;
            }
            attempts += 1;
            self.pause(fault, attempts, stopped).map_err(|fault| {
                let (target, key) = (&self.target, self.key.as_ref());
                let host = self.endpoint.address.host();
                let timeout = self.timeout;
                About { target, host, key, timeout, attempts, usage }.failure(&fault)
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
