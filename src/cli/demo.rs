//! `ctxfs demo`: a temporary mount, a sample in it, and its views, read as any program reads them.

mod sample;

use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

use anyhow::Context as _;
use rustix::process::Pid;
use rustix::process::Signal;

use crate::cli::Context;
use crate::cli::outcome::Failure;
use crate::cli::outcome::Kind;
use crate::cli::output::STRONG;

/// `(what to notice, the file under artifacts/tool)`
const TOUR: [(&str, &str); 5] = [
    ("what the model is given in place of 3,000 lines", "build.txt.summary"),
    ("any search, as a file", "build.txt.grep/-C2 error"),
    ("a range of lines", "build.txt.lines/1841-1846"),
    ("how it ended", "build.txt.lines/-3"),
    ("one line of JSON, 60 KB long", "issues.json.summary"),
];

pub(super) fn run(context: &mut Context) -> anyhow::Result<()> {
    let dir = tempfile::Builder::new().prefix("ctxfs-demo-").tempdir()?;
    let server = Server::start(dir.path())?;
    let tools = server.mountpoint.join("demo/artifacts/tool");
    write(&tools).context("cannot write the sample")?;
    show(context, &format!("ls {}", tools.display()), &list(&tools)?)?;
    for (notice, name) in TOUR {
        let path = tools.join(name);
        let text = fs::read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        let title = format!("cat '{}'    # {notice}", path.display());
        show(context, &title, &String::from_utf8_lossy(&text))?;
    }
    drop(server);
    context.printer.say(&"Your own: `ctxfs mount`, then write files under it. `ctxfs --help`");
    Ok(())
}

fn write(tools: &Path) -> io::Result<()> {
    fs::create_dir_all(tools)?;
    fs::write(tools.join("build.txt"), sample::build())?;
    fs::write(tools.join("issues.json"), sample::issues())
}

fn list(tools: &Path) -> anyhow::Result<String> {
    let entries: io::Result<Vec<fs::DirEntry>> = fs::read_dir(tools)?.collect();
    let mut names: Vec<String> =
        entries?.iter().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names.join("\n"))
}

fn show(context: &mut Context, command: &str, text: &str) -> anyhow::Result<()> {
    let text = text.trim_end();
    context.printer.data(&format!("{STRONG}$ {command}{STRONG:#}\n{text}\n\n"))
}

/// A server in the foreground of this process group, so that an interrupt ends it too.
#[derive(Debug)]
struct Server {
    process: Child,
    mountpoint: PathBuf,
}

impl Server {
    fn start(dir: &Path) -> anyhow::Result<Self> {
        let mountpoint = dir.join("ctx");
        let mut process = Command::new("/proc/self/exe")
            .args(["mount", "--foreground", "--log", "warn", "--store"])
            .arg(dir.join("store"))
            .arg(&mountpoint)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let ready = process.stdout.take().map(is_ready).transpose()?;
        let server = Self { process, mountpoint };
        if ready == Some(true) {
            return Ok(server);
        }
        Err(Failure::new(Kind::Mount, "cannot mount for the demo", "ask `ctxfs doctor`").into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        let _ = pid.map(|pid| rustix::process::kill_process(pid, Signal::TERM));
        drop(self.process.wait());
    }
}

/// A server prints its mountpoint once it answers.
fn is_ready(from: impl io::Read) -> io::Result<bool> {
    let mut line = String::new();
    Ok(io::BufRead::read_line(&mut io::BufReader::new(from), &mut line)? > 0)
}
