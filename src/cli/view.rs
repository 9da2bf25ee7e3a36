//! `ctxfs view`: a view without a mount.

use std::path::Path;
use std::path::PathBuf;

use crate::cli::Context;
use crate::cli::args::Cli;
use crate::cli::args::ViewArgs;
use crate::cli::config::Key;
use crate::cli::settings;
use crate::cli::tree;
use crate::cli::tree::Tree;
use crate::store::Store;
use crate::store::StoreError;

pub(super) fn run(args: &ViewArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let given = context.settings(cli, args.settings())?;
    let root = given.store(&context.environment)?;
    let prefix = settings::reader_prefix(given.text(Key::Advertise), &root, &context.environment);
    let mut mountpoints = settings::mountpoints_of(&root);
    mountpoints.push(prefix.clone().into());
    let store = Store::open(&root)?;
    let path = resolved(&store, tree::inside(&args.path, &mountpoints))?;
    let tree = Tree::new(store, prefix, given)?;
    tree.read(&path, |bytes| context.printer.bytes(bytes))
}

/// The path in the tree that a reference or a handle means; any other path is one already.
fn resolved(store: &Store, path: PathBuf) -> Result<PathBuf, StoreError> {
    let Some(text) = path.to_str() else { return Ok(path) };
    Ok(match store.resolve(text)? {
        Some((id, file)) => Path::new(id.as_os_str()).join(file.as_os_str()),
        None => PathBuf::from(text.strip_prefix("ctx://").unwrap_or(text)),
    })
}
