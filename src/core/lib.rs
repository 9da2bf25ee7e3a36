//! Data types of ctxfs, and computations on bytes. This crate does no input or output.
//!
//! [`model`] defines names, references, records and the inputs of views. [`materialize`] analyses
//! the bytes of an output in one pass. [`records`] splits an output into its records. [`redact`]
//! finds and masks secrets. [`parallel`] spreads work over threads.

pub mod materialize;
pub mod model;
pub mod parallel;
pub mod records;
pub mod redact;
