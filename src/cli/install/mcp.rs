//! `ctxfs install mcp`: configures a host to run its MCP servers through `ctxfs mcp`.
//!
//! All changes are computed before the first one is made.

use crate::install::edit::{EditedFile, Edits, SettingsChange, SettingsContent};
use crate::install::hosts::{InstallContext, InstallState, store_text};
use crate::install::mcp_hosts::ServersFile;
use crate::install::place::SettingsScope;
use crate::install::servers::{FoundServer, NamedStore, ServerState, WrappedServers};
use crate::{Context, Failure, args::InstallMcpArgs, hooks::Host, install::entry};

pub(crate) fn run(
    args: &InstallMcpArgs,
    ground: &InstallContext,
    context: &mut Context,
) -> anyhow::Result<()> {
    let scope = if args.project { SettingsScope::Project } else { SettingsScope::User };
    let files = args.host.files(scope, &ground.environment)?;
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
    let content = SettingsContent::Servers(WrappedServers {
        dialect,
        program: ground.program.clone(),
        store: store.clone(),
        only: args.server.clone(),
    });
    let is_installed = |host: &Host| {
        [InstallState::Yes, InstallState::Differs].contains(&ground.state(*host, scope))
    };
    let hook = Host::named(args.host.name).filter(is_installed);
    let hook = hook.and_then(|host| ground.files(host, scope).ok());
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
    let text = format!("{} has no MCP server `{name}` in {}", args.host.name, listed(names));
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
        let (host, scope, is_print) = (self.args.host.name, self.scope, self.args.print);
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
        let host = self.args.host.name;
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
        let host = self.args.host.name;
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
