//! `ctxfs remote purge`: bytes that have to leave the bucket now.

use serde_json::json;

use crate::args::{Cli, RemotePurgeArgs};
use crate::context::Context;
use crate::outcome::{Failure, FailureKind};
use crate::places;
use crate::remote::gc;
use crate::remote::opened::{Opened, Purpose};
use crate::remote::problems::Problems;
use ctxfs_core::model::{Component, RelPath};
use ctxfs_sync::remote::Purged;

/// The beginning of references.
const SCHEME: &str = "ctx://";
const HINT: &str = "run the same command again: it goes on where it was cut off";
/// The end of the path of a message log.
const LOG: &str = "/history/messages.jsonl";
/// What may be in objects that no record names.
const UNNAMED: &str = "objects of the last day that no record names may have it, as records of what \
                       was removed before a merge are gone";
const HINT_UNNAMED: &str = "run the same command again in a day: it deletes them";
/// The copies that no command reaches.
const OUT_OF_REACH: &str = "\
out of reach: old versions that the bucket keeps; other hosts until they look again (`ctxfs pull`),
and those that never do; views that these keep (`cache` of their stores); exports, backups,
and whoever has read it. A key or password that was here is no secret any more: change it.";

pub(super) fn run(args: &RemotePurgeArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = context.settings(cli, Vec::new())?;
    let (id, path) = place(&args.path)?;
    let purpose = if args.dry_run { Purpose::Read } else { Purpose::Publish };
    let opened = Opened::new(&settings, (purpose, cli.json), context)?;
    let notes = opened.home.conversation(&id)?;
    let conversation = opened.store.conversation(&id)?;
    let purged =
        opened.sync(|sync| sync.purge(&notes, conversation.as_deref(), &path, args.dry_run))?;
    if purged.is_empty() {
        return Err(nothing(&purged, args).into());
    }
    tell(&purged, args, cli, context)?;
    let mut problems = Problems::default();
    gc::add_failures(&purged.deletions, &mut problems);
    if let Some(why) = purged.kept {
        problems.add(args.path.as_str(), format!("nothing was removed, as {why}"));
    }
    if purged.is_left {
        problems.add(args.path.as_str(), "another host publishes segments that have it");
    }
    for segment in &purged.missing {
        let why = "it is missing in the bucket, and may have it: once its host has sent it again, \
                   purge again";
        problems.add(format!("segment {segment}"), why);
    }
    if purged.artifacts + purged.messages == 0 && purged.unnamed > 0 {
        problems.add(args.path.as_str(), UNNAMED);
    }
    problems.report(["place may still have it", "places may still have it"], HINT, context)
}

/// Returns the failure of a purge that found nothing to delete.
fn nothing(purged: &Purged, args: &RemotePurgeArgs) -> Failure {
    let (text, hint) = if let Some(segment) = purged.missing.first() {
        let text = format!(
            "no record that can be read names `{}`, and segment `{segment}` is missing in \
            the bucket",
            args.path
        );
        (text, "`ctxfs push` on its host sends it again: purge again then")
    } else if purged.unnamed > 0 {
        (format!("no record names `{}`, but {UNNAMED}", args.path), HINT_UNNAMED)
    } else if args.path.ends_with(LOG) {
        let text = format!("the bucket has no message of `{}` that was removed", args.path);
        (text, "take the lines out of the log first: rewrite the file, then purge again")
    } else {
        let hint = "`ctxfs ls --remote CONVERSATION` lists what it has; `rm` removes what is here";
        (format!("the bucket has nothing of `{}`", args.path), hint)
    };
    Failure::new(FailureKind::Failed, text, hint)
}

fn tell(
    purged: &Purged,
    args: &RemotePurgeArgs,
    cli: &Cli,
    context: &mut Context,
) -> anyhow::Result<()> {
    let value = json!({ "dryRun": args.dry_run, "outputs": purged.artifacts,
        "messages": purged.messages, "missing": purged.missing.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "removedHere": purged.is_removed_here && purged.kept.is_none(),
        "deletions": gc::value_of(&purged.deletions), "unnamed": purged.unnamed,
        "incomplete": purged.is_incomplete() });
    let text = if cli.json {
        value.to_string() + "\n"
    } else {
        gc::lines_of(&purged.deletions, args.dry_run)
    };
    context.printer.data(&text)?;
    tell_unnamed(purged, context);
    context.printer.say(&OUT_OF_REACH);
    Ok(())
}

fn tell_unnamed(purged: &Purged, context: &mut Context) {
    if purged.unnamed > 0 {
        context.printer.say(&format_args!(
            "{} objects of this conversation are named by no record, such as those of a push that \
             goes on or was cut off; once they are a day old, the same command deletes them",
            purged.unnamed
        ));
    }
}

/// Returns the conversation and the path in it.
fn place(given: &str) -> anyhow::Result<(Component, RelPath)> {
    let text = given.strip_prefix(SCHEME).unwrap_or(given);
    let odd = |why: &str| {
        let hint = "write it as `c7/artifacts/tool/9f3k.txt`";
        Failure::usage(format!("`{given}` is not the path of an output: {why}"), hint)
    };
    if text.starts_with('/') {
        return Err(odd("leave out the directory of the mount").into());
    }
    let (id, path) = text.split_once('/').ok_or_else(|| odd("it names a conversation alone"))?;
    let path = RelPath::from_text(path).map_err(|error| odd(&error.to_string()))?;
    Ok((places::conversation_id(id)?, path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_begins_with_its_conversation() {
        for given in ["c7/artifacts/tool/x.txt", "ctx://c7/artifacts/tool/x.txt"] {
            let (id, path) = place(given).unwrap();
            assert_eq!((&*id.to_text(), &*path.to_text()), ("c7", "artifacts/tool/x.txt"));
        }
        for given in ["c7", "c7/", "c7/../x", "/c7/x", ""] {
            assert!(place(given).is_err(), "{given}");
        }
    }
}
