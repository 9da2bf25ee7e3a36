//! Keeping: which outputs go when there are too many, and in which order.
//!
//! Nothing goes unless a rule says so. What was used longest ago goes first, and what a message
//! refers to goes last. [`plan()`] looks and decides, [`carry_out`] removes; between the two nothing
//! is locked but the store against other sweeps, so each removal makes sure once more.

mod inventory;
mod plan;
mod references;
mod rules;
mod sweep;

pub use plan::Plan;
pub use plan::Victim;
pub use plan::plan;
pub use rules::Rules;
pub use rules::Scope;
pub use sweep::Outcome;
pub use sweep::carry_out;

#[cfg(test)]
mod tests;
