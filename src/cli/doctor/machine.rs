//! Checks of this machine: kernel, device, privileges, and the disk that holds the store.

use std::{fs, path::Path};

use rustix::fs::Access;
use serde::Serialize;

use ctxfs_fuse::kernel::mount;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CheckLevel {
    Ok,
    Note,
    Warning,
    Failure,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct DoctorCheck {
    pub(crate) name: &'static str,
    pub(crate) level: CheckLevel,
    pub(crate) found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mend: Option<String>,
}

impl DoctorCheck {
    pub(crate) fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, level: CheckLevel::Ok, found: found.into(), mend: None }
    }
}

impl CheckLevel {
    pub(crate) fn check(
        self,
        name: &'static str,
        found: impl Into<String>,
        mend: impl Into<String>,
    ) -> DoctorCheck {
        DoctorCheck { name, level: self, found: found.into(), mend: Some(mend.into()) }
    }
}

// The first Linux release with passthrough and without the bugs of its first versions.
const PASSTHROUGH_SINCE: (u32, u32) = (6, 12);
const CAP_SYS_ADMIN: u32 = 21;

pub(crate) fn checks(root: bool) -> Vec<DoctorCheck> {
    let admin = may_administer();
    let mut checks = vec![device(), passthrough(root && admin && is_first_namespace())];
    checks.push(if root { privilege(admin) } else { helper() });
    if !root {
        checks.push(allow_other());
    }
    checks.extend(apparmor(root));
    checks
}

fn device() -> DoctorCheck {
    const NAME: &str = "/dev/fuse";
    if fs::metadata(mount::DEVICE).is_err() {
        let mend = "modprobe fuse   (in a container: docker run --device /dev/fuse)";
        return CheckLevel::Failure.check(NAME, "missing", mend);
    }
    match rustix::fs::access(mount::DEVICE, Access::READ_OK | Access::WRITE_OK) {
        Ok(()) => DoctorCheck::ok(NAME, "present and accessible"),
        Err(error) => {
            let found = format!("present, but not accessible: {error}");
            CheckLevel::Failure.check(NAME, found, "sudo chmod 666 /dev/fuse")
        }
    }
}

// Without passthrough, reads go through the server. That is only a note and not a problem.
fn passthrough(privileged: bool) -> DoctorCheck {
    const NAME: &str = "passthrough";
    let release = read("/proc/sys/kernel/osrelease");
    if version(&release).is_none_or(|version| version < PASSTHROUGH_SINCE) {
        let found = format!("kernel {release}: reads go through the server");
        return CheckLevel::Note.check(NAME, found, "a kernel of 6.12 or later is faster");
    }
    if privileged {
        return DoctorCheck::ok(NAME, format!("kernel {release}, and permitted: fast reads"));
    }
    let found = format!("kernel {release}, but not permitted: reads go through the server");
    CheckLevel::Note.check(
        NAME,
        found,
        "mounting as root is faster: sudo ctxfs mount --allow-other",
    )
}

fn privilege(admin: bool) -> DoctorCheck {
    const NAME: &str = "privilege";
    if admin {
        return DoctorCheck::ok(NAME, "root, allowed to mount");
    }
    let mend =
        "docker run --cap-add SYS_ADMIN --device /dev/fuse --security-opt apparmor:unconfined";
    CheckLevel::Failure.check(NAME, "root, but without CAP_SYS_ADMIN", mend)
}

fn helper() -> DoctorCheck {
    const NAME: &str = "fusermount3";
    match mount::find_helper() {
        Some((name, said)) if said.is_empty() => DoctorCheck::ok(NAME, name),
        Some((_, said)) => DoctorCheck::ok(NAME, said),
        None => CheckLevel::Failure.check(
            NAME,
            "not installed; ordinary users cannot mount without it",
            "sudo apt install fuse3   (or: dnf install fuse3, apk add fuse3)",
        ),
    }
}

fn allow_other() -> DoctorCheck {
    const NAME: &str = "allow-other";
    let set = read("/etc/fuse.conf").lines().any(|line| line.trim() == "user_allow_other");
    if set {
        return DoctorCheck::ok(NAME, "user_allow_other is set: --allow-other works");
    }
    let found = "user_allow_other is not set: other users, including root, cannot enter";
    CheckLevel::Note.check(NAME, found, "echo user_allow_other | sudo tee -a /etc/fuse.conf")
}

