//! The process that ends servers if the gateway is killed.
//!
//! The gateway tells it of each group of processes that begins and ends. When the pipe closes, it
//! ends those that are left. It is a group of its own, so that nothing that is meant for the
//! gateway reaches it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{BufRead, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

/// The time that a group has between a request and the end.
const GRACE: Duration = Duration::from_secs(2);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// The gateway's end of the pipe.
pub(super) struct Guard {
    command: Vec<OsString>,
    pipe: Mutex<Option<ChildStdin>>,
}

impl Guard {
    /// `command` runs [`end_servers`] on its standard input.
    pub(super) fn new(command: Vec<OsString>) -> Self {
        Self { command, pipe: Mutex::new(None) }
    }

    pub(super) fn began(&self, group: Pid) {
        self.tell('+', group);
    }

    pub(super) fn ended(&self, group: Pid) {
        self.tell('-', group);
    }

    fn tell(&self, what: char, group: Pid) {
        let mut pipe = self.pipe.lock();
        if pipe.is_none() {
            *pipe = self.start();
        }
        let line = format!("{what}{}\n", group.as_raw_nonzero());
        if let Some(Err(error)) = pipe.as_mut().map(|pipe| pipe.write_all(line.as_bytes())) {
            tracing::warn!("the process that ends servers is gone: {error}");
        }
    }

    fn start(&self) -> Option<ChildStdin> {
        let (program, arguments) = self.command.split_first()?;
        let mut command = Command::new(program);
        command.args(arguments).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(mut started) => started.stdin.take(),
            Err(error) => {
                tracing::warn!("servers may outlive a killed gateway: {error}");
                None
            }
        }
    }
}

/// Ends the groups that `told` leaves when it ends: lines of `+GROUP` and `-GROUP`.
pub fn end_servers(told: &mut dyn BufRead) {
    let mut groups = BTreeSet::new();
    for line in told.lines().map_while(Result::ok) {
        let Some((what, number)) = line.split_at_checked(1) else { continue };
        let Some(group) = number.parse().ok().and_then(Pid::from_raw) else { continue };
        match what {
            "+" => groups.insert(group.as_raw_nonzero()),
            _ => groups.remove(&group.as_raw_nonzero()),
        };
    }
    let groups: Vec<Pid> = groups.iter().filter_map(|group| Pid::from_raw(group.get())).collect();
    let is_there = |group: &Pid| test_kill_process_group(*group).is_ok();
    for signal in [Signal::TERM, Signal::KILL] {
        for group in &groups {
            // One that is gone needs none.
            kill_process_group(*group, signal).ok();
        }
        let mut waited = Duration::ZERO;
        while waited < GRACE && groups.iter().any(is_there) {
            std::thread::sleep(BETWEEN_LOOKS);
            waited += BETWEEN_LOOKS;
        }
    }
}
