//! The rules of retention.

use std::time::Duration;

use ctxfs_core::model::Component;

/// The limits that outputs are kept within. Without any of them, everything is kept for ever.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RetentionRules {
    /// The age since the last use at which an output is removed.
    pub age: Option<Duration>,
    /// The most bytes that the outputs of one conversation may have.
    pub conversation: Option<u64>,
    /// The most bytes that the outputs of the store may have.
    pub store: Option<u64>,
    /// The bytes that must be free on the store's disk.
    pub free: Option<u64>,
}

/// The outputs that a sweep may remove.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SweepScope {
    /// All outputs of the store.
    Store,
    /// The outputs of one conversation, by age and by the bytes of the conversation.
    Conversation(Component),
}

/// The setting behind [`RetentionRules::age`].
pub(super) const AGE: &str = "keep_age";
/// The setting behind [`RetentionRules::conversation`].
pub(super) const CONVERSATION: &str = "keep_conversation";
/// The setting behind [`RetentionRules::store`].
pub(super) const STORE: &str = "keep_store";
/// The setting behind [`RetentionRules::free`].
pub(super) const FREE: &str = "keep_free";

/// The part of a limit that is freed when it is passed, as a divisor. With a tenth free, not every
/// new output triggers a sweep.
const SLACK: u64 = 10;

impl RetentionRules {
    /// Returns true if everything is kept.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if any rule limits bytes.
    pub fn bound_bytes(&self) -> bool {
        self.conversation.is_some() || self.store.is_some() || self.free.is_some()
    }
}

/// Returns the bytes of `used` that must be freed to get a little below `limit`.
pub(super) fn excess(used: u64, limit: u64) -> u64 {
    if used <= limit { 0 } else { used - (limit - limit / SLACK) }
}

/// Returns the bytes that must be freed to get from `free` to a little above `least`.
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
        assert!(RetentionRules::default().is_empty());
        let age = RetentionRules { age: Some(Duration::ZERO), ..RetentionRules::default() };
        assert!(!age.is_empty() && !age.bound_bytes());
    }
}
