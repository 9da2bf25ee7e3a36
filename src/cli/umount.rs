//! `ctxfs umount`.

use crate::cli::Context;
use crate::cli::args::Cli;
use crate::cli::args::UmountArgs;
use crate::cli::config::Key;
use crate::cli::settings;
use crate::fuse::mount;

pub(super) fn run(args: &UmountArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    // Whoever names the mount can end it, whatever is wrong with the settings.
    let target = if let Some(dir) = &args.dir {
        dir.clone()
    } else {
        let given = context.settings(cli, Vec::new())?;
        settings::mounted(given.path(Key::Mountpoint), &context.environment)?
    };
    mount::unmount(&target)?;
    context.printer.say(&format_args!("unmounted `{}`", target.display()));
    Ok(())
}
