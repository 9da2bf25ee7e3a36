//! The directory in which some agent hosts store complete outputs, next to the files on which they
//! work.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;

use crate::{Dir, FileType, Stat, StoreError, if_there, layout};

const STAMP: &str = "%Y%m%d_%H%M%S";
const TOOL_CHARS: usize = 80;
const MAX_A_SECOND: u32 = 10_000;
const NAMELESS: &str = "tool";
const PREFIX: &str = "tool_";
const SUFFIX: &str = ".json";

/// A directory with files named `tool_<YYYYMMDD_HHMMSS>_<tool>.json`. Each file is one complete
/// output.
///
/// Other files in the directory are never changed, and links in it are not followed.
#[derive(Debug)]
pub struct ToolOutputDir {
    dir: Dir,
    path: PathBuf,
}

impl ToolOutputDir {
    /// Opens the directory at `path`, creating it if it is missing. Follows links in `path`.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let dir = Dir::ensure(path, layout::DIRECTORY_MODE);
        let dir = dir.map_err(|error| StoreError::io("make", path, error))?;
        Ok(Self { dir, path: path.to_owned() })
    }

    /// Creates a file for an output of `tool`. Returns the file, open for reading and writing, and
    /// its path, which begins with the path of the directory as passed to [`Self::open`]. Never
    /// replaces a file: a second output of the tool in the same second gets the suffix `-2`.
    pub fn create(&self, tool: &str, now: SystemTime) -> Result<(File, PathBuf), StoreError> {
        let stem = format!("{PREFIX}{}_{}", stamp(now), plain(tool));
        for number in 1..=MAX_A_SECOND {
            let again = if number == 1 { String::new() } else { format!("-{number}") };
            let name = format!("{stem}{again}{SUFFIX}");
            let flags = OFlags::RDWR | OFlags::EXCL;
            match self.dir.create_file(name.as_ref(), flags, layout::FILE_MODE) {
                Ok(file) => return Ok((file, self.path.join(name))),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(StoreError::io("make", &self.path.join(name), error)),
            }
        }
        let error = io::Error::from(io::ErrorKind::AlreadyExists);
        Err(StoreError::io("make", &self.path.join(stem), error))
    }

    /// Syncs the names in the directory to the disk.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.dir.sync().map_err(|error| StoreError::io("sync", &self.path, error))
    }

    /// Returns true if `path` is an output in this directory: its name matches the layout, and it
    /// is a regular file.
    pub fn holds(&self, path: &str) -> bool {
        let Some(name) = Path::new(path).strip_prefix(&self.path).ok().and_then(Path::to_str)
        else {
            return false;
        };
        is_output(name)
            && self.dir.stat(name.as_ref()).is_ok_and(|stat| stat.kind() == FileType::File)
    }

    /// Removes the outputs that were last written more than `age` before `now`. Returns the number
    /// of removed outputs. If the time of the last write is in the future, `ctime` counts instead.
    ///
    /// Removes only regular files whose names match the layout exactly. Does not fail if another
    /// process removes a file at the same time.
    pub fn expire(&self, age: Duration, now: SystemTime) -> Result<u64, StoreError> {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let oldest = now.saturating_sub(age).as_nanos() as i64;
        let now = now.as_nanos() as i64;
        let is_old = |stat: &Stat| {
            let written = Some(stat.mtime.as_nanos()).filter(|written| *written <= now);
            written.unwrap_or(stat.ctime.as_nanos()) < oldest
        };
        let fault = |error| StoreError::io("list", &self.path, error);
        let mut removed = 0;
        for entry in self.dir.entries().map_err(fault)? {
            let Some(name) = entry.name.to_str().filter(|name| is_output(name)) else { continue };
            removed += u64::from(self.expire_one(name, is_old)?);
        }
        Ok(removed)
    }

    fn expire_one(&self, name: &str, is_old: impl Fn(&Stat) -> bool) -> Result<bool, StoreError> {
        let is_old =
            self.dir.stat(name.as_ref()).map(|stat| stat.kind() == FileType::File && is_old(&stat));
        let removed = match is_old {
            Ok(true) => self.dir.unlink(name.as_ref()).map(|()| true),
            other => other,
        };
        let fault = |error| StoreError::io("remove", &self.path.join(name), error);
        Ok(if_there(removed).map_err(fault)?.unwrap_or_default())
    }
}

fn stamp(now: SystemTime) -> String {
    jiff::Timestamp::try_from(now).unwrap_or_default().strftime(STAMP).to_string()
}

