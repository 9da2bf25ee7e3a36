//! Names of conversations and files: which names are valid, and properties that follow from a name.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;

use crate::model::text;

/// Maximum length in bytes of a name that the store's filesystem accepts (`NAME_MAX`).
pub const NAME_MAX: usize = 255;
/// Maximum nesting of directories below a conversation. Real tools use far fewer levels. The
/// longest path that a system call accepts leaves 16 bytes for each of 256 names.
pub const MAX_DEPTH: usize = 256;
// Names with this prefix are reserved for the ctxfs filesystem.
const RESERVED: &[u8] = b".ctxfs";

/// The reason why a name is not valid. The message is for people; callers convert the error to an
/// errno.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant has a message")]
pub enum NameError {
    #[error("a name cannot be empty, `.` or `..`")]
    Empty,
    #[error("a name cannot hold `/` or a control character")]
    Control,
    #[error("names that begin with `.ctxfs` are reserved")]
    Reserved,
    #[error("a name has at most 255 bytes")]
    TooLong,
    #[error("at most {MAX_DEPTH} directories of a conversation lie inside each other")]
    TooDeep,
}

/// A validated path component: the name of a conversation, an artifact or a directory.
///
/// It is not empty, `.` or `..`, contains no `/` and no control character, is not reserved, and has
/// at most 255 bytes. It need not be UTF-8. Joining a component to a directory never leaves that
/// directory.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Component(OsString);

impl Component {
    /// Checks `name` and returns it as a component.
    pub fn new(name: impl AsRef<OsStr>) -> Result<Self, NameError> {
        Self::check(name.as_ref())?;
        Ok(Self(name.as_ref().to_owned()))
    }

    /// Checks that `name` can be a component.
    pub fn check(name: &OsStr) -> Result<(), NameError> {
        let bytes = name.as_bytes();
        if matches!(bytes, b"" | b"." | b"..") {
            return Err(NameError::Empty);
        }
        if bytes.iter().any(|byte| byte.is_ascii_control() || *byte == b'/') {
            return Err(NameError::Control);
        }
        if bytes.starts_with(RESERVED) {
            return Err(NameError::Reserved);
        }
        if bytes.len() > NAME_MAX {
            return Err(NameError::TooLong);
        }
        Ok(())
    }

