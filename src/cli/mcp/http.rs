//! The address, the tokens and the bounds of `ctxfs mcp --http`.

use std::fs::File;
use std::io;
use std::io::Read as _;
use std::path::Path;
use std::time::Duration;

use uuid::Uuid;

use crate::args::McpArgs;
use crate::context::Context;
use crate::listen::listen;
use crate::outcome::Failure;
use crate::settings::{Key, Settings};
use ctxfs_mcp::HttpOptions;

/// The most bytes of a file of tokens.
const MOST_BYTES: u64 = 64 * 1024;
/// The fewest characters of a token.
const SHORTEST: usize = 16;

/// Opens the socket, and prints its address. Prints a new token too, if one is needed and none is
/// given.
pub(super) fn options(
    address: &str,
    args: &McpArgs,
    settings: &Settings,
    context: &mut Context,
) -> anyhow::Result<HttpOptions> {
    let mut tokens = args.token_file.as_deref().map(tokens).transpose()?.unwrap_or_default();
    let (host, listener) = listen(address)?;
    let local = listener.local_addr()?;
    if tokens.is_empty() && !local.ip().is_loopback() {
        let token = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        context.printer.say(&format_args!("clients need the token {token}"));
        tokens.push(token);
    }
    context.printer.say(&format_args!("listening on http://{local}/mcp"));
    let seconds = settings.number(Key::SessionIdle).unwrap_or(u64::from(u32::MAX));
    Ok(HttpOptions {
        listener,
        names: vec![host.to_owned()],
        tokens,
        session_idle: Duration::from_secs(seconds),
        max_body: settings.number(Key::MaxBody).unwrap_or(u64::MAX),
    })
}

/// Reads tokens, one a line.
fn tokens(path: &Path) -> Result<Vec<String>, Failure> {
    let text = read(path).map_err(|error| {
        let text = format!("cannot read the tokens in `{}`: {error}", path.display());
        Failure::usage(text, "give a readable file with a token on each line")
    })?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let tokens: Vec<String> = lines.map(str::to_owned).collect();
    let is_good = |token: &String| {
        token.len() >= SHORTEST && token.bytes().all(|byte| byte.is_ascii_graphic())
    };
    if tokens.is_empty() || !tokens.iter().all(is_good) {
        let text = format!("`{}` has a line that is no token, or none", path.display());
        let hint =
            "a token is 16 or more visible ASCII characters; `openssl rand -hex 32` prints one";
        return Err(Failure::usage(text, hint));
    }
    Ok(tokens)
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(text)
}
