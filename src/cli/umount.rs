//! `ctxfs umount`.

use crate::cli::Context;
use crate::cli::args::UmountArgs;
use crate::cli::settings;
use crate::fuse::mount;

pub(super) fn run(args: &UmountArgs, context: &mut Context) -> anyhow::Result<()> {
    let target = settings::mounted(args.dir.as_deref(), &context.environment)?;
    mount::unmount(&target)?;
    context.printer.say(&format_args!("unmounted `{}`", target.display()));
    Ok(())
}
