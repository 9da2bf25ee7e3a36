//! A settings file with and without what ctxfs puts into it.

use crate::install::entry::{JsonEntry, TextEntry, ValueEntry};
use crate::install::servers::{FoundServer, WrappedServers};
use crate::install::shape::WrongShape;
use crate::install::{json, toml_text, toml_variables};

/// The part of a file that is for ctxfs to write.
#[derive(Debug, Clone)]
pub(super) enum SettingsContent {
    /// Entries among others, in JSON.
    Json(Vec<JsonEntry>),
    /// Texts in lists and variables, in TOML.
    Toml {
        /// A text in a list.
        text: TextEntry,
        /// Those that an earlier installation put there.
        former: Vec<TextEntry>,
        variables: Vec<ValueEntry>,
    },
    /// The whole file, which has [`OWNED`] in its first line.
    Whole(String),
    /// Words before the commands of the servers that are there.
    Servers(WrappedServers),
}

/// The words in the first lines of a file by which ctxfs knows that it is its own.
pub(super) const OWNED: &str = "written by `ctxfs install`";
/// Those lines: a program begins with the name of its shell.
const OWNED_LINES: usize = 2;

impl SettingsContent {
    /// Returns the file with it, from what the file has now. `None` stands for no file.
    pub(super) fn with(&self, now: Option<&str>) -> Result<Option<String>, WrongShape> {
        match (self, now) {
            (Self::Servers(_), None) => Ok(None),
            _ => self.in_text(now).map(Some),
        }
    }

    /// Returns a text that a person can paste.
    pub(super) fn example(&self) -> Option<String> {
        match self {
            Self::Whole(_) => None,
            Self::Servers(servers) => Some(servers.example()),
            Self::Json(_) | Self::Toml { .. } => self.in_text(None).ok(),
        }
    }

    fn in_text(&self, now: Option<&str>) -> Result<String, WrongShape> {
        match self {
            Self::Json(entries) => json::with(now.unwrap_or(EMPTY_JSON), entries),
            Self::Toml { text, former, variables } => {
                let now = now.unwrap_or_default().to_owned();
                let bare = |now: String, former| toml_text::without(&now, former, None);
                let bare = former.iter().try_fold(now, bare)?;
                toml_variables::with(&toml_text::with(&bare, text)?, variables)
            }
            Self::Whole(_) if now.is_some_and(|now| !is_owned(now)) => {
                Err(WrongShape::new(&[], "it is there, and not of ctxfs"))
            }
            Self::Whole(text) => Ok(text.clone()),
            Self::Servers(servers) => servers.with(now.unwrap_or_default()),
        }
    }

    /// Returns the file without it, or `None` if nothing is left that another put there.
    ///
    /// `before` is the file as it was before. If nobody else has changed anything since, the result
    /// is just that.
    pub(super) fn without(
        &self,
        now: &str,
        before: Option<&str>,
    ) -> Result<Option<String>, WrongShape> {
        if let Self::Servers(servers) = self {
            return servers.without(now, before).map(Some);
        }
        let bare = self.bare(now, before)?;
        if let (Some(before), true) = (before, bare != now)
            && let Ok(installed) = self.in_text(Some(before))
            && self.bare(&installed, Some(before)) == Ok(bare.clone())
        {
            return Ok(Some(before.to_owned()));
        }
        let is_nothing = match self {
            Self::Json(_) => json::is_nothing(&bare),
            Self::Toml { .. } => toml_text::is_nothing(&bare),
            Self::Whole(_) => is_owned(now),
            Self::Servers(_) => false,
        };
        let is_created = before.is_none() && is_nothing;
        Ok((!is_created).then_some(bare))
    }

    /// Returns the words by which the file calls the hook, as far as they are known; `None` if it
    /// does not, and is no plug-in that does. A file that can only accompany that has nothing to
    /// tell it by.
    pub(super) fn hook(&self, now: &str) -> Result<Option<Vec<String>>, WrongShape> {
        match self {
            Self::Json(entries) => json::hook_words(now, entries),
            Self::Toml { .. } => Ok(None),
            Self::Whole(_) => Ok(is_owned(now).then(|| arguments_in(now).unwrap_or_default())),
            Self::Servers(servers) => servers.line_in(now),
        }
    }

    /// Returns the servers in the file, where it has any.
    pub(super) fn servers(&self, now: &str) -> Result<Vec<FoundServer>, WrongShape> {
        match self {
            Self::Servers(servers) => servers.found(now),
            Self::Json(_) | Self::Toml { .. } | Self::Whole(_) => Ok(Vec::new()),
        }
    }

    fn bare(&self, now: &str, before: Option<&str>) -> Result<String, WrongShape> {
        match self {
            Self::Json(entries) => json::without(now, entries, before),
            Self::Toml { text, former, variables } => {
                let now = toml_variables::without(now, variables, before)?;
                let mut texts = [text].into_iter().chain(former);
                texts.try_fold(now, |now, text| toml_text::without(&now, text, before))
            }
            Self::Whole(_) | Self::Servers(_) => Ok(now.to_owned()),
        }
    }
}

/// Returns the arguments of the hook in a plug-in.
fn arguments_in(plug_in: &str) -> Option<Vec<String>> {
    let line = plug_in.lines().find_map(|line| line.strip_prefix(ARGUMENTS))?;
    serde_json::from_str(line.trim_end_matches(';')).ok()
}

/// The beginning of the line with the arguments of the hook in a plug-in.
pub(super) const ARGUMENTS: &str = "const ARGUMENTS = ";

const EMPTY_JSON: &str = "{}\n";

fn is_owned(text: &str) -> bool {
    text.lines().take(OWNED_LINES).any(|line| line.contains(OWNED))
}
