//! Language models that read an output, and HTTP.
//!
//! [`extract`] reads outputs with models behind a trait. [`llm`] implements the trait for models
//! behind HTTP endpoints. The gateway and the web page also use [`http_client`] and
//! [`http_server`].

pub mod extract;
pub mod http_client;
pub mod http_server;
pub mod llm;
