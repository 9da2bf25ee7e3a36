//! The adaptor to the kernel: the only layer that uses the FUSE protocol.
//!
//! [`mount`] makes and removes mounts, and [`Session`] serves one mount. The adaptor contains no
//! logic: each operation is one span, one call of [`ContextFs`] and one reply.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::{io, thread};

use fuser::{BackingId, Config, INodeNo, SessionACL};

use crate::kernel::adaptor::Adaptor;
use crate::kernel::dentries::ViewDentries;
use crate::kernel::passthrough::PassthroughFiles;
use crate::kernel::workers::KernelWorkers;
use crate::{ContextFs, Ino};

mod adaptor;
mod convert;
mod dentries;
pub mod mount;
mod passthrough;
mod reply;
mod workers;

pub use crate::kernel::adaptor::SessionOptions;

/// An offset for `inval_inode` that invalidates the attributes but no pages.
const ATTRIBUTES: i64 = -1;

/// A mount that is being served. The workers run until the mount ends, even if the session is
/// dropped. [`Session::wait`] then seals the artifacts that are not sealed yet.
#[derive(Debug)]
pub struct Session {
    fs: ContextFs,
    passthrough: Arc<PassthroughFiles>,
    dentries: Arc<ViewDentries>,
    workers: thread::JoinHandle<io::Result<()>>,
}

impl Session {
    /// Serves `fs` on `fd`, a mounted `/dev/fuse` descriptor. Returns once the kernel's first
    /// request has been answered and the workers run.
    ///
    /// Sets the umask of the process to 0, because the kernel has already applied the umask of the
    /// caller.
    pub fn start(fs: ContextFs, fd: OwnedFd, options: &SessionOptions) -> io::Result<Self> {
        rustix::process::umask(rustix::fs::Mode::empty());
        let passthrough = Arc::new(PassthroughFiles::default());
        let threads = options.threads.max(2);
        let dentries = Arc::new(ViewDentries::default());
        let adaptor = Adaptor {
            fs: fs.clone(),
            passthrough: Arc::clone(&passthrough),
            dentries: Arc::clone(&dentries),
            workers: KernelWorkers::new(threads),
            options: options.clone(),
        };
        let acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
        let mut config = Config::default();
        config.n_threads = Some(threads);
        let session = fuser::Session::from_fd(adaptor, fd, acl, config)?;
        if options.passthrough && passthrough.offered.load(Relaxed) {
            // The kernel offers passthrough to every process but grants it only with CAP_SYS_ADMIN,
            // so the server has to try. The kernel keeps the probe file open until the session
            // ends.
            let probe = fs.engine().store().probe_file().map_err(io::Error::other)?;
            match BackingId::create_raw(&session, &probe) {
                Ok(_) => passthrough.enabled.store(true, Relaxed),
                Err(error) => {
                    tracing::info!(%error, "no passthrough: reads go through the page cache");
                }
            }
        }
        fs.0.counters.passthrough.store(passthrough.enabled.load(Relaxed), Relaxed);
        let kernel = session.notifier();
        fs.promise(move |node| {
            // The call fails if the kernel has forgotten the node, which is harmless.
            kernel.inval_inode(INodeNo(node.0), ATTRIBUTES, 0).ok();
        });
        let files = fs.clone();
        let is_there = move |dir: INodeNo, name: &OsStr| files.has_on_disk(Ino(dir.0), name);
        dentries.start(session.notifier(), is_there)?;
        let workers = thread::Builder::new().name("ctxfs-fuse".into()).spawn(|| session.run())?;
        Ok(Self { fs, passthrough, dentries, workers })
    }

    pub fn is_passthrough(&self) -> bool {
        self.passthrough.enabled.load(Relaxed)
    }

    /// Waits for the end of the mount, calls `left`, and then seals the artifacts that are not
    /// sealed yet.
    pub fn wait(self, left: impl FnOnce()) -> io::Result<()> {
        let ended = self.workers.join();
        left();
        self.dentries.close();
        self.fs.shut_down();
        match ended {
            Ok(Err(error)) if error.raw_os_error() == Some(libc::ECONNABORTED) => Ok(()),
            Ok(ended) => ended,
            Err(_) => Err(io::Error::other("a worker thread panicked")),
        }
    }
}
