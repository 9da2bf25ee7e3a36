//! Retention: which outputs are removed to make room, and in which order.
//!
//! Nothing is removed unless a rule says so, and what other hosts have is only let go here. The output that was used longest ago goes first, and
//! outputs that a message refers to go last. [`plan()`] looks and decides, [`sweep()`] removes.
//! Between the two, only other sweeps of the store are locked out, so each removal checks again
//! that its output has not been used.

mod inventory;
mod plan;
mod references;
mod rules;
mod sweep;

pub use plan::{PlannedRemoval, RemovalPlan, plan};
pub use rules::{RetentionRules, SweepScope};
pub use sweep::{LetGoOf, SweepReport, sweep, sweep_shared};

#[cfg(test)]
mod tests;
