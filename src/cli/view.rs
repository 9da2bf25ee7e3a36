//! `ctxfs view`: prints a view without a mount.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::path::PathBuf;

use crate::cli::args::Cli;
use crate::cli::args::ViewArgs;
use crate::cli::context::Context;
use crate::cli::places;
use crate::cli::places::StoreMount;
use crate::cli::settings::Key;
use crate::cli::tree::Tree;
use crate::model::Component;
use crate::model::Root;
use crate::store::Store;
use crate::store::StoreError;

pub(super) fn run(args: &ViewArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let given = context.settings(cli, args.settings())?;
    let root = given.store(&context.environment)?;
    let store = Store::open(&root)?;
    let advertised = given.text(Key::Advertise).map(str::to_owned);
    if let Some((mount, path)) = single_mount(&args.path, &places::mounts_of(&root)) {
        // Reads the path as under that mount, which shows only that conversation.
        let prefix = advertised.unwrap_or_else(|| mount.target.display().to_string());
        let tree = Tree::new(store, &Root::One(prefix), mount.only, given)?;
        return tree.read(&path, |bytes| context.printer.bytes(bytes));
    }
    let path = relative(&args.path, &root, advertised.as_deref(), context);
    let path = resolved(&store, path)?;
    let id = conversation_of(&path);
    let environment = &context.environment;
    let tree = places::reader_root(advertised.as_deref(), &root, id.as_ref(), environment);
    let path = match &tree {
        Root::All(_) => path,
        Root::One(_) => path.components().skip(1).collect(),
    };
    let tree = Tree::new(store, &tree, id, given)?;
    tree.read(&path, |bytes| context.printer.bytes(bytes))
}

/// Returns the mount of a single conversation that contains `path`, and the rest of the path.
fn single_mount(path: &Path, mounts: &[StoreMount]) -> Option<(StoreMount, PathBuf)> {
    let alone = mounts.iter().filter(|mount| mount.only.is_some());
    let found = alone.filter_map(|mount| Some((mount, path.strip_prefix(&mount.target).ok()?)));
    // Of nested mounts, takes the innermost.
    let (mount, rest) = found.min_by_key(|(_, rest)| rest.as_os_str().len())?;
    Some((mount.clone(), rest.to_owned()))
}

/// Returns `path` relative to the root of the tree, without a mountpoint of the store before it.
fn relative(path: &Path, root: &Path, advertised: Option<&str>, context: &Context) -> PathBuf {
    let mounts = places::mounts_of(root).into_iter().map(|mount| mount.target);
    let other = places::reader_root(advertised, root, None, &context.environment);
    let mut places = mounts.chain([PathBuf::from(other.path())]);
    let below = places.find_map(|place| path.strip_prefix(place).ok().map(Path::to_owned));
    below.unwrap_or_else(|| path.to_owned())
}

/// Resolves a reference or handle to a path in the tree. Returns any other path unchanged.
fn resolved(store: &Store, path: PathBuf) -> Result<PathBuf, StoreError> {
    let Some(text) = path.to_str() else { return Ok(path) };
    Ok(match store.resolve(text)? {
        Some((id, file)) => Path::new(id.as_os_str()).join(file.as_os_str()),
        None => PathBuf::from(text.strip_prefix("ctx://").unwrap_or(text)),
    })
}

/// Returns the conversation at the beginning of a path in the tree.
fn conversation_of(path: &Path) -> Option<Component> {
    let name = path.as_os_str().as_bytes().split(|byte| *byte == b'/').next()?;
    Component::new(OsStr::from_bytes(name)).ok()
}