fn apparmor(root: bool) -> Vec<DoctorCheck> {
    let mut checks = Vec::new();
    if !root && fs::exists("/etc/apparmor.d/fusermount3").unwrap_or(false) && is_on() {
        let found = "confines fusermount3 to $HOME, /mnt, /media, /tmp and $XDG_RUNTIME_DIR";
        let mend = "mount there, or allow the mountpoint in /etc/apparmor.d/local/fusermount3";
        checks.push(CheckLevel::Note.check("AppArmor", found, mend));
    }
    if read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" {
        let found = "keeps users from mounting in their own namespaces (unshare, rootless)";
        let mend = "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0";
        checks.push(CheckLevel::Note.check("AppArmor", found, mend));
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

// Returns true if root in this user namespace is the root of the machine.
fn is_first_namespace() -> bool {
    read("/proc/self/uid_map").split_whitespace().eq(["0", "0", "4294967295"])
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

// With less free space than this, a large output may not fit.
const LITTLE_ROOM: u64 = 1 << 30;

// Magic numbers from `statfs(2)`.
const FILESYSTEMS: [(u64, &str); 11] = [
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x0102_1994, "tmpfs"),
    (0x794c_7630, "overlay"),
    (0x2fc1_2fc1, "zfs"),
    (0xf2f5_2010, "f2fs"),
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "fuse"),
];

pub(crate) fn disk_checks(store: &Path) -> Vec<DoctorCheck> {
    let standing = store.ancestors().find(|path| path.exists());
    match standing {
        Some(standing) => {
            vec![writable(store, standing), free_space(standing), attributes(standing)]
        }
        None => Vec::new(),
    }
}

fn writable(store: &Path, standing: &Path) -> DoctorCheck {
    let (here, at) = (store.display(), standing.display());
    if let Err(error) = rustix::fs::access(standing, Access::WRITE_OK | Access::EXEC_OK) {
        let mend = format!("sudo chown -R $USER {at}   (or choose another: ctxfs --store DIR ...)");
        return CheckLevel::Failure.check("store", format!("{at}: {error}"), mend);
    }
    let state = if store == standing { "writable" } else { "will be created" };
    DoctorCheck::ok("store", format!("{here}: {state}"))
}

fn free_space(standing: &Path) -> DoctorCheck {
    const NAME: &str = "room";
    let Ok(disk) = rustix::fs::statvfs(standing) else {
        let found = "the filesystem does not report it";
        return CheckLevel::Note.check(NAME, found, format!("df -h {}", standing.display()));
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let found = format!("{} MiB free", free >> 20);
    if free >= LITTLE_ROOM {
        return DoctorCheck::ok(NAME, found);
    }
    let mend = "free some, or use another store: ctxfs mount --store DIR";
    CheckLevel::Warning.check(NAME, found, mend)
}

fn attributes(standing: &Path) -> DoctorCheck {
    const NAME: &str = "filesystem";
    let name = filesystem(standing);
    let remote = matches!(name, "nfs" | "cifs" | "9p" | "fuse");
    if remote {
        let mend = "keep the store on a local disk: ctxfs mount --store DIR";
        return CheckLevel::Warning.check(NAME, format!("{name}: slow, and may hang"), mend);
    }
    if has_user_attributes(standing) {
        return DoctorCheck::ok(NAME, format!("{name}, with user attributes"));
    }
    let mend = "ext4, xfs, btrfs, and tmpfs since kernel 6.6 support them";
    CheckLevel::Note.check(NAME, format!("{name}, without user attributes"), mend)
}

fn filesystem(standing: &Path) -> &'static str {
    let Ok(found) = rustix::fs::statfs(standing) else { return "unknown" };
    let magic = u64::try_from(found.f_type).unwrap_or_default();
    FILESYSTEMS.iter().find(|(number, _)| *number == magic).map_or("other", |(_, name)| name)
}

// The error for a missing attribute shows whether user attributes are supported.
fn has_user_attributes(standing: &Path) -> bool {
    let mut nothing = [0_u8; 0];
    let answer = rustix::fs::getxattr(standing, "user.ctx.tool", &mut nothing);
    !matches!(answer, Err(rustix::io::Errno::OPNOTSUPP))
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

    #[test]
    fn a_missing_store_is_checked_by_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        let checks = disk_checks(&dir.path().join("not/there"));
        assert_eq!(checks[0].level, CheckLevel::Ok);
        assert!(checks[0].found.ends_with("will be created"), "{}", checks[0].found);
    }
}
