//! Language models that read an output, and HTTP.
//!
//! [`extract`] reads outputs with models behind a trait, and [`llm`] asks models behind HTTP endpoints. [`http_client`] and [`http_server`] are shared with the gateway
//! and the page.

pub mod extract;
pub mod http_client;
pub mod http_server;
pub mod llm;
