//! Authorization at servers over HTTP: OAuth 2.1, in the form that MCP has since 2025-11-25.
//!
//! A user logs in once, in a browser. The tokens go to a file of the user. Every gateway takes them
//! from there, and renews them when they have expired. A server whose entry has a header
//! `Authorization` is not concerned.
//!
//! | module | content |
//! |---|---|
//! | `discovery` | the challenge of a server, its metadata, and the metadata of its authorization server |
//! | `login` | the client, the redirect to this machine, the exchange of the code; the logout |
//! | `grants` | the file with the tokens, their renewal and their end |
//! | `exchange` | HTTP requests to authorization servers |

pub(crate) mod discovery;
mod exchange;
pub(crate) mod grants;
pub(crate) mod login;

pub use grants::GrantFile;
pub use login::{LoginOptions, log_in, log_out};
