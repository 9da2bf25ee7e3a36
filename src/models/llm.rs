//! Language models behind HTTP endpoints.
//!
//! [`model()`] makes a [`LanguageModel`] of the settings of a target. It asks over HTTP, tries
//! again where that may help, and reports what cannot be helped as a `ModelFailure`.
//!
//! [`LanguageModel`]: crate::extract::LanguageModel
//!
//! | module | content |
//! |---|---|
//! | `http_model` | the model: a request, its attempts, and what it learns of its endpoint |
//! | `attempt` | one request, and what comes back |
//! | `reading` | a reply as it comes: a stream of events, or one document |
//! | `patience` | how long an attempt waits |
//! | `pauses` | the time between two attempts |
//! | `connections` | the connections to an endpoint, and the thread that drives them |
//! | `address`, `key` | where requests go, and what they prove |
//! | `wire` | the two forms of requests and replies: `openai` and `anthropic` |
//! | `dialect` | which parameters an endpoint takes |
//! | `events` | a stream of server-sent events |
//! | `reply` | a reply, put together from its parts |
//! | `complaint` | what an endpoint says is wrong |
//! | `fault` | why an attempt has no reply |
//! | `failure` | a fault in words |
//! | `unusable` | a model that cannot be asked as it is configured |

mod address;
mod anthropic;
mod attempt;
mod complaint;
mod connections;
mod dialect;
mod events;
mod failure;
mod fault;
mod http_model;
mod key;
mod openai;
mod patience;
mod pauses;
mod reading;
mod reply;
#[cfg(test)]
mod tests;
mod unusable;
mod wire;

use std::time::Duration;

pub use address::AddressError;
pub use http_model::{HttpModel, TargetError};
pub use unusable::UnusableModel;

use crate::extract::TargetSettings;

/// Returns the model of a target.
///
/// `timeout` is the time of one attempt, from the connection to the last byte. `key` is the secret
/// that `api_key_env` names; it goes to the endpoint and nowhere else. Makes no request.
pub fn model(
    settings: &TargetSettings,
    timeout: Duration,
    key: Option<String>,
) -> Result<HttpModel, TargetError> {
    HttpModel::new(settings, timeout, key)
}
