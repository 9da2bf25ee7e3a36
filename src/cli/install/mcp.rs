//! `ctxfs install mcp`: configures a host to run its MCP servers through `ctxfs mcp`.
//!
//! A table has the files of each host. All changes are computed before the first one is made.

use crate::install::edit::{EditedFile, Edits, SettingsChange, SettingsContent};
use crate::install::hosts::{InstallContext, InstallState, store_text};
use crate::install::place::{SettingsDir, SettingsScope};
use crate::install::servers::{FoundServer, NamedStore, ServerState, ServersDialect, ServersForm};
use crate::{Context, Environment, Failure, args::InstallMcpArgs, hooks::Host, install::entry};

pub(crate) fn run(
    args: &InstallMcpArgs,
    ground: &InstallContext,
    context: &mut Context,
) -> anyhow::Result<()> {
    let scope = if args.project { SettingsScope::Project } else { SettingsScope::User };
    let files = files_of(args.host, scope, &ground.environment)?;
    if !args.remove && !args.print {
        entry::check_it_stays(&ground.program)?;
    }
    let names: Vec<String> = files.iter().map(|file| file.path.display().to_string()).collect();
    let is_there = |file: &ServersFile| file.path.symlink_metadata().is_ok();
    let store = store(ground)?;
    let edited = |file| edited(file, args, scope, ground, &store);
    let files: Vec<EditedFile> = files.into_iter().filter(is_there).map(edited).collect();
    let servers = servers(&files)?;
    check_server(args, &names, &servers)?;
    ServersEdit { args, scope, names, files, servers }.run(context)
}

fn store(ground: &InstallContext) -> Result<NamedStore, Failure> {
    Ok(match &ground.given {
        None => NamedStore::Former,
        Some(store) if *store == ground.found => NamedStore::Found,
        Some(store) => NamedStore::Given(store_text(store.clone())?),
    })
}

fn edited(
    file: ServersFile,
    args: &InstallMcpArgs,
    scope: SettingsScope,
    ground: &InstallContext,
    store: &NamedStore,
) -> EditedFile {
    let ServersFile { path, base, dialect } = file;
    let content = SettingsContent::Servers(crate::install::servers::WrappedServers {
        dialect,
        program: ground.program.clone(),
        store: store.clone(),
        only: args.server.clone(),
    });
    let state = ground.state(args.host, scope);
    let has_hook = [InstallState::Yes, InstallState::Differs].contains(&state);
    let hook = ground.files(args.host, scope).ok().filter(|_| has_hook);
    let is_shared = hook.is_some_and(|hook| hook.targets.iter().any(|file| file.path == path));
    EditedFile { path, base, content, is_shared }
}

fn servers(files: &[EditedFile]) -> Result<Vec<FoundServer>, Failure> {
    let servers: Vec<_> = files.iter().map(EditedFile::servers).collect::<Result<_, _>>()?;
    Ok(servers.into_iter().flatten().collect())
}

fn check_server(
    args: &InstallMcpArgs,
    names: &[String],
    servers: &[FoundServer],
) -> Result<(), Failure> {
    let Some(name) = &args.server else { return Ok(()) };
    if servers.iter().any(|server| server.name == *name) {
        return Ok(());
    }
    let text = format!("{} has no MCP server `{name}` in {}", args.host, listed(names));
    let hint = match servers {
        [] => "there are none; add the server to the host first".to_owned(),
        servers => format!("there are {}", listed(servers.iter().map(|server| &server.name))),
    };
    Err(Failure::usage(text, hint))
}

struct ServersEdit<'a> {
    args: &'a InstallMcpArgs,
    scope: SettingsScope,
    names: Vec<String>,
    files: Vec<EditedFile>,
    servers: Vec<FoundServer>,
}

