//! The hosts that have an adapter, and the maximum output that each of them shows its model.

use std::fmt;

use ctxfs_core::model::Limits;

/// An agent host that has an adapter. Commands and settings use the name of the host. In records,
/// this name also stands for the server of the host's own tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// Claude Code, and the Claude Agent SDK.
    ClaudeCode,
    Codex,
    Opencode,
    GeminiCli,
    /// GitHub Copilot CLI. The agent of VS Code runs the same hook.
    Copilot,
    Pi,
    Cursor,
}

impl Host {
    pub const ALL: [Self; 7] = [
        Self::ClaudeCode,
        Self::Codex,
        Self::Opencode,
        Self::GeminiCli,
        Self::Copilot,
        Self::Pi,
        Self::Cursor,
    ];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|host| host.name() == name)
    }

    /// Returns the name that commands use. In records, this name also stands for the server of the
    /// host's own tools.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::GeminiCli => "gemini-cli",
            Self::Copilot => "copilot",
            Self::Pi => "pi",
            Self::Cursor => "cursor",
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Facts about the machine that adapters need. Adapters do not read the environment themselves.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    pub uid: u32,
    /// The directory of Claude Code's temporary files: `$CLAUDE_CODE_TMPDIR`, or else `/tmp`.
    pub claude_code_tmp: std::path::PathBuf,
    /// The directory in which the host runs the hook, if it is known.
    pub directory: Option<std::path::PathBuf>,
    /// True if Cursor runs the hook. Cursor also runs the hooks of Claude Code.
    pub is_cursor: bool,
}

pub(crate) const CHAR_BYTES: u64 = '\u{10ffff}'.len_utf8() as u64;

/// The outputs of a host that are replaced by their stand-ins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Replaced {
    /// Outputs that the host would cut.
    #[default]
    Cut,
    /// Outputs that the host would cut. Also any output over the limits, if its stand-in has at
    /// most a third of the output's tokens.
    Long,
}

/// Minimum number of characters of a successful output that is stored though the model gets it
/// whole.
const STORED_CHARS: u64 = 1000;

/// The settings that determine whether an output is replaced in a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplacePolicy {
    pub replaced: Replaced,
    /// True if no output is stored that the model gets whole.
    pub stores_long_only: bool,
    /// True if the commands of the host run under `ctxfs shell`, which stores their outputs.
    pub has_shell: bool,
    /// `$BASH_MAX_OUTPUT_LENGTH`: the maximum number of characters of a command's output that
    /// Claude Code shows.
    pub bash_chars: Option<u64>,
}

/// The kinds of results. Hosts cut each kind at a different length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultKind {
    /// The output of a command that succeeded, or whose exit code is unknown.
    Command,
    /// The output of a command that failed.
    FailedCommand,
    /// The result of a search of files.
    Search,
    /// The result of any other tool: a single text.
    Text,
    /// The result of any other tool: several texts, or a text with other content.
    Mixed,
}

/// The size up to which a host shows an output whole to its model. The host cuts an output that
/// exceeds any of these limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShownWhole {
    chars: u64,
    bytes: u64,
    lines: u64,
}

/// The length of an output in the units that hosts count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OutputLength {
    /// Number of UTF-16 code units, as hosts written in JavaScript count characters. An invalid byte
    /// counts as one, unless it has the form of a continuation byte.
    pub chars: u64,
    pub bytes: u64,
    pub newlines: u64,
}

impl ReplacePolicy {
    /// Returns true if an output that the model gets whole is stored all the same, to be searched
    /// later: if it has 1,000 characters, or if the call failed and says anything. Outputs of a tool
    /// whose limits are `never` are left alone.
    pub fn stores_shown(&self, limits: &Limits, length: OutputLength, has_failed: bool) -> bool {
        let is_enough = length.chars >= STORED_CHARS || (has_failed && length.bytes > 0);
        is_enough && !self.stores_long_only && !limits.are_kept_by(Limits::NEVER, Limits::NEVER)
    }

    /// Returns the maximum size of a command's output that `host` shows whole, or that a host
    /// without an adapter is taken to show whole.
    pub fn shown_of_command(&self, host: Option<Host>, exit_code: Option<i32>) -> ShownWhole {
        let kind = ResultKind::of_command(exit_code);
        host.map_or(ShownWhole::chars(10_000), |host| self.shown_whole(host, kind))
    }

