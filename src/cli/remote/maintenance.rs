//! `ctxfs remote check`, `gc` and `purge`: find missing and damaged files in the bucket, collect
//! garbage, and delete secrets immediately.

use serde_json::{Value, json};

use crate::args::{RemoteCheckArgs, RemoteGcArgs, RemotePurgeArgs};
use crate::remote::opened::{BucketNames, OpenBucket, Purpose};
use crate::remote::report::{CommandReport, Problems};
use crate::remote::status::{elsewhere, others};
use crate::{Cli, Context, Failure, FailureKind, SettingKey, output, places, progress};
use ctxfs_core::model::{Component, RelPath, visible};
use ctxfs_sync::bucket::{Bucket, BucketError, CONVERSATIONS, log_prefix, objects_prefix};
use ctxfs_sync::remote::{
    Check, CheckProblem, CheckReport, Collected, GarbageReport, GcMode, PurgeReport, standing,
};

const FLAWS: [&str; 2] = ["flaw in the bucket", "flaws in the bucket"];
const ODD: &str = "no ctxfs made it, and it is passed over: delete it if it is of no use";
const CHECK_HINT: &str = "docs/REMOTE.md says what to do";

pub(crate) fn check(
    args: &RemoteCheckArgs,
    cli: &Cli,
    context: &mut Context,
) -> anyhow::Result<()> {
    let settings = context.settings(cli, Vec::new())?;
    let opened = OpenBucket::new(&settings, (Purpose::Read, args.quiet || cli.json), context)?;
    let bar = progress::bar("checking", None, args.quiet || cli.json || !args.read);
    let BucketNames { mut ids, odd } = opened.selected_or_lost(args.conversation.as_slice())?;
    if args.conversation.is_none() {
        // The bytes of outputs may be in another bucket, and this one may lack the conversation.
        for id in opened.store.conversations()? {
            if opened.store.conversation(&id)?.is_some_and(|it| it.has_far(None).unwrap_or(true)) {
                ids.insert(id);
            }
        }
    }
    let others = others(&opened.store, Some(opened.id))?;
    let is_quiet = args.quiet || cli.json || args.read;
    let mut done = CommandReport::of_each(&ids, ("checking", is_quiet), &opened.bucket, |id| {
        let notes = opened.home.conversation(id)?;
        let (bucket, reads) = (&opened.bucket, args.read);
        let (deadline, progress) = (|| opened.deadline(), |bytes| bar.inc(bytes));
        let check =
            Check { bucket, notes: &notes, reads, deadline: &deadline, progress: &progress };
        let mut checked = check.run()?;
        checked.problems.extend(odd_flaws(bucket, id)?);
        if let Some(conversation) = opened.store.conversation(id)? {
            let found = standing(Some(&conversation), &notes, opened.store.clock())?;
            let why = elsewhere(&others);
            let flaw = |what| CheckProblem { what, why: why.clone() };
            checked.problems.extend(found.elsewhere.into_iter().map(flaw));
        }
        Ok(Some((id.clone(), checked)))
    });
    for name in odd {
        done.others.add(format!("{CONVERSATIONS}{name}"), ODD);
    }
    bar.finish_and_clear();
    for (id, checked) in &done.reports {
        let is_nothing = checked.problems.is_empty() && checked.unnamed.is_empty();
        if args.conversation.is_some() && is_nothing {
            opened.require(id)?;
        }
    }
    done.print(check_line, check_value, context)?;
    done.end(add_flaws, (FLAWS, CHECK_HINT), context)
}

fn odd_flaws(bucket: &Bucket, id: &Component) -> Result<Vec<CheckProblem>, BucketError> {
    let mut flaws = Vec::new();
    for (folder, prefix) in [("log", log_prefix(id)), ("objects", objects_prefix(id))] {
        let odd = bucket.list_odd(&prefix)?.into_iter();
        flaws.extend(
            odd.map(|name| CheckProblem { what: format!("{folder}/{name}"), why: ODD.to_owned() }),
        );
    }
    Ok(flaws)
}

fn add_flaws((id, checked): (Component, CheckReport), problems: &mut Problems) {
    for flaw in checked.problems {
        problems.add(format!("{}/{}", id.to_text(), flaw.what), flaw.why);
    }
}

