//! Reads and edits the stored rules in `permissions.toml`. An edit preserves everything else in the
//! file.
//!
//! ```toml
//! [permissions]
//! "github/create_issue" = "allow"
//! "shell/*" = "deny"
//! execute = "deny"
//! ```

use toml_edit::{Document, DocumentMut, Item, TableLike};

use crate::permission::rules::{InvalidGlob, RuleAuthor, Rules, Verdict};
use crate::tool_name::ServerTool;
use ctxfs_store::{Store, StoreError};

const TABLE: &str = "permissions";
const HEADING: &str = "# Which tools of MCP servers may be called; see `ctxfs mcp --help`.\n";

/// The rules of `permissions.toml` in order, each with its line number, and the flaws of the file.
#[derive(Debug, Clone, Default)]
struct FileRules {
    pub(crate) rules: Vec<(String, Verdict, usize)>,
    pub(crate) flaws: Vec<RuleFlaw>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("permissions.toml:{line}: {what}")]
struct RuleFlaw {
    line: usize,
    what: String,
}

/// The error for a file that cannot be edited: it is not TOML, or `permissions` is not a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("permissions.toml: {0}: mend it by hand")]
pub struct RuleFileError(String);

impl FileRules {
    pub(crate) fn parse(text: &str) -> Self {
        let mut found = Self::default();
        match Document::parse(text) {
            Ok(document) => found.read(text, document.as_table()),
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                found.flaw(text, at, error.message().to_owned());
            }
        }
        found
    }

    /// Adds the rules of the file to `rules` and returns all flaws. Any flaw makes all rules
    /// stricter; see [`Rules::add_unreadable`].
    pub(crate) fn add_to(&self, rules: &mut Rules) -> Vec<RuleFlaw> {
        let mut flaws = self.flaws.clone();
        for (key, verdict, line) in &self.rules {
            if let Err(error) = rules.add(key, *verdict, RuleAuthor::User) {
                flaws.push(RuleFlaw { line: *line, what: error.to_string() });
            }
        }
        if !flaws.is_empty() {
            rules.add_unreadable();
        }
        flaws
    }

    fn read(&mut self, text: &str, root: &toml_edit::Table) {
        for (key, item) in root {
            let at = item.span().map_or(0, |span| span.start);
            match item.as_table_like() {
                Some(table) if key == TABLE => self.read_rules(text, table),
                _ if key == TABLE => self.flaw(text, at, format!("`{TABLE}` is no table")),
                _ => self.flaw(text, at, format!("`{key}` does not belong here")),
            }
        }
    }

    fn read_rules(&mut self, text: &str, table: &dyn TableLike) {
        for (key, item) in table.iter() {
            let at = item.span().map_or(0, |span| span.start);
            match item.as_str().and_then(Verdict::of_word) {
                Some(verdict) => self.rules.push((key.to_owned(), verdict, line_of(text, at))),
                None => self.flaw(text, at, format!("`{key}` can be allow, ask or deny")),
            }
        }
    }

    fn flaw(&mut self, text: &str, at: usize, what: String) {
        self.flaws.push(RuleFlaw { line: line_of(text, at), what });
    }
}

/// Returns `text` with a rule added, or replaced if the key exists. Everything else is preserved,
/// including comments. If `text` is empty, returns a new file.
fn with_rule(text: &str, key: &str, verdict: Verdict) -> Result<String, RuleFileError> {
    let mut document = parse(if text.trim().is_empty() { HEADING } else { text })?;
    if !document.contains_key(TABLE) {
        // Added as text, so that the table comes after comments at the end of the file.
        document = parse(&format!("{}\n\n[{TABLE}]\n", document.to_string().trim_end()))?;
    }
    let no_table = || RuleFileError(format!("`{TABLE}` is no table"));
    let table = document[TABLE].as_table_like_mut().ok_or_else(no_table)?;
    match table.get_mut(key).and_then(Item::as_value_mut) {
        Some(value) => {
            let decor = value.decor().clone();
            *value = verdict.as_str().into();
            *value.decor_mut() = decor;
        }
        None => drop(table.insert(key, toml_edit::value(verdict.as_str()))),
    }
    Ok(document.to_string())
}

pub(crate) fn pattern_of(tool: &ServerTool) -> String {
    // `globset::escape` does not escape backslashes.
    let name = tool.to_string();
    let parts: Vec<String> = name.split('\\').map(globset::escape).collect();
    parts.join(r"\\")
}

fn parse(text: &str) -> Result<DocumentMut, RuleFileError> {
    text.parse().map_err(|error: toml_edit::TomlError| RuleFileError(error.message().to_owned()))
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

/// The reason why a rule could not be stored.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum KeepRuleError {
    #[error(transparent)]
    Glob(#[from] InvalidGlob),
    #[error(transparent)]
    File(#[from] RuleFileError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Adds the rules of `store` to `rules`. Returns the flaws, worded for the user. If there is any
/// flaw, no call is allowed without asking the user.
pub(crate) fn add_stored(rules: &mut Rules, store: &Store) -> Vec<String> {
    match store.permissions() {
        Ok(text) => {
            let flaws = FileRules::parse(&text).add_to(rules);
            flaws.iter().map(ToString::to_string).collect()
        }
        Err(error) => {
            rules.add_unreadable();
            vec![error.to_string()]
        }
    }
}

/// Stores a rule in `store`, replacing a rule with the same key. The key is a pattern of
/// `server/tool` or the word for a risk. Everything else in the file is preserved, including
/// concurrent changes by other processes.
pub fn keep(store: &Store, key: &str, verdict: Verdict) -> Result<(), KeepRuleError> {
    Rules::default().add(key, verdict, RuleAuthor::User)?;
    let locked = store.lock_permissions()?;
    let text = store.permissions()?;
    let changed = with_rule(&text, key, verdict)?;
    if changed != text {
        locked.replace(&changed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
