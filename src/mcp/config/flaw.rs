//! What is wrong in a file of servers.

use std::fmt;

/// Something wrong or not known, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// True if a server is left out.
    pub severity: Severity,
    /// The file, as messages call it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The keys that lead there, such as `mcpServers.github.env.TOKEN`.
    pub key: String,
    /// The fault, and the remedy.
    pub what: String,
}

/// The effect of a flaw.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// A server, or all of them, cannot be served.
    Error,
    /// It is passed over.
    Warning,
}

/// ``mcp.json:7: `mcpServers.github.env.TOKEN` is wrong``.
impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.file, self.line)?;
        if !self.key.is_empty() {
            write!(f, "`{}` ", self.key)?;
        }
        f.write_str(&self.what)
    }
}
