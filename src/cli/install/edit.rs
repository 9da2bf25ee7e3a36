//! Edits of settings files. Edits are computed, checked and shown before they are made.
//!
//! Before the first edit, a file is copied to `FILE.ctxfs.bak`. Removal restores that copy if
//! nothing else in the file has changed since. Otherwise it removes what ctxfs has added. Files are
//! replaced atomically.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use gix_imara_diff::{
    Algorithm, Diff, InternedInput, Interner, Token, UnifiedDiffConfig, UnifiedDiffPrinter,
};
use rustix::fs::{Access, Gid, Uid};
use serde_json::json;

use crate::install::entry::{JsonEntry, TextEntry, ValueEntry, WrongShape};
use crate::install::servers::{FoundServer, WrappedServers};
use crate::install::{json, toml};
use crate::{Context, Failure, FailureKind, install::place::SettingsScope};

const COPY: &str = ".ctxfs.bak";

/// A settings file and the content that ctxfs adds to it. `path` may be a symbolic link. Removing
/// the file also removes those of its directories below `base` that become empty. If `is_shared` is
/// true, another `EditedFile` has the same `path`, and only that other one makes and removes the
/// copy `FILE.ctxfs.bak`.
#[derive(Debug)]
pub(crate) struct EditedFile {
    pub(crate) path: PathBuf,
    pub(crate) base: PathBuf,
    pub(crate) content: SettingsContent,
    pub(crate) is_shared: bool,
}

#[derive(Debug)]
pub(crate) struct SettingsChange {
    // `path` is the path as given. `real` is the path after following links.
    path: PathBuf,
    real: PathBuf,
    base: PathBuf,
    before: Option<String>,
    after: Option<String>,
    copy: CopyAction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyAction {
    Leave,
    Make,
    Drop,
}

/// The kind of change to a file. The names are part of the output of `--json`, and programs may
/// rely on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ChangeKind {
    None,
    Create,
    Change,
    Remove,
}

impl EditedFile {
    /// Returns the same as [`SettingsContent::hook`] for the current text of the file, or `None` if
    /// the file is missing.
    pub(crate) fn hook(&self) -> Result<Option<Vec<String>>, Failure> {
        let now = read_text(&self.path)?;
        let hook = now.map(|now| self.content.hook(&now)).transpose();
        Ok(hook.map_err(|shape| self.failure(&shape))?.flatten())
    }

    pub(crate) fn servers(&self) -> Result<Vec<FoundServer>, Failure> {
        let now = read_text(&self.path)?.unwrap_or_default();
        self.content.servers(&now).map_err(|shape| self.failure(&shape))
    }

    /// Returns the change that adds the content. Includes a copy of the file only if the hook is
    /// not installed yet, because a later copy would contain entries of ctxfs.
    pub(crate) fn install(&self, is_installed: bool) -> Result<SettingsChange, Failure> {
        let (real, now) = self.read()?;
        let after = self.content.with(now.as_deref()).map_err(|shape| self.failure(&shape))?;
        let has_copy = match self.content {
            SettingsContent::Whole(_) => false,
            SettingsContent::Servers(_) => !self.is_shared && after != now,
            SettingsContent::Json(_) | SettingsContent::Toml { .. } => !self.is_shared,
        };
        let copies = now.is_some() && !is_installed && has_copy && !copy_of(&real).exists();
        let copy = if copies { CopyAction::Make } else { CopyAction::Leave };
        Ok(self.change(real, now, after, copy))
    }

    pub(crate) fn remove(&self, is_installed: bool) -> Result<SettingsChange, Failure> {
        let (real, now) = self.read()?;
        let before = read_text(&copy_of(&real))?;
        let Some(now) = now.filter(|_| is_installed || before.is_some()) else {
            return Ok(self.change(real, None, None, CopyAction::Leave));
        };
        let after = self.content.without(&now, before.as_deref());
        let after = after.map_err(|shape| self.failure(&shape))?;
        let is_same = before.is_some() && before == after && !self.is_shared;
        let copy = if is_same { CopyAction::Drop } else { CopyAction::Leave };
        Ok(self.change(real, Some(now), after, copy))
    }

