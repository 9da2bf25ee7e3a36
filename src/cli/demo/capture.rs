//! Outputs of this machine, stored as a host would store them.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use ctxfs_core::model::Provenance;
use ctxfs_store::set_provenance;

/// A command whose output becomes an artifact.
pub(super) struct SampleCommand {
    /// The artifact's name.
    pub(super) name: &'static str,
    /// Shell commands that print such an output. The first one that exists here and prints enough
    /// is used, or else the last.
    commands: &'static [&'static str],
    /// Bytes that are enough for the demonstration.
    least: u64,
}

/// Works on any Linux with awk, and prints about 7 KB.
const KERNEL_COUNTERS: &str = r#"awk 'BEGIN { printf "[" } { printf "%s{\"name\": \"%s\", \"value\": %s}", comma, $1, $2; comma = ", " } END { print "]" }' /proc/vmstat"#;

/// A large listing, a JSON document too large to be shown whole, and a command that fails.
pub(super) const SAMPLES: [SampleCommand; 3] = [
    SampleCommand { name: "listing.txt", commands: &["ls -lR /usr/bin /usr/lib /etc"], least: 0 },
    SampleCommand {
        name: "system.json",
        commands: &[
            "lsblk --json --output-all",
            "findmnt --json --output-all",
            "ip -json -details address",
            KERNEL_COUNTERS,
        ],
        least: 12 * 1024,
    },
    SampleCommand {
        name: "failed.txt",
        commands: &["ls -lR /etc /no/such/directory /usr/share"],
        least: 0,
    },
];

/// The exit code of a shell for a program that is not found.
const NOT_FOUND: i32 = 127;

impl SampleCommand {
    /// Runs the command with its output going directly into the mount, and sets its attributes.
    /// Returns the command line.
    pub(super) fn capture(&self, tools: &Path) -> anyhow::Result<&'static str> {
        let path = tools.join(self.name);
        let at = || format!("cannot write `{}`", path.display());
        for (number, line) in self.commands.iter().enumerate() {
            let output = File::create(&path).with_context(at)?;
            let code = run(line, &output)?;
            let is_enough = code == 0 && output.metadata().with_context(at)?.len() >= self.least;
            let is_last = number + 1 == self.commands.len() && code != NOT_FOUND;
            if !is_enough && !is_last {
                continue;
            }
            let provenance = Provenance {
                tool: Some("exec".to_owned()),
                server: Some("shell".to_owned()),
                args: Some(serde_json::json!({ "command": line }).to_string()),
                exit_code: Some(code),
                ..Provenance::default()
            };
            set_provenance(&output, &provenance).with_context(at)?;
            return Ok(line);
        }
        anyhow::bail!("none of {:?} runs here", self.commands)
    }
}

/// Runs a shell command line, and returns its exit code.
fn run(line: &str, output: &File) -> anyhow::Result<i32> {
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::null());
    command.stdout(output.try_clone()?).stderr(output.try_clone()?);
    let status = command.status().with_context(|| format!("cannot run `{line}`"))?;
    Ok(status.code().unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use super::*;
    use ctxfs_core::model::Limits;

    /// Covers machines on which the other commands are missing or print little.
    #[test]
    fn the_last_resort_is_json_and_large() {
        let mut output = tempfile::tempfile().unwrap();
        assert_eq!(run(KERNEL_COUNTERS, &output).unwrap(), 0);
        let mut text = String::new();
        output.rewind().unwrap();
        output.read_to_string(&mut text).unwrap();
        assert!(text.len() as u64 > Limits::default().max_inline_chars, "{text}");
        let counters: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
        assert!(counters.iter().all(|counter| counter["name"].is_string()));
        assert!(counters.iter().all(|counter| counter["value"].is_number()));
    }

    #[test]
    fn a_missing_program_differs_from_one_that_fails() {
        let output = tempfile::tempfile().unwrap();
        assert_eq!(run("no-such-program --json", &output).unwrap(), NOT_FOUND);
        assert_eq!(run("exit 3", &output).unwrap(), 3);
    }
}
