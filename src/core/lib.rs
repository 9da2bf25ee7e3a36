//! The vocabulary of ctxfs, and computations on bytes alone. Nothing here does input or output.
//!
//! [`model`] has names, references, records and the subjects of views; [`materialize`] makes one
//! pass over the bytes of an output; [`redact`] finds secrets and masks them.

pub mod materialize;
pub mod model;
pub mod redact;