impl ServersEdit<'_> {
    fn run(&self, context: &mut Context) -> anyhow::Result<()> {
        let (host, scope, is_print) = (self.args.host, self.scope, self.args.print);
        let changes = self.files.iter().map(|file| self.change(file)).collect::<Result<_, _>>()?;
        let edits = Edits { host, scope, is_print, changes };
        edits.make()?;
        let mut left = self.left_alone();
        if !edits.diffs().is_empty() {
            left.push(self.remaining_steps());
        }
        edits.report(&self.nothing(), &left, context)
    }

    fn change(&self, file: &EditedFile) -> Result<SettingsChange, Failure> {
        let is_installed = file.hook()?.is_some();
        if self.args.remove { file.remove(is_installed) } else { file.install(is_installed) }
    }

    fn nothing(&self) -> String {
        let host = self.args.host;
        let states = || self.selected().map(|server| server.state);
        if self.servers.is_empty() {
            format!("nothing to change: {host} has no MCP servers in {}", listed(&self.names))
        } else if self.args.remove {
            format!("nothing to change: no such MCP server of {host} runs through `ctxfs mcp`")
        } else if states().any(|state| state == ServerState::Wrapped) {
            format!("nothing to change: the MCP servers of {host} run through `ctxfs mcp`")
        } else {
            format!("nothing to change: {host} starts no such MCP server")
        }
    }

    fn left_alone(&self) -> Vec<String> {
        let reasons = [
            (ServerState::Remote, "reached over HTTP"),
            (ServerState::NoCommand, "without a command"),
            (ServerState::WrappedByOthers, "with a line of `ctxfs mcp` that is not ours"),
        ];
        let description = |(state, why)| {
            let names: Vec<_> = self
                .selected()
                .filter(|server| server.state == state)
                .map(|server| &server.name)
                .collect();
            (!names.is_empty()).then(|| format!("left alone, as {why}: {}", listed(names)))
        };
        if self.args.remove {
            Vec::new()
        } else {
            reasons.into_iter().filter_map(description).collect()
        }
    }

    fn remaining_steps(&self) -> String {
        if self.args.print {
            return "nothing was changed: --print".to_owned();
        }
        let host = self.args.host;
        format!("start {host} again: it reads its MCP servers when it starts")
    }

    fn selected(&self) -> impl Iterator<Item = &FoundServer> {
        let only = self.args.server.as_ref();
        self.servers.iter().filter(move |server| only.is_none_or(|only| *only == server.name))
    }
}

fn listed<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let names = names.into_iter().map(|name| format!("`{}`", name.as_ref()));
    names.collect::<Vec<_>>().join(", ")
}

#[derive(Debug)]
struct ServersFile {
    path: std::path::PathBuf,
    base: std::path::PathBuf,
    dialect: ServersDialect,
}

#[derive(Debug, Clone, Copy)]
enum FileDir {
    Settings,
    Base,
}

type ServersRow = (&'static [&'static str], ServersForm);

const USUAL: ServersRow = (&["mcpServers"], ServersForm::Json);
const CODEX: ServersRow = (&["mcp_servers"], ServersForm::Toml);
const OPENCODE: ServersRow = (&["mcp"], ServersForm::JsonList);

// Returns the files in which the host may have servers. A host may read several of them, and none
// of them need exist.
fn files_of(
    host: Host,
    scope: SettingsScope,
    environment: &Environment,
) -> Result<Vec<ServersFile>, Failure> {
    use FileDir::{Base, Settings};
    let ((path, form), names): (ServersRow, &[(FileDir, &str)]) = match (host, scope) {
        (Host::ClaudeCode, SettingsScope::User) if environment.hosts.claude_config.is_some() => {
            (USUAL, &[(Settings, ".claude.json")])
        }
        (Host::ClaudeCode, SettingsScope::User) => (USUAL, &[(Base, ".claude.json")]),
        (Host::ClaudeCode, SettingsScope::Project) => (USUAL, &[(Base, ".mcp.json")]),
        (Host::Codex, _) => (CODEX, &[(Settings, "config.toml")]),
        (Host::Opencode, SettingsScope::User) => {
            (OPENCODE, &[(Settings, "opencode.json"), (Settings, "opencode.jsonc")])
        }
        (Host::Opencode, SettingsScope::Project) => (
            OPENCODE,
            &[
                (Base, "opencode.json"),
                (Base, "opencode.jsonc"),
                (Settings, "opencode.json"),
                (Settings, "opencode.jsonc"),
            ],
        ),
        (Host::GeminiCli, _) => (USUAL, &[(Settings, "settings.json")]),
        (Host::Copilot, SettingsScope::User) => (USUAL, &[(Settings, "mcp-config.json")]),
        (Host::Copilot, SettingsScope::Project) => {
            (USUAL, &[(Base, ".mcp.json"), (Settings, "mcp.json")])
        }
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
    if (host, scope) == (Host::ClaudeCode, SettingsScope::Project) {
        files.extend(private_project_file(&place, environment));
    }
    Ok(files)
}

// Claude Code stores the servers of one user for one project in the user's file.
fn private_project_file(project: &SettingsDir, environment: &Environment) -> Option<ServersFile> {
    let user =
        files_of(Host::ClaudeCode, SettingsScope::User, environment).ok()?.into_iter().next()?;
    let [servers] = USUAL.0 else { return None };
    let path = ["projects", project.base.to_str()?, servers].map(str::to_owned).into();
    let dialect = ServersDialect { path, form: USUAL.1 };
    Some(ServersFile { dialect, ..user })
}

fn no_servers() -> Failure {
    let hint = "its extensions have tools of their own: `ctxfs install pi` keeps their outputs";
    Failure::usage("pi has no MCP servers", hint)
}
