//! Requests that another process makes, which has network access and credentials.
//!
//! Each request uses its own socket: requests do not wait for each other, closing the socket
//! cancels the request, and a protocol error affects one request only. A [`Line`] makes sockets and
//! manages the process.
//!
//! ```text
//! client                                        server
//!   RequestEnvelope: remaining time, request ->
//!   body, if any: chunks of a length and as
//!     many bytes; length 0 ends it           ->
//!                                            <-  ReplyEnvelope: outcome, request counts
//!                                            <-  bytes or names of the outcome, if any
//! ```
//!
//! A document is a length of four bytes, little-endian, and as much JSON. A body without its end
//! was interrupted, and nothing is written then.
//!
//! | module | content |
//! |---|---|
//! | `protocol` | sockets with a deadline; documents, bodies and errors on them |
//! | `client` | the process without network |
//! | `server` | the process with network |
//! | `looks` | looks of another process |

mod client;
mod looks;
mod protocol;
mod server;
#[cfg(test)]
mod tests;

pub use client::{Line, ProcessObjects};
pub use looks::{ProcessLooks, answer_look};
pub use server::{answer_read_request, answer_request};
