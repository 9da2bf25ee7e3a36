//! The changes of an installation: checked, made and shown.

use serde_json::json;

use crate::context::Context;
use crate::hooks::Host;
use crate::install::change::SettingsChange;
use crate::install::place::Scope;
use crate::outcome::Failure;

/// The changes of an installation, or of its removal.
pub(super) struct Edits {
    pub(super) host: Host,
    pub(super) scope: Scope,
    /// True if they are only shown.
    pub(super) is_print: bool,
    pub(super) changes: Vec<SettingsChange>,
}

impl Edits {
    /// Fails if a change cannot be made.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.changes.iter().try_for_each(SettingsChange::check)
    }

    /// Makes all changes, or none if one of them cannot be made.
    pub(super) fn make(&self) -> Result<(), Failure> {
        self.check()?;
        if !self.is_print {
            for change in &self.changes {
                change.make()?;
            }
        }
        Ok(())
    }

    /// Returns the lines that change; nothing if none does.
    pub(super) fn diffs(&self) -> String {
        self.changes.iter().map(SettingsChange::diff).collect()
    }

    /// Prints the lines that change, or that there are none, and what is `left` to a person.
    pub(super) fn report(
        &self,
        nothing: &str,
        left: &[String],
        context: &mut Context,
    ) -> anyhow::Result<()> {
        let diffs = self.diffs();
        let files: Vec<_> = self.changes.iter().map(SettingsChange::value).collect();
        let value = json!({ "host": self.host.name(), "scope": self.scope,
            "made": !self.is_print, "files": files, "left": left });
        let text = if diffs.is_empty() { nothing } else { &diffs };
        context.printer.line(&text.trim_end(), &value)?;
        for left in left {
            context.printer.say(left);
        }
        Ok(())
    }
}
