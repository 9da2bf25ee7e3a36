//! `ctxfs mount`: in this process, or through `daemon` in one that stays behind.

use std::path::Path;
use std::sync::Arc;

use crate::cli::Context;
use crate::cli::args::Cli;
use crate::cli::args::MountArgs;
use crate::cli::config::Key;
use crate::cli::config::Settings;
use crate::cli::daemon;
use crate::cli::logging;
use crate::cli::outcome::Failure;
use crate::cli::server;
use crate::cli::server::Plan;
use crate::cli::settings;
use crate::cli::status::Ready;
use crate::fuse::mount;

pub(super) fn run(args: &MountArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = Arc::new(context.settings(cli, args.settings())?);
    let plan = plan(args, &settings, context)?;
    let log = settings.text(Key::Log).unwrap_or_default();
    if cli.detached {
        logging::start(log, true)?;
        return daemon::serve(&plan);
    }
    if args.foreground {
        logging::start(log, false)?;
        return foreground(&plan, context);
    }
    if mount::is_inherited_fd(&plan.target) {
        let text = "a mount that is handed down can only be served in this process";
        return Err(Failure::usage(text, "add --foreground").into());
    }
    let log = settings::log_file(&plan.target, &context.environment)?;
    let ready = daemon::launch(&log)?;
    announce(&ready, context)
}

fn plan(args: &MountArgs, given: &Arc<Settings>, context: &Context) -> anyhow::Result<Plan> {
    let store = given.store(&context.environment)?;
    let target = settings::mountpoint(given.path(Key::Mountpoint), &context.environment)?;
    settings::keep_apart(&store, &target)?;
    settings::make(&target)?;
    Ok(Plan {
        prefix: given.text(Key::Advertise).map_or_else(|| prefix(&target), str::to_owned),
        store,
        only: args.only.as_deref().map(settings::conversation_id).transpose()?,
        target,
        allow_other: given.is_on(Key::AllowOther),
        passthrough: given.text(Key::Passthrough) == Some("auto"),
        redaction: given.redaction()?,
        settings: Arc::clone(given),
    })
}

/// Where a mount was handed down, only its maker knows the place; most readers have it here.
fn prefix(target: &Path) -> String {
    let unknown = mount::is_inherited_fd(target);
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
