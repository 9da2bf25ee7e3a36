//! What all clients over HTTP share: connections, errors with their causes, the lines of event
//! streams.

mod causes;
mod client;
mod line_ends;

pub use causes::causes;
pub use client::HttpClient;
pub use line_ends::LineEnds;
