//! `ctxfs web`: serves the page for people, or writes a conversation as pages.
//!
//! The page is confined to reading the store. Where settings name a bucket, processes beside it ask
//! other hosts (`remote::Beside`).

mod files;

use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::json;

use crate::args::{Cli, WebArgs};
use crate::context::Context;
use crate::listen::listen;
use crate::outcome::{Failure, FailureKind};
use crate::page_link::RunningPage;
use crate::remote::Beside;
use crate::settings::{Key, Settings};
use crate::{confine, engine, logging, ls, memory, places, remote};
use ctxfs_core::model::{Component, visible};
use ctxfs_engine::{Confinement, Engine, EngineOptions};
use ctxfs_store::Store;
use ctxfs_web::WebOptions;

/// The program that opens addresses in the browser of the user.
const OPENER: &str = "xdg-open";

pub(super) fn run(args: &WebArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = Arc::new(context.settings(cli, args.reader.settings())?);
    let root = settings.store(&context.environment)?;
    logging::start(settings.text(Key::Log).unwrap_or_default(), false)?;
    let store = Store::open(&root)?;
    if let (Some(dir), Some(id)) = (&args.export, &args.conversation) {
        let options = options(&root, None, &settings, context)?;
        let options = remote::ask(&store, &settings, options);
        let engine = engine::open(store, options);
        let id = ls::find_anywhere(&engine, id)?.id().clone();
        return files::export(engine, &id, dir, context);
    }
    let only = args.only.as_ref().map(|id| only(id, &store, &settings)).transpose()?;
    serve(args, &store, &root, only.as_ref(), &settings, context)
}

/// Returns the conversation that is to be shown alone. Where there is a bucket, it may come from
/// there.
fn only(id: &str, store: &Store, settings: &Settings) -> anyhow::Result<Component> {
    match ls::find(store, id) {
        Ok(found) => Ok(found.id().clone()),
        Err(_) if settings.text(Key::RemoteUrl).is_some() => Ok(places::conversation_id(id)?),
        Err(error) => Err(error),
    }
}

/// Fails if a conversation is not here and does not come from the bucket.
fn require(id: &Component, engine: &Engine) -> anyhow::Result<()> {
    engine.others().ask_for_conversation(id)?;
    if engine.store().conversation(id)?.is_some() {
        return Ok(());
    }
    let name = visible::whole(&id.to_text());
    let text = format!("there is no conversation `{name}` here, and none came from the bucket");
    let hint = "`ctxfs ls --remote` lists those that the bucket has";
    Err(Failure::new(FailureKind::Failed, text, hint).into())
}

fn serve(
    args: &WebArgs,
    store: &Store,
    root: &Path,
    only: Option<&Component>,
    settings: &Arc<Settings>,
    context: &mut Context,
) -> anyhow::Result<()> {
    let _ = rustix::thread::set_name(c"ctxfs-web");
    memory::share();
    let beside = Beside::of_page(settings, root);
    let (host, listener) = listen(&args.listen)?;
    let token = ctxfs_web::new_token();
    let url = format!("http://{}/", listener.local_addr()?);
    let address = format!("{url}?token={token}");
    // All that needs more than the store comes before the confinement.
    let page = RunningPage::of(url, root, only);
    if let Some(page) = &page {
        leave(page, args.open.then_some(&*address), context);
    }
    // Found out by a change of a file.
    store.clock();
    let options = options(root, only, settings, context)?;
    let options = match beside {
        Some(beside) => beside.engine_options(store, options),
        None => options,
    };
    let engine = engine::open(store.clone(), options);
    let confinement = confined(store, settings);
    // Only now, as it may start a thread.
    only.map_or(Ok(()), |id| require(id, &engine))?;
    let value = json!({ "url": address, "pid": std::process::id(), "store": root,
        "confinement": confinement });
    context.printer.line(&address, &value)?;
    if args.open {
        context.printer.say(&"the browser is opening the page");
    }
    let names = vec![host.to_owned()];
    Ok(ctxfs_web::serve(WebOptions { listener, names, token, engine })?)
}

/// Leaves the file that names the page, and opens the browser if that is asked for. Without either
/// the page works all the same.
fn leave(page: &RunningPage, open: Option<&str>, context: &mut Context) {
    let left = page.leave(&context.environment);
    let opened = open.map_or(Ok(()), |address| {
        let file = page.leave_opener(&context.environment, address)?;
        browse(&file)
    });
    for error in [left, opened].into_iter().filter_map(Result::err) {
        tracing::warn!("no other command can name the page, or no browser opens: {error}");
    }
}

fn browse(file: &Path) -> io::Result<()> {
    let mut command = Command::new(OPENER);
    command.arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(drop).map_err(|error| {
        let text = format!("`{OPENER}` does not start ({error}): open the address that is printed");
        io::Error::new(error.kind(), text)
    })
}

/// Gives up all but reading the store, unless the settings forbid that.
fn confined(store: &Store, settings: &Settings) -> Confinement {
    if settings.text(Key::Confine) == Some("off") {
        return Confinement::default();
    }
    let confinement = confine::reader(store.as_fd());
    if !confinement.is_complete() {
        tracing::warn!(?confinement, "this kernel does not confine the page fully");
    }
    confinement
}

/// Returns the options of the engine over the store at `root`, as the readers of its paths see it.
fn options(
    root: &Path,
    only: Option<&Component>,
    settings: &Arc<Settings>,
    context: &Context,
) -> Result<EngineOptions, Failure> {
    let given = settings.text(Key::Advertise);
    let seen = places::reader_root(given, root, only, &context.environment);
    let mut options = engine::options(settings, &seen, None)?;
    if let Some(only) = only {
        options.prefix = seen.of(&only.to_text());
        options.only = Some(only.clone());
    }
    // Nothing is computed here that is worth keeping, and no filter runs.
    Ok(EngineOptions { filter_command: None, disk_cache_bytes: 0, ..options })
}
