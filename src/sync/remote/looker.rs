
use std::fmt;

use crate::remote::RemoteError;
use ctxfs_core::model::Component;

///+ Maximum conversations in a list of the bucket.
pub(super) const MOST_CONVERSATIONS: usize = 10_000;

///+ Runs looks and applies their changes: a [`Tier`](crate::remote::Tier) in this process, or a
///+ client of another process.
pub trait Looker: fmt::Debug + Send + std::marker::Sync {
    ///+ Looks at a conversation, or with `None` lists the conversations of the bucket. Returns
    ///+ within a bounded time.
    fn look_now(&self, at: Option<&Component>) -> Result<Heard, RemoteError>;

    ///+ Returns why looks are impossible, for people; `None` if they work.
    fn trouble(&self) -> Option<String> {
        None
    }
}

///+ Outcome of a look.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Heard {
    ///+ True if the bucket answered.
    pub is_answered: bool,
    ///+ Conversations in the bucket, if they were listed.
    pub conversations: Option<Vec<Component>>,
}
