//! The places of the settings of hosts.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::env::Environment;
use crate::hooks::Host;
use crate::outcome::Failure;

/// Whose settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Scope {
    User,
    Project,
}

/// The settings of a host in one scope.
#[derive(Debug, Clone)]
pub(super) struct SettingsDir {
    /// The directory of the host's settings.
    pub(super) dir: PathBuf,
    /// The home or the project that it is in.
    pub(super) base: PathBuf,
}

impl SettingsDir {
    /// Returns the place of the settings of `host`.
    pub(super) fn of(host: Host, scope: Scope, environment: &Environment) -> Result<Self, Failure> {
        match scope {
            Scope::User => Self::of_user(host, environment),
            Scope::Project => {
                let base = std::env::current_dir().map_err(|error| {
                    let text = format!("cannot find the current directory: {error}");
                    Failure::usage(text, "change to the directory of the project")
                })?;
                Ok(Self { dir: base.join(project_dir(host)), base })
            }
        }
    }

    fn of_user(host: Host, environment: &Environment) -> Result<Self, Failure> {
        let hosts = &environment.hosts;
        let given = match host {
            Host::ClaudeCode => hosts.claude_config.clone(),
            Host::Codex => hosts.codex_home.clone(),
            Host::Opencode => environment.config_home.as_ref().map(|dir| dir.join("opencode")),
            Host::GeminiCli | Host::Copilot | Host::Pi => None,
        };
        let home = environment.home.as_deref();
        let dir = given.or_else(|| Some(home?.join(user_dir(host))));
        let dir = dir.ok_or_else(|| {
            let text = format!("no place for the settings of {host}: HOME is not set");
            Failure::usage(text, "set HOME, or use --project")
        })?;
        let base = home.filter(|home| dir.starts_with(home)).unwrap_or(&dir).to_owned();
        Ok(Self { dir, base })
    }

    /// Returns the first of these files that is there, or else the last.
    pub(super) fn first_of(&self, names: &[&str]) -> PathBuf {
        let mut paths = names.iter().map(|name| self.dir.join(name));
        let last = names.last().map(|name| self.dir.join(name)).unwrap_or_default();
        paths.find(|path| path.exists()).unwrap_or(last)
    }
}

/// Returns the directory of the units of the user's systemd.
pub(super) fn units(environment: &Environment) -> Option<PathBuf> {
    let config = environment.config_home.clone();
    let config = config.or_else(|| Some(environment.home.as_ref()?.join(".config")));
    Some(config?.join("systemd/user"))
}

/// Returns true if systemd manages the user's session.
pub(super) fn has_user_manager(environment: &Environment) -> bool {
    let private = environment.runtime_dir.as_ref().map(|dir| dir.join("systemd/private"));
    private.is_some_and(|socket| Path::new(&socket).exists())
}

fn user_dir(host: Host) -> &'static str {
    match host {
        Host::ClaudeCode => ".claude",
        Host::Codex => ".codex",
        Host::Opencode => ".config/opencode",
        Host::GeminiCli => ".gemini",
        Host::Copilot => ".copilot",
        Host::Pi => ".pi/agent",
    }
}

fn project_dir(host: Host) -> &'static str {
    match host {
        Host::ClaudeCode => ".claude",
        Host::Codex => ".codex",
        Host::Opencode => ".opencode",
        Host::GeminiCli => ".gemini",
        Host::Copilot => ".github",
        Host::Pi => ".pi",
    }
}