    /// Returns the name for system calls.
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }

    /// Returns the name as text. A byte that is not UTF-8 is written as an escape such as `\xff`.
    /// Different names have different texts.
    pub fn to_text(&self) -> String {
        text::encode(self.0.as_bytes())
    }

    /// Parses a name from the text that [`to_text`](Self::to_text) returns.
    pub fn from_text(text: &str) -> Result<Self, NameError> {
        Self::new(OsStr::from_bytes(&text::decode(text)))
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

impl AsRef<OsStr> for Component {
    fn as_ref(&self) -> &OsStr {
        &self.0
    }
}

/// A path inside a conversation, of one or more components, such as `artifacts/tool/9f3k.txt`.
/// Every component is valid, so the path never leaves the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelPath(OsString);

impl RelPath {
    /// Checks every component of `path`. Fails if `path` has a leading, trailing or doubled `/`.
    pub fn new(path: impl AsRef<OsStr>) -> Result<Self, NameError> {
        let path = path.as_ref();
        for part in path.as_bytes().split(|byte| *byte == b'/') {
            Component::check(OsStr::from_bytes(part))?;
        }
        Ok(Self(path.to_owned()))
    }

    /// Returns the path of `name` in the directory `parent`. Without a parent, the directory is the
    /// conversation itself.
    pub fn below(parent: Option<&Self>, name: &OsStr) -> Result<Self, NameError> {
        Component::check(name)?;
        let Some(Self(parent)) = parent else { return Ok(Self(name.to_owned())) };
        let mut path = OsString::with_capacity(parent.len() + 1 + name.len());
        path.push(parent);
        path.push("/");
        path.push(name);
        Ok(Self(path))
    }

    /// Returns the path of an artifact: `artifacts/tool/<name>` or `artifacts/terminal/<name>`.
    pub fn artifact(folder: Folder, name: &Component) -> Self {
        let mut path = OsString::from(folder.path());
        path.push("/");
        path.push(name);
        Self(path)
    }

    /// Returns the path for system calls.
    pub fn as_os_str(&self) -> &OsStr {
        &self.0
    }

    /// Returns the path as text: the texts of its components, joined by `/`.
    pub fn to_text(&self) -> String {
        text::encode(self.0.as_bytes())
    }

    /// Parses a path from the text that [`to_text`](Self::to_text) returns.
    pub fn from_text(text: &str) -> Result<Self, NameError> {
        Self::new(OsStr::from_bytes(&text::decode(text)))
    }

    /// Returns the last component.
    pub fn file_name(&self) -> &OsStr {
        let bytes = self.0.as_bytes();
        let start = memchr::memrchr(b'/', bytes).map_or(0, |at| at + 1);
        OsStr::from_bytes(&bytes[start..])
    }

    /// Returns the directory of the file, or `None` if the file is directly in the conversation.
    pub fn parent(&self) -> Option<Self> {
        let bytes = self.0.as_bytes();
        let end = memchr::memrchr(b'/', bytes)?;
        Some(Self(OsStr::from_bytes(&bytes[..end]).to_owned()))
    }

    /// Returns true if the file is an artifact: it is below `artifacts/` and in no hidden directory,
    /// and its name is not a scratch name.
    pub fn is_artifact(&self) -> bool {
        self.0.as_bytes().starts_with(b"artifacts/")
            && !self.is_hidden()
            && !is_scratch(self.file_name())
    }

    /// Returns true if a component begins with a dot, as in `artifacts/tool/repo/.git/config`.
    /// Programs keep their own files in such directories.
    pub fn is_hidden(&self) -> bool {
        let bytes = self.0.as_bytes();
        bytes.starts_with(b".") || memchr::memmem::find(bytes, b"/.").is_some()
    }

    /// Returns true if the file is the log of a command: it is below `artifacts/terminal/`.
    pub fn is_terminal(&self) -> bool {
        self.0.as_bytes().starts_with(b"artifacts/terminal/")
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_text())
    }
}

/// The directory of an artifact: `artifacts/tool` for the result of a tool call,
/// `artifacts/terminal` for the log of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the contract of the type describes its variants")]
pub enum Folder {
    Tool,
    Terminal,
}

impl Folder {
    /// Returns the path of the directory inside the conversation.
    pub fn path(self) -> &'static str {
        match self {
            Self::Tool => "artifacts/tool",
            Self::Terminal => "artifacts/terminal",
        }
    }
}

/// Returns true if a file with this name is a scratch file. A scratch file is stored like any other
/// file, but it is never sealed and has no views.
///
/// Scratch names begin with a dot or end in `~`, `.tmp`, `.part`, `.swp` or `.<random>.tmp`.
/// Editors, rsync and servers write a file under such a name before they rename it.
pub fn is_scratch(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let ends = |end: &[u8]| name.len() > end.len() && name.ends_with(end);
    name.starts_with(b".") || ends(b"~") || ends(b".tmp") || ends(b".part") || ends(b".swp")
}

/// Minimum number of digits that [`without_digits`] recognizes.
pub const LEAST_DIGITS: usize = 6;

/// Returns the path with `~` and `digits` before the extension. For example, `x~3f09ab.txt` is an
/// output that was written as `x.txt` when another output had that name. The name is shortened if
/// it would be too long.
pub fn with_digits(path: &str, digits: &str) -> String {
    let (parent, stem, extension) = parts(path);
    let room = NAME_MAX - digits.len() - extension.len() - "~".len();
    let mut end = stem.len().min(room);
    while !stem.is_char_boundary(end) {
        end -= 1;
    }
    // If an escape is cut in half, the result is a different name, but still a valid one.
    format!("{parent}{}~{digits}{extension}", &stem[..end])
}

/// Returns the path without the `~` and the digits in its name, or `None` if the name has no such
/// digits. This is the inverse of [`with_digits`], unless the name was shortened.
pub fn without_digits(path: &str) -> Option<String> {
    let (parent, stem, extension) = parts(path);
    let (plain, digits) = stem.rsplit_once('~')?;
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let has_digits = digits.len() >= LEAST_DIGITS && digits.bytes().all(is_digit);
    (has_digits && !plain.is_empty()).then(|| format!("{parent}{plain}{extension}"))
}

