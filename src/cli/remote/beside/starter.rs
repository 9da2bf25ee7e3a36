//! `ctxfs start-beside`: starts what a confined process may not start: nothing that would change
//! the bucket. It reads no byte of an output: what it is asked is which process, and that gets a
//! socket.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use super::{LOOK, LOOK_NAME, REMOTE, words};
use crate::args::BesideArgs;
use crate::kept::Kept;
use crate::remote::process;
use crate::remote::process::Use;
use crate::{logging, passing};

/// Starts processes for the page at the other end of standard input, until that ends.
pub(crate) fn run(args: &BesideArgs) -> anyhow::Result<()> {
    let _ = rustix::thread::set_name(c"ctxfs-start");
    process::leave_signals()?;
    logging::start("warn", false)?;
    let page = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    Ok(serve(&page, &[REMOTE, LOOK], args)?)
}

/// Starts what is asked for, of the kinds that the asker may ask for, until that ends, and then
/// waits until all have ended. Of a process that cannot be started the asker sees the end of its
/// socket.
fn serve(asker: &UnixStream, kinds: &[u8], args: &BesideArgs) -> io::Result<()> {
    let mut kept = Kept::default();
    let served = start_each(asker, kinds, args, &mut kept);
    kept.finish();
    served
}

fn start_each(
    asker: &UnixStream,
    kinds: &[u8],
    args: &BesideArgs,
    kept: &mut Kept,
) -> io::Result<()> {
    let mut kind = [0];
    while let (1.., socket) = passing::receive(asker, &mut kind)? {
        let Some(socket) = socket.filter(|_| kinds.contains(&kind[0])) else { continue };
        if let Err(error) = start(kind[0], socket, args, kept) {
            tracing::warn!("what asks other hosts cannot be started: {error}");
        }
    }
    Ok(())
}

fn start(kind: u8, socket: OwnedFd, args: &BesideArgs, kept: &mut Kept) -> io::Result<()> {
    let end = socket.try_clone()?;
    let child = match kind {
        LOOK => start_looker(socket, args, kept)?,
        _ => process::spawn(&args.url, Use::Reading, socket)?,
    };
    kept.add(child, end)
}

/// Starts the process that looks, without environment. Its standard output is a socket over which
/// it may ask for a process that asks the bucket.
fn start_looker(socket: OwnedFd, args: &BesideArgs, kept: &mut Kept) -> io::Result<Child> {
    let (looker, theirs) = UnixStream::pair()?;
    let child = Command::new("/proc/self/exe")
        .arg0(LOOK_NAME)
        .arg("look-beside")
        .args(words(args))
        .env_clear()
        .current_dir("/")
        .process_group(0)
        .stdin(socket)
        .stdout(OwnedFd::from(theirs))
        .spawn()?;
    let args = args.clone();
    kept.add_thread(move || drop(serve(&looker, &[REMOTE], &args)))?;
    Ok(child)
}
