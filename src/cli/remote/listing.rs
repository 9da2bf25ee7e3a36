//! `ctxfs ls --remote`: what the bucket has.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::args::{Cli, LsArgs};
use crate::context::Context;
use crate::remote::opened::{Opened, Purpose};
use crate::remote::problems::Problems;
use crate::{ls, places};
use ctxfs_core::model::{Component, visible};
use ctxfs_sync::remote::{Stored, look};
use ctxfs_sync::replica;
use ctxfs_sync::replica::{Changes, Claim, Name, State};

const HINT: &str = "`ctxfs remote check` tells more";

pub(crate) fn run(args: &LsArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = context.settings(cli, Vec::new())?;
    let opened = Opened::new(&settings, (Purpose::Read, cli.json), context)?;
    let Some(named) = &args.conversation else { return conversations(&opened, cli, context) };
    let id = places::conversation_id(named)?;
    let mut problems = Problems::default();
    let seen = seen(&opened, &id, &mut problems)?;
    opened.must_have(&id)?;
    let text = if cli.json { json_of(&seen) } else { text_of(&seen) };
    if seen.is_empty() {
        context.printer.say(&format_args!("the bucket has no outputs of `{named}`"));
    }
    context.printer.data(&text)?;
    problems.report(["segment cannot be read", "segments cannot be read"], HINT, context)
}

fn conversations(opened: &Opened, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let mut ids = Vec::new();
    for id in opened.wanted(&[])? {
        if !opened.home.is_gone(&opened.store, &id)? {
            ids.push(id.to_text());
        }
    }
    let text = if cli.json {
        ids.iter().map(|id| json!({ "conversation": id })).collect::<Value>().to_string() + "\n"
    } else {
        ids.iter().map(|id| visible::whole(id) + "\n").collect()
    };
    context.printer.data(&text)
}

/// Returns the artifacts of a conversation in the bucket, by the names that they are seen under.
fn seen(
    opened: &Opened,
    id: &Component,
    problems: &mut Problems,
) -> anyhow::Result<BTreeMap<String, Claim<Stored>>> {
    let notes = opened.home.conversation(id)?;
    let mut looked = look(&opened.bucket, &notes, opened.deadline())?;
    let found = looked.pieces(&notes)?;
    let refused: BTreeMap<_, _> =
        looked.refused.iter().chain(&found.refused).map(|(segment, why)| (segment, why)).collect();
    for (segment, error) in &refused {
        problems.add(format!("segment {segment}"), error);
    }
    let mut state = State::of_all(found.pieces);
    if refused.is_empty() {
        notes.keep_over(state.is_over())?;
    }
    let names = replica::seen(&state, &Changes::default(), &BTreeSet::new());
    let claim = |(name, seen): (String, Name)| {
        let first = seen.origins.first()?;
        Some((name, state.artifacts.remove(first)?))
    };
    Ok(names.into_iter().filter_map(claim).collect())
}

fn text_of(seen: &BTreeMap<String, Claim<Stored>>) -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut text = String::new();
    for (name, claim) in seen {
        let then = Duration::from_micros(claim.stamp.0);
        let (size, age) = (ls::size(claim.artifact.size), ls::age(now.saturating_sub(then)));
        let _ = writeln!(text, "{size:>9} {age:>5}  {}", visible::whole(name));
    }
    text
}

fn json_of(seen: &BTreeMap<String, Claim<Stored>>) -> String {
    let value = |(name, claim): (&String, &Claim<Stored>)| {
        json!({ "path": name, "bytes": claim.artifact.size, "sentAt": claim.stamp.0 / 1000,
            "digest": claim.digest })
    };
    seen.iter().map(value).collect::<Value>().to_string() + "\n"
}
