//! `ctxfs remote check`: what is missing or damaged in the bucket.

use serde_json::{Value, json};

use crate::args::{Cli, RemoteCheckArgs};
use crate::context::Context;
use crate::remote::each::Done;
use crate::remote::opened::{Names, Opened, Purpose};
use crate::remote::problems::Problems;
use crate::{ls, progress};
use ctxfs_core::model::{Component, visible};
use ctxfs_sync::bucket::{Bucket, BucketError, CONVERSATIONS, log_prefix, objects_prefix};
use ctxfs_sync::remote::{Check, Checked, Flaw};

const WHAT: [&str; 2] = ["flaw in the bucket", "flaws in the bucket"];
const ODD: &str = "no ctxfs made it, and it is passed over: delete it if it is of no use";
const HINT: &str = "docs/REMOTE.md says what to do";

pub(super) fn run(args: &RemoteCheckArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = context.settings(cli, Vec::new())?;
    let opened = Opened::new(&settings, (Purpose::Read, args.quiet || cli.json), context)?;
    let bar = progress::bar("checking", None, args.quiet || cli.json || !args.read);
    let Names { ids, odd } = opened.wanted_or_lost(args.conversation.as_slice())?;
    let is_quiet = args.quiet || cli.json || args.read;
    let mut done = Done::in_each(&ids, ("checking", is_quiet), &opened.bucket, |id| {
        let notes = opened.home.conversation(id)?;
        let (bucket, reads) = (&opened.bucket, args.read);
        let (deadline, progress) = (|| opened.deadline(), |bytes| bar.inc(bytes));
        let check =
            Check { bucket, notes: &notes, reads, deadline: &deadline, progress: &progress };
        let mut checked = check.run()?;
        checked.flaws.extend(odd_flaws(bucket, id)?);
        Ok(Some((id.clone(), checked)))
    });
    for name in odd {
        done.others.add(format!("{CONVERSATIONS}{name}"), ODD);
    }
    bar.finish_and_clear();
    for (id, checked) in &done.reports {
        let is_nothing = checked.flaws.is_empty() && checked.unnamed.is_empty();
        if args.conversation.is_some() && is_nothing {
            opened.must_have(id)?;
        }
    }
    let text = if cli.json { json_of(&done.reports) } else { text_of(&done.reports) };
    context.printer.data(&text)?;
    done.end(add_flaws, (WHAT, HINT), context)
}

/// Returns what lies among the segments and objects of a conversation, and no list shows.
fn odd_flaws(bucket: &Bucket, id: &Component) -> Result<Vec<Flaw>, BucketError> {
    let mut flaws = Vec::new();
    for (folder, prefix) in [("log", log_prefix(id)), ("objects", objects_prefix(id))] {
        let odd = bucket.list_odd(&prefix)?.into_iter();
        flaws
            .extend(odd.map(|name| Flaw { what: format!("{folder}/{name}"), why: ODD.to_owned() }));
    }
    Ok(flaws)
}

fn add_flaws((id, checked): (Component, Checked), problems: &mut Problems) {
    for flaw in checked.flaws {
        problems.add(format!("{}/{}", id.to_text(), flaw.what), flaw.why);
    }
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
