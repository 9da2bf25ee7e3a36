//! The wrapper programs through which hosts start shell commands, so that these run under `ctxfs
//! shell`. A variable in the settings of Claude Code and Codex names the wrapper. Other hosts find it
//! in their environment.
//!
//! A previous value of that variable stays in effect: the wrapper applies it. The wrapper also
//! records it, so that `--remove` can restore it.

use std::path::{Path, PathBuf};

use crate::env::{SHELL_PROGRAM, is_shell_program};
use crate::install::edit::{self, EditedFile, SettingsContent};
use crate::install::entry::{STORE_OPTION, ValueEntry};
use crate::install::place::{NamedPaths, SettingsDir, SettingsScope};
use crate::install::{json, toml};
use crate::{Environment, Failure, hooks::Host};

const PREFIX: &str = "CLAUDE_CODE_SHELL_PREFIX";
const BASH_ENV: &str = "BASH_ENV";
const CLAUDE_CODE: &str = include_str!("claude-code.sh");
const BASH: &str = include_str!("bash-env.bash");
const PROGRAM: &str = "/usr/bin/ctxfs";
const CLAUDE_CODE_LINE: &str = "set -- \"$shell\" -c \"$1\"\n";
const BASH_LINE: &str = "__ctxfs_theirs=\n";
const HOST: &str = " --host=codex";
const RUN: &str = " shell --host=";
// Prefixes of lines in the wrapper that record the previous value of the variable as a JSON string.
const IN_SETTINGS: &str = "# In the settings before: ";
const IN_ENVIRONMENT: &str = "# In the environment: ";

// Claude Code splits the prefix at this text into a program and its options.
const OPTION: &str = " -";

/// The wrapper program that a host uses to start shell commands, and the variable that names the
/// wrapper. `former` is the value that the variable had before.
#[derive(Debug, Clone)]
pub(crate) struct ShellProgram {
    host: Host,
    file: PathBuf,
    base: PathBuf,
    former: PreviousValue,
}

#[derive(Debug, Clone)]
enum PreviousValue {
    Nothing,
    InSettings(String),
    // The value is set in the environment of `ctxfs install`. The entry for the wrapper in the
    // settings of the host overrides it.
    InEnvironment(String),
}

impl ShellProgram {
    /// Returns the wrapper program of a host, or `None` if the host does not support one. The
    /// wrapper for a project is stored beside the user's wrapper, because commands of an agent may
    /// write to the project.
    pub(crate) fn of(
        host: Host,
        scope: SettingsScope,
        place: &SettingsDir,
        environment: &Environment,
    ) -> Result<Option<Self>, Failure> {
        let (extension, given) = match host {
            Host::ClaudeCode => ("", &environment.hosts.shell_prefix),
            Host::Codex => (".bash", &environment.hosts.bash_env),
            Host::Opencode | Host::GeminiCli | Host::Copilot | Host::Pi | Host::Cursor => {
                return Ok(None);
            }
        };
        let user = SettingsDir::of(host, SettingsScope::User, environment)?;
        let of_project = match scope {
            SettingsScope::User => String::new(),
            SettingsScope::Project => escaped(&place.base),
        };
        let file = user.dir.join(format!("{SHELL_PROGRAM}{of_project}{extension}"));
        let settings = place.dir.join(settings(host, scope));
        let former = PreviousValue::of(host, &settings, &file, given.as_deref());
        Ok(Some(Self { host, file, base: user.base, former }))
    }

    pub(crate) fn check(&self) -> Result<(), Failure> {
        let path = self.file.display().to_string();
        if self.host == Host::ClaudeCode && path.contains(OPTION) {
            let text = format!("Claude Code would cut the path `{path}` at `{OPTION}`");
            let hint = "name a directory without that: `CLAUDE_CONFIG_DIR=DIR`";
            return Err(Failure::usage(text, hint));
        }
        Ok(())
    }

    pub(crate) fn program(&self, paths: &NamedPaths) -> EditedFile {
        let content = SettingsContent::Whole(text(self.host, &self.former, paths));
        EditedFile { path: self.file.clone(), base: self.base.clone(), content, is_shared: false }
    }

    pub(crate) fn variable(&self) -> ValueEntry {
        let path = self.file.to_string_lossy().into_owned();
        let (name, value) = match self.host {
            // Bash expands the value as if it were between double quotes.
            Host::Codex => (BASH_ENV, escaped_for_bash(&path)),
            _ => (PREFIX, path),
        };
        let former = match &self.former {
            PreviousValue::InSettings(former) => Some(former.clone()),
            PreviousValue::Nothing | PreviousValue::InEnvironment(_) => None,
        };
        ValueEntry { name, value, former, replaces: true, is_ours: is_shell_program }
    }
}

