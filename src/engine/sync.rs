//! Locks, atomics, threads, and the time they wait for.
//!
//! `engine` and `fs` take all of them from here. In the program they are those of `parking_lot`,
//! `dashmap` and `std`; in tests with the feature `shuttle` they let the test decide which thread
//! runs next (see `fs/tests/interleaved.rs`). `Arc` and plain counters need no stand-in.
//!
//! No lock is poisoned by a panic: what a lock guards is whole after every statement, and a panic
//! is reported by whoever catches it.

#[cfg(not(all(test, feature = "shuttle")))]
mod real;
#[cfg(all(test, feature = "shuttle"))]
mod steered;

#[cfg(not(all(test, feature = "shuttle")))]
pub(crate) use real::*;
#[cfg(all(test, feature = "shuttle"))]
pub(crate) use steered::*;