/// Returns the name of a tool, truncated, with every character except letters, digits, `-` and `_`
/// replaced by `_`.
fn plain(tool: &str) -> String {
    let plain = |c: char| if is_plain(c) { c } else { '_' };
    let name: String = tool.chars().take(TOOL_CHARS).map(plain).collect();
    if name.is_empty() { NAMELESS.to_owned() } else { name }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

fn is_output(name: &str) -> bool {
    let inner = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX));
    let Some((date, (time, tool))) = inner
        .and_then(|inner| inner.split_once('_'))
        .and_then(|(date, rest)| Some((date, rest.split_once('_')?)))
    else {
        return false;
    };
    let digits =
        |text: &str, count| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    digits(date, 8)
        && digits(time, 6)
        && jiff::civil::DateTime::strptime(STAMP, format!("{date}_{time}")).is_ok()
        && !tool.is_empty()
        && tool.chars().all(is_plain)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    const DAY: Duration = Duration::from_hours(24);

    fn open() -> (tempfile::TempDir, ToolOutputDir) {
        let temporary = tempfile::tempdir().unwrap();
        let dir = ToolOutputDir::open(&temporary.path().join("a/tool-output")).unwrap();
        (temporary, dir)
    }

    /// 13 January 2026, 15:30:45 UTC.
    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_768_318_245)
    }

    fn names(dir: &ToolOutputDir) -> Vec<String> {
        let entries = dir.dir.entries().unwrap().into_iter();
        let mut names: Vec<_> = entries.map(|entry| entry.name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn names_are_those_of_the_protocol() {
        let (_temporary, dir) = open();
        let name = |tool: &str| {
            let (file, path) = dir.create(tool, now()).unwrap();
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            assert_eq!(path, dir.path.join(&name));
            assert!(is_output(&name), "{name}");
            name
        };
        assert_eq!(name("Read"), "tool_20260113_153045_Read.json");
        assert_eq!(name("github/search_issues"), "tool_20260113_153045_github_search_issues.json");
        assert_eq!(name("../../etc/x\0\n.json"), "tool_20260113_153045_______etc_x___json.json");
        assert_eq!(name(""), "tool_20260113_153045_tool.json");
        assert!(name(&"\u{e9}".repeat(4000)).len() < 255);
    }

    #[test]
    fn nothing_is_written_over() {
        let (_temporary, dir) = open();
        for number in 1..=3 {
            let (_, path) = dir.create("Read", now()).unwrap();
            fs::write(&path, format!("{number}")).unwrap();
        }
        symlink("elsewhere", dir.path.join("tool_20260113_153045_Read-4.json")).unwrap();
        dir.create("Read", now()).unwrap();
        assert_eq!(
            names(&dir),
            [
                "tool_20260113_153045_Read-2.json",
                "tool_20260113_153045_Read-3.json",
                "tool_20260113_153045_Read-4.json",
                "tool_20260113_153045_Read-5.json",
                "tool_20260113_153045_Read.json",
            ]
        );
        let read = |name: &str| fs::read_to_string(dir.path.join(name)).unwrap();
        assert_eq!(read("tool_20260113_153045_Read.json"), "1");
        assert_eq!(read("tool_20260113_153045_Read-3.json"), "3");
        assert!(!dir.path.join("elsewhere").exists());
    }

    #[test]
    fn only_its_own_old_files_expire() {
        let (temporary, dir) = open();
        let outside = temporary.path().join("outside");
        fs::write(&outside, "kept").unwrap();
        let kept = [
            "notes.txt",
            "tool_20260101_000000_Read.txt",
            "tool_20260101_000000_.json",
            "tool_20260101_000000_a b.json",
            "tool_20260101_0000_Read.json",
            "tool_20261301_000000_Read.json",
            "tool_+0260101_000000_Read.json",
            "xtool_20260101_000000_Read.json",
            "tool_20260101_000000_Read.json.bak",
        ];
        let make = |name: &str, days: u32| {
            let file = File::create(dir.path.join(name)).unwrap();
            file.set_modified(now() - DAY * days).unwrap();
        };
        for name in kept {
            make(name, 400);
        }
        make("tool_20260101_000000_old.json", 8);
        make("tool_20260101_000000_new.json", 6);
        fs::create_dir(dir.path.join("tool_20260101_000000_dir.json")).unwrap();
        symlink(&outside, dir.path.join("tool_20260101_000000_link.json")).unwrap();
        assert_eq!(dir.expire(DAY * 7, now()).unwrap(), 1);
        let left = names(&dir);
        assert!(!left.contains(&"tool_20260101_000000_old.json".to_owned()));
        assert_eq!(left.len(), kept.len() + 3, "{left:?}");
        assert_eq!(fs::read(&outside).unwrap(), b"kept");
        assert_eq!(dir.expire(DAY * 100_000, now()).unwrap(), 0);
    }

    #[test]
    fn a_time_in_the_future_keeps_no_file() {
        let (_temporary, dir) = open();
        let file = File::create(dir.path.join("tool_20260101_000000_Read.json")).unwrap();
        let now = SystemTime::now();
        file.set_modified(now + DAY * 365 * 70).unwrap();
        assert_eq!(dir.expire(DAY * 7, now + DAY * 6).unwrap(), 0);
        assert_eq!(dir.expire(DAY * 7, now + DAY * 8).unwrap(), 1);
    }

    #[test]
    fn it_knows_what_it_holds() {
        let (_temporary, dir) = open();
        let (_, path) = dir.create("Read", now()).unwrap();
        let path = path.display().to_string();
        assert!(dir.holds(&path));
        for other in [
            path.replace("Read", "Write"),
            path.replace("tool-output/", "tool-output/../tool-output/"),
            dir.path.display().to_string(),
            "tool_20260113_153045_Read.json".to_owned(),
            String::new(),
        ] {
            assert!(!dir.holds(&other), "{other}");
        }
    }
}
