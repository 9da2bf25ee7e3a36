//! Sharing of conversations between several hosts through a bucket. The crate is empty without the
//! feature `remote`.
//!
//! [`replica`] has the rules and makes no request. [`bucket`] has the formats of the object store
//! and the requests to it. [`remote`] pushes local changes and pulls the changes of other hosts.
#![cfg(feature = "remote")]

pub mod bucket;
pub mod remote;
pub mod replica;