    fn read(&self) -> Result<(PathBuf, Option<String>), Failure> {
        let real = behind_links(&self.path)?;
        let now = read_text(&real)?;
        Ok((real, now))
    }

    fn change(
        &self,
        real: PathBuf,
        before: Option<String>,
        after: Option<String>,
        copy: CopyAction,
    ) -> SettingsChange {
        let (path, base) = (self.path.clone(), self.base.clone());
        SettingsChange { path, real, base, before, after, copy }
    }

    fn failure(&self, shape: &WrongShape) -> Failure {
        let text = format!("cannot edit `{}`: {shape}", self.path.display());
        let hint = match self.content.example() {
            None => "nothing was changed; move the file away, and install again".to_owned(),
            Some(example) => format!(
                "nothing was changed; mend the file, or put this into it yourself:\n{}",
                example.trim_end()
            ),
        };
        Failure::new(FailureKind::Failed, text, hint)
    }
}

impl SettingsChange {
    pub(crate) fn kind(&self) -> ChangeKind {
        match (&self.before, &self.after) {
            (before, after) if before == after => ChangeKind::None,
            (None, _) => ChangeKind::Create,
            (_, None) => ChangeKind::Remove,
            _ => ChangeKind::Change,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn diff(&self) -> String {
        match self.kind() {
            ChangeKind::None => String::new(),
            _ => diff(&self.path, self.before.as_deref(), self.after.as_deref()),
        }
    }

    pub(crate) fn value(&self) -> serde_json::Value {
        json!({ "path": self.path.display().to_string(), "action": self.kind(),
            "diff": self.diff() })
    }

    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.kind() == ChangeKind::None { Ok(()) } else { check_writable(&self.real) }
    }

    pub(crate) fn make(&self) -> Result<(), Failure> {
        let like = fs::metadata(&self.real).ok();
        if let (CopyAction::Make, Some(before)) = (self.copy, &self.before) {
            let copied = replace_file(&copy_of(&self.real), before, like.as_ref());
            if self.kind() != ChangeKind::None {
                copied?;
            }
        }
        match (self.kind(), &self.after) {
            (ChangeKind::None, _) => {}
            (_, Some(after)) => {
                self.is_unchanged()?;
                replace_file(&self.real, after, like.as_ref())?;
            }
            (_, None) => {
                self.is_unchanged()?;
                remove_file(&self.real, &self.base)?;
            }
        }
        if self.copy == CopyAction::Drop {
            fs::remove_file(copy_of(&self.real)).ok();
        }
        Ok(())
    }

    fn is_unchanged(&self) -> Result<(), Failure> {
        if read_text(&self.real)? == self.before {
            return Ok(());
        }
        let text = format!("`{}` was changed by another program just now", self.path.display());
        Err(Failure::new(FailureKind::Failed, text, "run the same command again"))
    }
}

fn copy_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(COPY);
    PathBuf::from(name)
}

/// The part of a file that ctxfs writes. It consists of entries in a JSON or TOML file, a whole
/// file whose first lines contain [`OWNED`], or the arguments of `ctxfs mcp` in front of the
/// commands of MCP servers.
#[derive(Debug, Clone)]
pub(crate) enum SettingsContent {
    Json(Vec<JsonEntry>),
    Toml { text: TextEntry, former: Vec<TextEntry>, variables: Vec<ValueEntry> },
    Whole(String),
    Servers(WrappedServers),
}

// Marks a file as written by ctxfs.
pub(crate) const OWNED: &str = "written by `ctxfs install`";
// Number of lines that are searched for the mark. In a script, which starts with `#!`, the mark may
// be on the second line.
const OWNED_LINES: usize = 2;

impl SettingsContent {
    /// Returns the text of the file with the content added. `now` is the current text, or `None` if
    /// the file does not exist. Servers are edited only in an existing file.
    pub(crate) fn with(&self, now: Option<&str>) -> Result<Option<String>, WrongShape> {
        match (self, now) {
            (Self::Servers(_), None) => Ok(None),
            _ => self.apply_to(now).map(Some),
        }
    }

    pub(crate) fn example(&self) -> Option<String> {
        match self {
            Self::Whole(_) => None,
            Self::Servers(servers) => Some(servers.example()),
            Self::Json(_) | Self::Toml { .. } => self.apply_to(None).ok(),
        }
    }

