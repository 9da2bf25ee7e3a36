//! Language models behind HTTP endpoints.
//!
//! [`model()`] makes a [`LanguageModel`] of the settings of a target. The model sends requests over
//! HTTP, retries if that may help, and reports other faults as a `ModelFailure`.
//!
//! [`LanguageModel`]: crate::extract::LanguageModel
//!
//! | module | content |
//! |---|---|
//! | `http_model` | the model: a request, its attempts, and what it learns of its endpoint |
//! | `endpoint` | one attempt, over the connections to an endpoint |
//! | `address` | the address of an endpoint, and the key of its requests |
//! | `patience` | how long an attempt waits, and the time between two attempts |
//! | `reading` | a reply as it arrives: a stream of events, or one document |
//! | `reply` | a reply, put together from its parts |
//! | `wire` | the two forms of requests and replies: `openai` and `anthropic` |
//! | `dialect` | the parameters that an endpoint accepts |
//! | `fault` | why an attempt has no reply |

mod address;
mod anthropic;
mod dialect;
mod endpoint;
mod fault;
mod http_model;
mod openai;
mod patience;
mod reading;
mod reply;
#[cfg(test)]
mod tests;
mod wire;

use std::time::Duration;

pub use address::AddressError;
pub use http_model::{HttpModel, TargetError, UnusableModel};

use crate::extract::TargetSettings;

/// Returns the model of a target.
///
/// `timeout` limits one attempt, from the connection to the last byte. `key` is the secret in the
/// variable `api_key_env`; it is sent only to the endpoint. Makes no request.
pub fn model(
    settings: &TargetSettings,
    timeout: Duration,
    key: Option<String>,
) -> Result<HttpModel, TargetError> {
    HttpModel::new(settings, timeout, key)
}
