//! `ctxfs view`: prints a view without a mount.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::args::{Cli, ViewArgs};
use crate::context::Context;
use crate::places::StoreMount;
use crate::settings::Key;
use crate::{places, tree};
use ctxfs_core::model::{Component, Root};
use ctxfs_engine::Tree;
use ctxfs_store::{Store, StoreError};

pub(super) fn run(args: &ViewArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let given = context.settings(cli, args.reader.settings())?;
    let root = given.store(&context.environment)?;
    let store = Store::open(&root)?;
    let target = PathInTree::new(&args.path, &root, &store, given.text(Key::Advertise), context)?;
    let engine = tree::open(store, &target.root, target.only.as_ref(), given)?;
    let tree = Tree::new(Arc::clone(&engine));
    let printed = tree::read(&tree, &target.path, |bytes| context.printer.bytes(bytes));
    engine.finish();
    printed
}

/// The path to read, and the tree that it is in.
pub(super) struct PathInTree {
    pub(super) root: Root,
    pub(super) only: Option<Component>,
    /// The path relative to `root`.
    pub(super) path: PathBuf,
}

impl PathInTree {
    pub(super) fn new(
        path: &Path,
        root: &Path,
        store: &Store,
        advertised: Option<&str>,
        context: &Context,
    ) -> anyhow::Result<Self> {
        let mounts = places::mounts_of(root);
        if let Some((mount, path)) = single_mount(path, &mounts) {
            // Reads the path as under that mount, which shows only that conversation.
            let prefix = advertised.map(str::to_owned);
            let prefix = prefix.unwrap_or_else(|| mount.target.display().to_string());
            return Ok(Self { root: Root::One(prefix), only: mount.only, path });
        }
        let reader_root = |id: Option<&Component>| {
            places::reader_root_among(advertised, &mounts, id, &context.environment)
        };
        let path = resolved(store, relative(path, &mounts, &reader_root(None)))?;
        let only = conversation_of(&path);
        let root = reader_root(only.as_ref());
        let path = match &root {
            Root::All(_) => path,
            Root::One(_) => path.components().skip(1).collect(),
        };
        Ok(Self { root, only, path })
    }
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
fn relative(path: &Path, mounts: &[StoreMount], other: &Root) -> PathBuf {
    let mounts = mounts.iter().map(|mount| &*mount.target);
    let mut places = mounts.chain([Path::new(other.path())]);
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