    fn apply_to(&self, now: Option<&str>) -> Result<String, WrongShape> {
        match self {
            Self::Json(entries) => json::with(now.unwrap_or(EMPTY_JSON), entries),
            Self::Toml { text, former, variables } => {
                let now = now.unwrap_or_default().to_owned();
                let bare = |now: String, former| toml::without_text(&now, former, None);
                let bare = former.iter().try_fold(now, bare)?;
                toml::with_variables(&toml::with_text(&bare, text)?, variables)
            }
            Self::Whole(_) if now.is_some_and(|now| !is_owned(now)) => {
                Err(WrongShape::new(&[], "it is there, and not of ctxfs"))
            }
            Self::Whole(text) => Ok(text.clone()),
            Self::Servers(servers) => servers.with(now.unwrap_or_default()),
        }
    }

    /// Returns the text of the file without the content, or `None` if nothing else remains.
    /// `before` is the copy from before the installation. If nothing else has changed since, the
    /// result equals `before`.
    pub(crate) fn without(
        &self,
        now: &str,
        before: Option<&str>,
    ) -> Result<Option<String>, WrongShape> {
        if let Self::Servers(servers) = self {
            return servers.without(now, before).map(Some);
        }
        let bare = self.stripped(now, before)?;
        if let (Some(before), true) = (before, bare != now)
            && let Ok(installed) = self.apply_to(Some(before))
            && self.stripped(&installed, Some(before)) == Ok(bare.clone())
        {
            return Ok(Some(before.to_owned()));
        }
        let is_nothing = match self {
            Self::Json(_) => json::is_nothing(&bare),
            Self::Toml { .. } => toml::is_nothing(&bare),
            Self::Whole(_) => is_owned(now),
            Self::Servers(_) => false,
        };
        let is_created = before.is_none() && is_nothing;
        Ok((!is_created).then_some(bare))
    }

    /// Returns the arguments with which the file calls ctxfs: for [`Self::Servers`], those of the
    /// first call of `ctxfs mcp`, and otherwise those of the hook. The list is empty if the
    /// arguments are not known. Returns `None` if the file has no such call, and always for
    /// [`Self::Toml`].
    pub(crate) fn hook(&self, now: &str) -> Result<Option<Vec<String>>, WrongShape> {
        match self {
            Self::Json(entries) => json::hook_words(now, entries),
            Self::Toml { .. } => Ok(None),
            Self::Whole(_) => Ok(is_owned(now).then(|| arguments_in(now).unwrap_or_default())),
            Self::Servers(servers) => servers.line_in(now),
        }
    }

    pub(crate) fn servers(&self, now: &str) -> Result<Vec<FoundServer>, WrongShape> {
        match self {
            Self::Servers(servers) => servers.found(now),
            Self::Json(_) | Self::Toml { .. } | Self::Whole(_) => Ok(Vec::new()),
        }
    }

    fn stripped(&self, now: &str, before: Option<&str>) -> Result<String, WrongShape> {
        match self {
            Self::Json(entries) => json::without(now, entries, before),
            Self::Toml { text, former, variables } => {
                let now = toml::without_variables(now, variables, before)?;
                let mut texts = [text].into_iter().chain(former);
                texts.try_fold(now, |now, text| toml::without_text(&now, text, before))
            }
            Self::Whole(_) | Self::Servers(_) => Ok(now.to_owned()),
        }
    }
}

fn arguments_in(plug_in: &str) -> Option<Vec<String>> {
    let line = plug_in.lines().find_map(|line| line.strip_prefix(ARGUMENTS))?;
    serde_json::from_str(line.trim_end_matches(';')).ok()
}

pub(crate) const ARGUMENTS: &str = "const ARGUMENTS = ";

const EMPTY_JSON: &str = "{}\n";

fn is_owned(text: &str) -> bool {
    text.lines().take(OWNED_LINES).any(|line| line.contains(OWNED))
}

pub(crate) struct Edits {
    pub(crate) host: &'static str,
    pub(crate) scope: SettingsScope,
    pub(crate) is_print: bool,
    pub(crate) changes: Vec<SettingsChange>,
}

