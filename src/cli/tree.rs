//! The tree of a store without a mount.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::outcome::{Failure, FailureKind};
use crate::settings::Settings;
use crate::{engine, remote};
use ctxfs_core::model::{Component, Content as _, Root};
use ctxfs_engine::{Engine, EngineError, EngineOptions, Tree};
use ctxfs_store::Store;

/// Bytes that are read at once.
const BLOCK: usize = 256 * 1024;
/// The deadline of a view. Only the user waits for it, so it may take long.
const PATIENCE: Duration = Duration::from_hours(24);

/// What to do about bytes that are not those that were found.
const STALE: &str = "it changed meanwhile, or its bytes have left the bucket that hosts share: run \
                     this again, and if it stays so, `ctxfs remote check`";

/// Opens the engine over `store`, which asks other hosts for what it lacks. `root` is the root in
/// the texts of views; if it is that of a single conversation, `only` is the conversation.
pub(super) fn open(
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

/// Passes the bytes of a file or view to `take`, piece by piece. `path` is relative to the root of
/// the tree: `c7/artifacts/tool/9f3k.txt.summary`.
pub(super) fn read(
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

pub(super) fn not_readable(tree: &Tree, path: &Path, error: &EngineError) -> anyhow::Error {
    let number = io::Error::from_raw_os_error(error.raw_os_error());
    let text = format!("cannot read `{}`: {number}", path.display());
    match number.kind() {
        io::ErrorKind::NotFound => {}
        io::ErrorKind::StaleNetworkFileHandle => {
            return Failure::new(FailureKind::Failed, text, STALE).into();
        }
        // The number alone says little.
        _ if number.raw_os_error() == Some(libc::EIO) => {
            return anyhow::anyhow!("cannot read `{}`: {error}", path.display());
        }
        _ => return anyhow::Error::msg(text),
    }
    let mut summary = path.to_owned().into_os_string();
    summary.push(".summary");
    // A removed file leaves its summary.
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
