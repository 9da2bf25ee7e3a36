//! What is to be kept, and of what.

use std::time::Duration;

use crate::model::Component;

/// How much is kept. Without any of these, everything is, for ever.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rules {
    /// An output that was not used for so long goes.
    pub age: Option<Duration>,
    /// Most bytes of the outputs of one conversation.
    pub conversation: Option<u64>,
    /// Most bytes of the outputs of the store.
    pub store: Option<u64>,
    /// Bytes that are to be free on the store's disk.
    pub free: Option<u64>,
}

/// Whose outputs may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Everybody's.
    Store,
    /// Those of one conversation: by age, and by the bytes of the conversation.
    Conversation(Component),
}

/// The settings that the rules come from.
pub(super) const AGE: &str = "keep_age";
pub(super) const CONVERSATION: &str = "keep_conversation";
pub(super) const STORE: &str = "keep_store";
pub(super) const FREE: &str = "keep_free";

/// How much of a limit is made free when it is passed: with a tenth, not every output has to make
/// room for itself.
const SLACK: u64 = 10;

impl Rules {
    /// Whether everything is kept.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether any of them is about bytes.
    pub fn bound_bytes(&self) -> bool {
        self.conversation.is_some() || self.store.is_some() || self.free.is_some()
    }
}

/// Bytes that have to go of `used`, so that at most `limit` are left, and a little less.
pub(super) fn excess(used: u64, limit: u64) -> u64 {
    if used <= limit { 0 } else { used - (limit - limit / SLACK) }
}

/// Bytes that have to go so that of `free` ones there are `least`, and a little more.
pub(super) fn lack(free: u64, least: u64) -> u64 {
    if free >= least { 0 } else { least.saturating_add(least / SLACK) - free }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_passed_is_passed_by_some() {
        assert_eq!(excess(1000, 1000), 0);
        assert_eq!(excess(1001, 1000), 101);
        assert_eq!(excess(7, 0), 7);
        assert_eq!(lack(1000, 1000), 0);
        assert_eq!(lack(999, 1000), 101);
        assert_eq!(lack(0, u64::MAX), u64::MAX);
    }

    #[test]
    fn without_rules_everything_is_kept() {
        assert!(Rules::default().is_empty());
        let age = Rules { age: Some(Duration::ZERO), ..Rules::default() };
        assert!(!age.is_empty() && !age.bound_bytes());
    }
}
