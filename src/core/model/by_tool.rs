//! Limits that differ from tool to tool.

use crate::model::Limits;

/// The limits for the output of each tool.
///
/// The answer never changes: the bytes of a view depend on it.
pub trait LimitsByTool: Send + Sync + std::fmt::Debug {
    /// Returns the limits of `tool`, a name by `Provenance::tool_name`. If it is not known, returns
    /// the limits of tools without their own.
    fn limits(&self, tool: Option<&str>) -> Limits;
}

/// One set of limits for every tool.
impl LimitsByTool for Limits {
    fn limits(&self, _: Option<&str>) -> Limits {
        self.clone()
    }
}
