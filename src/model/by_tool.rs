//! Limits that differ from tool to tool.

use crate::model::Limits;

/// Which limits hold for the output of a tool.
///
/// The answer is the same each time it is asked: a view's bytes depend on it.
pub trait LimitsByTool: Send + Sync + std::fmt::Debug {
    /// The limits of the tool that `Provenance::tool_name` names; of any other, where that is unknown.
    fn limits(&self, tool: Option<&str>) -> Limits;
}

/// The same for every tool.
impl LimitsByTool for Limits {
    fn limits(&self, _: Option<&str>) -> Limits {
        self.clone()
    }
}
