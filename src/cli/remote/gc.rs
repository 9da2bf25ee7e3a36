//! `ctxfs remote gc`: what is of no use in the bucket any more.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::args::{Cli, RemoteGcArgs};
use crate::context::Context;
use crate::ls;
use crate::remote::each::Done;
use crate::remote::opened::{Opened, Purpose};
use crate::remote::problems::Problems;
use crate::settings::Key;
use ctxfs_core::model::{Component, visible};
use ctxfs_sync::remote::{Collected, Tidied, Tidying};

const WHAT: [&str; 2] = ["thing was not deleted", "things were not deleted"];
const HINT: &str = "the rest is done; try again, or use keys that may delete";

pub(super) fn run(args: &RemoteGcArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = context.settings(cli, Vec::new())?;
    let purpose = if args.dry_run { Purpose::Read } else { Purpose::Publish };
    let opened = Opened::new(&settings, (purpose, cli.json), context)?;
    let tidying = match (args.dry_run, settings.is_on(Key::RemoteSweep)) {
        (true, _) => Tidying::Look,
        (false, true) => Tidying::Delete,
        (false, false) => Tidying::Merge,
    };
    if tidying == Tidying::Merge {
        context.printer.say(&"nothing is deleted: `sweep` is off for this host");
    }
    let ids = opened.wanted(args.conversation.as_slice())?;
    let mut told = HashSet::new();
    let done = Done::in_each(&ids, ("tidying", cli.json), &opened.bucket, |id| {
        let mut tidied = opened.sync(|sync| sync.tidy(id, tidying))?;
        // What is beside the mark of the bucket is told of each conversation.
        tidied.deletions.retain(|each| told.insert(each.key.clone()));
        Ok(Some((id.clone(), tidied)))
    });
    for (id, tidied) in &done.reports {
        if args.conversation.is_some() && tidied.deletions.is_empty() {
            opened.must_have(id)?;
        }
    }
    let all = &done.reports;
    let text = if cli.json { json_of(all, args.dry_run) } else { text_of(all, args.dry_run) };
    context.printer.data(&text)?;
    done.end(|(_, tidied), all| add_failures(&tidied.deletions, all), (WHAT, HINT), context)
}

/// Adds what could not be deleted.
pub(super) fn add_failures(deletions: &[Collected], problems: &mut Problems) {
    for each in deletions {
        if let Some(Err(error)) = &each.outcome {
            problems.add(each.key.as_str(), error);
        }
    }
}

/// Returns the lines that name what was deleted, or would be.
pub(super) fn lines_of(deletions: &[Collected], dry_run: bool) -> String {
    let what = if dry_run { "would be deleted" } else { "deleted" };
    let done = deletions.iter().filter(|each| !matches!(each.outcome, Some(Err(_))));
    let lines: Vec<String> =
        done.map(|each| format!("{what}: {}\n", visible::whole(&each.key))).collect();
    lines.concat()
}

/// Returns the same for programs.
pub(super) fn value_of(deletions: &[Collected]) -> Value {
    let value = |each: &Collected| {
        let failure = each.outcome.as_ref().and_then(|outcome| outcome.as_ref().err());
        let error = failure.map(ToString::to_string);
        json!({ "key": each.key, "bytes": each.size, "error": error })
    };
    deletions.iter().map(value).collect()
}

fn text_of(all: &[(Component, Tidied)], dry_run: bool) -> String {
    let of_one = |(id, tidied): &(Component, Tidied)| {
        let name = visible::whole(&id.to_text());
        let bytes: u64 = tidied.deletions.iter().map(|each| each.size).sum();
        let merged = match (tidied.to_merge, tidied.merges.len()) {
            (0, 0) => "nothing to merge".to_owned(),
            (0, count) => ls::counted(count, "merge"),
            (count, _) => format!("{} would be merged", ls::counted(count, "segment")),
        };
        let useless = match tidied.deletions.len() {
            0 => "nothing to delete".to_owned(),
            count => format!("{} of no use, {}", ls::counted(count, "thing"), ls::size(bytes)),
        };
        let lines = lines_of(&tidied.deletions, dry_run);
        format!("{lines}{name}: {merged}, {useless}\n")
    };
    all.iter().map(of_one).collect()
}

fn json_of(all: &[(Component, Tidied)], dry_run: bool) -> String {
    let value = |(id, tidied): &(Component, Tidied)| {
        let merges: Vec<_> = tidied.merges.iter().map(ToString::to_string).collect();
        json!({ "conversation": id.to_text(), "dryRun": dry_run, "merges": merges,
            "toMerge": tidied.to_merge, "deletions": value_of(&tidied.deletions) })
    };
    all.iter().map(value).collect::<Value>().to_string() + "\n"
}
