//! The mount table, `/proc/self/mountinfo`, and the state of the mounts in it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::io::Errno;

pub const FSTYPE: &str = "fuse.ctxfs";

const TABLE: &str = "/proc/self/mountinfo";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountEntry {
    pub target: PathBuf,
    pub source: String,
    pub fstype: String,
    /// The minor device number of the mount, which is also its name in `/sys/fs/fuse/connections`.
    pub connection: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountState {
    NotMounted,
    Alive { source: String },
    Dead { source: String },
    Foreign { fstype: String },
}

pub fn mounts() -> io::Result<Vec<MountEntry>> {
    Ok(read()?.into_iter().filter(MountEntry::is_ctxfs).collect())
}

/// Returns the state of the topmost mount at `target`.
///
/// A mount table that cannot be read counts as empty.
pub fn state(target: &Path) -> MountState {
    let target = resolve(target);
    match top(&target) {
        None => MountState::NotMounted,
        Some(entry) if !entry.is_ctxfs() => MountState::Foreign { fstype: entry.fstype },
        Some(entry) if is_dead(&target) => MountState::Dead { source: entry.source },
        Some(entry) => MountState::Alive { source: entry.source },
    }
}

/// Returns the topmost mount at `target`, which must be a resolved path. Does not contact the
/// server of the mount.
pub(super) fn top(target: &Path) -> Option<MountEntry> {
    read().unwrap_or_default().into_iter().rfind(|entry| entry.target == target)
}

/// Returns `target` as an absolute path without symbolic links. If `target` itself cannot be
/// resolved, as for a dead mount, only its parent directory is resolved.
pub(super) fn resolve(target: &Path) -> PathBuf {
    let absolute = || std::path::absolute(target).unwrap_or_else(|_| target.to_owned());
    target.canonicalize().unwrap_or_else(|_| match (target.parent(), target.file_name()) {
        (Some(parent), Some(name)) => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            parent.canonicalize().map_or_else(|_| absolute(), |parent| parent.join(name))
        }
        _ => absolute(),
    })
}

/// Returns true if the server of the mount is gone. Any other error, such as a refusal on another
/// user's mount, shows a live server. Uses statfs(2), which always reaches the server, while the
/// kernel may answer stat(2) from its cache.
fn is_dead(target: &Path) -> bool {
    matches!(rustix::fs::statfs(target), Err(Errno::NOTCONN | Errno::CONNABORTED))
}

fn read() -> io::Result<Vec<MountEntry>> {
    Ok(parse(&fs::read(TABLE)?))
}

fn parse(table: &[u8]) -> Vec<MountEntry> {
    table.split(|byte| *byte == b'\n').filter_map(MountEntry::parse).collect()
}

impl MountEntry {
    /// Parses a line: `36 35 98:0 /root /target options [tags...] - fstype source options`.
    fn parse(line: &[u8]) -> Option<Self> {
        let mut fields = line.split(|byte| *byte == b' ');
        let device = std::str::from_utf8(fields.nth(2)?).ok()?;
        let connection = device.split_once(':')?.1.parse().ok()?;
        let target = PathBuf::from(OsString::from_vec(unescape(fields.nth(1)?)));
        fields.find(|field| *field == b"-")?;
        let mut text = || Some(String::from_utf8_lossy(&unescape(fields.next()?)).into_owned());
        let fstype = text()?;
        Some(Self { target, fstype, source: text()?, connection })
    }

    /// Returns true if this is a ctxfs mount. A program that mounts on behalf of others may be
    /// unable to set the type, but it can set the source.
    pub(super) fn is_ctxfs(&self) -> bool {
        let named = self.source == "ctxfs" || self.source.starts_with("ctxfs:");
        self.fstype == FSTYPE || (self.fstype == "fuse" && named)
    }
}

/// Undoes the kernel's escapes of blanks, `\` and `#`. Each escape is a `\` and three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = after
            .first_chunk::<3>()
            .filter(|_| *first == b'\\')
            .and_then(|digits| from_octal(*digits));
        plain.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { &after[3..] } else { after };
    }
    plain
}

fn from_octal(digits: [u8; 3]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &[u8] = b"\
24 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
90 24 0:47 / /tmp/a\\040b\\134c rw,nosuid shared:7 master:2 - fuse.ctxfs /s\\054x rw,user_id=0\n\
91 24 0:48 / /ctx rw - fuse ctxfs:c7 rw\n\
92 24 0:49 / /sshfs rw - fuse.sshfs host: rw\n\
torn line";

    #[test]
    fn entries_are_read_and_unescaped() {
        let entries = parse(SAMPLE);
        assert_eq!(entries.len(), 4);
        assert_eq!(entries[1].target, Path::new("/tmp/a b\\c"));
        assert_eq!(entries[1].source, "/s,x");
        assert_eq!(entries[1].connection, 47);
    }

    #[test]
    fn our_mounts_are_known_by_type_or_by_source() {
        let ours: Vec<bool> = parse(SAMPLE).iter().map(MountEntry::is_ctxfs).collect();
        assert_eq!(ours, [false, true, true, false]);
    }

    #[test]
    fn a_backslash_that_escapes_nothing_stays() {
        assert_eq!(unescape(br"a\04"), br"a\04");
        assert_eq!(unescape(br"a\999"), br"a\999");
    }

    #[test]
    fn a_plain_directory_has_no_mount() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(state(dir.path()), MountState::NotMounted);
        assert!(matches!(state(Path::new("/proc")), MountState::Foreign { .. }));
    }
}
