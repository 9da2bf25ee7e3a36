//! `ctxfs remote check`: what is missing or damaged in the bucket.

use serde_json::Value;
use serde_json::json;

use crate::cli::args::Cli;
use crate::cli::args::RemoteCheckArgs;
use crate::cli::context::Context;
use crate::cli::ls;
use crate::cli::progress;
use crate::cli::remote::opened::Opened;
use crate::cli::remote::opened::Purpose;
use crate::cli::remote::problems::Problems;
use crate::model::Component;
use crate::model::visible;
use crate::remote::Check;
use crate::remote::Checked;

const HINT: &str = "docs/REMOTE.md says what to do";

pub(super) fn run(args: &RemoteCheckArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = context.settings(cli, Vec::new())?;
    let opened = Opened::new(&settings, Purpose::Read, context)?;
    let bar = progress::bar("checking", None, args.quiet || cli.json || !args.read);
    let mut all = Vec::new();
    for id in opened.wanted_or_lost(args.conversation.as_slice())? {
        let notes = opened.home.conversation(&id)?;
        let (bucket, reads) = (&opened.bucket, args.read);
        let (deadline, progress) = (|| opened.deadline(), |bytes| bar.inc(bytes));
        let check =
            Check { bucket, notes: &notes, reads, deadline: &deadline, progress: &progress };
        let checked = check.run()?;
        let is_nothing = checked.flaws.is_empty() && checked.unnamed.is_empty();
        if args.conversation.is_some() && is_nothing {
            opened.must_have(&id)?;
        }
        all.push((id, checked));
    }
    bar.finish_and_clear();
    let text = if cli.json { json_of(&all) } else { text_of(&all) };
    context.printer.data(&text)?;
    let mut problems = Problems::default();
    for (id, checked) in &all {
        for flaw in &checked.flaws {
            problems.add(format!("{}/{}", id.to_text(), flaw.what), &flaw.why);
        }
    }
    problems.report(["flaw in the bucket", "flaws in the bucket"], HINT, context)
}

fn text_of(all: &[(Component, Checked)]) -> String {
    let line = |(id, checked): &(Component, Checked)| {
        let outputs = ls::counted(checked.artifacts, "output");
        let segments = ls::counted(checked.segments, "segment");
        let name = visible::whole(&id.to_text());
        let unnamed: u64 = checked.unnamed.iter().map(|object| object.size).sum();
        let unnamed = match checked.unnamed.len() {
            0 => String::new(),
            1 => format!(", an object that nobody names ({})", ls::size(unnamed)),
            count => format!(", {count} objects that nobody names ({})", ls::size(unnamed)),
        };
        let flaws = match checked.flaws.len() {
            0 => "nothing is missing".to_owned(),
            count => ls::counted(count, "flaw"),
        };
        format!("{name}: {outputs} in {segments}, {flaws}{unnamed}\n")
    };
    all.iter().map(line).collect()
}

fn json_of(all: &[(Component, Checked)]) -> String {
    let value = |(id, checked): &(Component, Checked)| {
        let flaws = checked.flaws.iter();
        let flaws: Vec<_> =
            flaws.map(|flaw| json!({ "what": flaw.what, "why": flaw.why })).collect();
        let unnamed = checked.unnamed.iter().map(|object| {
            json!({ "name": object.name, "bytes": object.size, "modifiedAt": object.modified_ms })
        });
        let unnamed: Vec<_> = unnamed.collect();
        json!({ "conversation": id.to_text(), "outputs": checked.artifacts,
            "segments": checked.segments, "flaws": flaws, "unnamed": unnamed })
    };
    all.iter().map(value).collect::<Value>().to_string() + "\n"
}
