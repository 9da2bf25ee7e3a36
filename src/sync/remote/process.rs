//! Requests that another process makes, which has the network and the keys.
//!
//! Each request has a socket of its own. So nobody waits for another's answer, the end of a socket
//! is the end of its request, and what is odd in one harms no other. How the other process gets the
//! other end, and who starts it, is a matter of the [`Line`].
//!
//! ```text
//! who asks                                      who has the network
//!   Asked: the time that is left, a request  ->
//!   the bytes to be written, if any, in pieces
//!     of a length and as many bytes; 0 ends  ->
//!                                           <-  Replied: the outcome, the requests so far
//!                                           <-  the bytes or names of the outcome, if any
//! ```
//!
//! A document is a length of four bytes, the lowest first, and as much JSON. A body that ends
//! without its 0 was cut off, and nothing is written.
//!
//! | module | content |
//! |---|---|
//! | `channel` | a socket with an end; documents and bodies on it |
//! | `message` | the documents |
//! | `fault` | errors as they are sent |
//! | `asking` | who asks |
//! | `answering` | who has the network |
//! | `haste` | reads for somebody who waits |
//! | `looks` | looks, made by another process |

mod answering;
mod asking;
mod channel;
mod fault;
mod haste;
mod looks;
mod message;
#[cfg(test)]
mod tests;

pub use answering::{answer_read_request, answer_request};
pub use asking::{Line, ProcessObjects};
pub use looks::{ProcessLooks, answer_look};