fn check_line((id, checked): &(Component, CheckReport)) -> String {
    let outputs = output::counted(checked.artifacts, "output");
    let segments = output::counted(checked.segments, "segment");
    let name = visible::whole(&id.to_text());
    let unnamed: u64 = checked.unnamed.iter().map(|object| object.size).sum();
    let unnamed = match checked.unnamed.len() {
        0 => String::new(),
        1 => format!(", an object that nobody names ({})", output::size(unnamed)),
        count => format!(", {count} objects that nobody names ({})", output::size(unnamed)),
    };
    let flaws = match checked.problems.len() {
        0 => "nothing is missing".to_owned(),
        count => output::counted(count, "flaw"),
    };
    format!("{name}: {outputs} in {segments}, {flaws}{unnamed}\n")
}

fn check_value((id, checked): &(Component, CheckReport)) -> Value {
    let flaws = checked.problems.iter();
    let flaws: Value = flaws.map(|flaw| json!({ "what": flaw.what, "why": flaw.why })).collect();
    let unnamed = checked.unnamed.iter().map(|object| {
        json!({ "name": object.name, "bytes": object.size, "modifiedAt": object.modified_ms })
    });
    let unnamed: Value = unnamed.collect();
    json!({ "conversation": id.to_text(), "outputs": checked.artifacts,
        "segments": checked.segments, "flaws": flaws, "unnamed": unnamed })
}

const NOT_DELETED: [&str; 2] = ["thing was not deleted", "things were not deleted"];
const GC_HINT: &str = "the rest is done; try again, or use keys that may delete";

pub(crate) fn gc(args: &RemoteGcArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = context.settings(cli, Vec::new())?;
    let purpose = if args.dry_run { Purpose::Read } else { Purpose::Publish };
    let opened = OpenBucket::new(&settings, (purpose, cli.json), context)?;
    let tidying = match (args.dry_run, settings.is_on(SettingKey::RemoteSweep)) {
        (true, _) => GcMode::Look,
        (false, true) => GcMode::Delete,
        (false, false) => GcMode::Merge,
    };
    if tidying == GcMode::Merge {
        context.printer.message(&"nothing is deleted: `sweep` is off for this host");
    }
    let ids = opened.selected(args.conversation.as_slice())?;
    let mut reported = std::collections::HashSet::new();
    let done = CommandReport::of_each(&ids, ("tidying", cli.json), &opened.bucket, |id| {
        let mut tidied = opened.sync(|sync| sync.tidy(id, tidying))?;
        // Garbage beside the bucket's identity is found for each conversation, but reported only
        // once.
        tidied.deletions.retain(|each| reported.insert(each.key.clone()));
        Ok(Some((id.clone(), tidied)))
    });
    for (id, tidied) in &done.reports {
        if args.conversation.is_some() && tidied.deletions.is_empty() {
            opened.require(id)?;
        }
    }
    done.print(
        |report| gc_text(report, args.dry_run),
        |report| gc_value(report, args.dry_run),
        context,
    )?;
    done.end(
        |(_, tidied), all| add_failures(&tidied.deletions, all),
        (NOT_DELETED, GC_HINT),
        context,
    )
}

fn add_failures(deletions: &[Collected], problems: &mut Problems) {
    for each in deletions {
        if let Some(Err(error)) = &each.outcome {
            problems.add(each.key.as_str(), error);
        }
    }
}

fn deletion_lines(deletions: &[Collected], dry_run: bool) -> String {
    let what = if dry_run { "would be deleted" } else { "deleted" };
    let done = deletions.iter().filter(|each| !matches!(each.outcome, Some(Err(_))));
    let lines: Vec<String> =
        done.map(|each| format!("{what}: {}\n", visible::whole(&each.key))).collect();
    lines.concat()
}

fn deletions_json(deletions: &[Collected]) -> Value {
    let value = |each: &Collected| {
        let failure = each.outcome.as_ref().and_then(|outcome| outcome.as_ref().err());
        let error = failure.map(ToString::to_string);
        json!({ "key": each.key, "bytes": each.size, "error": error })
    };
    deletions.iter().map(value).collect()
}

