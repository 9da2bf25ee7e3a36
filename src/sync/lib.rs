//! Conversations that several hosts share through a bucket.
//!
//! [`replica`] has the rules, without any request; `bucket` has the formats of the object store and
//! its requests; `remote` pushes what this host did and pulls what others did.

#[cfg(feature = "remote")]
pub mod bucket;
#[cfg(feature = "remote")]
pub mod remote;
pub mod replica;
