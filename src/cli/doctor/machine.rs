//! The kernel, the device, the privileges and the helper program.

use std::fs;

use rustix::fs::Access;

use crate::doctor::check::{Check, Level};
use ctxfs_fuse::kernel::mount;

/// The first kernel release with passthrough and without the bugs of its first versions.
const PASSTHROUGH_SINCE: (u32, u32) = (6, 12);
const CAP_SYS_ADMIN: u32 = 21;

pub(super) fn checks(root: bool) -> Vec<Check> {
    let admin = may_administer();
    let mut checks = vec![device(), passthrough(root && admin && is_first_namespace())];
    checks.push(if root { privilege(admin) } else { helper() });
    if !root {
        checks.push(allow_other());
    }
    checks.extend(apparmor(root));
    checks
}

fn device() -> Check {
    const NAME: &str = "/dev/fuse";
    if fs::metadata(mount::DEVICE).is_err() {
        let mend = "modprobe fuse   (in a container: docker run --device /dev/fuse)";
        return Check::bad(NAME, Level::Failure, "missing", mend);
    }
    match rustix::fs::access(mount::DEVICE, Access::READ_OK | Access::WRITE_OK) {
        Ok(()) => Check::ok(NAME, "present and accessible"),
        Err(error) => {
            let found = format!("present, but not accessible: {error}");
            Check::bad(NAME, Level::Failure, found, "sudo chmod 666 /dev/fuse")
        }
    }
}

/// Checks passthrough. Without it, reads go through the server, which is only worth a note.
fn passthrough(privileged: bool) -> Check {
    const NAME: &str = "passthrough";
    let release = read("/proc/sys/kernel/osrelease");
    if version(&release).is_none_or(|version| version < PASSTHROUGH_SINCE) {
        let found = format!("kernel {release}: reads go through the server");
        return Check::bad(NAME, Level::Note, found, "a kernel of 6.12 or later is faster");
    }
    if privileged {
        return Check::ok(NAME, format!("kernel {release}, and permitted: fast reads"));
    }
    let found = format!("kernel {release}, but not permitted: reads go through the server");
    Check::bad(
        NAME,
        Level::Note,
        found,
        "mounting as root is faster: sudo ctxfs mount --allow-other",
    )
}

fn privilege(admin: bool) -> Check {
    const NAME: &str = "privilege";
    if admin {
        return Check::ok(NAME, "root, allowed to mount");
    }
    let mend =
        "docker run --cap-add SYS_ADMIN --device /dev/fuse --security-opt apparmor:unconfined";
    Check::bad(NAME, Level::Failure, "root, but without CAP_SYS_ADMIN", mend)
}

fn helper() -> Check {
    const NAME: &str = "fusermount3";
    match mount::find_helper() {
        Some((name, said)) if said.is_empty() => Check::ok(NAME, name),
        Some((_, said)) => Check::ok(NAME, said),
        None => Check::bad(
            NAME,
            Level::Failure,
            "not installed; ordinary users cannot mount without it",
            "sudo apt install fuse3   (or: dnf install fuse3, apk add fuse3)",
        ),
    }
}

fn allow_other() -> Check {
    const NAME: &str = "allow-other";
    let set = read("/etc/fuse.conf").lines().any(|line| line.trim() == "user_allow_other");
    if set {
        return Check::ok(NAME, "user_allow_other is set: --allow-other works");
    }
    let found = "user_allow_other is not set: other users, including root, cannot enter";
    Check::bad(NAME, Level::Note, found, "echo user_allow_other | sudo tee -a /etc/fuse.conf")
}

fn apparmor(root: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    if !root && fs::exists("/etc/apparmor.d/fusermount3").unwrap_or(false) && is_on() {
        let found = "confines fusermount3 to $HOME, /mnt, /media, /tmp and $XDG_RUNTIME_DIR";
        let mend = "mount there, or allow the mountpoint in /etc/apparmor.d/local/fusermount3";
        checks.push(Check::bad("AppArmor", Level::Note, found, mend));
    }
    if read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
        let found = "keeps users from mounting in their own namespaces (unshare, rootless)";
        let mend = "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0";
        checks.push(Check::bad("AppArmor", Level::Note, found, mend));
    }
    checks
}

fn is_on() -> bool {
    read("/sys/module/apparmor/parameters/enabled") == "Y"
}

fn may_administer() -> bool {
    let status = read("/proc/self/status");
    let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> CAP_SYS_ADMIN & 1 == 1)
}

/// Returns true if root in this user namespace is root of the machine.
fn is_first_namespace() -> bool {
    read("/proc/self/uid_map").split_whitespace().eq(["0", "0", "4294967295"])
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Reads a file, or returns an empty string if that fails.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        assert_eq!(version("6.18.44-generic"), Some((6, 18)));
        assert!(version("6.9.1") < Some(PASSTHROUGH_SINCE));
        assert!(version("10.0").is_some_and(|version| version > PASSTHROUGH_SINCE));
        assert_eq!(version("unknown"), None);
    }
}