fn gc_text((id, tidied): &(Component, GarbageReport), dry_run: bool) -> String {
    let name = visible::whole(&id.to_text());
    let bytes: u64 = tidied.deletions.iter().map(|each| each.size).sum();
    let merged = match (tidied.to_merge, tidied.merges.len()) {
        (0, 0) => "nothing to merge".to_owned(),
        (0, count) => output::counted(count, "merge"),
        (count, _) => format!("{} would be merged", output::counted(count, "segment")),
    };
    let useless = match tidied.deletions.len() {
        0 => "nothing to delete".to_owned(),
        count => format!("{} of no use, {}", output::counted(count, "thing"), output::size(bytes)),
    };
    let lines = deletion_lines(&tidied.deletions, dry_run);
    format!("{lines}{name}: {merged}, {useless}\n")
}

fn gc_value((id, tidied): &(Component, GarbageReport), dry_run: bool) -> Value {
    let merges: Vec<_> = tidied.merges.iter().map(ToString::to_string).collect();
    json!({ "conversation": id.to_text(), "dryRun": dry_run, "merges": merges,
        "toMerge": tidied.to_merge, "deletions": deletions_json(&tidied.deletions) })
}

const SCHEME: &str = "ctx://";
const PURGE_HINT: &str = "run the same command again: it goes on where it was cut off";
const LOG: &str = "/history/messages.jsonl";
const UNNAMED: &str = "objects of the last day that no record names may have it, as records of what \
                       was removed before a merge are gone";
const HINT_UNNAMED: &str = "run the same command again in a day: it deletes them";
const OUT_OF_REACH: &str = "\
out of reach: old versions that the bucket keeps; other hosts until they look again (`ctxfs pull`),
and those that never do; views that these keep (`cache` of their stores); exports, backups,
and whoever has read it. A key or password that was here is no secret any more: change it.";

pub(crate) fn purge(
    args: &RemotePurgeArgs,
    cli: &Cli,
    context: &mut Context,
) -> anyhow::Result<()> {
    let settings = context.settings(cli, Vec::new())?;
    let (id, path) = output_path(&args.path)?;
    let purpose = if args.dry_run { Purpose::Read } else { Purpose::Publish };
    let opened = OpenBucket::new(&settings, (purpose, cli.json), context)?;
    let notes = opened.home.conversation(&id)?;
    let conversation = opened.store.conversation(&id)?;
    let purged =
        opened.sync(|sync| sync.purge(&notes, conversation.as_deref(), &path, args.dry_run))?;
    if purged.is_empty() {
        return Err(nothing_to_purge(&purged, args).into());
    }
    print_purged(&purged, args, context)?;
    let mut problems = Problems::default();
    add_failures(&purged.deletions, &mut problems);
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
    problems.report(["place may still have it", "places may still have it"], PURGE_HINT, context)
}

fn nothing_to_purge(purged: &PurgeReport, args: &RemotePurgeArgs) -> Failure {
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

fn print_purged(
    purged: &PurgeReport,
    args: &RemotePurgeArgs,
    context: &mut Context,
) -> anyhow::Result<()> {
    let value = || {
        let missing: Vec<_> = purged.missing.iter().map(ToString::to_string).collect();
        json!({ "dryRun": args.dry_run, "outputs": purged.artifacts, "messages": purged.messages,
            "missing": missing, "removedHere": purged.is_removed_here && purged.kept.is_none(),
            "deletions": deletions_json(&purged.deletions), "unnamed": purged.unnamed,
            "incomplete": purged.is_incomplete() })
    };
    context.printer.report(|| deletion_lines(&purged.deletions, args.dry_run), value)?;
    if purged.unnamed > 0 {
        context.printer.message(&format_args!(
            "{} objects of this conversation are named by no record, such as those of a push that \
             goes on or was cut off; once they are a day old, the same command deletes them",
            purged.unnamed
        ));
    }
    context.printer.message(&OUT_OF_REACH);
    Ok(())
}

fn output_path(given: &str) -> anyhow::Result<(Component, RelPath)> {
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
            let (id, path) = output_path(given).unwrap();
            assert_eq!((&*id.to_text(), &*path.to_text()), ("c7", "artifacts/tool/x.txt"));
        }
        for given in ["c7", "c7/", "c7/../x", "/c7/x", ""] {
            assert!(output_path(given).is_err(), "{given}");
        }
    }
}
