//! A table of the hosts with MCP servers, and of the files in which each of them has its servers.

use std::path::{Path, PathBuf};

use crate::install::place::{self, SettingsScope};
use crate::install::servers::{ServersDialect, ServersForm};
use crate::{Environment, Failure, hooks::Host};

#[derive(Debug)]
pub(crate) struct ServersFile {
    pub(crate) path: PathBuf,
    pub(crate) base: PathBuf,
    pub(crate) dialect: ServersDialect,
}

/// A host whose MCP servers can be made to run through `ctxfs mcp`. It may have servers in any of
/// its files, and none of them need exist. `user` is relative to the home directory, and `project`
/// to the project.
#[derive(Debug)]
pub(crate) struct McpHost {
    pub(crate) name: &'static str,
    servers: &'static [&'static str],
    form: ServersForm,
    user: &'static [&'static str],
    project: &'static [&'static str],
}

const USUAL: &[&str] = &["mcpServers"];
const CLAUDE_CODE: &str = ".claude.json";

const fn usual(
    name: &'static str,
    user: &'static [&'static str],
    project: &'static [&'static str],
) -> McpHost {
    McpHost { name, servers: USUAL, form: ServersForm::Json, user, project }
}

static HOSTS: [McpHost; 12] = [
    usual("claude-code", &[CLAUDE_CODE], &[".mcp.json"]),
    McpHost {
        name: "codex",
        servers: &["mcp_servers"],
        form: ServersForm::Toml,
        user: &[".codex/config.toml"],
        project: &[".codex/config.toml"],
    },
    McpHost {
        name: "opencode",
        servers: &["mcp"],
        form: ServersForm::JsonList,
        user: &[".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"],
        project: &[
            "opencode.json",
            "opencode.jsonc",
            ".opencode/opencode.json",
            ".opencode/opencode.jsonc",
        ],
    },
    usual("gemini-cli", &[".gemini/settings.json"], &[".gemini/settings.json"]),
    usual("copilot", &[".copilot/mcp-config.json"], &[".mcp.json", ".github/mcp.json"]),
    usual("cursor", &[".cursor/mcp.json"], &[".cursor/mcp.json"]),
    McpHost {
        servers: &["servers"],
        ..usual("vscode", &[".config/Code/User/mcp.json"], &[".vscode/mcp.json"])
    },
    usual("claude-desktop", &[".config/Claude/claude_desktop_config.json"], &[]),
    McpHost {
        servers: &["context_servers"],
        ..usual("zed", &[".config/zed/settings.json"], &[".zed/settings.json"])
    },
    usual("windsurf", &[".codeium/windsurf/mcp_config.json"], &[]),
    usual("junie", &[".junie/mcp/mcp.json"], &[".junie/mcp/mcp.json"]),
    usual(
        "agy",
        &[".gemini/config/mcp_config.json", ".gemini/antigravity-cli/mcp_config.json"],
        &[".agents/mcp_config.json"],
    ),
];

impl McpHost {
    pub(crate) fn named(name: &str) -> Result<&'static Self, String> {
        HOSTS.iter().find(|host| host.name == name).ok_or_else(|| {
            if name == Host::Pi.name() {
                return "pi has no MCP servers; `ctxfs install pi` keeps the outputs of its \
                        extensions"
                    .to_owned();
            }
            let names: Vec<&str> = HOSTS.iter().map(|host| host.name).collect();
            format!("the hosts are {}", names.join(", "))
        })
    }

    pub(crate) fn files(
        &self,
        scope: SettingsScope,
        environment: &Environment,
    ) -> Result<Vec<ServersFile>, Failure> {
        let (names, base) = match scope {
            SettingsScope::User => (self.user, place::home(self.name, environment)?),
            SettingsScope::Project => (self.project, place::project()?),
        };
        if names.is_empty() {
            let text = format!("{} has no MCP servers of a project", self.name);
            return Err(Failure::usage(text, "leave out --project"));
        }
        let file = |name: &&str| {
            let path = match scope {
                SettingsScope::User => user_file(name, &base, environment),
                SettingsScope::Project => base.join(name),
            };
            let servers = self.servers.iter().map(|name| (*name).to_owned()).collect();
            let dialect = ServersDialect { path: servers, form: self.form };
            ServersFile { path, base: base.clone(), dialect }
        };
        let mut files: Vec<ServersFile> = names.iter().map(file).collect();
        if self.user == [CLAUDE_CODE] && scope == SettingsScope::Project {
            files.extend(self.private_project_file(&base, environment));
        }
        Ok(files)
    }

    // Claude Code stores the servers of one user for one project in the user's file.
    fn private_project_file(
        &self,
        project: &Path,
        environment: &Environment,
    ) -> Option<ServersFile> {
        let user = self.files(SettingsScope::User, environment).ok()?.into_iter().next()?;
        let path = ["projects", project.to_str()?, USUAL[0]].map(str::to_owned).into();
        let dialect = ServersDialect { path, form: self.form };
        Some(ServersFile { dialect, ..user })
    }
}

// Some directories of the home can be elsewhere.
fn user_file(name: &str, home: &Path, environment: &Environment) -> PathBuf {
    let moved = [
        (".config/", environment.config_home.as_ref()),
        (".codex/", environment.hosts.codex_home.as_ref()),
        ("", environment.hosts.claude_config.as_ref().filter(|_| name == CLAUDE_CODE)),
    ];
    let moved =
        moved.into_iter().find_map(|(start, dir)| Some(dir?.join(name.strip_prefix(start)?)));
    moved.unwrap_or_else(|| home.join(name))
}
