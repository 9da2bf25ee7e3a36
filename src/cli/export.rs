//! `ctxfs export`: writes a conversation to one file.

use std::fs::{File, Permissions};
use std::io;
use std::io::{BufWriter, IsTerminal as _, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use serde_json::json;
use tempfile::NamedTempFile;

use crate::args::{Cli, ExportArgs};
use crate::context::Context;
use crate::outcome::Failure;
use crate::settings::Key;
use crate::{engine, ls, progress, remote, unread};
use ctxfs_engine::{Engine, EngineOptions};
use ctxfs_store::message::Log;
use ctxfs_store::{ArchiveError, Conversation, ExportParts, Exported, Store, message};

/// Bytes that are written at once.
const BLOCK: usize = 256 * 1024;
/// The mode of an archive. Like the store, it is readable only by its owner.
const MODE: u32 = 0o600;
/// Why nobody was asked, where the settings lead to no bucket.
const NO_BUCKET: &str = "`[remote] url` cannot be used; `ctxfs doctor` says why";
/// The next step where bytes that are elsewhere could not be had.
const ELSEWHERE: &str = "the archive has the rest; export again when the bucket of `[remote] url` \
                         answers, and see `ctxfs remote check`";

pub(super) fn run(args: &ExportArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
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
    let conversation = found(&Engine::new(store.clone(), options), &args.conversation)?;
    let trouble = match others {
        Some(others) => others.report().error,
        None if settings.text(Key::RemoteUrl).is_some() => Some(NO_BUCKET.to_owned()),
        None => None,
    };
    if let Some(error) = trouble {
        let text = "other hosts were not asked, so the archive has what is known of them here";
        context.printer.say(&format_args!("{text}: {error}"));
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
        context.printer.say(&text);
    }
    report(&exported, &conversation, file, context)
}

/// Finds the conversation, with what other hosts did in it.
fn found(engine: &Engine, id: &str) -> anyhow::Result<Arc<Conversation>> {
    let conversation = ls::find_anywhere(engine, id)?;
    engine.others().ask_for_all_outputs(conversation.id())?;
    Ok(conversation)
}

/// Returns a file without a name that has the message log with what other hosts said. `None` if the
/// log of this host is all.
fn shared_log(store: &Store, conversation: &Conversation) -> anyhow::Result<Option<File>> {
    let others = engine::other_messages(store);
    let log = message::log_of(conversation, others.as_deref())?;
    let Some(log) = log.filter(Log::is_shared) else { return Ok(None) };
    let copy = conversation.nameless_file()?;
    log.copy_to(&copy)?;
    Ok(Some(copy))
}

/// A conversation, and what its archive has beside its files.
type Source<'a> = (&'a Conversation, ExportParts<'a>);

fn to_stdout(source: Source<'_>, json: bool) -> anyhow::Result<Exported> {
    let written = write(source, io::stdout().lock(), json);
    written.map_err(|error| match error {
        // The reader may have closed the pipe, which is no failure.
        ArchiveError::Write(error) => crate::output::refused(error),
        error => error.into(),
    })
}

/// Writes the archive to a temporary file that replaces `path` once it is complete. Writes to a
/// device or pipe directly.
fn to_file(source: Source<'_>, path: &Path, json: bool) -> anyhow::Result<Exported> {
    let context_of = || format!("cannot write `{}`", path.display());
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        let device = std::fs::OpenOptions::new().write(true).open(path).with_context(context_of)?;
        return Ok(write(source, device, json)?);
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::Builder::new();
    let temporary = temporary.prefix(".export-").suffix(".tmp");
    let temporary = temporary.permissions(Permissions::from_mode(MODE)).tempfile_in(dir);
    let temporary: NamedTempFile = temporary.with_context(context_of)?;
    let exported = write(source, temporary.as_file(), json)?;
    temporary.as_file().sync_all().with_context(context_of)?;
    temporary.persist(path).with_context(context_of)?;
    Ok(exported)
}

fn write(
    (conversation, parts): Source<'_>,
    out: impl Write,
    json: bool,
) -> Result<Exported, ArchiveError> {
    let bar = progress::bar("exporting", Some(ctxfs_store::bytes_to_export(conversation)?), json);
    let out = BufWriter::with_capacity(BLOCK, out);
    let exported = ctxfs_store::export_with(conversation, parts, out, &mut |count| bar.inc(count));
    bar.finish_and_clear();
    exported
}

/// Prints the result. For an archive on standard output, prints only the warnings.
fn report(
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
            context.printer.say(&format_args!("{what}: {count}"));
        }
    }
    if let Some(file) = file {
        let value = json!({ "conversation": conversation.id().to_text(), "archive": file,
            "files": files, "bytes": bytes, "incomplete": incomplete, "changed": changed,
            "gone": gone, "unseen": unseen, "elsewhere": elsewhere,
            "unread": unread::value(unread) });
        context.printer.line(&file.display(), &value)?;
    }
    match elsewhere {
        0 => unread::report(unread, context),
        _ => unread::report_with(unread, ELSEWHERE, context),
    }
}