impl Edits {
    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.changes.iter().try_for_each(SettingsChange::check)
    }

    pub(crate) fn make(&self) -> Result<(), Failure> {
        self.check()?;
        if !self.is_print {
            for change in &self.changes {
                change.make()?;
            }
        }
        Ok(())
    }

    pub(crate) fn diffs(&self) -> String {
        self.changes.iter().map(SettingsChange::diff).collect()
    }

    /// Prints the diffs, or the text `nothing` if there are none. Then prints `left`, the remaining
    /// steps for the user.
    pub(crate) fn report(
        &self,
        nothing: &str,
        left: &[String],
        context: &mut Context,
    ) -> anyhow::Result<()> {
        let diffs = self.diffs();
        let files: Vec<_> = self.changes.iter().map(SettingsChange::value).collect();
        let value = json!({ "host": self.host, "scope": self.scope,
            "made": !self.is_print, "files": files, "left": left });
        let text = if diffs.is_empty() { nothing } else { &diffs };
        context.printer.line(&text.trim_end(), &value)?;
        for left in left {
            context.printer.message(left);
        }
        Ok(())
    }
}

const AROUND: u32 = 1;
const WIDEST: usize = 300;

fn diff(path: &Path, before: Option<&str>, after: Option<&str>) -> String {
    let name = |text: Option<&str>| match text {
        Some(_) => path.display().to_string(),
        None => "/dev/null".to_owned(),
    };
    let lines = InternedInput::new(before.unwrap_or_default(), after.unwrap_or_default());
    let mut found = Diff::compute(Algorithm::Histogram, &lines);
    found.postprocess_lines(&lines);
    let printer = GnuPrinter(&lines.interner);
    let mut config = UnifiedDiffConfig::default();
    let shown = found.unified_diff(&printer, config.context_len(AROUND).clone(), &lines);
    let text = format!("--- {}\n+++ {}\n{shown}", name(before), name(after));
    text.lines().map(cut).collect()
}

/// Prints hunks as GNU diff does: headers leave out a length of 1, and give an empty range the
/// number of the line before it.
struct GnuPrinter<'a>(&'a Interner<&'a str>);

impl UnifiedDiffPrinter for GnuPrinter<'_> {
    fn display_header(
        &self,
        mut f: impl fmt::Write,
        start_before: u32,
        start_after: u32,
        len_before: u32,
        len_after: u32,
    ) -> fmt::Result {
        let range = |start: u32, length: u32| match length {
            0 => format!("{start},0"),
            1 => (start + 1).to_string(),
            _ => format!("{},{length}", start + 1),
        };
        let (before, after) = (range(start_before, len_before), range(start_after, len_after));
        writeln!(f, "@@ -{before} +{after} @@")
    }

    fn display_context_token(&self, mut f: impl fmt::Write, token: Token) -> fmt::Result {
        writeln!(f, " {}", self.0[token].trim_end_matches('\n'))
    }

    fn display_hunk(
        &self,
        mut f: impl fmt::Write,
        before: &[Token],
        after: &[Token],
    ) -> fmt::Result {
        let lines =
            before.iter().map(|line| ('-', line)).chain(after.iter().map(|line| ('+', line)));
        for (sign, line) in lines {
            writeln!(f, "{sign}{}", self.0[*line].trim_end_matches('\n'))?;
        }
        Ok(())
    }
}

fn cut(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    match line.char_indices().nth(WIDEST) {
        None => format!("{line}\n"),
        Some((at, _)) => format!("{}... ({} bytes)\n", &line[..at], line.len()),
    }
}

// Modes of new files and of new scripts.
const MODE: u32 = 0o644;
const PROGRAM_MODE: u32 = 0o755;

/// Returns the file that `path` names after all symbolic links are followed. Edits do not replace
/// links. Returns `path` itself if it does not exist.
fn behind_links(path: &Path) -> Result<PathBuf, Failure> {
    match path.canonicalize() {
        Ok(real) => Ok(real),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
            Ok(path.to_owned())
        }
        Err(error) => Err(io_failure("follow", path, &error)),
    }
}

