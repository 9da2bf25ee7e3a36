//! `ctxfs-look`: the process that looks for the page, and does in the store what others did. It is
//! confined as the server of a mount is: to the store, without network and keys.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use super::{REMOTE, starting};
use crate::args::BesideArgs;
use crate::confine::Needs;
use crate::remote::process;
use crate::remote::process::line::ProcessLine;
use crate::remote::process::serving;
use crate::{confine, inherited, logging};
use ctxfs_store::Store;
use ctxfs_sync::remote::{Limits, ProcessObjects, Tier, TierOptions, answer_look};

/// Looks for the page at the other end of standard input, until that ends.
pub(crate) fn run(args: &BesideArgs) -> anyhow::Result<()> {
    let _ = rustix::thread::set_name(c"ctxfs-look");
    inherited::close_others()?;
    process::leave_signals()?;
    logging::start("warn", false)?;
    let page = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let starter = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    let store = Store::open(&args.dir)?;
    if !args.unconfined {
        let (passthrough, abstract_sockets) = (false, false);
        confine::server(Needs { store: store.as_fd(), passthrough, abstract_sockets });
    }
    let line = ProcessLine::new(process::NAME, starting(&Arc::new(starter), REMOTE));
    let bucket = Arc::new(ProcessObjects::new(Arc::new(line)));
    let tier = Tier::new(store, bucket, options(args));
    Ok(serving::answer_each(&page, || true, move |socket| answer_look(&tier, socket))?)
}

fn options(args: &BesideArgs) -> TierOptions {
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