/// Returns the text of a file for `BASH_ENV`, for a host that no settings have to name it for.
pub(crate) fn bash_env(
    host: Option<Host>,
    environment: &Environment,
    paths: &NamedPaths,
) -> String {
    let former = PreviousValue::given(environment.hosts.bash_env.as_deref());
    let text = text(Host::Codex, &former, paths);
    text.replacen(HOST, &host.map(|host| format!(" --host={host}")).unwrap_or_default(), 1)
}

fn text(host: Host, former: &PreviousValue, paths: &NamedPaths) -> String {
    let text = if host == Host::Codex { BASH } else { CLAUDE_CODE };
    let store = paths
        .named_store
        .as_deref()
        .map(|store| format!(" shell {STORE_OPTION}={} --host=", quoted(store)));
    let text = text.replacen(PROGRAM, &quoted(&paths.program), 1);
    let text = text.replacen(RUN, store.as_deref().unwrap_or(RUN), 1);
    let (note, former) = match former {
        PreviousValue::Nothing => return text,
        PreviousValue::InSettings(former) => (IN_SETTINGS, former),
        PreviousValue::InEnvironment(former) => (IN_ENVIRONMENT, former),
    };
    let (line, ours) = match host {
        Host::Codex => (BASH_LINE, format!("__ctxfs_theirs={}\n", quoted(former))),
        _ => (CLAUDE_CODE_LINE, format!("set -- {} \"$1\"\n", prefix(former))),
    };
    let note = format!("{note}{}\n", serde_json::Value::from(&**former));
    text.replacen(line, &format!("{note}{ours}"), 1)
}

impl PreviousValue {
    // Unreadable settings are treated as having no value. The later change of these settings then
    // fails.
    fn of(host: Host, settings: &Path, program: &Path, given: Option<&str>) -> Self {
        let text = |path| edit::read_text(path).ok().flatten();
        let now = text(settings).unwrap_or_default();
        let now = match host {
            Host::Codex => toml::variable_value(&now, BASH_ENV),
            _ => json::value(&now, &["env", PREFIX]),
        };
        if let Some(now) = now.filter(|now| !is_shell_program(now)) {
            return Self::InSettings(now);
        }
        if let Some(program) = text(program) {
            return Self::noted_in(&program);
        }
        Self::given(given)
    }

    fn given(given: Option<&str>) -> Self {
        let given = given.filter(|given| !given.is_empty() && !is_shell_program(given));
        given.map_or(Self::Nothing, |given| Self::InEnvironment(given.to_owned()))
    }

    fn noted_in(program: &str) -> Self {
        let noted = |note| {
            let text = program.lines().find_map(|line| line.strip_prefix(note))?;
            serde_json::from_str(text).ok()
        };
        match (noted(IN_SETTINGS), noted(IN_ENVIRONMENT)) {
            (Some(former), _) => Self::InSettings(former),
            (None, Some(former)) => Self::InEnvironment(former),
            (None, None) => Self::Nothing,
        }
    }
}

// Returns the name of the settings file to edit. For a project of Claude Code, this is the file of
// this user and not the shared one. Users without the wrapper could run no command with the shared
// file.
pub(crate) fn settings(host: Host, scope: SettingsScope) -> &'static str {
    match (host, scope) {
        (Host::Codex, _) => "config.toml",
        (_, SettingsScope::User) => "settings.json",
        (_, SettingsScope::Project) => "settings.local.json",
    }
}

// Encodes a path as part of a file name. Different paths have different encodings.
fn escaped(path: &Path) -> String {
    let escape = |c: char| match c {
        '/' => "-".to_owned(),
        c if c.is_alphanumeric() || c == '.' || c == '_' => c.to_string(),
        c => format!("%{:X}", u32::from(c)),
    };
    path.to_string_lossy().chars().map(escape).collect()
}

fn escaped_for_bash(path: &str) -> String {
    let escape = |c: char| if "\\$\"`".contains(c) { format!("\\{c}") } else { c.to_string() };
    path.chars().map(escape).collect()
}

// Claude Code quotes the program of the prefix, and leaves its options unquoted.
fn prefix(prefix: &str) -> String {
    match prefix.rsplit_once(OPTION).filter(|(program, _)| !program.is_empty()) {
        Some((program, options)) => format!("{} -{options}", quoted(program)),
        None => quoted(prefix),
    }
}

fn quoted(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| "''".to_owned(), std::borrow::Cow::into_owned)
}
