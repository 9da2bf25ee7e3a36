//! Counts of calls: of tools through the MCP gateway, and of language models.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Calls of a tool that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallCounts {
    /// Calls.
    pub times: u64,
    /// Those that failed.
    pub errors: u64,
    /// Milliseconds that they took.
    pub millis: u64,
    /// Bytes of the answers of the server.
    pub received: u64,
    /// Bytes of what the client got of them.
    pub given: u64,
}

/// Light indexes that stood for the schemas of tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IndexCounts {
    /// Sessions that were told an index.
    pub times: u64,
    /// Tokens of the indexes.
    pub tokens: u64,
    /// Tokens of the schemas that they stood for.
    pub schemas: u64,
}

/// Questions about outputs, and what they cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QuestionCounts {
    /// Questions.
    pub times: u64,
    /// Those that were answered before.
    pub cached: u64,
    /// Calls of models.
    pub calls: u64,
    /// Tokens of the requests.
    pub input: u64,
    /// Tokens of the replies.
    pub output: u64,
    /// Their price in billionths of a dollar.
    pub nanodollars: u64,
    /// Milliseconds that they took.
    pub millis: u64,
}

impl AddAssign for QuestionCounts {
    fn add_assign(&mut self, other: Self) {
        self.times = self.times.saturating_add(other.times);
        self.cached = self.cached.saturating_add(other.cached);
        self.calls = self.calls.saturating_add(other.calls);
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.nanodollars = self.nanodollars.saturating_add(other.nanodollars);
        self.millis = self.millis.saturating_add(other.millis);
    }
}

impl AddAssign for CallCounts {
    fn add_assign(&mut self, other: Self) {
        self.times = self.times.saturating_add(other.times);
        self.errors = self.errors.saturating_add(other.errors);
        self.millis = self.millis.saturating_add(other.millis);
        self.received = self.received.saturating_add(other.received);
        self.given = self.given.saturating_add(other.given);
    }
}

impl AddAssign for IndexCounts {
    fn add_assign(&mut self, other: Self) {
        self.times = self.times.saturating_add(other.times);
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.schemas = self.schemas.saturating_add(other.schemas);
    }
}
