//! The text of `permissions.toml`: read, and changed with everything else in it kept.
//!
//! ```toml
//! [permissions]
//! "github/create_issue" = "allow"
//! "shell/*" = "deny"
//! execute = "deny"
//! ```

use toml_edit::{Document, DocumentMut, Item, TableLike};

use crate::permission::rules::{Rules, Verdict};
use crate::tool_name::TrueName;

/// The only table of the file.
const TABLE: &str = "permissions";
/// The first line of a new file.
const HEADING: &str = "# Which tools of MCP servers may be called; see `ctxfs mcp --help`.\n";

/// The rules of a file, in its order.
#[derive(Debug, Clone, Default)]
pub struct FileRules {
    /// Keys, verdicts, and the lines that they stand on.
    pub rules: Vec<(String, Verdict, usize)>,
    /// The faults in it.
    pub flaws: Vec<RuleFlaw>,
}

/// Something wrong in the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("permissions.toml:{line}: {what}")]
pub struct RuleFlaw {
    line: usize,
    what: String,
}

/// The file cannot be changed: it is not TOML, or `permissions` is no table in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("permissions.toml: {0}: mend it by hand")]
pub struct NotToml(String);

impl FileRules {
    /// Reads the rules from the text of the file. What is wrong is left out and named.
    pub fn parse(text: &str) -> Self {
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

    /// Adds the rules to others. Any flaw makes all of them careful; see
    /// [`Rules::add_unreadable`]. Returns the flaws.
    pub fn add_to(&self, rules: &mut Rules) -> Vec<RuleFlaw> {
        let mut flaws = self.flaws.clone();
        for (key, verdict, line) in &self.rules {
            if let Err(error) = rules.add_by_key(key, *verdict) {
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

/// Returns `text` with a rule, in place of one with the same key. Everything else in it stays,
/// comments too. An empty text becomes a file.
pub fn with_rule(text: &str, key: &str, verdict: Verdict) -> Result<String, NotToml> {
    let mut document = parse(if text.trim().is_empty() { HEADING } else { text })?;
    if !document.contains_key(TABLE) {
        // Put in as text, it comes after the comments that a file ends with.
        document = parse(&format!("{}\n\n[{TABLE}]\n", document.to_string().trim_end()))?;
    }
    let no_table = || NotToml(format!("`{TABLE}` is no table"));
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

/// Returns the pattern that matches `tool` alone, whatever a server has put into its name.
pub fn pattern_of(tool: &TrueName) -> String {
    // `globset::escape` leaves backslashes as they are.
    let name = tool.to_string();
    let parts: Vec<String> = name.split('\\').map(globset::escape).collect();
    parts.join(r"\\")
}

fn parse(text: &str) -> Result<DocumentMut, NotToml> {
    text.parse().map_err(|error: toml_edit::TomlError| NotToml(error.message().to_owned()))
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests;
