//! The helper processes of the web page (`ctxfs web`), through which it sees changes of other
//! hosts. The page itself has no access to the network and the keys, and can only read the store.
//!
//! ```text
//! page (reads the store)         ctxfs start-beside (unconfined)
//!   the first check       ->       starts ctxfs-look
//!   first remote bytes    ->       starts ctxfs-remote
//!
//! page  -- checks -->  ctxfs-look (writes the store)  -- requests -->  its own ctxfs-remote
//! page  -- reads  -->  ctxfs-remote (network, keys; no file of the store)
//! ```
//!
//! The page starts `ctxfs start-beside` before it confines itself. The other processes are started
//! on demand, and again after they have died. All of them end when the page ends for any reason,
//! because each sees the end of its socket. The command line of `ctxfs start-beside` contains the
//! bucket and the store, so a compromised page cannot name others.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::args::BesideArgs;
use crate::confine::{self, ServerNeeds};
use crate::remote::process::{self, BucketRights, Starter, SupervisedProcess};
use crate::remote::sharing;
use crate::system::{self, Children};
use crate::{SettingKey, Settings, env, logging};
use ctxfs_engine::EngineOptions;
use ctxfs_store::Store;
use ctxfs_sync::remote::{Limits, ProcessLooks, ProcessObjects, Tier, TierOptions, answer_look};

// Sent together with a socket. It selects the kind of process to start for that socket.
const REMOTE: u8 = b'r';
const LOOK: u8 = b'l';
const LOOK_NAME: &str = "ctxfs-look";
// The confined page cannot restart the process.
const LOST: &str = "`ctxfs start-beside`, which does that, has ended: start `ctxfs web` again";
const READ: Duration = Duration::from_secs(5);

pub(crate) struct PageHelpers {
    starter: Arc<UnixStream>,
    options: TierOptions,
}

impl PageHelpers {
    /// Starts `ctxfs start-beside` if the settings name a bucket. If the bucket cannot be used,
    /// logs the reason, and the page then shows only the local store. Must be called while there is
    /// only one thread, and before that thread is confined.
    pub(crate) fn of_page(settings: &Settings, root: &Path) -> Option<Self> {
        settings.text(SettingKey::RemoteUrl)?;
        let begun = Self::begin(settings, root);
        begun.inspect_err(|error| tracing::warn!("other hosts are not asked: {error:#}")).ok()
    }

    fn begin(settings: &Settings, root: &Path) -> anyhow::Result<Self> {
        let options = sharing::asking_options(settings)?;
        let args = helper_args(&options, settings, root)?;
        let (starter, theirs) = UnixStream::pair()?;
        // The process ends when this socket is closed, which happens at the end of this process.
        system::helper("ctxfs", "start-beside", OwnedFd::from(theirs))
            .args(argument_words(&args))
            .process_group(0)
            .stdout(Stdio::null())
            .spawn()?;
        if !args.unconfined {
            env::forget_object_stores();
        }
        Ok(Self { starter: Arc::new(starter), options })
    }

    /// Returns the options of an engine that reaches other hosts through these processes. Does not
    /// start any of them.
    pub(crate) fn engine_options(self, store: &Store, options: EngineOptions) -> EngineOptions {
        let line = |name, kind| SupervisedProcess::new(name, starting(&self.starter, kind));
        let bucket = ProcessObjects::hasty(Arc::new(line(process::NAME, REMOTE)), READ);
        let looker = Arc::new(ProcessLooks::new(Arc::new(line(LOOK_NAME, LOOK))));
        let tier = Tier::looking_by(store.clone(), Arc::new(bucket), self.options, looker);
        let tier = Arc::new(tier);
        EngineOptions { far: Some(Arc::clone(&tier) as _), other_hosts: Some(tier), ..options }
    }
}

fn helper_args(options: &TierOptions, settings: &Settings, root: &Path) -> io::Result<BesideArgs> {
    Ok(BesideArgs {
        poll: options.poll.as_secs(),
        cache_bytes: options.cache_bytes,
        min_free: options.limits.min_free,
        quota: options.limits.quota,
        write_once: options.write_once,
        unconfined: settings.text(SettingKey::Confine) == Some("off"),
        url: options.url.clone(),
        dir: std::path::absolute(root)?,
    })
}

// Returns a starter that makes the process at the other end of `at` start a process of this kind.
fn starting(at: &Arc<UnixStream>, kind: u8) -> Starter {
    let at = Arc::clone(at);
    Box::new(move |socket| {
        let sent = system::send_message(&at, &[kind], Some(socket.as_fd()));
        sent.map_err(|error| if process::is_end(&error) { io::Error::other(LOST) } else { error })
    })
}

