//! The processes beside the page, `ctxfs web`, by which it sees what other hosts did: the page
//! itself has no network, no keys, and can only read the store.
//!
//! ```text
//! page (reads the store)         ctxfs start-beside (unconfined)
//!   the first look        ->       starts ctxfs-look
//!   the first far bytes   ->       starts ctxfs-remote
//!
//! page  -- looks -->  ctxfs-look (writes the store)  -- requests -->  a ctxfs-remote of its own
//! page  -- reads -->  ctxfs-remote (network, keys; no file of the store)
//! ```
//!
//! The page starts the first of them before it confines itself. The others are started when they
//! are needed, and again when they have died. All end when the page does, in whatever way: each
//! sees the end of its socket. Bucket and store stand on the command line of the starter, so a page
//! that was taken over can name no other.

mod looking;
mod starter;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use crate::args::BesideArgs;
use crate::remote::process::line::ProcessLine;
use crate::remote::process::{Starter, line};
use crate::remote::{process, sharing};
use crate::settings::{Key, Settings};
use crate::{env, passing};
use ctxfs_engine::EngineOptions;
use ctxfs_store::Store;
use ctxfs_sync::remote::{ProcessLooks, ProcessObjects, Tier, TierOptions};

pub(crate) use looking::run as look;
pub(crate) use starter::run as start;

/// The byte that comes with the socket of a process that is to be started: which one that is.
const REMOTE: u8 = b'r';
const LOOK: u8 = b'l';
/// The name of the process that looks.
const LOOK_NAME: &str = "ctxfs-look";
/// What is said once the process that starts the others is lost. A confined page cannot start it.
const LOST: &str = "`ctxfs start-beside`, which does that, has ended: start `ctxfs web` again";
/// The longest time for bytes that are elsewhere: somebody waits in front of the page.
const READ: Duration = Duration::from_secs(5);

/// The processes beside the page.
pub(crate) struct Beside {
    starter: Arc<UnixStream>,
    options: TierOptions,
}

impl Beside {
    /// Starts the process that starts the others, if the settings name a bucket. Where they lead to
    /// none, what is here is all. Must be called while there is one thread, which is not confined
    /// yet.
    pub(crate) fn of_page(settings: &Settings, root: &Path) -> Option<Self> {
        settings.text(Key::RemoteUrl)?;
        let begun = Self::begin(settings, root);
        begun.inspect_err(|error| tracing::warn!("other hosts are not asked: {error:#}")).ok()
    }

    fn begin(settings: &Settings, root: &Path) -> anyhow::Result<Self> {
        let options = sharing::asking_options(settings)?;
        let args = args(&options, settings, root)?;
        let (starter, theirs) = UnixStream::pair()?;
        // It ends with this process, and not before.
        Command::new("/proc/self/exe")
            .arg0("ctxfs")
            .arg("start-beside")
            .args(words(&args))
            .current_dir("/")
            .process_group(0)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .spawn()?;
        if !args.unconfined {
            env::forget_object_stores();
        }
        Ok(Self { starter: Arc::new(starter), options })
    }

    /// Returns the options of an engine that has these processes ask other hosts. Starts nothing.
    pub(crate) fn engine_options(self, store: &Store, options: EngineOptions) -> EngineOptions {
        let line = |name, kind| ProcessLine::new(name, starting(&self.starter, kind));
        let bucket = ProcessObjects::hasty(Arc::new(line(process::NAME, REMOTE)), READ);
        let looker = Arc::new(ProcessLooks::new(Arc::new(line(LOOK_NAME, LOOK))));
        let tier = Tier::looking_by(store.clone(), Arc::new(bucket), self.options, looker);
        let tier = Arc::new(tier);
        EngineOptions { far: Some(Arc::clone(&tier) as _), other_hosts: Some(tier), ..options }
    }
}

fn args(options: &TierOptions, settings: &Settings, root: &Path) -> io::Result<BesideArgs> {
    Ok(BesideArgs {
        poll: options.poll.as_secs(),
        cache_bytes: options.cache_bytes,
        min_free: options.limits.min_free,
        quota: options.limits.quota,
        write_once: options.write_once,
        unconfined: settings.text(Key::Confine) == Some("off"),
        url: options.url.clone(),
        dir: std::path::absolute(root)?,
    })
}

/// Returns what has the process at the other end of a socket start one of a kind.
fn starting(at: &Arc<UnixStream>, kind: u8) -> Starter {
    let at = Arc::clone(at);
    Box::new(move |socket| {
        let sent = passing::send(&at, &[kind], Some(socket.as_fd()));
        sent.map_err(|error| if line::is_end(&error) { io::Error::other(LOST) } else { error })
    })
}

/// Returns the arguments as words of a command line.
fn words(args: &BesideArgs) -> Vec<OsString> {
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command as Subcommand};

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
            let cli = Cli::try_parse_from(line.into_iter().chain(words(&args))).unwrap();
            assert!(matches!(&cli.command, Subcommand::StartBeside(read) if *read == args));
        }
    }
}