/// Splits a path into the directory with its trailing `/`, the name without its extension, and the
/// extension.
fn parts(path: &str) -> (&str, &str, &str) {
    let (parent, name) = path.split_at(path.rfind('/').map_or(0, |slash| slash + 1));
    let (stem, extension) = match name.rfind('.') {
        Some(at) if at > 0 && name.len() - at <= NAME_MAX / 4 => name.split_at(at),
        _ => (name, ""),
    };
    (parent, stem, extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_names() {
        let cases: [(&[u8], NameError); 9] = [
            (b"", NameError::Empty),
            (b".", NameError::Empty),
            (b"..", NameError::Empty),
            (b"a/b", NameError::Control),
            (b"a\nb", NameError::Control),
            (b"\x7f", NameError::Control),
            (b".ctxfs", NameError::Reserved),
            (b".ctxfs-x", NameError::Reserved),
            (&[b'a'; 256], NameError::TooLong),
        ];
        for (name, error) in cases {
            assert_eq!(Component::new(OsStr::from_bytes(name)), Err(error), "{name:?}");
        }
    }

    #[test]
    fn valid_names() {
        for name in [&b"9f3k.txt"[..], b".x", b"a b", b"\xff\xfe", &[b'a'; 255]] {
            assert!(Component::new(OsStr::from_bytes(name)).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn scratch_names() {
        for name in [".x", "a~", "a.tmp", "a.part", "a.swp", "a.0123abcd.tmp", ".a.txt.Xy12"] {
            assert!(is_scratch(OsStr::new(name)), "{name}");
        }
        for name in ["a.txt", "tmp", "~a", "a.tmp.txt", "part"] {
            assert!(!is_scratch(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn artifacts_are_kept_names_under_artifacts() {
        let is = |path: &str| RelPath::new(path).unwrap().is_artifact();
        assert!(is("artifacts/tool/x.txt"));
        assert!(is("artifacts/terminal/x.log"));
        assert!(!is("artifacts/tool/x.tmp"));
        assert!(!is("history/messages.jsonl"));
        let is = |path: &str| RelPath::new(path).unwrap().is_terminal();
        assert!(is("artifacts/terminal/x.log") && !is("artifacts/tool/x.txt"));
    }

    #[test]
    fn paths_are_checked_by_component() {
        let path = |path| RelPath::new(path).unwrap();
        assert_eq!(RelPath::below(None, OsStr::new("a")), Ok(path("a")));
        assert_eq!(RelPath::below(Some(&path("a/b")), OsStr::new("c")), Ok(path("a/b/c")));
        assert_eq!(RelPath::below(Some(&path("a")), OsStr::new("..")), Err(NameError::Empty));
        for path in ["", "/a", "a/", "a//b", "a/../b", "a/.ctxfs"] {
            assert!(RelPath::new(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_name_stays_a_name() {
        for path in ["x", ".x", "a.b/x", &"y".repeat(255), &format!("{}.txt", "y".repeat(251))] {
            let name = with_digits(path, "123456");
            let last = name.rsplit('/').next().unwrap_or_default();
            assert!(last.len() <= NAME_MAX && last.contains("~123456"), "{name}");
        }
        assert_eq!(with_digits("a.b/x", "1"), "a.b/x~1");
        assert_eq!(with_digits(".x", "1"), ".x~1");
    }

    #[test]
    fn digits_go_as_they_came() {
        let long = format!("a.{}", "y".repeat(100));
        for path in ["x", ".x", "a.b/x", "d/x.txt", "x.tar.gz", "x.", "x~y.txt", &long] {
            for digits in ["3f09ab", "0123456789abcdef"] {
                let name = with_digits(path, digits);
                assert_eq!(without_digits(&name).as_deref(), Some(path), "{name}");
            }
        }
    }

    #[test]
    fn other_names_have_none() {
        for path in ["x.txt", "x~3f09a.txt", "x~3F09AB.txt", "x~3f09ag.txt", "~3f09ab.txt", "x~"] {
            assert_eq!(without_digits(path), None, "{path}");
        }
        assert_eq!(without_digits("d~3f09ab/x.txt"), None, "those of a directory");
    }
}
