//! Whether arguments fit the JSON Schema of a tool.
//!
//! The server checks its arguments itself, so this is to tell a model what is wrong before the call
//! is made; what cannot be told passes. A schema comes from a server that nobody may trust: it is
//! read in a bounded number of steps, at a bounded depth, with regular expressions that run in
//! linear time, and nothing is fetched. A validator that does all of the specification has no such
//! bounds, as its references may double the work at each step.

mod applied;
mod asserted;
mod check;
mod equal;
mod facts;

use serde_json::Value;

use check::{Check, Fit};
use facts::SchemaFacts;

/// The findings about some arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fitness {
    /// They fit.
    Fits,
    /// They do not: what is wrong, the first few.
    Unfit(Vec<String>),
    /// The schema is too large, too deep, or has what is not understood here.
    Unknown,
}

/// Compares `arguments` with `schema`, in a bounded number of steps.
pub fn fitness(schema: &Value, arguments: &Value) -> Fitness {
    let Some(facts) = SchemaFacts::of(schema) else { return Fitness::Unknown };
    let mut check = Check::new(schema, facts);
    match check.all(schema, arguments) {
        Fit::Yes => Fitness::Fits,
        Fit::No => Fitness::Unfit(check.into_problems()),
        Fit::Unsure => Fitness::Unknown,
    }
}

#[cfg(test)]
mod tests;
