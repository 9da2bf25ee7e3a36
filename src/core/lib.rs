//! The words of ctxfs, and what is computed from bytes alone. Nothing here does input or output.
//!
//! [`model`] has names, references, records and what views read; [`materialize`] makes one pass over
//! the bytes of an output; [`redact`] finds secrets and masks them.

pub mod materialize;
pub mod model;
pub mod redact;
