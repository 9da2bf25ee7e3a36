//! `ctxfs import`: restores a conversation from one file.

use std::fs::File;
use std::io;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::Context as _;
use serde_json::json;

use crate::args::{Cli, ImportArgs};
use crate::context::Context;
use crate::outcome::{Failure, FailureKind};
use crate::settings::{Key, Value};
use crate::{places, progress};
use ctxfs_store::{ArchiveError, ImportOptions, Imported, Store};

/// Bytes that are read at once.
const BLOCK: usize = 256 * 1024;

pub(super) fn run(args: &ImportArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let given = context.settings(cli, Vec::new())?;
    let most = match args.max_size {
        Some(Value::Number(most)) => most,
        _ => u64::MAX,
    };
    let options = ImportOptions {
        id: args.id.as_deref().map(places::conversation_id).transpose()?,
        most_bytes: most,
        most_files: args.max_files,
        min_free: given.number(Key::MinFree).unwrap_or(0),
        quota: given.number(Key::Quota),
    };
    let store = Store::open(&given.store(&context.environment)?)?;
    let Imported { id, files, bytes } = read(&store, &args.file, &options, cli.json)?;
    let id = id.to_text();
    context.printer.line(&id, &json!({ "conversation": id, "files": files, "bytes": bytes }))
}

fn read(
    store: &Store,
    file: &Path,
    options: &ImportOptions,
    json: bool,
) -> anyhow::Result<Imported> {
    if file == Path::new("-") {
        return import(store, io::stdin().lock(), None, options, json);
    }
    let context_of = || format!("cannot read `{}`", file.display());
    let file = File::open(file).with_context(context_of)?;
    let found = file.metadata().with_context(context_of)?;
    let total = found.is_file().then_some(found.len());
    import(store, BufReader::with_capacity(BLOCK, file), total, options, json)
}

/// Imports an archive of `total` bytes, if that is known.
fn import(
    store: &Store,
    archive: impl BufRead,
    total: Option<u64>,
    options: &ImportOptions,
    json: bool,
) -> anyhow::Result<Imported> {
    let bar = progress::bar("importing", total, json);
    let imported = store.import(bar.wrap_read(archive), options);
    bar.finish_and_clear();
    imported.map_err(with_hint)
}

/// Adds a hint to an error.
fn with_hint(error: ArchiveError) -> anyhow::Error {
    let hint = match &error {
        ArchiveError::Exists { .. } => "import it under another id: `--as ID`",
        ArchiveError::TooLarge { .. } => "allow more with `--max-size BYTES`",
        ArchiveError::TooMany { .. } => "allow more with `--max-files N`",
        ArchiveError::OverQuota { .. } => "allow more with the setting `quota`",
        ArchiveError::NoRoom { .. } | ArchiveError::NoInodes { .. } => {
            "free some space on the store's disk, or use another store: `--store DIR`"
        }
        _ => return error.into(),
    };
    Failure::new(FailureKind::Failed, error.to_string(), hint).into()
}
