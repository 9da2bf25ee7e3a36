//! `ctxfs demo`: makes a temporary mount, captures outputs of this machine in it, and reads their
//! views as any program reads files.

mod capture;
mod server;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::args::DemoArgs;
use crate::context::Context;
use crate::demo::capture::SAMPLES;
use crate::demo::server::Server;
use crate::output::STRONG;

/// Lines shown of a file.
const SHOWN: usize = 18;

/// The files to show, each as `(comment, file under artifacts/tool)`.
const TOUR: [(&str, &str); 7] = [
    ("what the model gets in place of all that", "listing.txt.summary"),
    ("any search, as a file", "listing.txt.grep/-m5 -> .*python"),
    ("with ripgrep's options: count, ignoring case", "listing.txt.grep/-c -i \\.so"),
    ("a range of lines", "listing.txt.lines/100-103"),
    ("JSON: its shape, without reading it", "system.json.summary"),
    ("a failed command: the error comes first", "failed.txt.summary"),
    ("what a conversation remembers of an output", "failed.txt.ref.json"),
];

pub(super) fn run(args: &DemoArgs, context: &mut Context) -> anyhow::Result<()> {
    let dir = tempfile::Builder::new().prefix("ctxfs-demo-").tempdir()?;
    let server = Server::start(dir.path(), args.keep)?;
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

/// Lists names with their sizes in bytes, sorted by name.
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

/// Prints a command and the beginning of its output.
fn show(context: &mut Context, command: &str, text: &str) -> anyhow::Result<()> {
    let mut shown: String = text.lines().take(SHOWN).flat_map(|line| [line, "\n"]).collect();
    let more = text.lines().count().saturating_sub(SHOWN);
    if more > 0 {
        let _ = writeln!(shown, "[... {more} more line{}]", if more == 1 { "" } else { "s" });
    }
    let gap = if text.is_empty() { "" } else { "\n" };
    context.printer.data(&format!("{STRONG}$ {command}{STRONG:#}\n{shown}{gap}"))
}
