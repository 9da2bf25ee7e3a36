//! Sharing of conversations between several hosts through a bucket.
//!
//! [`replica`] has the rules and makes no request. [`bucket`] has the formats of the object store
//! and the requests to it. [`remote`] pushes local changes and pulls the changes of other hosts.

pub mod bucket;
pub mod channel;
pub mod remote;
pub mod replica;
