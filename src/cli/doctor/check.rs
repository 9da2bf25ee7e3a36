//! The results of checks.

use serde::Serialize;

/// The level of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Level {
    /// Correct.
    Ok,
    /// Correct, but not the best possible.
    Note,
    /// Wrong, but mounts work.
    Warning,
    /// Wrong, and no mount can work.
    Failure,
}

/// The result of one check.
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
