//! The kernel's view of a mount, and the processes behind it.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal};

/// Returns true if the kernel lists a mount at `dir`, live or dead. Never touches the mount.
pub(crate) fn is_mounted(dir: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let dir = dir.to_str().unwrap();
    mounts.lines().any(|line| line.split(' ').nth(4) == Some(dir))
}

/// Returns the processes of the program that name `dir` on their command line, parents first.
pub(crate) fn processes_of(dir: &Path) -> Vec<u32> {
    let role = format!("\"{}\"", dir.display());
    let dir = dir.as_os_str().as_encoded_bytes();
    let mut found: Vec<u32> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            let program = words.next().is_some_and(|word| word.ends_with(b"ctxfs"));
            let is_role = |word| memchr::memmem::find(word, role.as_bytes()).is_some();
            program && words.any(|word| word == dir || is_role(word))
        })
        .collect();
    found.sort_unstable_by_key(|pid| (holds_fuse(*pid), *pid));
    found
}

/// Returns the process that serves the mount at `dir`.
pub(crate) fn server_of(dir: &Path) -> u32 {
    let pid = processes_of(dir).pop().expect("a process that serves the mount");
    assert!(holds_fuse(pid), "process {pid} does not hold /dev/fuse");
    pid
}

/// Sends a signal. It is no error if the process is gone already.
pub(crate) fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).ok();
}

fn holds_fuse(pid: u32) -> bool {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    descriptors
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
        .any(|target| target == Path::new("/dev/fuse"))
}
