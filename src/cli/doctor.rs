//! `ctxfs doctor`: checks this machine and its mounts, and prints how to fix what is wrong.
//!
//! It changes nothing, and never opens `/dev/fuse`.

mod check;
mod confined;
mod disk;
mod hooks;
mod machine;
mod mounts;

use std::path::PathBuf;

use anstyle::Style;
use serde::Serialize;

use crate::cli::args::Cli;
use crate::cli::args::TargetArgs;
use crate::cli::context::Context;
use crate::cli::doctor::check::Check;
use crate::cli::doctor::check::Level;
use crate::cli::outcome::Failure;
use crate::cli::outcome::FailureKind;
use crate::cli::output;

#[derive(Debug, Serialize)]
struct DoctorReport {
    can_mount: bool,
    checks: Vec<Check>,
}

/// Prints the status of the mount on `target`, or fails if it is dead. May hang.
pub(super) fn probe(args: &TargetArgs, context: &mut Context) -> anyhow::Result<()> {
    context.printer.data(&mounts::status(&args.target)?)
}

pub(super) fn run(cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let mut checks = machine::checks(context.environment.root);
    checks.push(confined::machine());
    let (check, store) = settings(cli, context);
    checks.push(check);
    checks.extend(store.iter().flat_map(|store| disk::checks(store)));
    checks.extend(mounts::checks());
    checks.extend(hooks::checks(&context.environment));
    let can_mount = checks.iter().all(|check| check.level != Level::Failure);
    let report = DoctorReport { can_mount, checks };
    context.printer.line(&render(&report.checks), &report)?;
    if can_mount {
        return Ok(());
    }
    let text = "a mount cannot work here";
    Err(Failure::new(FailureKind::Machine, text, "fix what is marked `FAIL`, or use `ctxfs view`")
        .into())
}

/// Checks that the settings can be read, and returns the store that they name.
fn settings(cli: &Cli, context: &Context) -> (Check, Option<PathBuf>) {
    const NAME: &str = "settings";
    let read = context.settings(cli, Vec::new()).and_then(|settings| {
        settings.redaction()?;
        Ok((settings.files().len(), settings.store(&context.environment)?))
    });
    match read {
        Ok((0, store)) => (Check::ok(NAME, "no file, defaults apply"), Some(store)),
        Ok((1, store)) => (Check::ok(NAME, "1 file"), Some(store)),
        Ok((files, store)) => (Check::ok(NAME, format!("{files} files")), Some(store)),
        Err(error) => {
            let mend =
                "fix it; `ctxfs config --defaults` prints every setting and its allowed values";
            (Check::bad(NAME, Level::Failure, format!("{error:#}"), mend), None)
        }
    }
}

fn render(checks: &[Check]) -> String {
    let lines: Vec<String> = checks.iter().map(render_one).collect();
    lines.join("\n")
}

fn render_one(check: &Check) -> String {
    let (style, mark) = mark(check.level);
    let mend = check.mend.as_ref().map(|mend| format!("\n{:18}-> {mend}", "")).unwrap_or_default();
    format!("{style}{mark:4}{style:#} {:12} {}{mend}", check.name, check.found)
}

fn mark(level: Level) -> (Style, &'static str) {
    match level {
        Level::Ok => (output::GOOD, "ok"),
        Level::Note => (output::STRONG, "note"),
        Level::Warning => (output::WARN, "WARN"),
        Level::Failure => (output::BAD, "FAIL"),
    }
}
