//! `ctxfs web`: serves the web page, or writes a conversation as static pages.
//!
//! The page is confined to reading the store. If the settings name a bucket, helper processes
//! contact other hosts (`helper::page`).

use std::io::{self, BufWriter, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, os::fd::AsFd as _, sync::Arc};

use crate::system::{self, listen};
use crate::{
    Cli, Context, Failure, FailureKind, SettingKey, Settings, args::WebArgs, confine, engine,
    helper::page::PageHelpers, logging, page_link::RunningPage, places, remote,
};
use ctxfs_core::model::{Component, Root, visible};
use ctxfs_engine::{Confinement, Engine, EngineOptions};
use ctxfs_store::Store;
use ctxfs_web::{Shelf, WebOptions};

const OPENER: &str = "xdg-open";

pub(crate) fn run(args: &WebArgs, cli: &Cli, context: &mut Context) -> anyhow::Result<()> {
    let settings = Arc::new(context.settings(cli, args.reader.settings())?);
    let root = settings.store(&context.environment)?;
    logging::start(settings.text(SettingKey::Log).unwrap_or_default(), false)?;
    let store = Store::open(&root)?;
    if let (Some(dir), Some(id)) = (&args.export, &args.conversation) {
        let options = options(&root, None, &settings, context)?;
        let options = remote::ask(&store, &settings, options);
        let engine = engine::open(store, options);
        let id = places::find_conversation_anywhere(&engine, id)?.id().clone();
        return export_pages(engine, &id, dir, context);
    }
    let only = args.only.as_ref().map(|id| only(id, &store, &settings)).transpose()?;
    serve(args, &store, &root, only.as_ref(), &settings, context)
}

fn only(id: &str, store: &Store, settings: &Settings) -> anyhow::Result<Component> {
    match places::find_conversation(store, id) {
        Ok(found) => Ok(found.id().clone()),
        Err(_) if settings.text(SettingKey::RemoteUrl).is_some() => {
            Ok(places::conversation_id(id)?)
        }
        Err(error) => Err(error),
    }
}

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
    system::share_arena();
    let beside = PageHelpers::of_page(settings, root);
    let (host, listener) = listen(&args.listen)?;
    let token = ctxfs_web::new_token();
    let (mut names, local) = (vec![host.to_owned()], listener.local_addr()?);
    let mut place = local.to_string();
    if !local.ip().is_loopback() {
        let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = name.trim();
        if local.ip().is_unspecified() {
            place = format!("{name}:{}", local.port());
        }
        names.push(name.to_owned());
        let text = "the page is sent as clear text: whoever is between can read it, and the token";
        context.printer.message(&text);
    }
    let url = format!("http://{place}/");
    let address = format!("{url}?token={token}");
    // This has to happen before the confinement, because it needs more than the store.
    let page = RunningPage::of(url, root, only);
    if let Some(page) = &page {
        announce(page, args.open.then_some(&*address), context);
    }
    // Reading the clock of the store's disk changes a file, so it is read before the confinement.
    store.clock();
    let options = options(root, only, settings, context)?;
    let options = match beside {
        Some(beside) => beside.engine_options(store, options),
        None => options,
    };
    let engine = engine::open(store.clone(), options);
    let confinement = confined(store, settings);
    // This is done after the confinement, because it may start a thread.
    only.map_or(Ok(()), |id| require(id, &engine))?;
    let value = serde_json::json!({ "url": address, "pid": std::process::id(), "store": root,
        "confinement": confinement });
    context.printer.line(&address, &value)?;
    if args.open {
        context.printer.message(&"the browser is opening the page");
    }
    Ok(ctxfs_web::serve(WebOptions { listener, names, token, engine })?)
}

fn announce(page: &RunningPage, open: Option<&str>, context: &mut Context) {
    let left = page.write_link(&context.environment);
    let opened = open.map_or(Ok(()), |address| {
        let file = page.write_opener(&context.environment, address)?;
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

fn confined(store: &Store, settings: &Settings) -> Confinement {
    if settings.text(SettingKey::Confine) == Some("off") {
        return Confinement::default();
    }
    let confinement = confine::reader(store.as_fd());
    if !confinement.is_complete() {
        tracing::warn!(?confinement, "this kernel does not confine the page fully");
    }
    confinement
}

fn options(
    root: &Path,
    only: Option<&Component>,
    settings: &Arc<Settings>,
    context: &Context,
) -> Result<EngineOptions, Failure> {
    let given = settings.text(SettingKey::Advertise);
    let future = || places::future_root(&context.environment);
    let seen = places::reader_root(given, || places::mounts_of(root), only, future);
    let mut options = engine::options(settings, &seen, None)?;
    if let Some(only) = only {
        options.root = Root::One(seen.of(&only.to_text()));
        options.only = Some(only.clone());
    }
    // The computed views are not worth caching, and filters are not run.
    Ok(EngineOptions { filter_command: None, disk_cache_bytes: 0, ..options })
}

// Only the owner can read the directory, as for the store.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

fn export_pages(
    engine: Arc<Engine>,
    id: &Component,
    dir: &Path,
    context: &mut Context,
) -> anyhow::Result<()> {
    check_empty(dir)?;
    let mut shelf = ExportDir { dir: dir.to_owned() };
    ctxfs_web::export(engine, id, &mut shelf)?;
    let index = dir.join("index.html");
    context.printer.line(&index.display(), &serde_json::json!({ "index": index }))
}

fn check_empty(dir: &Path) -> Result<(), Failure> {
    let refused = |text: String| Failure::usage(text, "name a directory that is empty or missing");
    match fs::read_dir(dir) {
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(refused(format!("`{}` is not empty", dir.display()))),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(refused(format!("cannot write to `{}`: {error}", dir.display()))),
    }
}

struct ExportDir {
    dir: PathBuf,
}

impl Shelf for ExportDir {
    fn file(&mut self, path: &str) -> io::Result<Box<dyn Write>> {
        let path = self.dir.join(path);
        if let Some(parent) = path.parent() {
            fs::DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(parent)?;
        }
        let file = fs::File::options().write(true).create_new(true).mode(FILE_MODE).open(path)?;
        Ok(Box::new(BufWriter::new(file)))
    }
}
