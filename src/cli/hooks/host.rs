//! The hosts that have an adapter.

use std::fmt;

/// A host of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// Claude Code, and the Claude Agent SDK.
    ClaudeCode,
    /// Codex.
    Codex,
    /// opencode.
    Opencode,
    /// Gemini CLI.
    GeminiCli,
    /// GitHub Copilot CLI.
    Copilot,
    /// pi.
    Pi,
}

impl Host {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::ClaudeCode, Self::Codex, Self::Opencode, Self::GeminiCli, Self::Copilot, Self::Pi];

    /// Returns the host of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|host| host.name() == name)
    }

    /// Returns the name in commands, which is the server of the host's own tools too.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::GeminiCli => "gemini-cli",
            Self::Copilot => "copilot",
            Self::Pi => "pi",
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
