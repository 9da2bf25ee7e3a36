//! The name by which people and models identify an output: its command, or the subject of its call.

use std::fmt;
use std::path::Path;

use serde_json::Value;
use shlex::Shlex;

use crate::clean;
use ctxfs_core::materialize::exact;
use ctxfs_core::model::Provenance;

// Maximum number of characters in a title.
const MAX_CHARS: usize = 100;
// Longer arguments are not parsed.
const MAX_ARGS_BYTES: usize = 1 << 20;
// Maximum nesting of commands: a shell in a shell, or a command in the command line of a host.
const MAX_DEPTH: usize = 4;

const COMMAND_LABEL: &str = "command";
// Arguments that contain a command, as a string or as a list of words.
const COMMAND_ARGS: [&str; 2] = [COMMAND_LABEL, "cmd"];
// Arguments that state the subject of a call, best first.
const SUBJECT_ARGS: [&str; 9] = [
    "pattern",
    "query",
    "url",
    "uri",
    "path",
    "file_path",
    "filePath",
    "absolute_path",
    "description",
];
// The beginning of the command of a filter in a pipeline.
const FILTER_MARK: &str = "| ";
// Programs that run the text after an option that ends in `c`.
const SHELLS: [&str; 5] = ["bash", "dash", "ksh", "sh", "zsh"];

/// The title of an output: one line that is safe to show, at most 100 characters long. Printed as
/// `cargo test --lib` or `path src/main.rs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Title {
    // The name of the argument. For a command it is `COMMAND_LABEL`, whatever the argument is
    // called.
    label: &'static str,
    text: String,
}

impl Title {
    /// Returns the title of the output of a call. Returns `None` if the arguments have neither a
    /// command nor a short text that states the subject of the call. In that case only the tool is
    /// known.
    ///
    /// Secrets in `provenance` must be masked, as in everything else that is shown of it.
    pub fn of(provenance: &Provenance) -> Option<Self> {
        let args = provenance.args.as_deref().filter(|args| args.len() <= MAX_ARGS_BYTES)?;
        let Value::Object(args) = serde_json::from_str(args).ok()? else { return None };
        let command = COMMAND_ARGS.iter().find_map(|name| command(args.get(*name)?));
        if let Some(command) = command {
            return Some(Self {
                label: COMMAND_LABEL,
                text: clean::shortened(command.trim().as_bytes(), MAX_CHARS),
            });
        }
        let is_short = |text: &&str| !text.trim().is_empty() && text.chars().count() <= MAX_CHARS;
        let mut subjects = SUBJECT_ARGS
            .into_iter()
            .filter_map(|label| Some((label, args.get(label)?.as_str().filter(is_short)?)));
        subjects.next().map(|(label, text)| Self {
            label,
            text: clean::shortened(text.trim().as_bytes(), MAX_CHARS),
        })
    }

    pub(super) fn line(&self) -> String {
        format!("{}: {}", self.label, self.text)
    }
}

impl fmt::Display for Title {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.label {
            COMMAND_LABEL => f.write_str(&self.text),
            label => write!(f, "{label} {}", self.text),
        }
    }
}

/// Returns a text that identifies the call: its command and the working directory, or else its tool
/// and all arguments. The runs of a command in a conversation have the same. `stream` distinguishes
/// several outputs of one call. Returns `None` if the arguments are not known, and for a filter,
/// whose input they do not name.
pub fn run_key(provenance: &Provenance, stream: &str) -> Option<String> {
    let args = provenance.args.as_deref()?;
    let object = Some(args).filter(|args| args.len() <= MAX_ARGS_BYTES);
    let object = object.and_then(|args| serde_json::from_str(args).ok());
    let command = match &object {
        Some(Value::Object(args)) => COMMAND_ARGS.iter().find_map(|name| command(args.get(*name)?)),
        _ => None,
    };
    let tool = provenance.tool_name();
    let call = match &command {
        Some(filter) if filter.starts_with(FILTER_MARK) => return None,
        Some(command) => [COMMAND_LABEL, command],
        None => [tool.as_deref().unwrap_or_default(), args],
    };
    let directory = provenance.directory.as_deref().unwrap_or_default();
    let text = [call[0], call[1], directory, stream].join("\0");
    Some(format!("{:016x}", exact(text.as_bytes())))
}

// Returns the command in an argument, without the shell that runs it.
fn command(argument: &Value) -> Option<String> {
    let mut command = match argument {
        Value::String(text) => text.trim().to_owned(),
        Value::Array(words) => {
            let words: Vec<&str> = words.iter().map(Value::as_str).collect::<Option<_>>()?;
            script(&words).map_or_else(|| joined(&words), str::to_owned)
        }
        _ => return None,
    };
    for _ in 0..MAX_DEPTH {
        let Some(inner) = inner(&command) else { break };
        command = inner;
    }
    Some(command).filter(|command| !command.trim().is_empty())
}

// Returns the command that is passed to a shell, or that a host wrapped in a command line of its
// own.
fn inner(command: &str) -> Option<String> {
    of_snapshot(command).or_else(|| {
        let first = command.split_whitespace().next()?;
        is_shell(first).then(|| shlex::split(command)).flatten().and_then(|words| {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            script(&words).map(str::to_owned)
        })
    })
}

// Returns the command in a command line of Claude Code: `source .../shell-snapshots/... && eval
// '<command>' < /dev/null && pwd -P >| ...`
fn of_snapshot(line: &str) -> Option<String> {
    let (before, after) = line.split_once("&& eval ")?;
    let is_host = before.starts_with("source ") && before.contains("/shell-snapshots/");
    is_host.then(|| Shlex::new(after).next()).flatten()
}

