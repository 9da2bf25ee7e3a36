//! The helper processes of the web page (`ctxfs web`), which give it access to changes of other
//! hosts. The page itself has no access to the network and the keys, and can only read the store.
//!
//! ```text
//! page (reads the store)         start-beside (unconfined)
//!   the first check       ->       starts ctxfs-look
//!   first remote bytes    ->       starts ctxfs-remote
//!
//! page  -- checks -->  ctxfs-look (writes the store)  -- requests -->  its own ctxfs-remote
//! page  -- reads  -->  ctxfs-remote (network, keys; no file of the store)
//! ```
//!
//! The page starts `start-beside` before it confines itself. The other processes are started on
//! demand, and again after they have died. All of them end when the page ends for any reason,
//! because each sees the end of its socket. The bucket and the store are on the command line of
//! `start-beside`, so a compromised page cannot name others.

use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Child;
use std::{io, os::unix::net::UnixStream, path::Path, sync::Arc, time::Duration};

use rustix::stdio::stdout;
use serde::{Deserialize, Serialize};

use crate::confine::{self, ServerNeeds};
use crate::helper::bucket::{Starter, SupervisedProcess, is_end};
use crate::helper::{Beside, Children, REMOTE_PROCESS, Role, answer_each, starter_socket};
use crate::{SettingKey, Settings, env, remote::asking_options};
use ctxfs_engine::EngineOptions;
use ctxfs_store::Store;
use ctxfs_sync::channel;
use ctxfs_sync::remote::{ProcessLooks, ProcessObjects, Tier, TierOptions, answer_look};

/// A request to start a process. The socket that comes with the request becomes the standard input
/// of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Start {
    Bucket,
    Look,
}

// The confined page cannot restart the process.
const LOST: &str =
    "the process `start-beside`, which does that, has ended: start `ctxfs web` again";
const READ: Duration = Duration::from_secs(5);

pub(crate) struct PageHelpers {
    starter: Arc<UnixStream>,
    options: TierOptions,
}

impl PageHelpers {
    /// Starts `start-beside` if the settings name a bucket. If the bucket cannot be used, logs the
    /// reason and returns `None`; the page then shows only the local store. Must be called while
    /// there is only one thread, and before that thread is confined.
    pub(crate) fn of_page(settings: &Settings, root: &Path) -> Option<Self> {
        settings.text(SettingKey::RemoteUrl)?;
        let begun = Self::begin(settings, root);
        begun.inspect_err(|error| tracing::warn!("other hosts are not asked: {error:#}")).ok()
    }

    fn begin(settings: &Settings, root: &Path) -> anyhow::Result<Self> {
        let options = asking_options(settings)?;
        let unconfined = settings.text(SettingKey::Confine) == Some("off");
        let store = std::path::absolute(root)?;
        let (starter, theirs) = UnixStream::pair()?;
        // The process ends when this socket is closed, which happens at the end of this process.
        Role::StartBeside(Beside { store, unconfined, options: options.clone() })
            .start(theirs.into())?;
        if !unconfined {
            env::forget_object_stores();
        }
        Ok(Self { starter: Arc::new(starter), options })
    }

    /// Returns the options of an engine that reaches other hosts through these processes. Does not
    /// start any of them.
    pub(crate) fn engine_options(self, store: &Store, options: EngineOptions) -> EngineOptions {
        let line = |name, what| SupervisedProcess::new(name, starting(&self.starter, what));
        let bucket = ProcessObjects::hasty(Arc::new(line(REMOTE_PROCESS, Start::Bucket)), READ);
        let looker =
            Arc::new(ProcessLooks(Arc::new(line(crate::helper::LOOK_PROCESS, Start::Look))));
        let tier = Tier::looking_by(store.clone(), Arc::new(bucket), self.options, looker);
        let tier = Arc::new(tier);
        EngineOptions { far: Some(Arc::clone(&tier) as _), other_hosts: Some(tier), ..options }
    }
}

// Returns a starter that makes the process at the other end of `at` start a process of this kind.
fn starting(at: &Arc<UnixStream>, what: Start) -> Starter {
    let at = Arc::clone(at);
    Arc::new(move |socket| {
        let sent = channel::send(&at, &what, Some(socket.as_fd()));
        sent.map_err(|error| if is_end(&error) { io::Error::other(LOST) } else { error })
    })
}

/// Starts processes for the page at the other end of standard input, until the page ends. Does not
/// read outputs: a request only names a kind of process and passes a socket for it. The started
/// processes cannot change the bucket.
pub(crate) fn start(beside: &Beside) -> anyhow::Result<()> {
    Ok(serve(&starter_socket()?, &[Start::Bucket, Start::Look], beside)?)
}

fn serve(asker: &UnixStream, allowed: &[Start], beside: &Beside) -> io::Result<()> {
    let mut children = Children::default();
    let served = start_each(asker, allowed, beside, &mut children);
    children.finish();
    served
}

// If a process cannot be started, the requester sees the end of its socket.
fn start_each(
    asker: &UnixStream,
    allowed: &[Start],
    beside: &Beside,
    children: &mut Children,
) -> io::Result<()> {
    while let Some((what, socket)) = channel::receive(asker)? {
        let Some(socket) = socket.filter(|_| allowed.contains(&what)) else { continue };
        if let Err(error) = start_helper(what, socket, beside, children) {
            tracing::warn!("a helper of the page cannot be started: {error}");
        }
    }
    Ok(())
}

fn start_helper(
    what: Start,
    socket: OwnedFd,
    beside: &Beside,
    children: &mut Children,
) -> io::Result<()> {
    let end = socket.try_clone()?;
    let child = match what {
        Start::Look => start_looker(socket, beside, children)?,
        Start::Bucket => {
            Role::AskBucket { url: beside.options.url.clone(), read_only: true }.start(socket)?
        }
    };
    children.add(child, end)
}

// The process requests a bucket process over its standard output, which is a socket.
fn start_looker(socket: OwnedFd, beside: &Beside, children: &mut Children) -> io::Result<Child> {
    let (looker, theirs) = UnixStream::pair()?;
    let mut command = Role::LookBeside(beside.clone()).command();
    let child = command.stdin(socket).stdout(OwnedFd::from(theirs)).spawn()?;
    let beside = beside.clone();
    children.add_thread(move || drop(serve(&looker, &[Start::Bucket], &beside)))?;
    Ok(child)
}

// Maximum number of simultaneous looks.
const MOST_LOOKS: usize = 64;

/// Looks for changes of other hosts for the page at the other end of standard input, and applies
/// them to the store, until the page ends. The process is confined like the server of a mount: it
/// has access to the store, but not to the network and the keys.
pub(crate) fn look(beside: Beside) -> anyhow::Result<()> {
    let Beside { store, unconfined, options } = beside;
    let starter = UnixStream::from(stdout().try_clone_to_owned()?);
    let store = Store::open(&store)?;
    if !unconfined {
        let (passthrough, abstract_sockets) = (false, false);
        confine::server(ServerNeeds { store: store.as_fd(), passthrough, abstract_sockets });
    }
    let line = SupervisedProcess::new(REMOTE_PROCESS, starting(&Arc::new(starter), Start::Bucket));
    let bucket = Arc::new(ProcessObjects::new(Arc::new(line)));
    let tier = Tier::new(store, bucket, options);
    let answer = move |socket: &UnixStream| answer_look(&tier, socket);
    Ok(answer_each(&starter_socket()?, MOST_LOOKS, || true, answer)?)
}
