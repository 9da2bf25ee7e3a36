//! The settings directories of hosts, and the paths that settings contain.

use std::path::{Path, PathBuf};

use crate::{Environment, Failure, hooks::Host};
use ctxfs_core::model::shell_word;

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SettingsScope {
    User,
    Project,
}

/// The settings of a host in one scope. `base` is the home or project directory that contains the
/// settings directory.
#[derive(Debug, Clone)]
pub(crate) struct SettingsDir {
    pub(crate) dir: PathBuf,
    pub(crate) base: PathBuf,
}

impl SettingsDir {
    pub(crate) fn of(
        host: Host,
        scope: SettingsScope,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        match scope {
            SettingsScope::User => Self::of_user(host, environment),
            SettingsScope::Project => {
                let base = project()?;
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
            Host::GeminiCli | Host::Copilot | Host::Pi | Host::Cursor => None,
        };
        let dir = match given {
            Some(dir) => dir,
            None => home(host.name(), environment)?.join(user_dir(host)),
        };
        let home = environment.home.as_deref();
        let base = home.filter(|home| dir.starts_with(home)).unwrap_or(&dir).to_owned();
        Ok(Self { dir, base })
    }

    pub(crate) fn first_of(&self, names: &[&str]) -> PathBuf {
        let mut paths = names.iter().map(|name| self.dir.join(name));
        let last = names.last().map(|name| self.dir.join(name)).unwrap_or_default();
        paths.find(|path| path.exists()).unwrap_or(last)
    }
}

pub(crate) fn home(host: &str, environment: &Environment) -> Result<PathBuf, Failure> {
    environment.home.clone().ok_or_else(|| {
        let text = format!("no place for the settings of {host}: HOME is not set");
        Failure::usage(text, "set HOME, or use --project")
    })
}

pub(crate) fn project() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| {
        let text = format!("cannot find the current directory: {error}");
        Failure::usage(text, "change to the directory of the project")
    })
}

pub(crate) fn units(environment: &Environment) -> Option<PathBuf> {
    let config = environment.config_home.clone();
    let config = config.or_else(|| Some(environment.home.as_ref()?.join(".config")));
    Some(config?.join("systemd/user"))
}

pub(crate) fn has_user_manager(environment: &Environment) -> bool {
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
        Host::Cursor => ".cursor",
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
        Host::Cursor => ".cursor",
    }
}

/// The paths that settings contain. `mount` is the mountpoint as readers see it, and `view` the
/// command that stand-ins name where nothing is mounted. `former_store` is
/// the store of the installed hook, if it differs from `store`. `named_store` is the store to name
/// in hooks and units, or `None` if they find the store by themselves.
#[derive(Debug, Clone)]
pub(crate) struct NamedPaths {
    pub(crate) program: String,
    pub(crate) mountpoint: PathBuf,
    pub(crate) mount: String,
    pub(crate) view: String,
    pub(crate) store: String,
    pub(crate) former_store: Option<String>,
    pub(crate) named_store: Option<String>,
}

impl NamedPaths {
    /// Returns the command that mounts the store.
    pub(crate) fn mount_command(&self) -> String {
        let store = self.named_store.as_deref().map(shell_word);
        let store = store.map(|store| format!("--store {store} ")).unwrap_or_default();
        format!("ctxfs mount {store}{}", shell_word(&self.mountpoint.display().to_string()))
    }
}
