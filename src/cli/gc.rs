//! `ctxfs gc`: removes outputs that the settings do not keep.

mod progress;

use std::fmt::Write as _;
use std::time::SystemTime;

use serde_json::Value;
use serde_json::json;

use crate::cli::args::Cli;
use crate::cli::args::GcArgs;
use crate::cli::context::Context;
use crate::cli::gc::progress::Progress;
use crate::cli::ls;
use crate::cli::outcome::Failure;
use crate::cli::outcome::FailureKind;
use crate::keep;
use crate::keep::Rules;
use crate::keep::Scope;
use crate::keep::Victim;
use crate::store::Store;

/// The outputs that were or would be removed, and those that could not be.
struct GcReport {
    dry_run: bool,
    removed: Vec<Victim>,
    kept: Vec<(Victim, &'static str)>,
}

pub(super) fn run(args: &GcArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = context.settings(cli, args.keep.settings().collect())?;
    let store = Store::open(&settings.store(&context.environment)?)?;
    let scope = match &args.conversation {
        Some(id) => Scope::Conversation(ls::find(&store, id)?.id().clone()),
        None => Scope::Store,
    };
    let rules = settings.keep();
    check(&rules, &scope)?;
    let done =
        if args.dry_run { preview(&store, &rules, &scope) } else { sweep(&store, &rules, &scope) }?;
    if rules.is_empty() {
        context.printer.say(
            &"everything is kept: no `keep_age`, `keep_conversation`, `keep_store` or `keep_free` is set",
        );
    }
    let text = if cli.json { done.json().to_string() + "\n" } else { done.text() };
    context.printer.data(&text)
}

/// Fails if only rules for the whole store are set, and `scope` is one conversation.
fn check(rules: &Rules, scope: &Scope) -> Result<(), Failure> {
    let speaks = rules.age.is_some() || rules.conversation.is_some();
    if *scope == Scope::Store || speaks || rules.is_empty() {
        return Ok(());
    }
    let hint = "leave the conversation out, or add `--keep-age` or `--keep-conversation`";
    Err(Failure::new(
        FailureKind::Usage,
        "`keep_store` and `keep_free` apply to the whole store",
        hint,
    ))
}

fn preview(store: &Store, rules: &Rules, scope: &Scope) -> anyhow::Result<GcReport> {
    let plan = keep::plan(store, rules, scope, SystemTime::now(), &|| false)?;
    Ok(GcReport { dry_run: true, removed: plan.victims, kept: Vec::new() })
}

fn sweep(store: &Store, rules: &Rules, scope: &Scope) -> anyhow::Result<GcReport> {
    let mut progress = Progress::of("removing");
    let mut show = |done, all| progress.show(done, all);
    let outcome = keep::carry_out(store, rules, scope, &|| false, &mut show)?;
    Ok(GcReport { dry_run: false, removed: outcome.removed, kept: outcome.kept })
}

impl GcReport {
    fn bytes(&self) -> u64 {
        self.removed.iter().map(|victim| victim.doomed.size).sum()
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for victim in &self.removed {
            let (size, name) = (ls::size(victim.doomed.size), name(victim));
            let _ = writeln!(text, "{size:>9}  {name}  {}", victim.doomed.removal.why);
        }
        for (victim, why) in &self.kept {
            let (size, name) = (ls::size(victim.doomed.size), name(victim));
            let _ = writeln!(text, "{size:>9}  {name}  stays: {why}");
        }
        let (count, size) = (self.removed.len(), ls::size(self.bytes()));
        let plural = if count == 1 { "" } else { "s" };
        let freed =
            if self.dry_run { "would be removed, which frees" } else { "removed, which frees" };
        let _ = writeln!(text, "{count} output{plural} {freed} {size}");
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
            "removed": removed, "kept": kept })
    }
}

fn name(victim: &Victim) -> String {
    format!("{}/{}", victim.conversation.to_text(), victim.doomed.path)
}

fn value(victim: &Victim) -> Value {
    let doomed = &victim.doomed;
    json!({ "conversation": victim.conversation.to_text(), "path": doomed.path.to_text(),
        "bytes": doomed.size, "lastUsedAt": victim.used, "referenced": victim.referenced,
        "rule": doomed.removal.rule, "why": doomed.removal.why })
}
