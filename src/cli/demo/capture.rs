//! Real outputs of this machine, as a host would store them.

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;

use anyhow::Context as _;

use crate::model::Said;
use crate::store::set_said;

/// A command whose output is an artifact.
pub(super) struct Sample {
    /// The artifact's name.
    pub(super) name: &'static str,
    /// Commands that give such an output; the first one that this machine has is taken.
    commands: &'static [&'static str],
}

/// A large listing, a real JSON document, a command that fails.
pub(super) const SAMPLES: [Sample; 3] = [
    Sample { name: "listing.txt", commands: &["ls -lR /usr/bin /usr/lib /etc"] },
    Sample {
        name: "disks.json",
        commands: &[
            "lsblk --json --output-all",
            "findmnt --json --output-all",
            "/proc/self/exe doctor --json",
        ],
    },
    Sample { name: "failed.txt", commands: &["ls -lR /etc /no/such/directory /usr/share"] },
];

impl Sample {
    /// Runs the command with its output going straight into the mount, and says how it ended.
    /// Returns the command line.
    pub(super) fn capture(&self, tools: &Path) -> anyhow::Result<&'static str> {
        let path = tools.join(self.name);
        let at = || format!("cannot write `{}`", path.display());
        for line in self.commands {
            let output = File::create(&path).with_context(at)?;
            let Some(code) = run(line, &output)? else { continue };
            if code != 0 && *line != self.commands[self.commands.len() - 1] {
                continue;
            }
            let said = Said {
                tool: Some("exec".to_owned()),
                server: Some("shell".to_owned()),
                args: Some(serde_json::json!({ "command": line }).to_string()),
                exit_code: Some(code),
                ..Said::default()
            };
            set_said(&output, &said).with_context(at)?;
            return Ok(line);
        }
        anyhow::bail!("none of {:?} runs here", self.commands)
    }
}

/// The exit code; none where the program is not there.
fn run(line: &str, output: &File) -> anyhow::Result<Option<i32>> {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).stdin(Stdio::null());
    command.stdout(output.try_clone()?).stderr(output.try_clone()?);
    match command.status() {
        Ok(status) => Ok(Some(status.code().unwrap_or(1))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).context(format!("cannot run `{line}`")),
    }
}
