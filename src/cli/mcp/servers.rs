//! The servers of a file, as clients have it.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use crate::env;
use crate::outcome::Failure;
use crate::output::Printer;
use ctxfs_mcp::config::{Flaw, Secret, Server, Servers, Severity, Transport};
use ctxfs_mcp::tool_name::Naming;
use ctxfs_mcp::{Offer, RemoteServer, ServerCommand, ServerOptions, ServerPlace};

/// The servers of a file.
pub(crate) struct FileServers {
    pub(crate) servers: Vec<ServerOptions>,
    /// Flaws of the file, and keys that are not known.
    pub(crate) flaws: Vec<Flaw>,
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
pub(crate) fn is_error(flaw: &Flaw) -> bool {
    flaw.severity == Severity::Error
}

/// Reads the servers, and what is wrong with others.
pub(crate) fn read(path: &Path) -> Result<FileServers, Failure> {
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
