//! The programs through which hosts start their commands, so that these run under `ctxfs run`.
//!
//! Each is a file that a variable in the settings of the host names. What the user had in that
//! variable stays in force: the program has it, and `--remove` puts it back.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::env::Environment;
use crate::hooks::Host;
use crate::install::change::EditedFile;
use crate::install::command_line::STORE;
use crate::install::content::SettingsContent;
use crate::install::entry::ValueEntry;
use crate::install::named_paths::NamedPaths;
use crate::install::place::{Scope, SettingsDir};
use crate::install::{json, replace, toml_variables};
use crate::outcome::Failure;

/// The beginning of the names of the programs.
const NAME: &str = "ctxfs-shell";
/// The variables that name them.
const PREFIX: &str = "CLAUDE_CODE_SHELL_PREFIX";
const BASH_ENV: &str = "BASH_ENV";
/// The texts of the programs, with the parts of them that are filled in.
const CLAUDE_CODE: &str = include_str!("claude-code.sh");
const CODEX: &str = include_str!("codex.bash");
const PROGRAM: &str = "/usr/bin/ctxfs";
const CLAUDE_CODE_LINE: &str = "set -- \"$shell\" -c \"$1\"\n";
const CODEX_LINE: &str = "__ctxfs_theirs=\n";
const RUN: &str = " run --host=";
/// The lines of a program that tell what the variable had before, as a text of JSON.
const IN_SETTINGS: &str = "# In the settings before: ";
const IN_ENVIRONMENT: &str = "# In the environment: ";

/// Claude Code cuts a prefix here into a program and its options.
const OPTION: &str = " -";

/// The door of a host: the file of the program, and the variable that names it.
#[derive(Debug, Clone)]
pub(super) struct Door {
    host: Host,
    file: PathBuf,
    base: PathBuf,
    former: Former,
}

/// The value of the variable before it was ours.
#[derive(Debug, Clone)]
enum Former {
    Nothing,
    InSettings(String),
    /// The settings of a host would hide it from its commands.
    InEnvironment(String),
}

impl Door {
    /// Returns the door of a host that has one. Programs of projects are beside that of the user,
    /// too: commands of an agent may write to the project.
    pub(super) fn of(
        host: Host,
        scope: Scope,
        place: &SettingsDir,
        environment: &Environment,
    ) -> Result<Option<Self>, Failure> {
        let (extension, given) = match host {
            Host::ClaudeCode => ("", &environment.hosts.shell_prefix),
            Host::Codex => (".bash", &environment.hosts.bash_env),
            Host::Opencode | Host::GeminiCli | Host::Copilot | Host::Pi => return Ok(None),
        };
        let user = SettingsDir::of(host, Scope::User, environment)?;
        let of_project = match scope {
            Scope::User => String::new(),
            Scope::Project => escaped(&place.base),
        };
        let file = user.dir.join(format!("{NAME}{of_project}{extension}"));
        let settings = place.dir.join(settings(host, scope));
        let former = Former::of(host, &settings, &file, given.as_deref());
        Ok(Some(Self { host, file, base: user.base, former }))
    }

    /// Fails if the host would not find the program.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let path = self.file.display().to_string();
        if self.host == Host::ClaudeCode && path.contains(OPTION) {
            let text = format!("Claude Code would cut the path `{path}` at `{OPTION}`");
            let hint = "name a directory without that: `CLAUDE_CONFIG_DIR=DIR`";
            return Err(Failure::usage(text, hint));
        }
        Ok(())
    }

    /// Returns the file of the program.
    pub(super) fn program(&self, paths: &NamedPaths) -> EditedFile {
        let content = SettingsContent::Whole(self.text(paths));
        EditedFile { path: self.file.clone(), base: self.base.clone(), content, is_shared: false }
    }

    /// Returns the variable that names the program in the settings.
    pub(super) fn variable(&self) -> ValueEntry {
        let path = self.file.to_string_lossy().into_owned();
        let (name, value) = match self.host {
            // Bash expands what it finds there, as between double quotes.
            Host::Codex => (BASH_ENV, escaped_for_bash(&path)),
            _ => (PREFIX, path),
        };
        let former = match &self.former {
            Former::InSettings(former) => Some(former.clone()),
            Former::Nothing | Former::InEnvironment(_) => None,
        };
        ValueEntry { name, value, former, replaces: true, is_ours }
    }

    fn text(&self, paths: &NamedPaths) -> String {
        let text = if self.host == Host::Codex { CODEX } else { CLAUDE_CODE };
        let store =
            paths.store_to_name().map(|store| format!(" run {STORE}={} --host=", quoted(store)));
        let text = text.replacen(PROGRAM, &quoted(&paths.program), 1);
        let text = text.replacen(RUN, store.as_deref().unwrap_or(RUN), 1);
        let (note, former) = match &self.former {
            Former::Nothing => return text,
            Former::InSettings(former) => (IN_SETTINGS, former),
            Former::InEnvironment(former) => (IN_ENVIRONMENT, former),
        };
        let (line, ours) = match self.host {
            Host::Codex => (CODEX_LINE, format!("__ctxfs_theirs={}\n", quoted(former))),
            _ => (CLAUDE_CODE_LINE, format!("set -- {} \"$1\"\n", prefix(former))),
        };
        let note = format!("{note}{}\n", Value::from(&**former));
        text.replacen(line, &format!("{note}{ours}"), 1)
    }
}

impl Former {
    /// Settings that cannot be read have no value here; to change them fails.
    fn of(host: Host, settings: &Path, program: &Path, given: Option<&str>) -> Self {
        let text = |path| replace::read(path).ok().flatten();
        let now = text(settings).unwrap_or_default();
        let now = match host {
            Host::Codex => toml_variables::value(&now, BASH_ENV),
            _ => json::value(&now, &["env", PREFIX]),
        };
        if let Some(now) = now.filter(|now| !is_ours(now)) {
            return Self::InSettings(now);
        }
        if let Some(program) = text(program) {
            return Self::noted_in(&program);
        }
        let given = given.filter(|given| !given.is_empty() && !is_ours(given));
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

/// Returns the file of settings that names the program. Those of a project are for all who work on
/// it, and Claude Code runs no command where the program is missing.
pub(super) fn settings(host: Host, scope: Scope) -> &'static str {
    match (host, scope) {
        (Host::Codex, _) => "config.toml",
        (_, Scope::User) => "settings.json",
        (_, Scope::Project) => "settings.local.json",
    }
}

fn is_ours(value: &str) -> bool {
    Path::new(value).file_name().is_some_and(|name| name.to_string_lossy().starts_with(NAME))
}

/// Returns a path as a part of a file name that no other path has.
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

/// Returns a prefix as Claude Code puts it before a command.
fn prefix(prefix: &str) -> String {
    match prefix.rsplit_once(OPTION).filter(|(program, _)| !program.is_empty()) {
        Some((program, options)) => format!("{} -{options}", quoted(program)),
        None => quoted(prefix),
    }
}

fn quoted(word: &str) -> String {
    shlex::try_quote(word).map_or_else(|_| "''".to_owned(), std::borrow::Cow::into_owned)
}
