//! The command line that hosts call, and how it is recognised.

use std::path::{Path, PathBuf};

use crate::env::Environment;
use crate::hooks::Host;
use crate::outcome::Failure;

/// The file name of the program.
pub(super) const NAME: &str = "ctxfs";
/// The option that names the store.
pub(super) const STORE: &str = "--store";
/// Directories of what is made anew when it is missing: by `npx`; by `pipx run` and `uvx`.
const PASSING: [&str; 2] = ["_npx", ".cache"];

/// Returns the absolute path of this program: as it is found on the PATH, which outlives an update
/// of what the name leads to, or else its own.
pub(super) fn program(environment: &Environment) -> Result<String, Failure> {
    let own = std::env::current_exe().map_err(|error| {
        Failure::usage(format!("cannot find the program itself: {error}"), "run it by its path")
    })?;
    let named = |dir: &PathBuf| Some(dir.join(NAME)).filter(|path| is_same(path, &own));
    let path = environment.search.iter().find_map(named).unwrap_or(own);
    if path.file_name().is_none_or(|name| name != NAME) {
        let text = format!("the program is `{}`", path.display());
        return Err(Failure::usage(text, "name its file `ctxfs`, by which its hooks are known"));
    }
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let text = format!("the path of the program is not text: `{}`", path.display());
        Failure::usage(text, "move it to a path in UTF-8")
    })
}

/// Fails if the program is in a cache: one day it is gone, and the hooks that name it fail.
pub(super) fn check_it_stays(program: &str) -> Result<(), Failure> {
    if Path::new(program).iter().all(|part| PASSING.iter().all(|name| part != *name)) {
        return Ok(());
    }
    let text = format!("the program is in a cache, which loses it one day: `{program}`");
    let hint = "install it first: `npm install --global ctxfs` or `pipx install ctxfs`";
    Err(Failure::usage(text, hint))
}

fn is_same(path: &Path, own: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(path).is_some_and(|path| Some(path) == real(own))
}

/// Returns the command line that calls the hook of `host`. It has no option but the store that the
/// hook would not find by itself: hosts ask again whether a line that has changed is to be trusted.
pub(super) fn hook<'a>(program: &'a str, host: Host, store: Option<&'a str>) -> String {
    let words = [program].into_iter().chain(hook_arguments(host, store));
    let quoted = words.map(|word| shlex::try_quote(word).unwrap_or(word.into()));
    quoted.collect::<Vec<_>>().join(" ")
}

/// Returns the arguments that call the hook of `host`.
pub(super) fn hook_arguments(host: Host, store: Option<&str>) -> Vec<&str> {
    let store = store.into_iter().flat_map(|store| [STORE, store]);
    ["hook", host.name()].into_iter().chain(store).collect()
}

/// Returns the store that the words of a hook name.
pub(super) fn store_in<S: AsRef<str>>(words: &[S]) -> Option<&str> {
    let at = words.iter().position(|word| word.as_ref() == STORE)?;
    words.get(at + 1).map(AsRef::as_ref)
}

/// Returns true if these words call the hook of `host`, by whatever path.
pub(super) fn is_hook<S: AsRef<str>>(words: &[S], host: Host) -> bool {
    let [program, command, name, ..] = words else { return false };
    Path::new(program.as_ref()).file_name().is_some_and(|name| name == NAME)
        && command.as_ref() == "hook"
        && name.as_ref() == host.name()
}

/// Returns the words of a command line of the shell, or none if it is no simple one.
pub(super) fn words(line: &str) -> Vec<String> {
    shlex::split(line).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_known_by_its_words() {
        let of = |line: &str| is_hook(&words(line), Host::Codex);
        assert!(of("ctxfs hook codex"));
        assert!(of("/opt/a/ctxfs hook codex"));
        assert!(of("'/opt/a b/ctxfs' hook codex --later-option"));
        for other in [
            "",
            "ctxfs",
            "ctxfs hook",
            "ctxfs hook claude-code",
            "/opt/ctxfs/other hook codex",
            "myctxfs hook codex",
            "ctxfs run hook codex",
            "echo ctxfs hook codex",
            "'ctxfs hook codex",
        ] {
            assert!(!of(other), "{other}");
        }
    }

    #[test]
    fn a_program_in_a_cache_does_not_stay() {
        for program in [
            "/root/.npm/_npx/b4/node_modules/ctxfs/x86_64/ctxfs",
            "/home/ann/.cache/uv/archive-v0/x9/bin/ctxfs",
            "/home/ann/.local/pipx/.cache/b4/bin/ctxfs",
        ] {
            check_it_stays(program).unwrap_err();
        }
        for program in [
            "/usr/bin/ctxfs",
            "/usr/lib/node_modules/ctxfs/x86_64/ctxfs",
            "/home/ann/.local/share/pipx/venvs/ctxfs/bin/ctxfs",
            "/home/ann/cache/ctxfs",
        ] {
            check_it_stays(program).unwrap();
        }
    }

    #[test]
    fn a_path_is_quoted_where_the_shell_needs_it() {
        assert_eq!(hook("/usr/bin/ctxfs", Host::Pi, None), "/usr/bin/ctxfs hook pi");
        let odd = "/a b/$x/it's/ctxfs";
        assert_eq!(words(&hook(odd, Host::Pi, None)), [odd, "hook", "pi"]);
        let words = words(&hook(odd, Host::Pi, Some("/my data")));
        assert_eq!(words, [odd, "hook", "pi", "--store", "/my data"]);
        assert!(is_hook(&words, Host::Pi));
        assert_eq!(store_in(&words), Some("/my data"));
        assert_eq!(store_in(&["ctxfs", "hook", "pi", "--store"]), None);
    }
}