fn argument_words(args: &BesideArgs) -> Vec<OsString> {
    let BesideArgs { poll, cache_bytes, min_free, quota, write_once, unconfined, url, dir } = args;
    let mut words = vec![format!("--poll={poll}"), format!("--cache-bytes={cache_bytes}")];
    words.push(format!("--min-free={min_free}"));
    words.extend(quota.map(|quota| format!("--quota={quota}")));
    words.extend(write_once.then(|| "--write-once".to_owned()));
    words.extend(unconfined.then(|| "--unconfined".to_owned()));
    words.extend(["--".to_owned(), url.clone()]);
    let dir = dir.clone().into_os_string();
    words.into_iter().map(OsString::from).chain([dir]).collect()
}

/// Starts processes for the page at the other end of standard input, until the page ends. Does not
/// read outputs: a request only names a kind of process and passes a socket for it. The started
/// processes cannot change the bucket.
pub(crate) fn start(args: &BesideArgs) -> anyhow::Result<()> {
    let _ = rustix::thread::set_name(c"ctxfs-start");
    process::ignore_terminal_signals()?;
    logging::start("warn", false)?;
    let page = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    Ok(serve(&page, &[REMOTE, LOOK], args)?)
}

// If a process cannot be started, the requester sees the end of its socket.
fn serve(asker: &UnixStream, kinds: &[u8], args: &BesideArgs) -> io::Result<()> {
    let mut children = Children::default();
    let served = start_each(asker, kinds, args, &mut children);
    children.finish();
    served
}

fn start_each(
    asker: &UnixStream,
    kinds: &[u8],
    args: &BesideArgs,
    children: &mut Children,
) -> io::Result<()> {
    let mut kind = [0];
    while let (1.., socket) = system::receive_message(asker, &mut kind)? {
        let Some(socket) = socket.filter(|_| kinds.contains(&kind[0])) else { continue };
        if let Err(error) = start_helper(kind[0], socket, args, children) {
            tracing::warn!("a helper of the page cannot be started: {error}");
        }
    }
    Ok(())
}

fn start_helper(
    kind: u8,
    socket: OwnedFd,
    args: &BesideArgs,
    children: &mut Children,
) -> io::Result<()> {
    let end = socket.try_clone()?;
    let child = match kind {
        LOOK => start_looker(socket, args, children)?,
        _ => process::spawn(&args.url, BucketRights::Reading, socket)?,
    };
    children.add(child, end)
}

// The process requests a bucket process over its standard output, which is a socket.
fn start_looker(socket: OwnedFd, args: &BesideArgs, children: &mut Children) -> io::Result<Child> {
    let (looker, theirs) = UnixStream::pair()?;
    let child = system::helper(LOOK_NAME, "look-beside", socket)
        .args(argument_words(args))
        .env_clear()
        .process_group(0)
        .stdout(OwnedFd::from(theirs))
        .spawn()?;
    let args = args.clone();
    children.add_thread(move || drop(serve(&looker, &[REMOTE], &args)))?;
    Ok(child)
}

/// Looks for changes of other hosts for the page at the other end of standard input, and applies
/// them to the store, until the page ends. Confined like the server of a mount: to the store,
/// without the network and the keys.
pub(crate) fn look(args: &BesideArgs) -> anyhow::Result<()> {
    let _ = rustix::thread::set_name(c"ctxfs-look");
    system::close_inherited()?;
    process::ignore_terminal_signals()?;
    logging::start("warn", false)?;
    let page = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let starter = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    let store = Store::open(&args.dir)?;
    if !args.unconfined {
        let (passthrough, abstract_sockets) = (false, false);
        confine::server(ServerNeeds { store: store.as_fd(), passthrough, abstract_sockets });
    }
    let line = SupervisedProcess::new(process::NAME, starting(&Arc::new(starter), REMOTE));
    let bucket = Arc::new(ProcessObjects::new(Arc::new(line)));
    let tier = Tier::new(store, bucket, looker_options(args));
    Ok(process::answer_each(&page, || true, move |socket| answer_look(&tier, socket))?)
}

fn looker_options(args: &BesideArgs) -> TierOptions {
    TierOptions {
        url: args.url.clone(),
        pushes: false,
        write_once: args.write_once,
        every: Duration::ZERO,
        poll: Duration::from_secs(args.poll),
        cache_bytes: args.cache_bytes,
        limits: Limits { min_free: args.min_free, quota: args.quota },
        evicts: false,
        sweeps: false,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clap::Parser as _;

    use crate::args::{Cli, Command as Subcommand};

    use super::*;

    #[test]
    fn arguments_come_back_from_their_words() {
        for is_set in [true, false] {
            let args = BesideArgs {
                poll: 7,
                cache_bytes: u64::MAX,
                min_free: 5,
                quota: is_set.then_some(6),
                write_once: is_set,
                unconfined: !is_set,
                url: "s3://bkt/pre".to_owned(),
                dir: PathBuf::from("-a store"),
            };
            let line = ["ctxfs", "start-beside"].map(OsString::from);
            let cli = Cli::try_parse_from(line.into_iter().chain(argument_words(&args))).unwrap();
            assert!(matches!(&cli.command, Subcommand::StartBeside(read) if *read == args));
        }
    }
}
