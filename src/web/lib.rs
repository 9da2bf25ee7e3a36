//! The page for people, `ctxfs web`: a door that shows conversations and outputs in a browser.
//!
//! It is read-only: no request changes anything. What an output contains is hostile, and is shown as
//! text, never as HTML. Sockets have one thread; the engine's work is done on a bounded number of
//! others.
//!
//! | module | content |
//! |---|---|
//! | [`options`](WebOptions) | the socket, the token, the engine |
//! | `server` | connections |
//! | `access`, `headers` | who may come in; the headers of every answer |
//! | `router` | which address is what |
//! | `address` | the addresses of conversations and outputs |
//! | `site` | what all requests share |
//! | `work` | the engine's work on threads of its own, and pages that are sent as they are made |
//! | `catalog` | the lists of conversations and outputs, kept at hand |
//! | `shell`, `shown`, `quantity`, `table` | what all pages are made of |
//! | `front`, `conversation`, `output`, `saved` | the pages |
//! | `raw` | the bytes of an output: downloads and images |
//! | `search`, `turns` | searches as they run, one of each tab at a time |
//! | `events`, `topics`, `follow` | what changes, told to those who follow it |
//! | `export` | a conversation as files |

mod access;
mod address;
mod catalog;
mod conversation;
mod display;
mod error;
mod events;
mod export;
mod front;
mod output;
mod raw;
mod router;
mod saved;
mod search;
mod server;
mod shell;
mod site;
mod table;
mod topics;
mod work;

pub use access::new_token;
pub use error::WebError;
pub use export::{Shelf, export};
pub use server::{WebOptions, serve};
