//! The name of a server, from its command.

use std::ffi::OsString;
use std::path::Path;

/// Programs that run what their first argument names.
const RUNNERS: [&str; 11] =
    ["npx", "bunx", "pnpx", "uvx", "pipx", "node", "bun", "deno", "python", "python3", "uv"];
/// Words of theirs that name nothing.
const WORDS: [&str; 6] = ["run", "exec", "dlx", "tool", "-m", "--"];

/// Returns the last part of the program's name, or of what it runs if it is one that runs others.
pub(super) fn of(command: &[OsString]) -> String {
    let mut words = command.iter().map(|word| word.to_string_lossy());
    let program = last_part(&words.next().unwrap_or_default());
    if !RUNNERS.contains(&&*program) {
        return program;
    }
    let named = words.find(|word| !word.starts_with('-') && !WORDS.contains(&&**word));
    named.map_or(program, |named| last_part(&named))
}

/// Returns the host of a URL.
pub(super) fn of_url(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    host.rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()))
        .map_or(host, |(host, _)| host)
        .to_owned()
}

/// Returns the last part of a path or of the name of a package, without extension and version.
fn last_part(name: &str) -> String {
    let name = name.rsplit('/').find(|part| !part.is_empty()).unwrap_or(name);
    let name = name.split_once('@').map_or(name, |(before, _)| before);
    let stem = Path::new(name).extension().filter(|extension| {
        ["js", "mjs", "cjs", "ts", "py"].iter().any(|known| *extension == *known)
    });
    let stem = stem.and_then(|_| Path::new(name).file_stem());
    stem.map_or_else(|| name.to_owned(), |stem| stem.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_host_of_a_url() {
        for (url, name) in [
            ("https://mcp.example.com/mcp", "mcp.example.com"),
            ("http://127.0.0.1:8080/mcp?x=a:b", "127.0.0.1"),
            ("http://[::1]:80", "[::1]"),
            ("https://user:secret@example.com:1/x@y", "example.com"),
        ] {
            assert_eq!(of_url(url), name, "{url}");
        }
    }

    #[test]
    fn it_is_the_last_part() {
        for (command, name) in [
            ("/usr/bin/github-mcp-server stdio", "github-mcp-server"),
            ("npx -y @modelcontextprotocol/server-everything@2026.1.1", "server-everything"),
            ("uvx mcp-server-git --repository /x", "mcp-server-git"),
            ("python3 -m mcp_server_time", "mcp_server_time"),
            ("node /srv/build/index.js /data", "index"),
            ("npx", "npx"),
            ("./server.py", "server"),
            ("docker run -i mcp/fetch", "docker"),
        ] {
            let words: Vec<OsString> = command.split(' ').map(OsString::from).collect();
            assert_eq!(of(&words), name, "{command}");
        }
    }
}
