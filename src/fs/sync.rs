//! Locks, atomics, threads and the time that they wait for.
//!
//! All of `fs` takes them from here: in the program they are those of `std` and `dashmap`, and in
//! tests with the feature `shuttle` they are such as let the test decide which thread goes on; see
//! `tests/interleaved.rs`. `Arc`, `PoisonError` and plain counters need no stand-in.

#[cfg(not(all(test, feature = "shuttle")))]
mod real;
#[cfg(all(test, feature = "shuttle"))]
#[expect(clippy::unnecessary_wraps, reason = "the signatures are those of `std`")]
mod steered;

#[cfg(not(all(test, feature = "shuttle")))]
pub(crate) use real::*;
#[cfg(all(test, feature = "shuttle"))]
pub(crate) use steered::*;
