//! `ctxfs mount`: in this process, or through `daemon` in one that stays behind.

use std::path::Path;

use crate::cli::Context;
use crate::cli::args::Cli;
use crate::cli::args::MountArgs;
use crate::cli::daemon;
use crate::cli::logging;
use crate::cli::outcome::Failure;
use crate::cli::server;
use crate::cli::server::Plan;
use crate::cli::settings;
use crate::cli::status::Ready;
use crate::fuse::mount;

pub(super) fn run(args: &MountArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let plan = plan(args, cli, context)?;
    if cli.detached {
        logging::start(&cli.log)?;
        return daemon::serve(&plan);
    }
    if args.foreground {
        logging::start(&cli.log)?;
        return foreground(&plan, context);
    }
    if mount::is_inherited(&plan.target) {
        let text = "a mount that is handed down can only be served in this process";
        return Err(Failure::usage(text, "add --foreground").into());
    }
    logging::check(&cli.log)?;
    let log = settings::log_file(&plan.target, &context.environment)?;
    let ready = daemon::launch(&log)?;
    announce(&ready, context)
}

fn plan(args: &MountArgs, cli: &Cli, context: &Context) -> anyhow::Result<Plan> {
    let store = settings::store(cli.store.as_deref(), &context.environment)?;
    let target = settings::mountpoint(args.dir.as_deref(), &context.environment)?;
    settings::keep_apart(&store, &target)?;
    settings::make(&target)?;
    Ok(Plan {
        prefix: args.advertise.clone().unwrap_or_else(|| prefix(&target)),
        store,
        target,
        write_once: args.write_once,
        allow_other: args.allow_other,
        passthrough: args.passthrough,
        views: args.views,
        max_artifact: args.max_artifact,
        quota: args.quota,
        min_free: args.min_free,
    })
}

/// Where a mount was handed down, only its maker knows the place; most readers have it here.
fn prefix(target: &Path) -> String {
    let unknown = mount::is_inherited(target);
    if unknown { settings::ROOT_MOUNTPOINT.to_owned() } else { target.display().to_string() }
}

fn foreground(plan: &Plan, context: &mut Context) -> anyhow::Result<()> {
    server::run(plan, || {
        sd_notify::notify(&[sd_notify::NotifyState::Ready])?;
        let ready = Ready::of(plan);
        announce(&ready, context)
    })
}

fn announce(ready: &Ready, context: &mut Context) -> anyhow::Result<()> {
    context.printer.line(&ready.mountpoint.display(), ready)
}
