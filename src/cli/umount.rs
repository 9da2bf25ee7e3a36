//! `ctxfs umount`: unmounts, also dead mounts.

use crate::args::{Cli, UmountArgs};
use crate::context::Context;
use crate::places;
use crate::settings::Key;
use ctxfs_fuse::kernel::mount;

pub(super) fn run(args: &UmountArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    // An explicit mountpoint works even if the settings are wrong.
    let target = if let Some(dir) = &args.dir {
        dir.clone()
    } else {
        let given = context.settings(cli, Vec::new())?;
        places::mounted(given.path(Key::Mountpoint), &context.environment)?
    };
    mount::unmount(&target)?;
    context.printer.say(&format_args!("unmounted `{}`", target.display()));
    Ok(())
}