fn script<'a>(words: &[&'a str]) -> Option<&'a str> {
    let [shell, option, script, ..] = words else { return None };
    let runs_text = option.starts_with('-') && !option.starts_with("--") && option.ends_with('c');
    (is_shell(shell) && runs_text).then_some(*script)
}

fn is_shell(word: &str) -> bool {
    let name = Path::new(word).file_name();
    name.and_then(|name| name.to_str()).is_some_and(|name| SHELLS.contains(&name))
}

fn joined(words: &[&str]) -> String {
    shlex::try_join(words.iter().copied()).unwrap_or_else(|_| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn title(args: &Value) -> Option<String> {
        let args = Some(args.to_string());
        Title::of(&Provenance { args, ..Provenance::default() }).map(|title| title.line())
    }

    #[test]
    fn a_command_is_shown_without_its_shell() {
        let snapshot = "source /root/.claude/shell-snapshots/snapshot-bash-1-x.sh 2>/dev/null || \
                        true && { shopt -u extglob || setopt NO_EXTENDED_GLOB; } 2>/dev/null && \
                        eval 'echo '\"'\"'a b'\"'\"' | wc -l' < /dev/null && pwd -P >| /tmp/claude-1-cwd";
        let cases = [
            (json!("cargo test --lib"), "cargo test --lib"),
            (json!(["cargo", "test", "a b"]), "cargo test 'a b'"),
            (json!(["bash", "-lc", "cargo test | tail"]), "cargo test | tail"),
            (json!("/bin/bash -c 'cargo test --lib'"), "cargo test --lib"),
            (json!("bash -lc \"sh -c 'make all'\""), "make all"),
            (json!("bash build.sh -c x"), "bash build.sh -c x"),
            (json!(snapshot), "echo 'a b' | wc -l"),
            (json!(["/bin/bash", "-c", snapshot]), "echo 'a b' | wc -l"),
            (json!("eval 'ls'"), "eval 'ls'"),
            (json!("bash -c 'unclosed"), "bash -c 'unclosed"),
            (json!("a\n\x1b[31mb\0"), "a\u{240a}b\u{2400}"),
        ];
        for (command, want) in cases {
            let args = json!({ "description": "Runs it", "command": command });
            assert_eq!(title(&args).as_deref(), Some(&*format!("command: {want}")), "{args}");
        }
        assert_eq!(title(&json!({ "cmd": "ls" })).as_deref(), Some("command: ls"));
    }

    #[test]
    fn the_runs_of_a_command_have_the_same_key() {
        let key = |tool: &str, args: &Value, directory: &str| {
            let provenance = Provenance {
                tool: Some(tool.to_owned()),
                args: Some(args.to_string()),
                directory: Some(directory.to_owned()),
                ..Provenance::default()
            };
            run_key(&provenance, "")
        };
        let make = json!({ "command": "make test" });
        let known = key("Bash", &make, "/src");
        assert!(known.is_some());
        let described = json!({ "command": "make test", "description": "Runs the tests" });
        assert_eq!(key("exec", &described, "/src"), known);
        assert_eq!(key("exec", &json!({ "command": ["sh", "-c", "make test"] }), "/src"), known);
        assert_ne!(key("Bash", &make, "/other"), known);
        assert_ne!(key("Bash", &json!({ "command": "make" }), "/src"), known);
        let page = |number: u32| json!({ "url": "https://x.org/", "page": number });
        assert_eq!(key("get", &page(1), ""), key("get", &page(1), ""));
        assert_ne!(key("get", &page(1), ""), key("get", &page(2), ""));
        assert_ne!(key("get", &page(1), ""), key("put", &page(1), ""));
        assert_eq!(key("Bash", &json!({ "command": "| tail -20" }), ""), None);
        let provenance = Provenance { args: Some("ls".into()), ..Provenance::default() };
        assert_ne!(run_key(&provenance, "stdout"), run_key(&provenance, "stderr"));
        assert_eq!(run_key(&Provenance::default(), ""), None);
    }

    #[test]
    fn a_long_command_is_cut() {
        let long = title(&json!({ "command": "\u{e9}".repeat(101) })).unwrap();
        assert_eq!(long, format!("command: {}...", "\u{e9}".repeat(97)));
        let fits = title(&json!({ "command": "\u{e9}".repeat(100) })).unwrap();
        assert_eq!(fits, format!("command: {}", "\u{e9}".repeat(100)));
        let escapes = title(&json!({ "command": "\x1b[1m".repeat(40) + "x" })).unwrap();
        assert_eq!(escapes, "command: x");
    }

    #[test]
    fn without_a_command_it_is_what_the_call_was_about() {
        let cases = [
            (json!({ "pattern": "fn main", "path": "src" }), Some("pattern: fn main")),
            (json!({ "file_path": "/a/b.rs", "limit": 10 }), Some("file_path: /a/b.rs")),
            (
                json!({ "query": "q".repeat(101), "url": "https://x.org/" }),
                Some("url: https://x.org/"),
            ),
            (json!({ "command": 7, "query": "why" }), Some("query: why")),
            (json!({ "command": " ", "n": 1 }), None),
            (json!({ "command": [1, 2] }), None),
            (json!(["command", "ls"]), None),
        ];
        for (args, want) in cases {
            assert_eq!(title(&args).as_deref(), want, "{args}");
        }
        let args = Some("ls -l".to_owned());
        assert_eq!(Title::of(&Provenance { args, ..Provenance::default() }), None);
        assert_eq!(Title::of(&Provenance::default()), None);
    }
}
