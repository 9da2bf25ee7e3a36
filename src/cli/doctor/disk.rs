//! The store: write permission, free space and filesystem.

use std::path::Path;

use rustix::fs::Access;
use rustix::io::Errno;

use crate::doctor::check::{Check, Level};

/// Free bytes below which a large output may not fit.
const LITTLE_ROOM: u64 = 1 << 30;

/// Filesystems by the magic numbers of `statfs(2)`.
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

/// Checks the store, or if it does not exist yet, the directory that it will be created in.
pub(super) fn checks(store: &Path) -> Vec<Check> {
    let standing = store.ancestors().find(|path| path.exists());
    match standing {
        Some(standing) => {
            vec![writable(store, standing), free_space(standing), attributes(standing)]
        }
        None => Vec::new(),
    }
}

fn writable(store: &Path, standing: &Path) -> Check {
    let (here, at) = (store.display(), standing.display());
    if let Err(error) = rustix::fs::access(standing, Access::WRITE_OK | Access::EXEC_OK) {
        let mend = format!("sudo chown -R $USER {at}   (or choose another: ctxfs --store DIR ...)");
        return Check::bad("store", Level::Failure, format!("{at}: {error}"), mend);
    }
    let state = if store == standing { "writable" } else { "will be created" };
    Check::ok("store", format!("{here}: {state}"))
}

fn free_space(standing: &Path) -> Check {
    const NAME: &str = "room";
    let Ok(disk) = rustix::fs::statvfs(standing) else {
        let found = "the filesystem does not report it";
        return Check::bad(NAME, Level::Note, found, format!("df -h {}", standing.display()));
    };
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let found = format!("{} MiB free", free >> 20);
    if free >= LITTLE_ROOM {
        return Check::ok(NAME, found);
    }
    let mend = "free some, or use another store: ctxfs mount --store DIR";
    Check::bad(NAME, Level::Warning, found, mend)
}

/// Checks the filesystem, on which writers may describe outputs by extended attributes.
fn attributes(standing: &Path) -> Check {
    const NAME: &str = "filesystem";
    let name = filesystem(standing);
    let remote = matches!(name, "nfs" | "cifs" | "9p" | "fuse");
    if remote {
        let mend = "keep the store on a local disk: ctxfs mount --store DIR";
        return Check::bad(NAME, Level::Warning, format!("{name}: slow, and may hang"), mend);
    }
    if has_user_attributes(standing) {
        return Check::ok(NAME, format!("{name}, with user attributes"));
    }
    let mend = "ext4, xfs, btrfs, and tmpfs since kernel 6.6 support them";
    Check::bad(NAME, Level::Note, format!("{name}, without user attributes"), mend)
}

fn filesystem(standing: &Path) -> &'static str {
    let Ok(found) = rustix::fs::statfs(standing) else { return "unknown" };
    let magic = u64::try_from(found.f_type).unwrap_or_default();
    FILESYSTEMS.iter().find(|(number, _)| *number == magic).map_or("other", |(_, name)| name)
}

/// Returns true if the filesystem supports user attributes. The error for a missing one tells.
fn has_user_attributes(standing: &Path) -> bool {
    let mut nothing = [0_u8; 0];
    let answer = rustix::fs::getxattr(standing, "user.ctx.tool", &mut nothing);
    !matches!(answer, Err(Errno::OPNOTSUPP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_store_is_checked_by_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        let checks = checks(&dir.path().join("not/there"));
        assert_eq!(checks[0].level, Level::Ok);
        assert!(checks[0].found.ends_with("will be created"), "{}", checks[0].found);
    }
}
