//! The web page `ctxfs web`, which shows conversations and outputs in a browser.
//!
//! It is read-only: no request changes anything. Outputs are untrusted and are shown as text, never
//! as HTML. One thread handles all sockets. The engine's work runs on a limited number of other
//! threads.
//!
//! | module | content |
//! |---|---|
//! | `server` | options and connections |
//! | `access` | access control, and the headers of every answer |
//! | `router`, `address` | the addresses of all pages |
//! | `site` | the state shared by all requests |
//! | `work` | runs the engine's work on threads: streams pages, runs searches |
//! | `catalog` | cached lists of conversations and outputs |
//! | `shell`, `display`, `table` | the parts common to all pages |
//! | `front`, `conversation`, `output`, `saved` | the pages |
//! | `raw` | the bytes of an output: downloads and images |
//! | `search` | streams search results |
//! | `events`, `topics` | changes of the topics that tabs follow |
//! | `export` | exports a conversation as files |

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
