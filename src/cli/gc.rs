//! `ctxfs gc`: removes outputs that the retention settings do not keep.

use std::{fmt::Write as _, time::SystemTime};

use serde_json::{Value, json};

use crate::{Cli, Context, Failure, FailureKind, args::GcArgs, context, output, places, progress};
use ctxfs_core::model::visible;
use ctxfs_store::keep::{self, PlannedRemoval, RetentionRules, SweepReport, SweepScope};
use ctxfs_store::{Store, UnreadPlaces};

struct GcReport {
    dry_run: bool,
    removed: Vec<PlannedRemoval>,
    kept: Vec<(PlannedRemoval, &'static str)>,
    unread: UnreadPlaces,
}

pub(crate) fn run(args: &GcArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = context.settings(cli, args.keep.settings().collect())?;
    let store = Store::open(&settings.store(&context.environment)?)?;
    let scope = match &args.conversation {
        Some(id) => SweepScope::Conversation(places::find_conversation(&store, id)?.id().clone()),
        None => SweepScope::Store,
    };
    let rules = settings.keep();
    check(&rules, &scope)?;
    let done =
        if args.dry_run { preview(&store, &rules, &scope) } else { sweep(&store, &rules, &scope) }?;
    if rules.is_empty() {
        context.printer.message(
            &"everything is kept: no `keep_age`, `keep_conversation`, `keep_store` or `keep_free` is set",
        );
    }
    context.printer.report(|| done.text(), || done.json())?;
    context::report_unread(&done.unread, context)
}

// Rules for the whole store cannot be applied to a single conversation.
fn check(rules: &RetentionRules, scope: &SweepScope) -> Result<(), Failure> {
    let speaks = rules.age.is_some() || rules.conversation.is_some();
    let is_of_store = rules.store.is_some() || rules.free.is_some();
    if *scope == SweepScope::Store || speaks || !is_of_store {
        return Ok(());
    }
    let hint = "leave the conversation out, or add `--keep-age` or `--keep-conversation`";
    Err(Failure::new(
        FailureKind::Usage,
        "`keep_store` and `keep_free` apply to the whole store",
        hint,
    ))
}

fn preview(store: &Store, rules: &RetentionRules, scope: &SweepScope) -> anyhow::Result<GcReport> {
    let plan = keep::plan(store, rules, scope, SystemTime::now(), &|| false)?;
    let (removed, unread) = (plan.removals, plan.unread);
    Ok(GcReport { dry_run: true, removed, kept: Vec::new(), unread })
}

fn sweep(store: &Store, rules: &RetentionRules, scope: &SweepScope) -> anyhow::Result<GcReport> {
    let bar = progress::count("removing", 0, "outputs", false);
    let mut show = |done: usize, all: usize| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    };
    let swept = keep::sweep(store, rules, scope, SystemTime::now(), &|| false, &mut show)?;
    let SweepReport { removed, kept, plan } = swept;
    Ok(GcReport { dry_run: false, removed, kept, unread: plan.unread })
}

impl GcReport {
    fn bytes(&self) -> u64 {
        self.removed.iter().map(|victim| victim.candidate.size).sum()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for victim in &self.removed {
            let (size, name) = (output::size(victim.candidate.size), name(victim));
            let _ = writeln!(text, "{size:>9}  {name}  {}", victim.candidate.removal.why);
        }
        for (victim, why) in &self.kept {
            let (size, name) = (output::size(victim.candidate.size), name(victim));
            let _ = writeln!(text, "{size:>9}  {name}  stays: {why}");
        }
        let (outputs, size) =
            (output::counted(self.removed.len(), "output"), output::size(self.bytes()));
        let freed =
            if self.dry_run { "would be removed, which frees" } else { "removed, which frees" };
        let _ = writeln!(text, "{outputs} {freed} {size}");
        text
    }

    fn json(&self) -> Value {
        let removed: Vec<_> = self.removed.iter().map(value).collect();
        let kept = self.kept.iter().map(|(victim, why)| {
            let mut kept = value(victim);
            kept["stays"] = json!(why);
            kept
        });
        let kept: Vec<_> = kept.collect();
        json!({ "dryRun": self.dry_run, "outputs": removed.len(), "bytes": self.bytes(),
            "removed": removed, "kept": kept, "unread": context::unread_json(&self.unread) })
    }
}

fn name(victim: &PlannedRemoval) -> String {
    visible::whole(&format!("{}/{}", victim.conversation.to_text(), victim.candidate.path))
}

fn value(victim: &PlannedRemoval) -> Value {
    let candidate = &victim.candidate;
    json!({ "conversation": victim.conversation.to_text(), "path": candidate.path.to_text(),
        "bytes": candidate.size, "lastUsedAt": victim.used, "referenced": victim.referenced,
        "rule": candidate.removal.rule, "why": candidate.removal.why })
}
