//! The server behind `--`.

use std::ffi::OsString;
use std::time::Duration;

use crate::env;
use crate::mcp::server_name;
use crate::outcome::Failure;
use ctxfs_mcp::config::ToolFilter;
use ctxfs_mcp::tool_name::Naming;
use ctxfs_mcp::{Offer, RemoteServer, ServerCommand, ServerOptions, ServerPlace};

/// Returns the server that a command or a URL is, if there is one. It has so many seconds for an
/// answer; 0 is no limit.
pub(super) fn server(
    command: &[OsString],
    name: Option<&str>,
    timeout: u64,
) -> Result<Option<ServerOptions>, Failure> {
    let Some((program, arguments)) = command.split_first() else { return Ok(None) };
    let text = program.to_string_lossy();
    let is_url = text.starts_with("http://") || text.starts_with("https://");
    if is_url && !arguments.is_empty() {
        let hint = "give the URL alone, or the command of a server";
        return Err(Failure::usage("a server over HTTP has no arguments", hint));
    }
    let name = match name {
        Some(name) => name.to_owned(),
        None if is_url => server_name::of_url(&text),
        None => server_name::of(command),
    };
    let place = if is_url {
        ServerPlace::Remote(RemoteServer { url: text.into_owned(), headers: Vec::new() })
    } else {
        ServerPlace::Command(ServerCommand {
            program: program.clone(),
            arguments: arguments.to_vec(),
            environment: env::of_servers(),
            directory: None,
        })
    };
    let timeout = (timeout > 0).then(|| Duration::from_secs(timeout));
    let offer = Offer { naming: Naming::AsIs, tools: ToolFilter::default(), trust: false };
    Ok(Some(ServerOptions { name, place, timeout, offer, shared: false }))
}
