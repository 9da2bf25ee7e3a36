//! The page for people, `ctxfs web`: a door that shows conversations and outputs in a browser.
//!
//! It is read-only: no request changes anything. Outputs are hostile, and are shown as text, never
//! as HTML. Sockets have one thread; the engine's work is done on a bounded number of others.
//!
//! | module | content |
//! |---|---|
//! | `server` | options and connections |
//! | `access` | the gate, and the headers of every answer |
//! | `router`, `address` | the addresses of all pages |
//! | `site` | the state that all requests share |
//! | `work` | the engine's work on threads: pages that are sent as they are made, searches of tabs |
//! | `catalog` | the lists of conversations and outputs, kept at hand |
//! | `shell`, `display`, `table` | the parts of all pages |
//! | `front`, `conversation`, `output`, `saved` | the pages |
//! | `raw` | the bytes of an output: downloads and images |
//! | `search` | searches as they run |
//! | `events`, `topics` | changes of the topics that tabs follow |
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
