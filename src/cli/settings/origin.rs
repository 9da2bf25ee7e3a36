//! The origins of settings.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::outcome::Failure;
use crate::settings::value::Value;

/// A value and its origin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Setting<T = Value> {
    pub(crate) value: T,
    pub(crate) origin: Origin,
}

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Origin {
    /// The default.
    Default,
    /// A line of a file.
    File(FileLine),
    /// An environment variable.
    Environment { variable: &'static str },
    /// An argument of the command.
    Flag { flag: &'static str },
}

/// A line of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct FileLine {
    pub(crate) path: PathBuf,
    /// The number of the line, from 1.
    pub(crate) line: usize,
    /// The pattern of the tools, unless the setting is for all tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) tool: Option<String>,
}

/// The hint of every error in a settings file.
const HINT: &str = "`ctxfs config --defaults` prints every setting and its allowed values";

impl Origin {
    /// Returns the failure that `what` is wrong with the value of this origin.
    pub(super) fn failure(&self, what: &str) -> Failure {
        let text = match self {
            Self::File(line) => format!("{}: {what}", line.text()),
            Self::Environment { .. } | Self::Flag { .. } | Self::Default => what.to_owned(),
        };
        Failure::usage(text, HINT)
    }
}

impl FileLine {
    pub(super) fn new(path: &Path, line: usize) -> Self {
        Self { path: path.to_owned(), line, tool: None }
    }

    fn text(&self) -> String {
        format!("{}:{}", self.path.display(), self.line)
    }
}

/// Prints `default`, `/etc/x/ctxfs.toml:3`, `TOOL_OUTPUT_DIR` or `--quota`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(line @ FileLine { tool: None, .. }) => f.write_str(&line.text()),
            Self::File(line @ FileLine { tool: Some(tool), .. }) => {
                write!(f, "for {tool:?}, {}", line.text())
            }
            Self::Environment { variable } => f.write_str(variable),
            Self::Flag { flag } => f.write_str(flag),
        }
    }
}
