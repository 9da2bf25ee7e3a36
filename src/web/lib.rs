//! The web page `ctxfs web`, which shows conversations and outputs in a browser.
//!
//! It is read-only: no request changes anything. Outputs are untrusted and are shown as text, never
//! as HTML. One thread handles all sockets. The engine's work runs on a limited number of other
//! threads.
//!
//! | module | content |
//! |---|---|
//! | `server` | options, connections, and the handlers of all addresses |
//! | `access` | access control, and the headers of every answer |
//! | `address` | addresses of conversations and outputs |
//! | `site` | the state shared by all requests |
//! | `work` | runs the engine's work on threads: streams pages, runs searches |
//! | `catalog` | cached lists of conversations and outputs |
//! | `shell`, `display` | the parts common to all pages |
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
mod saved;
mod search;
mod server;
mod shell;
mod site;
mod topics;
mod work;

pub use access::new_token;
pub use error::WebError;
pub use export::{Shelf, export};
pub use server::{WebOptions, serve};

pub(crate) use access::{AccessDecision, AccessGate};
pub(crate) use catalog::{ConversationRow, ListedConversations, OutputRow, PageCatalog};
pub(crate) use error::Result;
pub(crate) use shell::{Column, Crumb, Order};
pub(crate) use site::Site;
pub(crate) use topics::{Followed, Followers, Following, Topic, TopicChange};
pub(crate) use work::{Lane, SearchTurn, Searches, Sink, Work};
