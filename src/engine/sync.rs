//! Locks, atomics, threads, and the time they wait for.
//!
//! `engine` and `fs` take all of them from here. In the program they are those of `parking_lot`,
//! `dashmap` and `std`; in tests with the feature `shuttle` they let the test decide which thread
//! runs next (see `fuse/tests/interleaved.rs`). `Arc` and plain counters need no stand-in.
//!
//! No lock is poisoned by a panic: the state that a lock guards is valid after every statement, and
//! the code that catches a panic reports it.

#[cfg(not(feature = "shuttle"))]
mod real;
#[cfg(feature = "shuttle")]
mod steered;

#[cfg(not(feature = "shuttle"))]
pub use real::*;
#[cfg(feature = "shuttle")]
pub use steered::*;
