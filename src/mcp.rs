//! The MCP gateway: what it decides, in values alone. No sockets, no processes, no clock.

pub mod batch_plan;
pub mod budget;
pub mod config;
pub mod index;
pub mod permission;
pub mod tool_name;
pub mod visible;
