//! Language models behind HTTP endpoints.
//!
//! [`HttpModel`] is a [`LanguageModel`] with the settings of a target. The model sends requests
//! over HTTP, and retries them if this may help. It reports all other faults as a `ModelFailure`.
//!
//! [`LanguageModel`]: crate::extract::LanguageModel
//!
//! | module | content |
//! |---|---|
//! | `http_model` | the model: its attempts, and the parameters that its endpoint accepts |
//! | `endpoint` | a single attempt, over the connections to an endpoint |
//! | `address` | the address of an endpoint, and the key for its requests |
//! | `patience` | the time limit of an attempt, and the pause between attempts |
//! | `reading` | reads a reply: a stream of events, or one document |
//! | `reply` | a reply that is assembled from its parts |
//! | `wire` | the two formats of requests and replies: `openai` and `anthropic` |
//! | `dialect` | the parameters that an endpoint accepts |
//! | `fault` | the reason why an attempt failed |

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

pub use address::AddressError;
pub use http_model::{HttpModel, TargetError, UnusableModel};
