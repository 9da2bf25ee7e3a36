//! The machine, as adapters know it. They read no environment themselves.

use std::path::PathBuf;

/// The machine of a hook.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// The user.
    pub uid: u32,
    /// The directory of Claude Code's temporary files: `$CLAUDE_CODE_TMPDIR`, or else `/tmp`.
    pub claude_code_tmp: PathBuf,
    /// True if Cursor runs the hook: it runs those of Claude Code, too.
    pub is_cursor: bool,
}
