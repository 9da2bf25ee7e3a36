//! `ctxfs view`: prints a view without using a mount.

use std::path::{Path, PathBuf};
use std::{io, os::unix::ffi::OsStrExt as _, sync::Arc, time::Duration};

use crate::args::ViewArgs;
use crate::places::{self, StoreMount};
use crate::{Cli, Context, Failure, FailureKind, SettingKey, Settings, engine, remote};
use ctxfs_core::model::{Component, Content as _, Root};
use ctxfs_engine::{Engine, EngineError, EngineOptions, Tree};
use ctxfs_store::{Store, StoreError};

pub(crate) fn run(args: &ViewArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = context.settings(cli, args.reader.settings())?;
    let root = settings.store(&context.environment)?;
    check_line(cli, &root)?;
    let store = Store::open(&root)?;
    let target =
        PathInTree::new(&args.path, &root, &store, settings.text(SettingKey::Advertise), context)?;
    let engine = open_engine(store, &target.root, target.only.as_ref(), settings)?;
    let tree = Tree::new(Arc::clone(&engine));
    let printed = read_through(&tree, &target.path, |bytes| context.printer.bytes(bytes));
    engine.finish();
    printed
}

/// Fails if the line begins with `ctxfs view` and names a settings file or a new store. Hosts let
/// such lines run without a question (`ctxfs install`). With a settings file, a line could send
/// data or show secrets, and a new store would be written.
fn check_line(cli: &Cli, store: &Path) -> Result<(), Failure> {
    let mut words = std::env::args_os().skip(1);
    if words.next().is_none_or(|first| first != "view") {
        return Ok(());
    }
    if words.any(|word| word.as_bytes().starts_with(b"--config")) {
        let text = "`--config` is not accepted after `view`";
        return Err(Failure::usage(text, "put it first: `ctxfs --config FILE view PATH`"));
    }
    if cli.store.is_some() && !Store::exists(store) {
        let text = format!("there is no store `{}`", store.display());
        let hint = "name a store that exists; `ctxfs --store DIR view PATH` makes a new one";
        return Err(Failure::new(FailureKind::Failed, text, hint));
    }
    Ok(())
}

/// A path to read, relative to the `root` of the tree that contains it. If the path is in a
/// conversation, `only` is its id.
pub(crate) struct PathInTree {
    pub(crate) root: Root,
    pub(crate) only: Option<Component>,
    pub(crate) path: PathBuf,
}

impl PathInTree {
    pub(crate) fn new(
        path: &Path,
        root: &Path,
        store: &Store,
        advertised: Option<&str>,
        context: &Context,
    ) -> anyhow::Result<Self> {
        let mounts = places::mounts_of(root);
        if let Some((mount, path)) = single_mount(path, &mounts) {
            // Reads the path as seen below that mount, which shows only that conversation.
            let prefix = advertised.map(str::to_owned);
            let prefix = prefix.unwrap_or_else(|| mount.target.display().to_string());
            return Ok(Self { root: Root::One(prefix), only: mount.only, path });
        }
        let future = || places::future_root(&context.environment);
        let future = places::reader_root(advertised, || &mounts, None, future);
        let path = resolved(store, relative(path, &mounts, &future))?;
        let only = conversation_of(&path);
        let command = || Settings::command_root(root, &context.environment);
        let root = places::reader_root(advertised, || &mounts, only.as_ref(), command);
        let path = match &root {
            Root::All(_) | Root::Command(_) => path,
            Root::One(_) => path.components().skip(1).collect(),
        };
        Ok(Self { root, only, path })
    }
}

fn single_mount(path: &Path, mounts: &[StoreMount]) -> Option<(StoreMount, PathBuf)> {
    let alone = mounts.iter().filter(|mount| mount.only.is_some());
    let found = alone.filter_map(|mount| Some((mount, path.strip_prefix(&mount.target).ok()?)));
    // If mounts are nested, the innermost one is used.
    let (mount, rest) = found.min_by_key(|(_, rest)| rest.as_os_str().len())?;
    Some((mount.clone(), rest.to_owned()))
}