    /// Returns the maximum size of a result that `host` shows whole, as listed in `docs/HOSTS.md`.
    /// There is no limit for results that the host is not known to cut.
    pub fn shown_whole(&self, host: Host, kind: ResultKind) -> ShownWhole {
        match (host, kind) {
            (Host::ClaudeCode, ResultKind::Command) => {
                ShownWhole::chars(self.bash_chars.unwrap_or(30_000))
            }
            // The host cuts more than 11,024, which include a line such as `Exit code 255`.
            (Host::ClaudeCode, ResultKind::FailedCommand) => ShownWhole::chars(11_010),
            // Of 2.1.332: `maxResultSizeChars` of `Grep`. All other tools with a text have at least
            // 50,000, the most of any tool.
            (Host::ClaudeCode, ResultKind::Search) => ShownWhole::chars(20_000),
            (Host::ClaudeCode, ResultKind::Text) => ShownWhole::chars(50_000),
            (Host::ClaudeCode, ResultKind::Mixed) => ShownWhole::chars(100_000),
            (Host::Codex, _) => ShownWhole::chars(10_000),
            (Host::GeminiCli | Host::Pi, ResultKind::Mixed)
            | (Host::Pi, ResultKind::Text | ResultKind::Search)
            | (Host::Cursor, _) => ShownWhole::ALL,
            (Host::GeminiCli, _) => ShownWhole::chars(40_000),
            (Host::Copilot, _) => ShownWhole { bytes: 20 << 10, ..ShownWhole::ALL },
            (Host::Opencode, _) | (Host::Pi, ResultKind::Command | ResultKind::FailedCommand) => {
                ShownWhole { bytes: 50 << 10, lines: 2000, ..ShownWhole::ALL }
            }
        }
    }
}

impl ResultKind {
    /// Returns the kind of result of a command with this exit code.
    pub fn of_command(exit_code: Option<i32>) -> Self {
        if exit_code.is_some_and(|code| code != 0) { Self::FailedCommand } else { Self::Command }
    }
}

impl ShownWhole {
    const ALL: Self = Self { chars: Limits::NEVER, bytes: Limits::NEVER, lines: Limits::NEVER };

    fn chars(chars: u64) -> Self {
        Self { chars, ..Self::ALL }
    }

    /// Returns true if an output of this length is within the limits.
    pub fn holds(&self, length: OutputLength) -> bool {
        let OutputLength { chars, bytes, newlines } = length;
        chars <= self.chars && bytes <= self.bytes && newlines <= self.lines
    }

    /// Returns an upper bound for the size in bytes of an output that is shown whole.
    pub fn most_bytes(&self) -> u64 {
        self.bytes.min(self.chars.saturating_mul(CHAR_BYTES))
    }
}

impl OutputLength {
    pub fn of(bytes: &[u8]) -> Self {
        let mut length = Self::default();
        length.add(bytes);
        length
    }

    /// Appends `bytes` to the counted output.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        let units = |byte: &u8| u64::from(byte & 0xC0 != 0x80) + u64::from(*byte >= 0xF0);
        self.chars += bytes.iter().map(units).sum::<u64>();
        self.newlines += memchr::memchr_iter(b'\n', bytes).count() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(host: Host, kind: ResultKind) -> String {
        let ShownWhole { chars, bytes, lines } = ReplacePolicy::default().shown_whole(host, kind);
        let named = [(chars, "characters"), (bytes, "bytes"), (lines, "lines")];
        let parts: Vec<String> = named
            .into_iter()
            .filter(|(most, _)| *most < Limits::NEVER)
            .map(|(most, what)| {
                let thousands = most / 1000;
                format!("{thousands},{:03} {what}", most % 1000)
            })
            .collect();
        if parts.is_empty() { "all".to_owned() } else { parts.join(" and ") }
    }

    #[test]
    fn the_table_in_the_documents_is_the_one_here() {
        let kinds = [
            ResultKind::Command,
            ResultKind::FailedCommand,
            ResultKind::Search,
            ResultKind::Text,
            ResultKind::Mixed,
        ];
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/HOSTS.md");
        let page = std::fs::read_to_string(page).unwrap();
        for host in Host::ALL {
            let cells: Vec<String> = kinds.into_iter().map(|kind| shown(host, kind)).collect();
            let row = format!("| `{host}` | {} |", cells.join(" | "));
            assert!(page.contains(&row), "docs/HOSTS.md lacks {row}");
        }
    }

    #[test]
    fn a_host_cuts_what_has_one_more_of_anything() {
        let policy = ReplacePolicy::default();
        let claude = policy.shown_whole(Host::ClaudeCode, ResultKind::Command);
        // The limit counts characters, not bytes.
        assert!(claude.holds(OutputLength::of("\u{e9}".repeat(30_000).as_bytes())));
        assert!(!claude.holds(OutputLength::of("\u{e9}".repeat(30_001).as_bytes())));
        assert!(claude.holds(OutputLength::of("\u{1f600}".repeat(15_000).as_bytes())));
        assert!(!claude.holds(OutputLength::of("\u{1f600}".repeat(15_001).as_bytes())));
        let opencode = policy.shown_whole(Host::Opencode, ResultKind::Text);
        assert!(opencode.holds(OutputLength::of(&b"x\n".repeat(2000))));
        assert!(!opencode.holds(OutputLength::of(&b"x\n".repeat(2001))));
        assert!(!opencode.holds(OutputLength::of("\u{e9}".repeat(25_601).as_bytes())));
        let raised = ReplacePolicy { bash_chars: Some(90_000), ..policy };
        let raised = raised.shown_whole(Host::ClaudeCode, ResultKind::Command);
        assert!(raised.holds(OutputLength::of("x".repeat(90_000).as_bytes())));
        assert_eq!(raised.most_bytes(), 360_000);
    }
}
