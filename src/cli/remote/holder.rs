//! The process that has a lock.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Returns the process that has a lock of the file at `path`, for people: as far as the kernel
/// tells.
pub(super) fn of(path: &Path) -> Option<String> {
    let file = fs::metadata(path).ok()?;
    let (major, minor) = (rustix::fs::major(file.dev()), rustix::fs::minor(file.dev()));
    let place = format!("{major:02x}:{minor:02x}:{}", file.ino());
    let locks = fs::read_to_string("/proc/locks").ok()?;
    let process = process_at(&locks, &place)?;
    let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words = command.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    let words: Vec<_> = words.take(2).map(String::from_utf8_lossy).collect();
    Some(match words.join(" ") {
        command if command.is_empty() => format!("process {process}"),
        command => format!("process {process} (`{command}`)"),
    })
}

/// Returns the process whose lock in `/proc/locks` is of the file at `place`.
fn process_at(locks: &str, place: &str) -> Option<u32> {
    let line = locks.lines().find(|line| line.split_whitespace().any(|word| word == place))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words.iter().position(|word| *word == place)?;
    words.get(at.checked_sub(1)?)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_stands_before_the_file() {
        let locks = "1: POSIX  ADVISORY  WRITE 12 fe:00:5 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 4711 fe:00:77 0 EOF\n";
        assert_eq!(process_at(locks, "fe:00:77"), Some(4711));
        assert_eq!(process_at(locks, "fe:00:7"), None);
        assert_eq!(process_at("x fe:00:77", "fe:00:77"), None);
    }
}
