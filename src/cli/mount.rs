//! `ctxfs mount`: serves in this process, or through `daemon` in one that stays in the background.

use std::path::Path;
use std::sync::Arc;

use crate::args::{Cli, MountArgs};
use crate::context::Context;
use crate::outcome::Failure;
use crate::plan::MountPlan;
use crate::settings::{Key, Settings};
use crate::status::ServedMount;
use crate::{daemon, engine, logging, page_link, places, server};
use ctxfs_core::model::Root;
use ctxfs_fuse::kernel::mount;

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
        let text = "a mount passed as a descriptor can be served only in the foreground";
        return Err(Failure::usage(text, "add --foreground").into());
    }
    let log = places::log_file(&plan.target, &context.environment)?;
    let ready = daemon::launch(&log)?;
    announce(&ready, context)
}

fn plan(args: &MountArgs, given: &Arc<Settings>, context: &Context) -> anyhow::Result<MountPlan> {
    let store = given.store(&context.environment)?;
    let target = places::mountpoint(given.path(Key::Mountpoint), &context.environment)?;
    places::check_apart(&store, &target)?;
    places::create(&target)?;
    let prefix = given.text(Key::Advertise).map_or_else(|| prefix(&target), str::to_owned);
    let only = args.only.as_deref().map(places::conversation_id).transpose()?;
    let root = if only.is_some() { Root::One(prefix) } else { Root::All(prefix) };
    Ok(MountPlan {
        store,
        target,
        allow_other: given.is_on(Key::AllowOther),
        passthrough: given.text(Key::Passthrough) == Some("auto"),
        engine: engine::options(given, &root, only.as_ref())?,
        settings: Arc::clone(given),
    })
}

/// Returns the mountpoint as readers see it. Only the parent process knows that of an inherited
/// mount; the usual place is assumed.
fn prefix(target: &Path) -> String {
    let unknown = mount::is_inherited_fd(target);
    if unknown { places::ROOT_MOUNTPOINT.to_owned() } else { target.display().to_string() }
}

fn foreground(plan: &MountPlan, context: &mut Context) -> anyhow::Result<()> {
    server::run(plan, || {
        sd_notify::notify(&[sd_notify::NotifyState::Ready])?;
        let ready = ServedMount::of(plan);
        announce(&ready, context)
    })
}

fn announce(ready: &ServedMount, context: &mut Context) -> anyhow::Result<()> {
    context.printer.line(&ready.mountpoint.display(), ready)?;
    page_link::tell(context, &ready.store, None, None);
    Ok(())
}
