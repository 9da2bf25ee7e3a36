//! The change of one file: found first, shown, and then made.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::json;

use crate::install::content::SettingsContent;
use crate::install::diff::diff;
use crate::install::replace;
use crate::install::servers::FoundServer;
use crate::install::shape::WrongShape;
use crate::outcome::{Failure, FailureKind};

/// The end of the name of the copy that is made before the first change.
const COPY: &str = ".ctxfs.bak";

/// A file that ctxfs writes to.
#[derive(Debug)]
pub(super) struct EditedFile {
    /// The file, perhaps a link.
    pub(super) path: PathBuf,
    /// The directory below which directories that become empty are removed.
    pub(super) base: PathBuf,
    pub(super) content: SettingsContent,
    /// True if something else of ctxfs is installed in the file, from before which a copy may be.
    pub(super) is_shared: bool,
}

/// The change of one file.
#[derive(Debug)]
pub(super) struct SettingsChange {
    /// The file that is named, and the one behind its links.
    path: PathBuf,
    real: PathBuf,
    base: PathBuf,
    before: Option<String>,
    after: Option<String>,
    copy: CopyAction,
}

/// The fate of the copy beside the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopyAction {
    Leave,
    Make,
    Drop,
}

/// The fate of a file. Programs may rely on the names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ChangeKind {
    None,
    Create,
    Change,
    Remove,
}

impl EditedFile {
    /// Returns the words by which the file calls the hook; `None` if it does not.
    pub(super) fn hook(&self) -> Result<Option<Vec<String>>, Failure> {
        let now = replace::read(&self.path)?;
        let hook = now.map(|now| self.content.hook(&now)).transpose();
        Ok(hook.map_err(|shape| self.failure(&shape))?.flatten())
    }

    /// Returns the servers in the file.
    pub(super) fn servers(&self) -> Result<Vec<FoundServer>, Failure> {
        let now = replace::read(&self.path)?.unwrap_or_default();
        self.content.servers(&now).map_err(|shape| self.failure(&shape))
    }

    /// Returns the change that puts the content in. A copy is made only if the host is not
    /// installed yet: later, the file would be none from before.
    pub(super) fn install(&self, is_installed: bool) -> Result<SettingsChange, Failure> {
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

    /// Returns the change that takes the content out.
    pub(super) fn remove(&self, is_installed: bool) -> Result<SettingsChange, Failure> {
        let (real, now) = self.read()?;
        let before = replace::read(&copy_of(&real))?;
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
        let real = replace::behind_links(&self.path)?;
        let now = replace::read(&real)?;
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
    /// Returns what happens to the file.
    pub(super) fn kind(&self) -> ChangeKind {
        match (&self.before, &self.after) {
            (before, after) if before == after => ChangeKind::None,
            (None, _) => ChangeKind::Create,
            (_, None) => ChangeKind::Remove,
            _ => ChangeKind::Change,
        }
    }

    /// Returns the file as it is named.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the change as a diff, which is empty if there is none.
    pub(super) fn diff(&self) -> String {
        match self.kind() {
            ChangeKind::None => String::new(),
            _ => diff(&self.path, self.before.as_deref(), self.after.as_deref()),
        }
    }

    /// Returns the change for programs.
    pub(super) fn value(&self) -> serde_json::Value {
        json!({ "path": self.path.display().to_string(), "action": self.kind(),
            "diff": self.diff() })
    }

    /// Fails if the change cannot be made.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.kind() == ChangeKind::None { Ok(()) } else { replace::check(&self.real) }
    }

    /// Makes the change.
    pub(super) fn make(&self) -> Result<(), Failure> {
        let like = fs::metadata(&self.real).ok();
        if let (CopyAction::Make, Some(before)) = (self.copy, &self.before) {
            let copied = replace::replace(&copy_of(&self.real), before, like.as_ref());
            if self.kind() != ChangeKind::None {
                copied?;
            }
        }
        match (self.kind(), &self.after) {
            (ChangeKind::None, _) => {}
            (_, Some(after)) => {
                self.is_unchanged()?;
                replace::replace(&self.real, after, like.as_ref())?;
            }
            (_, None) => {
                self.is_unchanged()?;
                replace::remove(&self.real, &self.base)?;
            }
        }
        if self.copy == CopyAction::Drop {
            fs::remove_file(copy_of(&self.real)).ok();
        }
        Ok(())
    }

    /// Fails if another program has changed the file since it was read.
    fn is_unchanged(&self) -> Result<(), Failure> {
        if replace::read(&self.real)? == self.before {
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
