//! `ctxfs mcp login` and `logout`: the tokens for servers over HTTP.

use std::{fs, path::Path};

use crate::args::{McpLoginArgs, McpServerArgs};
use crate::mcp::servers;
use crate::{Context, Environment, Failure, FailureKind, places};
use ctxfs_core::model::shell_word;
use ctxfs_mcp::config::Secret;
use ctxfs_mcp::{
    GrantFile, LoginOptions, RemoteServer, ServerLogin, ServerOptions, ServerPlace, log_in, log_out,
};

pub(super) fn login(args: &McpLoginArgs, context: &mut Context) -> anyhow::Result<()> {
    let file = grants(&context.environment)?;
    let RemoteServer { url, mut client, .. } = server(&args.server, context)?;
    if args.client_id.is_some() {
        // A secret of the file belongs to the id there.
        (client.id, client.secret) = (args.client_id.clone(), None);
        client.secret_file.clone_from(&args.client_secret_file);
    }
    if let Some(path) = client.secret_file.take_if(|_| client.secret.is_none()) {
        let text = fs::read_to_string(&path).map_err(|error| {
            let text = format!("cannot read the secret in `{}`: {error}", path.display());
            Failure::usage(text, "give a file whose first line is the secret of the client")
        })?;
        client.secret = text.lines().next().map(Secret::new);
    }
    client.document = args.client_metadata_url.clone().or(client.document);
    client.port = args.callback_port.or(client.port);
    let options = LoginOptions { url, scope: args.scope.clone(), client };
    let printer = &mut context.printer;
    let mut shown = Ok(());
    let mut show = |address: &str| {
        printer.message(&"open this address in a browser of this machine, and agree there:");
        shown = printer.line(&address, &serde_json::json!({ "url": address }));
    };
    log_in(&options, &file, &mut show).map_err(|why| {
        let text = format!("no login at `{}`: {why}", args.server.name);
        Failure::new(FailureKind::Failed, text, "mend what is said above, and log in again")
    })?;
    shown?;
    context.printer.message(&format_args!("logged in at `{}`", args.server.name));
    Ok(())
}

pub(super) fn logout(args: &McpServerArgs, context: &mut Context) -> anyhow::Result<()> {
    let (file, url) = (grants(&context.environment)?, server(args, context)?.url);
    let is_out = log_out(&url, &file).map_err(|why| {
        let hint = "what is not revoked may be taken back at the server";
        Failure::new(FailureKind::Failed, format!("`{}`: {why}", args.name), hint)
    })?;
    let text = if is_out { "the tokens are removed" } else { "there were no tokens" };
    context.printer.message(&format_args!("`{}`: {text}", args.name));
    Ok(())
}

fn grants(environment: &Environment) -> Result<GrantFile, Failure> {
    let directory = places::state_dir(environment).ok_or_else(|| {
        Failure::usage("there is no directory for tokens", "set HOME or XDG_STATE_HOME")
    })?;
    Ok(GrantFile::within(&directory))
}

fn server(args: &McpServerArgs, context: &mut Context) -> anyhow::Result<RemoteServer> {
    let McpServerArgs { name, servers } = args;
    let Some(path) = servers else {
        let is_url = name.starts_with("http://") || name.starts_with("https://");
        let hint = "give the URL of a server, or the file with `--servers FILE`";
        return is_url
            .then(|| RemoteServer { url: name.clone(), ..RemoteServer::default() })
            .ok_or_else(|| Failure::usage(format!("`{name}` is no URL"), hint).into());
    };
    let servers = servers::servers_of_file(path, &mut context.printer)?.servers;
    let found = servers.into_iter().find(|server| server.name == *name);
    match found.map(|server| server.place) {
        Some(ServerPlace::Remote(server)) => Ok(server),
        Some(ServerPlace::Command(_)) => {
            let text = format!("the server `{name}` is a command, which needs no login");
            Err(Failure::usage(text, "give a server with a `url`").into())
        }
        None => {
            let text = format!("there is no server `{name}` in `{}`", path.display());
            Err(Failure::usage(text, "give the name of one of its servers").into())
        }
    }
}

/// Lets the servers over HTTP use the tokens of the user. `path` is the file that has the servers.
pub(crate) fn with_logins(
    mut servers: Vec<ServerOptions>,
    path: Option<&Path>,
    environment: &Environment,
) -> Vec<ServerOptions> {
    let Ok(file) = grants(environment) else { return servers };
    for server in &mut servers {
        let ServerPlace::Remote(remote) = &mut server.place else { continue };
        let words = match path {
            Some(path) => format!(
                "--servers {} {}",
                shell_word(&path.to_string_lossy()),
                shell_word(&server.name)
            ),
            None => shell_word(&remote.url),
        };
        let command = format!("ctxfs mcp login {words}");
        remote.login = Some(ServerLogin { file: file.clone(), command });
    }
    servers
}
