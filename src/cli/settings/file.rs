//! Settings files: TOML, checked key by key, so that errors name the line.

mod models;
mod of_store;

use std::borrow::Cow;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::{fs, io};

pub(super) use of_store::StoreFile;
#[cfg(test)]
pub(super) use of_store::USER_TABLES;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::outcome::Failure;
use crate::settings::calls::{CallRules, PERMISSIONS, RISK};
use crate::settings::models::ModelTables;
use crate::settings::origin::{FileLine, Origin, Setting};
use crate::settings::row::{Group, Key, Row};
use crate::settings::table::ROWS;
use crate::settings::value::{Value, ValueKind};
use ctxfs_core::redact::{Rule, SETS, SecretRules};

/// Maximum bytes of a settings file.
const MOST_BYTES: u64 = 1 << 20;
/// Maximum characters of a value in a message.
const SHOWN_CHARS: usize = 60;
/// The least similarity of a key that a message proposes, from 0 to 1.
const ALIKE: f64 = 0.8;

const TOOL: &str = "tool";
const REDACT: &str = "redact";
const MCP: &str = "mcp";
const HOOKS: &str = "hooks";
const EXTRACT: &str = "extract";
const REMOTE: &str = "remote";
const RULE_KEYS: [&str; 2] = ["name", "regex"];
const REDACT_KEYS: [&str; 3] = ["apply", "sets", "rules"];
/// The values of `redact.apply`.
pub(super) const APPLY: ValueKind = ValueKind::Choice(&["off", "views", "stored"]);

/// The content of a settings file.
#[derive(Debug, Default)]
pub(super) struct SettingsFile {
    pub(super) path: PathBuf,
    pub(super) values: Vec<(Key, Setting)>,
    /// The settings for some tools, each with the pattern of their names.
    pub(super) tools: Vec<(String, Key, Setting)>,
    pub(super) redact: RedactTable,
    /// The tables `[permissions]` and `[risk]`.
    pub(super) calls: CallRules,
    /// The models of the table `[extract]`.
    pub(super) models: ModelTables,
}

/// The `redact` table of a settings file.
#[derive(Debug, Default)]
pub(super) struct RedactTable {
    /// The line of the table; `None` if the file has none.
    pub(super) origin: Option<Origin>,
    pub(super) apply: Option<Setting<String>>,
    pub(super) sets: Option<Setting<Vec<String>>>,
    pub(super) rules: Option<Setting<Vec<Rule>>>,
}

type SpannedKey<'i> = Spanned<Cow<'i, str>>;
type SpannedValue<'i> = Spanned<DeValue<'i>>;

impl SettingsFile {
    /// Reads the file. Returns `None` if it does not exist.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, Failure> {
        match fs::File::open(path).and_then(|file| text_of(file, MOST_BYTES)) {
            Ok(text) => Self::parse(path, &text).map(Some),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(unreadable(path, &error)),
        }
    }

    /// Parses `text`, the content of `path`.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, Failure> {
        let reader = SettingsReader { path, text };
        let mut file = Self { path: path.to_owned(), ..Self::default() };
        for (name, item) in in_order(reader.document()?.get_ref()) {
            reader.entry(name, item, &mut file)?;
        }
        Ok(file)
    }
}

/// Reads a text of at most `most` bytes.
fn text_of(file: fs::File, most: u64) -> io::Result<String> {
    let mut text = String::new();
    file.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(io::Error::other(format!("it is larger than {} KiB", most >> 10)));
    }
    Ok(text)
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    let text = format!("cannot read the settings in `{}`: {error}", path.display());
    Failure::usage(text, "make it readable, or remove it")
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

struct SettingsReader<'a> {
    path: &'a Path,
    text: &'a str,
}

