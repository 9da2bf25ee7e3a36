//! The result of one check.

use serde::Serialize;

/// How a thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Level {
    /// Right.
    Ok,
    /// Right, with less than there could be.
    Note,
    /// Wrong, though a mount works.
    Warning,
    /// Wrong: no mount can work.
    Failure,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) level: Level,
    pub(super) found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mend: Option<String>,
}

impl Check {
    pub(super) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, level: Level::Ok, found: found.into(), mend: None }
    }

    pub(super) fn bad(
        name: &'static str,
        level: Level,
        found: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self { name, level, found: found.into(), mend: Some(mend.into()) }
    }
}
