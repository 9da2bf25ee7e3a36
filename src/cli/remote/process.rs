//! `ctxfs-remote`: the process that asks the bucket for a server. It has the network and the keys,
//! or the one directory that hosts share, and no file of the store.
//!
//! ```text
//! server (confined)               watchdog                    ctxfs-remote
//!   the first request
//!     the end of a socket   ->     starts it, with that  ->     confines itself
//!     a socket for a request  ------------------------------>   a thread for it
//!     the request (`remote::ProcessObjects`)  ------------->    answers it
//! ```
//!
//! It is started by the first request, and again by the first one after it has died and a pause has
//! passed. It ends when the server does. Which bucket it asks stands on the command line of the
//! watchdog, which was written before the server read the first byte of an output.

pub(crate) mod line;
pub(crate) mod serving;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::AskBucketArgs;
use crate::remote::opened;
use crate::remote::process::line::ProcessLine;
use crate::remote::process::serving::Directory;
use crate::settings::{Key, Settings};
use crate::{confine, env, inherited, logging};
use ctxfs_store::Store;
use ctxfs_sync::bucket::{Bucket, BucketUrl};
use ctxfs_sync::remote::{
    Objects, ProcessObjects, answer_read_request, answer_request, known_bucket,
};

/// The signals that a terminal, or systemd, sends to all processes of a mount. The server decides
/// when to end, and still has something to send then.
const LEFT_TO_THE_SERVER: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];

/// The name of the process.
pub(crate) const NAME: &str = "ctxfs-remote";

/// Starts the process, with a socket as its standard input; see [`spawn`].
pub(crate) type Starter = Box<dyn Fn(OwnedFd) -> io::Result<()> + Send + Sync>;

/// The bucket, as a mount asks it.
pub(crate) type SharedObjects = Arc<dyn Objects + Send>;

/// Returns the URL of the bucket that the settings name, if they name one. Fails if it is none.
pub(crate) fn url(settings: &Settings) -> anyhow::Result<Option<&str>> {
    let text = settings.text(Key::RemoteUrl);
    if text.is_some() {
        opened::url(settings)?;
    }
    Ok(text)
}

/// Returns the bucket of the settings, asked by a process that `starter` starts; `None` if no
/// bucket is set. Starts nothing yet.
///
/// That process may not leave a directory that hosts share. So if it may be this store that begins
/// a bucket there, the directory is made here.
pub(crate) fn start(
    settings: &Settings,
    store: &Store,
    starter: Starter,
) -> anyhow::Result<Option<SharedObjects>> {
    if url(settings)?.is_none() {
        return Ok(None);
    }
    let url = opened::url(settings)?.to_string();
    if settings.text(Key::RemotePush) == Some("sealed") && known_bucket(store, &url)?.is_none() {
        let made = opened::bucket(settings).and_then(|bucket| Ok(bucket.make_directory()?));
        made.unwrap_or_else(|error| tracing::warn!("{error:#}"));
    }
    let line = Arc::new(ProcessLine::new(NAME, starter));
    Ok(Some(Arc::new(ProcessObjects::new(line))))
}

/// The rights in the bucket of those who ask the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    All,
    Reading,
}

/// Starts the process in a group of its own. It gets what it needs of the environment of this
/// process, and of its descriptors standard error alone.
pub(crate) fn spawn(url: &str, may: Use, socket: OwnedFd) -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg0(NAME)
        .arg("ask-bucket")
        .args((may == Use::Reading).then_some("--read-only"))
        .args(["--", url])
        .env_clear()
        .envs(env::of_remote_process())
        .current_dir("/")
        .process_group(0)
        .stdin(socket)
        .stdout(Stdio::null())
        .spawn()
}

/// Asks the bucket for the process at the other end of standard input, until that ends.
pub(crate) fn run(args: &AskBucketArgs) -> anyhow::Result<()> {
    let _ = rustix::thread::set_name(c"ctxfs-remote");
    inherited::close_others()?;
    leave_signals()?;
    logging::start("warn", false)?;
    let url = BucketUrl::parse(&args.url)?;
    // Reads the files of keys that are read once, which are closed to it later.
    let bucket = Bucket::open(&url, env::of_object_stores());
    confine::bucket(url.local_directory(), &env::key_directories())?;
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let answer = if args.read_only { answer_read_request } else { answer_request };
    Ok(serving::serve(&control, bucket, &Directory::of(&url), answer)?)
}

/// Leaves the signals of a terminal, or of systemd, to the server.
pub(crate) fn leave_signals() -> io::Result<()> {
    for signal in LEFT_TO_THE_SERVER {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    Ok(())
}
