//! `ctxfs doctor`: checks this machine and its mounts, and prints how to fix what is wrong.
//!
//! It changes nothing, and never opens `/dev/fuse`.

mod bucket;
mod check;
mod confined;
mod disk;
mod hooks;
mod machine;
mod mounts;
mod servers;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anstyle::Style;
use serde::Serialize;

use crate::args::{Cli, DoctorArgs, TargetArgs};
use crate::context::Context;
use crate::doctor::check::{Check, Level};
use crate::outcome::{Failure, FailureKind};
use crate::{output, page_link};

#[derive(Debug, Serialize)]
struct DoctorReport {
    can_mount: bool,
    /// Present if servers were checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    can_use_servers: Option<bool>,
    checks: Vec<Check>,
}

/// Prints the status of the mount on `target`, or fails if it is dead. May hang.
pub(super) fn probe(args: &TargetArgs, context: &mut Context) -> anyhow::Result<()> {
    context.printer.data(&mounts::status(&args.target)?)
}

pub(super) fn run(args: &DoctorArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let mut checks = machine::checks(context.environment.root);
    checks.push(confined::machine());
    let (check, store) = settings(cli, context);
    checks.push(check);
    checks.extend(store.iter().flat_map(|store| disk::checks(store)));
    checks.extend(store.iter().flat_map(|store| bucket(store, cli, context)));
    checks.extend(mounts::checks());
    checks.extend(store.iter().filter_map(|store| page(store, context)));
    checks.extend(hooks::checks(&context.environment));
    let can_mount = checks.iter().all(|check| check.level != Level::Failure);
    let of_servers = args.servers.as_deref().and_then(|path| servers(path, cli, context));
    let is_right = |checks: &Vec<Check>| checks.iter().all(|check| check.level <= Level::Note);
    let can_use_servers = of_servers.as_ref().map(is_right);
    checks.extend(of_servers.into_iter().flatten());
    let report = DoctorReport { can_mount, can_use_servers, checks };
    context.printer.line(&render(&report.checks), &report)?;
    let (text, hint) = match (can_mount, can_use_servers) {
        (true, None | Some(true)) => return Ok(()),
        (true, Some(false)) => ("a server cannot be used", "fix what is marked `WARN`"),
        (false, _) => {
            ("a mount cannot work here", "fix what is marked `FAIL`, or use `ctxfs view`")
        }
    };
    Err(Failure::new(FailureKind::Machine, text, hint).into())
}

/// Asks the bucket that hosts share, if one is set.
fn bucket(store: &Path, cli: &Cli, context: &Context) -> Vec<Check> {
    let settings = context.quiet_settings(cli, Vec::new());
    settings.map_or_else(|_| Vec::new(), |settings| bucket::checks(&settings, store))
}

/// Names the page that shows the store, if one runs.
fn page(store: &Path, context: &Context) -> Option<Check> {
    let page = page_link::running(store, &context.environment)?;
    Some(Check::ok("page", page.url))
}

/// Tries the servers of a file, unless the settings cannot be read, which another check says.
fn servers(path: &Path, cli: &Cli, context: &Context) -> Option<Vec<Check>> {
    let settings = Arc::new(context.quiet_settings(cli, Vec::new()).ok()?);
    Some(servers::checks(path, &settings))
}

/// Checks that the settings can be read, and returns the store that they name.
fn settings(cli: &Cli, context: &Context) -> (Check, Option<PathBuf>) {
    const NAME: &str = "settings";
    let read = context.quiet_settings(cli, Vec::new()).and_then(|settings| {
        settings.redaction()?;
        let store = settings.store(&context.environment)?;
        if !settings.notices().is_empty() {
            let mend = "correct the store's file, or remove it";
            let told = settings.notices().join("; ");
            return Ok((Check::bad(NAME, Level::Warning, told, mend), store));
        }
        let found = match settings.files().len() {
            0 => "no file, defaults apply".to_owned(),
            1 => "1 file".to_owned(),
            files => format!("{files} files"),
        };
        Ok((Check::ok(NAME, found), store))
    });
    match read {
        Ok((check, store)) => (check, Some(store)),
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
