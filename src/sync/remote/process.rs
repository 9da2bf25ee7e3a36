//! Requests to the bucket through another process, which has network access and credentials.
//!
//! Each request uses its own socket. Requests therefore do not wait for each other, closing a
//! socket cancels its request, and a protocol error affects one request only. A [`Line`] creates
//! the sockets and manages the process.
//!
//! ```text
//! client                                        server
//!   RequestEnvelope: remaining time, request ->
//!   body, if any: chunks, each a length and
//!     its bytes; length 0 ends the body      ->
//!                                            <-  ReplyEnvelope: outcome, request counts
//!                                            <-  bytes or names of the outcome, if any
//! ```
//!
//! The server writes an object only after it has received the end of the body.
//!
//! | module | content |
//! |---|---|
//! | `protocol` | documents, and errors in them |
//! | `client` | requests of the process without network access |
//! | `server` | responses of the process with network access |
//! | `looks` | looks (see the module `look`) that another process runs |

mod client;
mod looks;
mod protocol;
mod server;
#[cfg(test)]
mod tests;

pub use client::{Line, ProcessObjects};
pub use looks::{ProcessLooks, answer_look};
pub use server::answer_request;
