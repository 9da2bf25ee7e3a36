//! The files in which each host has its MCP servers, as a table.

use std::path::PathBuf;

use crate::env::Environment;
use crate::hooks::Host;
use crate::install::place::{Scope, SettingsDir};
use crate::install::servers::{ServersDialect, ServersForm};
use crate::outcome::Failure;

/// A file that may have servers.
#[derive(Debug)]
pub(super) struct ServersFile {
    pub(super) path: PathBuf,
    /// The home or the project that it is in.
    pub(super) base: PathBuf,
    pub(super) dialect: ServersDialect,
}

/// The directory that a file is in.
#[derive(Debug, Clone, Copy)]
enum FileDir {
    /// That of the host's settings.
    Settings,
    /// The home or the project.
    Base,
}

/// The object or table of the servers, and the form of their commands.
type ServersRow = (&'static [&'static str], ServersForm);

const USUAL: ServersRow = (&["mcpServers"], ServersForm::Json);
const CODEX: ServersRow = (&["mcp_servers"], ServersForm::Toml);
const OPENCODE: ServersRow = (&["mcp"], ServersForm::JsonList);

/// Returns the files of `host`, whether or not they are there. A host may read several.
pub(super) fn of(
    host: Host,
    scope: Scope,
    environment: &Environment,
) -> Result<Vec<ServersFile>, Failure> {
    use FileDir::{Base, Settings};
    let ((path, form), names): (ServersRow, &[(FileDir, &str)]) = match (host, scope) {
        (Host::ClaudeCode, Scope::User) if environment.hosts.claude_config.is_some() => {
            (USUAL, &[(Settings, ".claude.json")])
        }
        (Host::ClaudeCode, Scope::User) => (USUAL, &[(Base, ".claude.json")]),
        (Host::ClaudeCode, Scope::Project) => (USUAL, &[(Base, ".mcp.json")]),
        (Host::Codex, _) => (CODEX, &[(Settings, "config.toml")]),
        (Host::Opencode, Scope::User) => {
            (OPENCODE, &[(Settings, "opencode.json"), (Settings, "opencode.jsonc")])
        }
        (Host::Opencode, Scope::Project) => (
            OPENCODE,
            &[
                (Base, "opencode.json"),
                (Base, "opencode.jsonc"),
                (Settings, "opencode.json"),
                (Settings, "opencode.jsonc"),
            ],
        ),
        (Host::GeminiCli, _) => (USUAL, &[(Settings, "settings.json")]),
        (Host::Copilot, Scope::User) => (USUAL, &[(Settings, "mcp-config.json")]),
        (Host::Copilot, Scope::Project) => (USUAL, &[(Base, ".mcp.json"), (Settings, "mcp.json")]),
        (Host::Pi, _) => return Err(no_servers()),
    };
    let place = SettingsDir::of(host, scope, environment)?;
    let file = |&(dir, name): &(FileDir, &str)| {
        let dir = match dir {
            Settings => &place.dir,
            Base => &place.base,
        };
        let path = path.iter().map(|name| (*name).to_owned()).collect();
        let dialect = ServersDialect { path, form };
        ServersFile { path: dir.join(name), base: place.base.clone(), dialect }
    };
    let mut files: Vec<ServersFile> = names.iter().map(file).collect();
    if (host, scope) == (Host::ClaudeCode, Scope::Project) {
        files.extend(of_the_user_alone(&place, environment));
    }
    Ok(files)
}

/// Returns the file with the servers that Claude Code has for this project and one user.
fn of_the_user_alone(project: &SettingsDir, environment: &Environment) -> Option<ServersFile> {
    let user = of(Host::ClaudeCode, Scope::User, environment).ok()?.into_iter().next()?;
    let [servers] = USUAL.0 else { return None };
    let path = ["projects", project.base.to_str()?, servers].map(str::to_owned).into();
    let dialect = ServersDialect { path, form: USUAL.1 };
    Some(ServersFile { dialect, ..user })
}

fn no_servers() -> Failure {
    let hint = "its extensions have tools of their own: `ctxfs install pi` keeps their outputs";
    Failure::usage("pi has no MCP servers", hint)
}
