//! The adaptor to the kernel: the only layer that knows FUSE.
//!
//! [`mount`] makes and removes mounts, [`Session`] serves one. The adaptor itself is dull: one
//! operation is one call of [`ContextFs`] and one reply.

mod adaptor;
mod answer;
mod convert;
mod crew;
pub mod mount;
mod names;
mod negotiation;
mod passthrough;
mod watch;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use fuser::BackingId;
use fuser::Config;
use fuser::SessionACL;

use crate::fs::ContextFs;
use crate::fuse::adaptor::Adaptor;
use crate::fuse::crew::Crew;
use crate::fuse::names::Names;
use crate::fuse::passthrough::Passthrough;

/// How a mount is served.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// Let readers read the store's files directly, where kernel and privileges allow it.
    pub passthrough: bool,
    /// Threads that answer the kernel, of which two wait for it while there is little to do. Each
    /// holds about a megabyte once it has seen a large request.
    pub threads: usize,
    /// Serve all users, not only the one who mounted.
    pub allow_other: bool,
    /// The store lies on a filesystem that is itself a stack, such as overlayfs.
    pub stacked_store: bool,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self { passthrough: true, threads: 4, allow_other: false, stacked_store: false }
    }
}

/// A mount that is being served.
#[derive(Debug)]
pub struct Session {
    fs: ContextFs,
    passthrough: Arc<Passthrough>,
    names: Arc<Names>,
    workers: thread::JoinHandle<io::Result<()>>,
}

impl Session {
    /// Serves `fs` on `fd`, a mounted `/dev/fuse` descriptor. Returns once the kernel's first
    /// request is answered and the workers run.
    ///
    /// Sets the process's umask to 0: the kernel has already applied the callers'.
    pub fn start(fs: ContextFs, fd: OwnedFd, options: &SessionOptions) -> io::Result<Self> {
        rustix::process::umask(rustix::fs::Mode::empty());
        let passthrough = Arc::new(Passthrough::default());
        let workers = options.threads.max(2);
        let crew = Crew::new(workers);
        let names = Arc::new(Names::default());
        let adaptor = Adaptor {
            fs: fs.clone(),
            passthrough: Arc::clone(&passthrough),
            names: Arc::clone(&names),
            crew,
            options: options.clone(),
        };
        let acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
        let mut config = Config::default();
        config.n_threads = Some(workers);
        let session = fuser::Session::from_fd(adaptor, fd, acl, config)?;
        if options.passthrough && passthrough.is_offered() {
            // The kernel promises it to everybody and keeps the promise for CAP_SYS_ADMIN only:
            // trying is the only way to know. The kernel keeps this one file until the end.
            let probe = fs.probe_file().map_err(io::Error::other)?;
            match BackingId::create_raw(&session, &probe) {
                Ok(_) => passthrough.enable(),
                Err(error) => tracing::info!(%error, "no passthrough here: reading is cached"),
            }
        }
        fs.counters().passthrough.store(passthrough.is_enabled().into(), Relaxed);
        names.start(session.notifier())?;
        let workers = thread::Builder::new().name("ctxfs-fuse".into()).spawn(|| session.run())?;
        Ok(Self { fs, passthrough, names, workers })
    }

    /// Whether readers read the store's files directly.
    pub fn is_passthrough(&self) -> bool {
        self.passthrough.is_enabled()
    }

    /// Waits for the end of the mount, then seals what is still to be sealed.
    pub fn wait(self) -> io::Result<()> {
        let ended = self.workers.join();
        self.names.close();
        self.fs.shut_down();
        match ended {
            Ok(Err(error)) if error.raw_os_error() == Some(libc::ECONNABORTED) => Ok(()),
            Ok(ended) => ended,
            Err(_) => Err(io::Error::other("a worker thread panicked")),
        }
    }
}
