//! The ctxfs mounts that there are: alive, dead, or hanging.

use std::io;
use std::path::Path;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use crate::cli::doctor::Check;
use crate::cli::doctor::Level;
use crate::fuse::mount;
use crate::fuse::mount::MountEntry;
use crate::fuse::mount::MountState;

const NAME: &str = "mount";
/// A server that takes longer to say that it is there, hangs.
const PATIENCE: Duration = Duration::from_secs(2);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

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
    match probe(&entry.target) {
        Ok(Answer::Alive) => Check::ok(NAME, format!("{here}: serves {}", entry.source)),
        Ok(Answer::Dead) => {
            let mend = format!("ctxfs umount '{here}'");
            Check::bad(NAME, Level::Warning, format!("{here}: dead, its server is gone"), mend)
        }
        Ok(Answer::None) => {
            let abort = format!("/sys/fs/fuse/connections/{}/abort", entry.connection);
            let mend = format!("ctxfs umount '{here}'; echo 1 | sudo tee {abort}");
            Check::bad(NAME, Level::Warning, format!("{here}: hangs"), mend)
        }
        Err(error) => {
            let found = format!("{here}: cannot ask: {error}");
            Check::bad(NAME, Level::Note, found, format!("stat '{here}'"))
        }
    }
}

enum Answer {
    Alive,
    Dead,
    None,
}

/// Asks from a process of its own: whoever waits for a server that hangs cannot even be killed, and
/// is left behind.
fn probe(target: &Path) -> io::Result<Answer> {
    let mut asking = Command::new("/proc/self/exe")
        .args(["probe-mount", "--"])
        .arg(target)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(status) = asking.try_wait()? {
            return Ok(if status.success() { Answer::Alive } else { Answer::Dead });
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    asking.kill().map(|()| Answer::None)
}

/// The process that asks.
pub(super) fn answer(target: &Path) -> anyhow::Result<()> {
    match mount::state(target) {
        MountState::Dead { .. } => anyhow::bail!("`{}` is dead", target.display()),
        _ => Ok(()),
    }
}
