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
