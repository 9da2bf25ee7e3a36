//! Looks into the bucket: by this process, or by another one for it.

use std::fmt;

use crate::remote::RemoteError;
use ctxfs_core::model::Component;

/// The most conversations of a bucket that a look at all of them finds.
pub(super) const MOST_CONVERSATIONS: usize = 10_000;

/// Looks into the bucket, and does here what others did.
pub trait Looker: fmt::Debug + Send + std::marker::Sync {
    /// Looks at a conversation, or at which conversations there are. Waits for a bounded time.
    fn look_now(&self, at: Option<&Component>) -> Result<Heard, RemoteError>;

    /// Returns why it cannot look at all, for people; `None` if it can.
    fn trouble(&self) -> Option<String> {
        None
    }
}

/// The outcome of a look.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Heard {
    /// True if the bucket answered.
    pub is_answered: bool,
    /// The conversations of the bucket, if they were looked at.
    pub conversations: Option<Vec<Component>>,
}
