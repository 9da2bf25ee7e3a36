//! The entries that ctxfs adds to settings files, the command line of the hook, and the error for a
//! file of an unexpected structure.

use std::path::{Path, PathBuf};

use crate::{Environment, Failure, hooks::Host, places::PROGRAM_NAME};

/// An entry in a JSON file. `Variable` is a member of the object `env`, and replaces a previous
/// value. `Demanded` is a number that the host requires as a top-level member. A removal keeps this
/// number unless the file is otherwise empty.
#[derive(Debug, Clone)]
pub(crate) enum JsonEntry {
    Hook(HookEntry),
    Text(TextEntry),
    Member(MemberEntry),
    Variable(ValueEntry),
    Demanded(&'static str, u32),
}

/// A call of the hook for an event. `event` names a list in the object `hooks`. `matcher` is a
/// regular expression for tool names, and `None` matches all tools.
#[derive(Debug, Clone)]
pub(crate) struct HookEntry {
    pub(crate) host: Host,
    pub(crate) event: &'static str,
    pub(crate) matcher: Option<&'static str>,
    pub(crate) command: String,
    pub(crate) dialect: &'static HookDialect,
}

/// The names and units of hooks in the settings of a host: the keys of the command line and the
/// timeout, and the length of a minute in the host's unit of time. If `grouped` is true, the list
/// of an event contains groups, each with a matcher and a list `hooks`.
#[derive(Debug)]
pub(crate) struct HookDialect {
    pub(crate) command: &'static str,
    pub(crate) timeout: &'static str,
    pub(crate) minute: u32,
    pub(crate) grouped: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct TextEntry {
    pub(crate) path: &'static [&'static str],
    pub(crate) text: String,
}

/// A rule of a host. If `is_optional` is true, it is left out where the user has a rule for
/// everything in place of the object.
#[derive(Debug, Clone)]
pub(crate) struct MemberEntry {
    pub(crate) path: &'static [&'static str],
    pub(crate) name: String,
    pub(crate) value: &'static str,
    pub(crate) is_optional: bool,
}

/// A variable for the commands of a host. `former` is the value before the installation. A removal
/// restores it if there is no copy of the settings. `replaces` allows the installation to replace a
/// value of the user. `is_ours` recognizes values that an installation has set.
#[derive(Debug, Clone)]
pub(crate) struct ValueEntry {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) former: Option<String>,
    pub(crate) replaces: bool,
    pub(crate) is_ours: fn(&str) -> bool,
}

pub(crate) const STORE_OPTION: &str = "--store";
// Directories of the caches of `npx`, `pipx run` and `uvx`, which are cleared from time to time.
const CACHES: [&str; 2] = ["_npx", ".cache"];

/// Returns the absolute path of this program. Prefers a path found through `PATH`, which stays
/// valid after an update of the program.
pub(crate) fn own_program(environment: &Environment) -> Result<String, Failure> {
    let own = std::env::current_exe().map_err(|error| {
        Failure::usage(format!("cannot find the program itself: {error}"), "run it by its path")
    })?;
    let named = |dir: &PathBuf| Some(dir.join(PROGRAM_NAME)).filter(|path| is_same(path, &own));
    let path = environment.search.iter().find_map(named).unwrap_or(own);
    if path.file_name().is_none_or(|name| name != PROGRAM_NAME) {
        let text = format!("the program is `{}`", path.display());
        return Err(Failure::usage(text, "name its file `ctxfs`, by which its hooks are known"));
    }
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let text = format!("the path of the program is not text: `{}`", path.display());
        Failure::usage(text, "move it to a path in UTF-8")
    })
}

/// Fails if the program is in a cache. Hooks that name the program would fail after the cache is
/// cleared.
pub(crate) fn check_it_stays(program: &str) -> Result<(), Failure> {
    if Path::new(program).iter().all(|part| CACHES.iter().all(|name| part != *name)) {
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

/// Returns the command line that calls the hook of `host`. The store is named only if the hook
/// would not find it by itself. There are no other options, because hosts ask for trust again
/// whenever the line changes.
pub(crate) fn hook_line<'a>(program: &'a str, host: Host, store: Option<&'a str>) -> String {
    let words = [program].into_iter().chain(hook_arguments(host, store));
    let quoted = words.map(|word| shlex::try_quote(word).unwrap_or(word.into()));
    quoted.collect::<Vec<_>>().join(" ")
}

pub(crate) fn hook_arguments(host: Host, store: Option<&str>) -> Vec<&str> {
    let store = store.into_iter().flat_map(|store| [STORE_OPTION, store]);
    ["hook", host.name()].into_iter().chain(store).collect()
}

pub(crate) fn store_in<S: AsRef<str>>(words: &[S]) -> Option<&str> {
    let at = words.iter().position(|word| word.as_ref() == STORE_OPTION)?;
    words.get(at + 1).map(AsRef::as_ref)
}

// Accepts any path of the program, and additional options.
pub(crate) fn is_hook<S: AsRef<str>>(words: &[S], host: Host) -> bool {
    let [program, command, name, ..] = words else { return false };
    Path::new(program.as_ref()).file_name().is_some_and(|name| name == PROGRAM_NAME)
        && command.as_ref() == "hook"
        && name.as_ref() == host.name()
}

pub(crate) fn split_words(line: &str) -> Vec<String> {
    shlex::split(line).unwrap_or_default()
}

/// The error for a settings file that does not have the expected structure. The text names the
/// wrong entry, unless the whole file is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct WrongShape(String);

impl WrongShape {
    pub(crate) fn new(path: &[&str], what: &str) -> Self {
        if path.is_empty() { Self(what.to_owned()) } else { Self(format!("{} {what}", at(path))) }
    }

    pub(crate) fn invalid(format: &str, error: &impl std::fmt::Display) -> Self {
        Self(format!("it is not valid {format}: {}", error.to_string().trim_end()))
    }
}

fn at(path: &[&str]) -> String {
    format!("`{}`", path.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_known_by_its_words() {
        let of = |line: &str| is_hook(&split_words(line), Host::Codex);
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
        assert_eq!(hook_line("/usr/bin/ctxfs", Host::Pi, None), "/usr/bin/ctxfs hook pi");
        let odd = "/a b/$x/it's/ctxfs";
        assert_eq!(split_words(&hook_line(odd, Host::Pi, None)), [odd, "hook", "pi"]);
        let words = split_words(&hook_line(odd, Host::Pi, Some("/my data")));
        assert_eq!(words, [odd, "hook", "pi", "--store", "/my data"]);
        assert!(is_hook(&words, Host::Pi));
        assert_eq!(store_in(&words), Some("/my data"));
        assert_eq!(store_in(&["ctxfs", "hook", "pi", "--store"]), None);
    }
}
