//! What all clients over HTTP share: connections, errors with their causes, the lines of event
//! streams.

mod causes;
mod client;
mod line_ends;

pub(crate) use causes::causes;
pub(crate) use client::HttpClient;
pub(crate) use line_ends::LineEnds;
