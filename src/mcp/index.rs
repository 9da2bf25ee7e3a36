//! The light index of tools: what there is in a few bytes, and the details on demand.

mod call;
mod catalog;
mod description;
mod details;
mod nearest;
mod overview;
mod resolve;
mod schema;
mod signature;
mod tool;

use std::collections::BTreeMap;

use crate::tool_name::TrueName;

pub use call::{Call, CallError, calls_of};
pub use catalog::{index_json, tool_json};
pub use details::{MOST_NAMES, TooManyNames, details};
pub use overview::{OVERVIEW_BYTES, overview};
pub use resolve::Resolved;
pub use schema::{Fitness, fitness};
pub use signature::signature;
pub use tool::Tool;

/// All tools, by the names under which they are offered.
#[derive(Debug, Clone, Default)]
pub struct Index {
    tools: BTreeMap<String, Tool>,
}

impl Index {
    /// Makes an index of `tools`.
    pub fn new(tools: impl IntoIterator<Item = Tool>) -> Self {
        Self { tools: tools.into_iter().map(|tool| (tool.name.clone(), tool)).collect() }
    }

    /// Returns the tools, sorted by name.
    pub fn tools(&self) -> impl ExactSizeIterator<Item = &Tool> {
        self.tools.values()
    }

    /// Returns the tool of exactly this name.
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.get(name)
    }

    /// Returns the tools of each server, both sorted by name.
    fn by_server(&self) -> BTreeMap<&str, Vec<&Tool>> {
        let mut servers: BTreeMap<&str, Vec<&Tool>> = BTreeMap::new();
        for tool in self.tools() {
            let TrueName { server, .. } = &tool.true_name;
            servers.entry(server).or_default().push(tool);
        }
        servers
    }
}

#[cfg(test)]
mod fixture;
