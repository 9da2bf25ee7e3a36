//! The servers of a file, as clients have it.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use crate::cli::env;
use crate::cli::outcome::Failure;
use crate::cli::output::Printer;
use crate::mcp::Offer;
use crate::mcp::RemoteServer;
use crate::mcp::ServerCommand;
use crate::mcp::ServerOptions;
use crate::mcp::ServerPlace;
use crate::mcp::config::Flaw;
use crate::mcp::config::Secret;
use crate::mcp::config::Server;
use crate::mcp::config::Servers;
use crate::mcp::config::Severity;
use crate::mcp::config::Transport;
use crate::mcp::tool_name::Naming;

/// The servers of a file.
pub(in crate::cli) struct FileServers {
    pub(in crate::cli) servers: Vec<ServerOptions>,
    /// Flaws of the file, and keys that are not known.
    pub(in crate::cli) flaws: Vec<Flaw>,
}

/// Reads the servers. What is wrong with one is said, and the others are served.
pub(super) fn of_file(path: &Path, printer: &mut Printer) -> anyhow::Result<FileServers> {
    let file = read(path)?;
    for flaw in &file.flaws {
        printer.say(flaw);
    }
    if file.servers.is_empty() && file.flaws.iter().any(is_error) {
        let text = format!("no server of `{}` can be used", path.display());
        return Err(Failure::usage(text, "mend what is said above").into());
    }
    Ok(file)
}

/// Returns true for a flaw by which a server is left out.
pub(in crate::cli) fn is_error(flaw: &Flaw) -> bool {
    flaw.severity == Severity::Error
}

/// Reads the servers, and what is wrong with others.
pub(in crate::cli) fn read(path: &Path) -> Result<FileServers, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        let text = format!("cannot read the servers in `{}`: {error}", path.display());
        Failure::usage(text, "give a file like `{\"mcpServers\": {\"NAME\": {\"command\": ...}}}`")
    })?;
    let variable = |name: &str| std::env::var(name).ok();
    let Servers { servers, flaws } = Servers::parse(&path.to_string_lossy(), &text, &variable);
    Ok(FileServers { servers: servers.into_iter().map(options).collect(), flaws })
}

fn options(server: Server) -> ServerOptions {
    let naming = Naming::with_prefix(server.prefix());
    let offer = Offer { naming, tools: server.tools, trust: server.trust };
    let (place, timeout, shared) = (place(server.transport), Some(server.timeout), server.shared);
    ServerOptions { name: server.name, place, timeout, offer, shared }
}

fn place(transport: Transport) -> ServerPlace {
    match transport {
        Transport::Stdio { command, args, env, cwd } => {
            let given = env.iter().map(|(name, value)| (name.into(), value.reveal().into()));
            ServerPlace::Command(ServerCommand {
                program: command.into(),
                arguments: args.iter().map(Secret::reveal).map(OsString::from).collect(),
                environment: env::of_listed_servers().into_iter().chain(given).collect(),
                directory: cwd.map(Into::into),
            })
        }
        Transport::Http { url, headers } => {
            let headers = headers.iter();
            let headers = headers.map(|(name, value)| (name.clone(), value.reveal().to_owned()));
            let url = url.reveal().to_owned();
            ServerPlace::Remote(RemoteServer { url, headers: headers.collect() })
        }
    }
}
