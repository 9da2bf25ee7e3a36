//! Conversations that several hosts share through a bucket. Empty without feature `remote`.
//!
//! [`replica`] has the rules and makes no request; [`bucket`] has the formats of the object store
//! and its requests; [`remote`] pushes local changes and pulls the changes of other hosts.
#![cfg(feature = "remote")]

pub mod bucket;
pub mod remote;
pub mod replica;
