//! `ctxfs view`: a view without a mount.

use crate::cli::Context;
use crate::cli::args::Cli;
use crate::cli::args::ViewArgs;
use crate::cli::settings;
use crate::cli::tree;
use crate::cli::tree::Tree;
use crate::store::Store;

pub(super) fn run(args: &ViewArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let root = settings::store(cli.store.as_deref(), &context.environment)?;
    let prefix = settings::reader_prefix(args.advertise.as_deref(), &root, &context.environment);
    let mut mountpoints = settings::mountpoints_of(&root);
    mountpoints.push(prefix.clone().into());
    let path = tree::inside(&args.path, &mountpoints);
    let tree = Tree::new(Store::open(&root)?, prefix)?;
    tree.read(&path, |bytes| context.printer.bytes(bytes))
}
