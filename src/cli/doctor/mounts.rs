//! The ctxfs mounts that there are: alive, dead, or hanging.

use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::cli::doctor::Check;
use crate::cli::doctor::Level;
use crate::fuse::mount;
use crate::fuse::mount::MountEntry;
use crate::fuse::mount::MountState;

const NAME: &str = "mount";
/// A server that takes longer to say that it is there, hangs.
const PATIENCE: Duration = Duration::from_secs(2);

pub(super) fn checks() -> Vec<Check> {
    match mount::mounts() {
        Ok(mounts) => mounts.iter().map(check).collect(),
        Err(error) => {
            let found = format!("cannot read the mount table: {error}");
            vec![Check::bad(NAME, Level::Warning, found, "mount -t proc proc /proc")]
        }
    }
}

fn check(entry: &MountEntry) -> Check {
    let here = entry.target.display();
    match state(entry.target.clone()) {
        Some(MountState::Dead { .. }) => {
            let mend = format!("ctxfs umount '{here}'");
            Check::bad(NAME, Level::Warning, format!("{here}: dead, its server is gone"), mend)
        }
        None => {
            let abort = format!("/sys/fs/fuse/connections/{}/abort", entry.connection);
            let mend = format!("ctxfs umount '{here}'; echo 1 | sudo tee {abort}");
            Check::bad(NAME, Level::Warning, format!("{here}: hangs"), mend)
        }
        Some(_) => Check::ok(NAME, format!("{here}: serves {}", entry.source)),
    }
}

/// None, if the server does not answer. The thread that asked is left to wait.
fn state(target: PathBuf) -> Option<MountState> {
    let (send, received) = mpsc::channel();
    thread::spawn(move || send.send(mount::state(&target)));
    received.recv_timeout(PATIENCE).ok()
}
