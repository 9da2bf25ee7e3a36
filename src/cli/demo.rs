//! `ctxfs demo`: creates a temporary mount, captures outputs of this machine in it, and reads their
//! views as any program would read files.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, BufRead as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use rustix::process::{Pid, Signal};

use crate::{Context, Failure, FailureKind, args::DemoArgs, output::STRONG};
use ctxfs_core::model::Provenance;

const SHOWN: usize = 18;

// Pairs of a comment and a file under `artifacts/tool`.
const TOUR: [(&str, &str); 7] = [
    ("what the model gets in place of all that", "listing.txt.summary"),
    ("any search, as a file", "listing.txt.grep/-m5 -> .*python"),
    ("with ripgrep's options: count, ignoring case", "listing.txt.grep/-c -i \\.so"),
    ("a range of lines", "listing.txt.lines/100-103"),
    ("JSON: its shape, without reading it", "system.json.summary"),
    ("a failed command: the error comes first", "failed.txt.summary"),
    ("what a conversation remembers of an output", "failed.txt.ref.json"),
];

pub(crate) fn run(args: &DemoArgs, context: &mut Context) -> anyhow::Result<()> {
    let dir = tempfile::Builder::new().prefix("ctxfs-demo-").tempdir()?;
    let server = DemoServer::start(dir.path(), args.keep)?;
    let tools = server.mountpoint.join("demo/artifacts/tool");
    let conversation = server.mountpoint.join("demo");
    fs::create_dir(&conversation).context("cannot create a conversation")?;
    show(context, &format!("mkdir {}    # a conversation", conversation.display()), "")?;
    for sample in &SAMPLES {
        let line = sample.capture(&tools)?;
        let title = format!("{line} > {}", tools.join(sample.name).display());
        show(context, &title, "")?;
    }
    show(context, &format!("ls -s {}", tools.display()), &list(&tools)?)?;
    for (notice, name) in TOUR {
        let path = tools.join(name);
        let text = fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        let title = format!("cat '{}'    # {notice}", path.display());
        show(context, &title, &String::from_utf8_lossy(&text))?;
    }
    if args.keep {
        let kept = dir.keep();
        let mount = server.mountpoint.display();
        return context.printer.data(&format!(
            "The mount stays: look around with cat, less and rg in {mount}\n\
             To end it: ctxfs umount {mount} && rm -r {}\n",
            kept.display()
        ));
    }
    drop(server);
    context.printer.data(
        "Nothing is left behind. To go on:\n  \
         ctxfs demo --keep             the same, and the mount stays to look around in\n  \
         ctxfs mount                   mount your own store, then write files under it\n  \
         make 2>&1 | ctxfs put -c c7   store an output without a mount, and see what a model gets\n  \
         ctxfs --help\n",
    )
}

fn list(tools: &Path) -> anyhow::Result<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(tools)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let size = if metadata.is_dir() { "-".to_owned() } else { metadata.len().to_string() };
        lines.push((name, size));
    }
    lines.sort();
    let lines: Vec<_> = lines.iter().map(|(name, size)| format!("{size:>9} {name}")).collect();
    Ok(lines.join("\n"))
}

fn show(context: &mut Context, command: &str, text: &str) -> anyhow::Result<()> {
    let mut shown: String = text.lines().take(SHOWN).flat_map(|line| [line, "\n"]).collect();
    let more = text.lines().count().saturating_sub(SHOWN);
    if more > 0 {
        let _ = writeln!(shown, "[... {more} more line{}]", if more == 1 { "" } else { "s" });
    }
    let gap = if text.is_empty() { "" } else { "\n" };
    context.printer.data(&format!("{STRONG}$ {command}{STRONG:#}\n{shown}{gap}"))
}

struct SampleCommand {
    name: &'static str,
    // Alternatives. The first command that exists on this machine and prints at least `least` bytes
    // is used. If there is none, the last one is used.
    commands: &'static [&'static str],
    least: u64,
}

// Runs on any Linux with awk, and prints about 7 KB.
const KERNEL_COUNTERS: &str = r#"awk 'BEGIN { printf "[" } { printf "%s{\"name\": \"%s\", \"value\": %s}", comma, $1, $2; comma = ", " } END { print "]" }' /proc/vmstat"#;

// Samples: a large listing, a JSON document too large to be shown whole, and a failing command.
const SAMPLES: [SampleCommand; 3] = [
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

const NOT_FOUND: i32 = 127;

impl SampleCommand {
    fn capture(&self, tools: &Path) -> anyhow::Result<&'static str> {
        let path = tools.join(self.name);
        let at = || format!("cannot write `{}`", path.display());
        for (number, line) in self.commands.iter().enumerate() {
            let output = File::create(&path).with_context(at)?;
            let code = run_shell(line, &output)?;
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
            ctxfs_store::set_provenance(&output, &provenance).with_context(at)?;
            return Ok(line);
        }
        anyhow::bail!("none of {:?} runs here", self.commands)
    }
}

fn run_shell(line: &str, output: &File) -> anyhow::Result<i32> {
    let mut command = Command::new("sh");
    command.args(["-c", line]).stdin(Stdio::null());
    command.stdout(output.try_clone()?).stderr(output.try_clone()?);
    let status = command.status().with_context(|| format!("cannot run `{line}`"))?;
    Ok(status.code().unwrap_or(1))
}

#[derive(Debug)]
struct DemoServer {
    // The server in the foreground of this process group, so that an interrupt ends it too. `None`
    // if the server runs in the background.
    process: Option<Child>,
    mountpoint: PathBuf,
}

impl DemoServer {
    fn start(dir: &Path, keep: bool) -> anyhow::Result<Self> {
        let mountpoint = dir.join("ctx");
        let mut command = Command::new("/proc/self/exe");
        command.args(["mount", "--log", "warn", "--store"]).arg(dir.join("store"));
        command.arg(&mountpoint).stdin(Stdio::null()).stdout(Stdio::piped());
        if !keep {
            command.arg("--foreground");
        }
        let mut process = command.spawn()?;
        let mut line = String::new();
        let told = process.stdout.take().map(|out| io::BufReader::new(out).read_line(&mut line));
        let ready = matches!(told, Some(Ok(count)) if count > 0);
        let process = if keep { process.wait().map(|_| None)? } else { Some(process) };
        let server = Self { process, mountpoint };
        if ready {
            return Ok(server);
        }
        Err(Failure::new(FailureKind::Mount, "cannot mount for the demo", "run `ctxfs doctor`")
            .into())
    }
}

impl Drop for DemoServer {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let pid = i32::try_from(process.id()).ok().and_then(Pid::from_raw);
            let _ = pid.map(|pid| rustix::process::kill_process(pid, Signal::TERM));
            drop(process.wait());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use ctxfs_core::model::Limits;

    use super::*;

    #[test]
    fn the_last_resort_is_json_and_large() {
        let mut output = tempfile::tempfile().unwrap();
        assert_eq!(run_shell(KERNEL_COUNTERS, &output).unwrap(), 0);
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
        assert_eq!(run_shell("no-such-program --json", &output).unwrap(), NOT_FOUND);
        assert_eq!(run_shell("exit 3", &output).unwrap(), 3);
    }
}
