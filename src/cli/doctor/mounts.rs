//! The existing ctxfs mounts: alive, dead or hanging.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use serde_json::Value;

use crate::doctor::check::{Check, Level};
use crate::doctor::confined;
use ctxfs_fuse::kernel::mount;
use ctxfs_fuse::kernel::mount::{MountEntry, MountState};

const NAME: &str = "mount";
/// The time after which a server that does not answer counts as hanging.
const PATIENCE: Duration = Duration::from_secs(2);
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

pub(super) fn checks() -> Vec<Check> {
    match mount::mounts() {
        Ok(mounts) => mounts.iter().flat_map(checks_of).collect(),
        Err(error) => {
            let found = format!("cannot read the mount table: {error}");
            vec![Check::bad(NAME, Level::Warning, found, "mount -t proc proc /proc")]
        }
    }
}

fn checks_of(entry: &MountEntry) -> Vec<Check> {
    let here = entry.target.display().to_string();
    match probe(&entry.target) {
        Ok(ProbeResult::Alive(status)) => {
            let serves = Check::ok(NAME, format!("{here}: serves {}", entry.source));
            // The status of another user's server is not readable.
            let status = status.filter(|status| !status["pid"].is_null());
            let confined = status.map(|status| confined::server(&here, &status));
            [Some(serves), confined].into_iter().flatten().collect()
        }
        answer => vec![problem(entry, answer)],
    }
}

fn problem(entry: &MountEntry, answer: io::Result<ProbeResult>) -> Check {
    let here = entry.target.display();
    match answer {
        Ok(ProbeResult::Alive(_) | ProbeResult::Dead) => {
            let mend = format!("ctxfs umount '{here}'");
            Check::bad(NAME, Level::Warning, format!("{here}: dead, its server is gone"), mend)
        }
        Ok(ProbeResult::None) => {
            let abort = format!("/sys/fs/fuse/connections/{}/abort", entry.connection);
            let mend = format!("ctxfs umount '{here}'; echo 1 | sudo tee {abort}");
            Check::bad(NAME, Level::Warning, format!("{here}: hangs"), mend)
        }
        Err(error) => {
            let found = format!("{here}: cannot be checked: {error}");
            Check::bad(NAME, Level::Note, found, format!("stat '{here}'"))
        }
    }
}

enum ProbeResult {
    /// The mount answers, with the status of its server if that is readable.
    Alive(Option<Value>),
    Dead,
    None,
}

/// Probes a mount in a child process. A process that waits for a hanging server cannot even be
/// killed, so the child is left behind then.
fn probe(target: &Path) -> io::Result<ProbeResult> {
    let mut asking = Command::new("/proc/self/exe")
        .args(["probe-mount", "--"])
        .arg(target)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Some(status) = asking.try_wait()? {
            if !status.success() {
                return Ok(ProbeResult::Dead);
            }
            let said = asking.stdout.take().map(serde_json::from_reader);
            return Ok(ProbeResult::Alive(said.and_then(Result::ok)));
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    asking.kill().map(|()| ProbeResult::None)
}

/// Returns the status of the server, in the child process. It is shorter than the capacity of a
/// pipe.
pub(super) fn status(target: &Path) -> anyhow::Result<String> {
    if let MountState::Dead { .. } = mount::state(target) {
        anyhow::bail!("`{}` is dead", target.display());
    }
    let status: Value = fs::read(target.join(".ctxfs/status.json"))
        .ok()
        .and_then(|status| serde_json::from_slice(&status).ok())
        .unwrap_or_default();
    let told = ["pid", "confinement"].map(|name| (name, &status[name]));
    Ok(serde_json::to_string(&BTreeMap::from(told))?)
}