impl<'a> SettingsReader<'a> {
    fn document(&self) -> Result<Spanned<DeTable<'a>>, Failure> {
        DeTable::parse(self.text).map_err(|error| {
            let message = error.message().lines().next().unwrap_or_default();
            self.failure(&error.span().unwrap_or_default(), &format!("invalid TOML: {message}"))
        })
    }

    fn entry(
        &self,
        name: &SpannedKey<'_>,
        item: &SpannedValue<'_>,
        file: &mut SettingsFile,
    ) -> Result<(), Failure> {
        match name.get_ref().as_ref() {
            TOOL => self.tools(item, file),
            REDACT => {
                file.redact = self.redact(name, item)?;
                Ok(())
            }
            MCP => self.plain_table(MCP, Group::Gateway, item, file),
            HOOKS => self.plain_table(HOOKS, Group::Hooks, item, file),
            REMOTE => self.plain_table(REMOTE, Group::Remote, item, file),
            EXTRACT => self.extraction(item, file),
            PERMISSIONS | RISK => self.rules_of_calls(name.get_ref(), item, &mut file.calls),
            known => {
                let own = ROWS.iter().filter(|row| row.group.table().is_none());
                let tables = [TOOL, REDACT, MCP, HOOKS, EXTRACT, REMOTE, PERMISSIONS, RISK];
                let names = own.map(|row| row.name).chain(tables);
                let row = Row::named(known).filter(|row| row.group.table().is_none());
                let row = row.ok_or_else(|| self.unknown(name, "", names))?;
                file.values.push((row.key, self.value(row, name, item, None)?));
                Ok(())
            }
        }
    }

    /// Reads the tables `[tool."github/*"]`.
    fn tools(&self, item: &SpannedValue<'_>, file: &mut SettingsFile) -> Result<(), Failure> {
        let tools = self.table(item, "`tool`", "tables such as `[tool.\"github/*\"]`")?;
        for (pattern, item) in in_order(tools) {
            let here = format!(" in `[tool.{:?}]`", pattern.get_ref());
            globset::Glob::new(pattern.get_ref()).map_err(|error| {
                let text = format!("`{}` is not a pattern: {}", pattern.get_ref(), error.kind());
                self.failure(&pattern.span(), &text)
            })?;
            let what = format!("`tool.{:?}`", pattern.get_ref());
            for (name, item) in in_order(self.table(item, &what, "a table of limits")?) {
                let limits = || ROWS.iter().filter(|row| row.group == Group::Limits);
                let row = match Row::named(name.get_ref()) {
                    Some(row) if row.group == Group::Limits => row,
                    Some(row) => {
                        let text = format!("`{}` cannot differ between tools", row.name);
                        return Err(self.failure(&name.span(), &text));
                    }
                    None => return Err(self.unknown(name, &here, limits().map(|row| row.name))),
                };
                let setting = self.value(row, name, item, Some(pattern.get_ref()))?;
                file.tools.push((pattern.get_ref().to_string(), row.key, setting));
            }
        }
        Ok(())
    }

    /// Reads a table that has the settings of a group and nothing else.
    fn plain_table(
        &self,
        table: &str,
        group: Group,
        item: &SpannedValue<'_>,
        file: &mut SettingsFile,
    ) -> Result<(), Failure> {
        let what = format!("`{table}`");
        for (name, item) in in_order(self.table(item, &what, "a table of settings")?) {
            file.values.push(self.row_of(group, &[], name, item)?);
        }
        Ok(())
    }

    /// Reads a setting in the table of a group, which has `more` keys.
    fn row_of(
        &self,
        group: Group,
        more: &[&'static str],
        name: &SpannedKey<'_>,
        item: &SpannedValue<'_>,
    ) -> Result<(Key, Setting), Failure> {
        let rows = || ROWS.iter().filter(|row| row.group == group);
        let row = rows().find(|row| row.name == name.get_ref());
        let names = rows().map(|row| row.name).chain(more.iter().copied());
        let here = format!(" in `[{}]`", group.table().unwrap_or_default());
        let row = row.ok_or_else(|| self.unknown(name, &here, names))?;
        Ok((row.key, self.value(row, name, item, None)?))
    }

    /// Reads the table `[permissions]` or `[risk]`, whose keys are patterns.
    fn rules_of_calls(
        &self,
        name: &str,
        item: &SpannedValue<'_>,
        rules: &mut CallRules,
    ) -> Result<(), Failure> {
        let what = format!("`{name}`");
        for (pattern, item) in in_order(self.table(item, &what, "a table of patterns")?) {
            let key = pattern.get_ref();
            globset::Glob::new(key).map_err(|error| {
                let text = format!("`{key}` is not a pattern: {}", error.kind());
                self.failure(&pattern.span(), &text)
            })?;
            let word = item.get_ref().as_str().unwrap_or_default();
            rules
                .insert(name, key, word)
                .map_err(|words| self.failure(&item.span(), &format!("`{key}` can be {words}")))?;
        }
        Ok(())
    }

    /// Reads `redact = "stored"` or the table `[redact]`.
    fn redact(
        &self,
        name: &SpannedKey<'_>,
        item: &SpannedValue<'_>,
    ) -> Result<RedactTable, Failure> {
        let origin = Some(self.origin(&name.span()));
        let mut redact = RedactTable { origin, ..RedactTable::default() };
        if !item.get_ref().is_table() {
            redact.apply = Some(self.apply("redact", name, item)?);
            return Ok(redact);
        }
        for (name, item) in in_order(self.table(item, "`redact`", "a table")?) {
            let origin = self.origin(&name.span());
            match name.get_ref().as_ref() {
                "apply" => redact.apply = Some(self.apply("redact.apply", name, item)?),
                "sets" => redact.sets = Some(Setting { value: self.sets(item)?, origin }),
                "rules" => redact.rules = Some(Setting { value: self.rules(item)?, origin }),
                _ => return Err(self.unknown(name, " in `[redact]`", REDACT_KEYS.into_iter())),
            }
        }
        Ok(redact)
    }

    fn apply(
        &self,
        what: &str,
        name: &SpannedKey<'_>,
        item: &SpannedValue<'_>,
    ) -> Result<Setting<String>, Failure> {
        let Ok(Value::Text(value)) = APPLY.of_toml(item.get_ref()) else {
            return Err(self.invalid(what, item, &APPLY.allowed()));
        };
        Ok(Setting { value, origin: self.origin(&name.span()) })
    }

    fn sets(&self, item: &SpannedValue<'_>) -> Result<Vec<String>, Failure> {
        let invalid = |item| self.invalid("redact.sets", item, "a list of set names");
        let mut sets = Vec::new();
        for item in item.get_ref().as_array().ok_or_else(|| invalid(item))? {
            let name = item.get_ref().as_str().ok_or_else(|| invalid(item))?;
            if !SETS.iter().any(|set| set.name == name) {
                let suggestion = suggestion(name, SETS.iter().map(|set| set.name));
                return Err(
                    self.failure(&item.span(), &format!("unknown set `{name}`{suggestion}"))
                );
            }
            sets.push(name.to_owned());
        }
        Ok(sets)
    }

    fn rules(&self, item: &SpannedValue<'_>) -> Result<Vec<Rule>, Failure> {
        const ALLOWED: &str = "a list of tables with `name` and `regex`";
        let invalid = |item| self.invalid("redact.rules", item, ALLOWED);
        let list = item.get_ref().as_array().ok_or_else(|| invalid(item))?;
        let rule = |item| self.rule(item, item_table(item).ok_or_else(|| invalid(item))?);
        list.iter().map(rule).collect()
    }

    fn rule(&self, item: &SpannedValue<'_>, table: &DeTable<'_>) -> Result<Rule, Failure> {
        for (name, item) in in_order(table) {
            if !RULE_KEYS.contains(&name.get_ref().as_ref()) {
                return Err(self.unknown(name, " in a rule", RULE_KEYS.into_iter()));
            }
            if !item.get_ref().is_str() {
                let what = format!("redact.rules.{}", name.get_ref());
                return Err(self.invalid(&what, item, "a text"));
            }
        }
        let text = |key: &str| {
            let value = table.iter().find(|(name, _)| name.get_ref() == key);
            let text = value.and_then(|(_, item)| item.get_ref().as_str()).map(str::to_owned);
            text.ok_or_else(|| self.failure(&item.span(), &format!("this rule lacks `{key}`")))
        };
        let rule = Rule { name: text("name")?, regex: text("regex")? };
        match SecretRules::new(&[], std::slice::from_ref(&rule)) {
            Ok(_) => Ok(rule),
            Err(error) => {
                let text = format!("invalid rule `{}`: {error}", rule.name);
                Err(self.failure(&item.span(), &text))
            }
        }
    }

    fn value(
        &self,
        row: &Row,
        name: &SpannedKey<'_>,
        item: &SpannedValue<'_>,
        tool: Option<&str>,
    ) -> Result<Setting, Failure> {
        let invalid = |_| self.invalid(row.name, item, &row.kind.allowed());
        let value = row.kind.of_toml(item.get_ref()).map_err(invalid)?;
        let line = FileLine { tool: tool.map(str::to_owned), ..self.line(&name.span()) };
        Ok(Setting { value, origin: Origin::File(line) })
    }

    fn table<'t, 'i>(
        &self,
        item: &'t SpannedValue<'i>,
        what: &str,
        allowed: &str,
    ) -> Result<&'t DeTable<'i>, Failure> {
        let invalid = || self.invalid(what.trim_matches('`'), item, allowed);
        item_table(item).ok_or_else(invalid)
    }

    /// Returns the error ``unknown key `max_line`; did you mean `max_lines`?``.
    fn unknown(
        &self,
        name: &SpannedKey<'_>,
        here: &str,
        known: impl Iterator<Item = &'static str>,
    ) -> Failure {
        let (key, span) = (name.get_ref(), name.span());
        self.failure(&span, &format!("unknown key `{key}`{here}{}", suggestion(key, known)))
    }

    fn invalid(&self, what: &str, item: &SpannedValue<'_>, allowed: &str) -> Failure {
        let shown = self.text.get(item.span()).unwrap_or_default();
        let first = shown.lines().next().unwrap_or_default();
        let mut short: String = first.chars().take(SHOWN_CHARS).collect();
        if short.len() < shown.len() {
            short += "...";
        }
        self.failure(&item.span(), &format!("`{what}` cannot be `{short}`: expected {allowed}"))
    }

    fn failure(&self, at: &Range<usize>, what: &str) -> Failure {
        self.origin(at).failure(what)
    }

    fn origin(&self, at: &Range<usize>) -> Origin {
        Origin::File(self.line(at))
    }

    fn line(&self, at: &Range<usize>) -> FileLine {
        let before = &self.text.as_bytes()[..at.start.min(self.text.len())];
        FileLine::new(self.path, 1 + memchr::memchr_iter(b'\n', before).count())
    }
}

fn item_table<'t, 'i>(item: &'t SpannedValue<'i>) -> Option<&'t DeTable<'i>> {
    item.get_ref().as_table()
}

/// Returns the entries of a table in the order of the file.
fn in_order<'t, 'i>(table: &'t DeTable<'i>) -> Vec<(&'t SpannedKey<'i>, &'t SpannedValue<'i>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries
}

/// Returns ``; did you mean `max_lines`?``, or nothing if no known name is similar.
fn suggestion(name: &str, known: impl Iterator<Item = &'static str>) -> String {
    let alike = known.map(|known| (strsim::jaro_winkler(name, known), known));
    let best = alike.filter(|(alike, _)| *alike >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or(String::new(), |(_, known)| format!("; did you mean `{known}`?"))
}

#[cfg(test)]
mod tests;
