//! The cost of a question so far, for those who wait for its answer.

use crate::extract::asking::CallRecord;

/// A count of the calls that have ended.
#[derive(Debug, Default)]
pub struct CallTally {
    calls: u64,
    tokens: u64,
}

impl CallTally {
    /// Adds a call. Returns the number of calls so far, and words for a person: the model, calls and
    /// tokens.
    pub fn add(&mut self, call: &CallRecord) -> (u64, String) {
        self.calls += 1;
        self.tokens = self.tokens.saturating_add(call.usage.total());
        let Self { calls, tokens } = self;
        (*calls, format!("{}: {calls} calls, {tokens} tokens", call.target))
    }
}