fn relative(path: &Path, mounts: &[StoreMount], other: &Root) -> PathBuf {
    let mounts = mounts.iter().map(|mount| &*mount.target);
    let mut places = mounts.chain([Path::new(other.path())]);
    let below = places.find_map(|place| path.strip_prefix(place).ok().map(Path::to_owned));
    below.unwrap_or_else(|| path.to_owned())
}

fn resolved(store: &Store, path: PathBuf) -> Result<PathBuf, StoreError> {
    let Some(text) = path.to_str() else { return Ok(path) };
    Ok(match store.resolve(text)? {
        Some((id, file)) => Path::new(id.as_os_str()).join(file.as_os_str()),
        None => PathBuf::from(text.strip_prefix("ctx://").unwrap_or(text)),
    })
}

fn conversation_of(path: &Path) -> Option<Component> {
    let name = path.as_os_str().as_bytes().split(|byte| *byte == b'/').next()?;
    Component::new(std::ffi::OsStr::from_bytes(name)).ok()
}

const BLOCK: usize = 256 * 1024;
// Only the user waits for the view, so rendering may take long.
const PATIENCE: Duration = Duration::from_hours(24);

const STALE: &str = "it changed meanwhile, or its bytes have left the bucket that hosts share: run \
                     this again, and if it stays so, `ctxfs remote check`";

/// Opens the engine for `store`. The engine fetches missing conversations and bytes from other
/// hosts. `root` is the root of the paths in the text of views. If `root` is the root of a single
/// conversation, `only` is the id of that conversation.
pub(crate) fn open_engine(
    store: Store,
    root: &Root,
    only: Option<&Component>,
    settings: Settings,
) -> anyhow::Result<Arc<Engine>> {
    let settings = Arc::new(settings);
    let options = engine::options(&settings, root, only)?;
    let options = EngineOptions { view_deadline: PATIENCE, ..options };
    let options = remote::ask(&store, &settings, options);
    Ok(engine::open(store, options))
}

// `path` is relative to the root of the tree: `c7/artifacts/tool/9f3k.txt.summary`.
fn read_through(
    tree: &Tree,
    path: &Path,
    mut take: impl FnMut(&[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let opened = tree.open(path).map_err(|error| not_readable(tree, path, &error))?;
    let mut buffer = vec![0; BLOCK.min(usize::try_from(opened.len())?)];
    let mut offset = 0;
    loop {
        let count = opened.read_at(offset, &mut buffer).map_err(|error| {
            let is_stale = error.raw_os_error() == Some(libc::ESTALE);
            if is_stale { not_readable(tree, path, &EngineError::Stale) } else { error.into() }
        })?;
        if count == 0 {
            return Ok(());
        }
        take(&buffer[..count])?;
        offset += count as u64;
    }
}

pub(crate) fn not_readable(tree: &Tree, path: &Path, error: &EngineError) -> anyhow::Error {
    let number = io::Error::from_raw_os_error(error.raw_os_error());
    let text = format!("cannot read `{}`: {number}", path.display());
    match number.kind() {
        io::ErrorKind::NotFound => {}
        io::ErrorKind::StaleNetworkFileHandle => {
            return Failure::new(FailureKind::Failed, text, STALE).into();
        }
        // The error number alone is not informative.
        _ if number.raw_os_error() == Some(libc::EIO) => {
            return anyhow::anyhow!("cannot read `{}`: {error}", path.display());
        }
        _ => return anyhow::Error::msg(text),
    }
    let mut summary = path.to_owned().into_os_string();
    summary.push(".summary");
    // The summary of a removed file still exists.
    let hint = match tree.open(Path::new(&summary)) {
        Ok(_) => {
            format!(
                "it was removed: `ctxfs view '{}'` says when and why",
                summary.to_string_lossy()
            )
        }
        Err(_) => "`ctxfs ls` lists conversations, `ctxfs ls CONVERSATION` its outputs".to_owned(),
    };
    Failure::new(FailureKind::Failed, text, hint).into()
}
