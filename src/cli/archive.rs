//! `ctxfs export` and `ctxfs import`: store a conversation in one file, and read it back.

use std::fs::{File, Permissions};
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal as _, Write};
use std::{os::unix::fs::PermissionsExt as _, path::Path};

use anyhow::Context as _;
use serde_json::json;

use crate::args::{ExportArgs, ImportArgs};
use crate::{Cli, Context, Failure, FailureKind, SettingKey, context, places, progress, remote};
use ctxfs_engine::{Engine, EngineOptions};
use ctxfs_store::message::{self, Log};
use ctxfs_store::{
    ArchiveError, Conversation, ExportParts, Exported, ImportOptions, Imported, Store,
};

const BLOCK: usize = 256 * 1024;
// Only the owner can read the archive, as for the store.
const MODE: u32 = 0o600;
const NO_BUCKET: &str = "`[remote] url` cannot be used; `ctxfs doctor` says why";
const ELSEWHERE: &str = "the archive has the rest; export again when the bucket of `[remote] url` \
                         answers, and see `ctxfs remote check`";

pub(crate) fn export(args: &ExportArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let file = args.output.as_deref().filter(|path| *path != Path::new("-"));
    if file.is_none() && io::stdout().is_terminal() {
        let text = "refusing to write an archive to a terminal";
        return Err(Failure::usage(
            text,
            "name a file with `-o FILE`, or pipe the archive to a program",
        )
        .into());
    }
    let settings = context.settings(cli, Vec::new())?;
    let store = Store::open(&settings.store(&context.environment)?)?;
    let options = remote::ask(&store, &settings, EngineOptions::default());
    let (far, others) = (options.far.clone(), options.other_hosts.clone());
    let conversation = find_conversation(&Engine::new(store.clone(), options), &args.conversation)?;
    let trouble = match others {
        Some(others) => others.report().error,
        None if settings.text(SettingKey::RemoteUrl).is_some() => Some(NO_BUCKET.to_owned()),
        None => None,
    };
    if let Some(error) = trouble {
        let text = "other hosts were not asked, so the archive has what is known of them here";
        context.printer.message(&format_args!("{text}: {error}"));
    }
    let log = shared_log(&store, &conversation)?;
    let parts = ExportParts { log: log.as_ref(), far: far.as_deref() };
    let source = (&*conversation, parts);
    let exported = match file {
        Some(path) => to_file(source, path, cli.json)?,
        None => to_stdout(source, cli.json)?,
    };
    if settings.redaction()?.is_some_and(|redaction| !redaction.stored) {
        let text = "the archive holds the outputs as they were written: `redact = \"views\"` masks \
                    only what is shown";
        context.printer.message(&text);
    }
    report_export(&exported, &conversation, file, context)
}

fn find_conversation(engine: &Engine, id: &str) -> anyhow::Result<std::sync::Arc<Conversation>> {
    let conversation = places::find_conversation_anywhere(engine, id)?;
    engine.others().ask_for_all_outputs(conversation.id())?;
    Ok(conversation)
}

/// Returns an unnamed temporary file with the message log of all hosts. Returns `None` if the log
/// of this host is complete.
fn shared_log(store: &Store, conversation: &Conversation) -> anyhow::Result<Option<File>> {
    let others = ctxfs_sync::remote::PublishedMessages::of(store);
    let log = message::log_of(conversation, Some(&others))?;
    let Some(log) = log.filter(Log::is_shared) else { return Ok(None) };
    let copy = conversation.nameless_file()?;
    log.copy_to(&copy)?;
    Ok(Some(copy))
}

type ArchiveSource<'a> = (&'a Conversation, ExportParts<'a>);

fn to_stdout(source: ArchiveSource<'_>, json: bool) -> anyhow::Result<Exported> {
    let written = write_archive(source, io::stdout().lock(), json);
    written.map_err(|error| match error {
        // The reader may have closed the pipe. That is not a failure.
        ArchiveError::Write(error) => crate::output::refused(error),
        error => error.into(),
    })
}

