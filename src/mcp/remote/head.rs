//! The head of a request to a server, as far as it repeats the message in it.

use hyper::HeaderMap;
use hyper::header::HeaderValue;

use crate::envelope::Kind;
use crate::headers::{METHOD, NAME, VERSION, encoded};
use crate::message::Outgoing;
use crate::parsed::Parsed;

/// The facts of a message that is sent.
#[derive(Default)]
pub(super) struct Head {
    /// Its method, unless it is a response.
    pub(super) method: Option<String>,
    /// Its number, if it is a request.
    pub(super) number: Option<u64>,
    /// The revision that it names itself, as those since 2026-07-28 do.
    pub(super) revision: Option<String>,
    /// The tool, prompt or resource that it is about.
    name: Option<String>,
}

impl Head {
    /// Returns `None` for what is no message.
    pub(super) fn of(message: &Outgoing) -> Option<Self> {
        let parsed = Parsed::of(message.outline()).ok()?;
        let (method, number) = match &parsed.envelope.kind {
            Kind::Request { method } => {
                (Some(method.clone()), parsed.envelope.id(&parsed.message)?.parse().ok())
            }
            Kind::Notification { method } => (Some(method.clone()), None),
            Kind::Response { .. } => (None, None),
        };
        let name = method.as_deref().and_then(|method| parsed.named(method));
        Some(Self { method, number, revision: parsed.revision(), name })
    }

    pub(super) fn is(&self, method: &str) -> bool {
        self.method.as_deref() == Some(method)
    }

    /// Returns true for a request that finds out which revision a server speaks.
    pub(super) fn opens(&self) -> bool {
        self.is("initialize") || self.is("server/discover")
    }

    /// Adds the headers that repeat the message.
    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        let Some(revision) = &self.revision else { return };
        let values = [
            (&VERSION, Some(revision)),
            (&METHOD, self.method.as_ref()),
            (&NAME, self.name.as_ref()),
        ];
        for (name, value) in values {
            let value = value.and_then(|value| HeaderValue::from_str(&encoded(value)).ok());
            if let Some(value) = value {
                headers.insert(name, value);
            }
        }
    }
}