pub(crate) fn read_text(path: &Path) -> Result<Option<String>, Failure> {
    match read_regular(path) {
        Ok(bytes) => String::from_utf8(bytes).map(Some).map_err(|_| {
            let text = format!("`{}` is not text in UTF-8", path.display());
            Failure::new(FailureKind::Failed, text, "nothing was changed; convert it first")
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_failure("read", path, &error)),
    }
}

// Refuses anything other than a regular file, because reading a FIFO or a device might never end.
fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    if fs::metadata(path)?.is_file() {
        fs::read(path)
    } else {
        Err(io::Error::other("it is no regular file"))
    }
}

/// Fails if the file cannot be replaced or created. A read-only file or directory is refused even
/// for root, although root could write to it.
fn check_writable(path: &Path) -> Result<(), Failure> {
    let above = path.ancestors().skip(1).find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    for place in [Some(path).filter(|path| path.exists()), Some(above)].into_iter().flatten() {
        let mode = fs::metadata(place).map_err(|error| io_failure("look at", place, &error))?;
        if mode.permissions().readonly() {
            let text = format!("`{}` is read-only", place.display());
            return Err(Failure::new(FailureKind::Failed, text, UNCHANGED));
        }
        rustix::fs::access(place, Access::WRITE_OK)
            .map_err(|error| io_failure("write", place, &error.into()))?;
    }
    Ok(())
}

/// Creates or replaces the file atomically, with the mode and owner of `like`. Creates the
/// directory of the file if it is missing. A file that starts with `#!` is created executable.
fn replace_file(path: &Path, text: &str, like: Option<&Metadata>) -> Result<(), Failure> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    let mode = if text.starts_with("#!") { PROGRAM_MODE } else { MODE };
    let write = || -> io::Result<()> {
        fs::create_dir_all(dir)?;
        let mut file = tempfile::Builder::new().prefix(".ctxfs-").tempfile_in(dir)?;
        file.write_all(text.as_bytes())?;
        set_rights(file.as_file(), mode, like)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        File::open(dir)?.sync_all()
    };
    write().map_err(|error| io_failure("write", path, &error))
}

fn set_rights(file: &File, mode: u32, like: Option<&Metadata>) -> io::Result<()> {
    let mode = like.map_or(mode, |like| like.mode() & 0o7777);
    let own = file.metadata()?;
    if let Some(like) = like
        && (like.uid(), like.gid()) != (own.uid(), own.gid())
    {
        let (uid, gid) = (Uid::from_raw(like.uid()), Gid::from_raw(like.gid()));
        rustix::fs::fchown(file, Some(uid), Some(gid))?;
    }
    // The mode is set after the owner, because a change of owner may clear mode bits.
    Ok(rustix::fs::fchmod(file, mode.into())?)
}

pub(crate) fn remove_file(path: &Path, base: &Path) -> Result<(), Failure> {
    fs::remove_file(path).map_err(|error| io_failure("remove", path, &error))?;
    let above = path.ancestors().skip(1).take_while(|dir| *dir != base && dir.starts_with(base));
    for dir in above {
        if fs::remove_dir(dir).is_err() {
            break;
        }
    }
    Ok(())
}

const UNCHANGED: &str = "it was not changed; `ctxfs install HOST --print` shows what it should get";

fn io_failure(action: &str, path: &Path, error: &io::Error) -> Failure {
    let text = format!("cannot {action} `{}`: {error}", path.display());
    Failure::new(FailureKind::Failed, text, UNCHANGED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_change_are_shown() {
        let text = diff(Path::new("/f"), Some("a\nb\nc\nd\n"), Some("a\nb\nx\nc\nd\n"));
        assert_eq!(text, "--- /f\n+++ /f\n@@ -2,2 +2,3 @@\n b\n+x\n c\n");
        let text = diff(Path::new("/f"), None, Some("a"));
        assert_eq!(text, "--- /dev/null\n+++ /f\n@@ -0,0 +1 @@\n+a\n");
    }

    #[test]
    fn long_lines_are_cut() {
        let text = diff(Path::new("/f"), None, Some(&"x".repeat(5000)));
        assert!(text.ends_with("... (5001 bytes)\n") && text.len() < 400, "{text}");
    }
}