// Replaces `path` only once the archive is complete. Writes to a device or a pipe directly.
fn to_file(source: ArchiveSource<'_>, path: &Path, json: bool) -> anyhow::Result<Exported> {
    let context_of = || format!("cannot write `{}`", path.display());
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        let device = std::fs::OpenOptions::new().write(true).open(path).with_context(context_of)?;
        return Ok(write_archive(source, device, json)?);
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::Builder::new();
    let temporary = temporary.prefix(".export-").suffix(".tmp");
    let temporary = temporary.permissions(Permissions::from_mode(MODE)).tempfile_in(dir);
    let temporary: tempfile::NamedTempFile = temporary.with_context(context_of)?;
    let exported = write_archive(source, temporary.as_file(), json)?;
    temporary.as_file().sync_all().with_context(context_of)?;
    temporary.persist(path).with_context(context_of)?;
    Ok(exported)
}

fn write_archive(
    (conversation, parts): ArchiveSource<'_>,
    out: impl Write,
    json: bool,
) -> Result<Exported, ArchiveError> {
    let bar = progress::bar("exporting", Some(ctxfs_store::bytes_to_export(conversation)?), json);
    let out = BufWriter::with_capacity(BLOCK, out);
    let exported = ctxfs_store::export(conversation, parts, out, &mut |count| bar.inc(count));
    bar.finish_and_clear();
    exported
}

fn report_export(
    exported: &Exported,
    conversation: &Conversation,
    file: Option<&Path>,
    context: &mut Context,
) -> anyhow::Result<()> {
    let Exported { files, bytes, incomplete, changed, unread, elsewhere, unseen, gone } = exported;
    for (count, what) in [
        (incomplete, "outputs still being written, marked incomplete"),
        (changed, "outputs whose content differs from their record"),
        (gone, "left out, as they were removed or renamed meanwhile"),
        (unseen, "left out, as the tree does not show them: links, special files, invalid names"),
    ] {
        if *count > 0 {
            context.printer.message(&format_args!("{what}: {count}"));
        }
    }
    if let Some(file) = file {
        let value = json!({ "conversation": conversation.id().to_text(), "archive": file,
            "files": files, "bytes": bytes, "incomplete": incomplete, "changed": changed,
            "gone": gone, "unseen": unseen, "elsewhere": elsewhere,
            "unread": context::unread_json(unread) });
        context.printer.line(&file.display(), &value)?;
    }
    match elsewhere {
        0 => context::report_unread(unread, context),
        _ => context::report_unread_with(unread, ELSEWHERE, context),
    }
}

pub(crate) fn import(args: &ImportArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = context.settings(cli, Vec::new())?;
    let most = match args.max_size {
        Some(crate::settings::SettingValue::Number(most)) => most,
        _ => u64::MAX,
    };
    let options = ImportOptions {
        id: args.id.as_deref().map(places::conversation_id).transpose()?,
        most_bytes: most,
        most_files: args.max_files,
        min_free: settings.number(SettingKey::MinFree).unwrap_or(0),
        quota: settings.number(SettingKey::Quota),
    };
    let store = Store::open(&settings.store(&context.environment)?)?;
    let Imported { id, files, bytes } = import_file(&store, &args.file, &options, cli.json)?;
    let id = id.to_text();
    context.printer.line(&id, &json!({ "conversation": id, "files": files, "bytes": bytes }))
}

fn import_file(
    store: &Store,
    file: &Path,
    options: &ImportOptions,
    json: bool,
) -> anyhow::Result<Imported> {
    if file == Path::new("-") {
        return import_bytes(store, io::stdin().lock(), None, options, json);
    }
    let context_of = || format!("cannot read `{}`", file.display());
    let file = File::open(file).with_context(context_of)?;
    let found = file.metadata().with_context(context_of)?;
    let total = found.is_file().then_some(found.len());
    import_bytes(store, BufReader::with_capacity(BLOCK, file), total, options, json)
}

fn import_bytes(
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
