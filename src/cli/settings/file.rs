//! Settings files in TOML, checked key by key, so that errors name the line.

mod models;

use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::{fs, ops::Range};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::Failure;
use crate::settings::rules::{CallRules, ModelTables, PERMISSIONS, RISK};
use crate::settings::table::{ROWS, SettingGroup, SettingKey, SettingRow};
use crate::settings::value::{FileLine, Setting, SettingOrigin, SettingValue, ValueKind};
use ctxfs_core::redact::{Rule, SETS, SecretRules};

const MOST_BYTES: u64 = 1 << 20;
const SHOWN_CHARS: usize = 60;
// Minimum Jaro-Winkler similarity of a known key that is suggested.
const ALIKE: f64 = 0.8;

const TOOL: &str = "tool";
const REDACT: &str = "redact";
const MCP: &str = "mcp";
const HOOKS: &str = "hooks";
const EXTRACT: &str = "extract";
const REMOTE: &str = "remote";
const RULE_KEYS: [&str; 2] = ["name", "regex"];
const REDACT_KEYS: [&str; 3] = ["apply", "sets", "rules"];
pub(crate) const APPLY: ValueKind = ValueKind::Choice(&["off", "views", "stored"]);

/// The content of a settings file. `tools` has settings for tools whose names match a pattern.
#[derive(Debug, Default)]
pub(crate) struct SettingsFile {
    pub(crate) path: PathBuf,
    pub(crate) values: Vec<(SettingKey, Setting)>,
    pub(crate) tools: Vec<(String, SettingKey, Setting)>,
    pub(crate) redact: RedactTable,
    pub(crate) calls: CallRules,
    pub(crate) models: ModelTables,
}

#[derive(Debug, Default)]
pub(crate) struct RedactTable {
    pub(crate) origin: Option<SettingOrigin>,
    pub(crate) apply: Option<Setting<String>>,
    pub(crate) sets: Option<Setting<Vec<String>>>,
    pub(crate) rules: Option<Setting<Vec<Rule>>>,
}

type SpannedKey<'i> = Spanned<std::borrow::Cow<'i, str>>;
type SpannedValue<'i> = Spanned<DeValue<'i>>;

impl SettingsFile {
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, Failure> {
        match fs::File::open(path).and_then(|file| text_of(file, MOST_BYTES)) {
            Ok(text) => Self::parse(path, &text).map(Some),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(unreadable(path, &error)),
        }
    }

    /// Reads the administrator's file. Its rules bind every user, so it must be a regular file that
    /// belongs to root and that no other user can write. Any other file is refused.
    pub(crate) fn read_of_administrator(path: &Path) -> Result<Option<Self>, Failure> {
        let (file, found) = match open_regular(path) {
            Ok(opened) => opened,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(unreadable(path, &error)),
        };
        let mode = found.mode() & 0o7777;
        let refused = |why: String, mend: &str| {
            let path = path.display();
            let text = format!("the settings in `{path}` are refused: {why}");
            Err(Failure::usage(text, format!("as root: `{mend} {path}`, or remove it")))
        };
        if !is_root(found.uid()) {
            return refused(format!("it belongs to user {}, not root", found.uid()), "chown root");
        }
        if mode & 0o022 != 0 {
            return refused(
                format!("others than root may write it, mode {mode:04o}"),
                "chmod go-w",
            );
        }
        let text = text_of(file, MOST_BYTES).map_err(|error| unreadable(path, &error))?;
        Self::parse(path, &text).map(Some)
    }

    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, Failure> {
        let reader = SettingsReader { path, text };
        let mut file = Self { path: path.to_owned(), ..Self::default() };
        for (name, item) in in_order(reader.document()?.get_ref()) {
            reader.entry(name, item, &mut file)?;
        }
        Ok(file)
    }
}

// Opens a file, and fails for anything other than a regular file. Does not block on a FIFO.
fn open_regular(path: &Path) -> io::Result<(fs::File, fs::Metadata)> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    if found.is_file() { Ok((file, found)) } else { Err(io::Error::other("it is no regular file")) }
}

// Returns true for the user root. A sandbox may be a user namespace without this user: there, the
// files of all users that it lacks have the owner `overflowuid`, and so have those of root.
fn is_root(uid: u32) -> bool {
    let is_in_namespace = || {
        let users = fs::read_to_string("/proc/self/uid_map").ok()?;
        let is_root = |line: &str| line.split_whitespace().next() == Some("0");
        let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?;
        let overflow = overflow.trim().parse::<u32>().ok()?;
        let own = rustix::process::geteuid().as_raw();
        Some(!users.lines().any(is_root) && uid == overflow && own != overflow)
    };
    uid == 0 || is_in_namespace().unwrap_or(false)
}

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
            MCP => self.plain_table(MCP, SettingGroup::Gateway, item, file),
            HOOKS => self.plain_table(HOOKS, SettingGroup::Hooks, item, file),
            REMOTE => self.plain_table(REMOTE, SettingGroup::Remote, item, file),
            EXTRACT => self.extraction(item, file),
            PERMISSIONS | RISK => self.rules_of_calls(name.get_ref(), item, &mut file.calls),
            known => {
                let own = ROWS.iter().filter(|row| row.group.table().is_none());
                let tables = [TOOL, REDACT, MCP, HOOKS, EXTRACT, REMOTE, PERMISSIONS, RISK];
                let names = own.map(|row| row.name).chain(tables);
                let row = SettingRow::named(known).filter(|row| row.group.table().is_none());
                let row = row.ok_or_else(|| self.unknown(name, "", names))?;
                file.values.push((row.key, self.value(row, name, item, None)?));
                Ok(())
            }
        }
    }

    fn tools(&self, item: &SpannedValue<'_>, file: &mut SettingsFile) -> Result<(), Failure> {
        let tools = self.table(item, "`tool`", "tables such as `[tool.\"github/*\"]`")?;
        for (pattern, item) in in_order(tools) {
            let here = format!(" in `[tool.{:?}]`", pattern.get_ref());
            self.check_pattern(pattern)?;
            let what = format!("`tool.{:?}`", pattern.get_ref());
            for (name, item) in in_order(self.table(item, &what, "a table of limits")?) {
                let limits = || ROWS.iter().filter(|row| row.group == SettingGroup::Limits);
                let row = match SettingRow::named(name.get_ref()) {
                    Some(row) if row.group == SettingGroup::Limits => row,
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

    fn plain_table(
        &self,
        table: &str,
        group: SettingGroup,
        item: &SpannedValue<'_>,
        file: &mut SettingsFile,
    ) -> Result<(), Failure> {
        let what = format!("`{table}`");
        for (name, item) in in_order(self.table(item, &what, "a table of settings")?) {
            file.values.push(self.row_of(group, &[], name, item)?);
        }
        Ok(())
    }

    fn row_of(
        &self,
        group: SettingGroup,
        more: &[&'static str],
        name: &SpannedKey<'_>,
        item: &SpannedValue<'_>,
    ) -> Result<(SettingKey, Setting), Failure> {
        let rows = || ROWS.iter().filter(|row| row.group == group);
        let row = rows().find(|row| row.name == name.get_ref());
        let names = rows().map(|row| row.name).chain(more.iter().copied());
        let here = format!(" in `[{}]`", group.table().unwrap_or_default());
        let row = row.ok_or_else(|| self.unknown(name, &here, names))?;
        Ok((row.key, self.value(row, name, item, None)?))
    }

    fn rules_of_calls(
        &self,
        name: &str,
        item: &SpannedValue<'_>,
        rules: &mut CallRules,
    ) -> Result<(), Failure> {
        let what = format!("`{name}`");
        for (pattern, item) in in_order(self.table(item, &what, "a table of patterns")?) {
            let key = pattern.get_ref();
            self.check_pattern(pattern)?;
            let word = item.get_ref().as_str().unwrap_or_default();
            rules
                .insert(name, key, word, self.origin(&pattern.span()))
                .map_err(|words| self.failure(&item.span(), &format!("`{key}` can be {words}")))?;
        }
        Ok(())
    }

    fn check_pattern(&self, pattern: &SpannedKey<'_>) -> Result<(), Failure> {
        let checked = globset::Glob::new(pattern.get_ref()).map(drop);
        checked.map_err(|error| {
            let text = format!("`{}` is not a pattern: {}", pattern.get_ref(), error.kind());
            self.failure(&pattern.span(), &text)
        })
    }

    // Parses `redact = "stored"`, or the table `[redact]`.
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
        let Ok(SettingValue::Text(value)) = APPLY.of_toml(item.get_ref()) else {
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
        row: &SettingRow,
        name: &SpannedKey<'_>,
        item: &SpannedValue<'_>,
        tool: Option<&str>,
    ) -> Result<Setting, Failure> {
        let invalid = |_| self.invalid(row.name, item, &row.kind.allowed());
        let value = row.kind.of_toml(item.get_ref()).map_err(invalid)?;
        let line = FileLine { tool: tool.map(str::to_owned), ..self.line(&name.span()) };
        Ok(Setting { value, origin: SettingOrigin::File(line) })
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

    fn origin(&self, at: &Range<usize>) -> SettingOrigin {
        SettingOrigin::File(self.line(at))
    }

    fn line(&self, at: &Range<usize>) -> FileLine {
        let before = &self.text.as_bytes()[..at.start.min(self.text.len())];
        FileLine::new(self.path, 1 + memchr::memchr_iter(b'\n', before).count())
    }
}

fn item_table<'t, 'i>(item: &'t SpannedValue<'i>) -> Option<&'t DeTable<'i>> {
    item.get_ref().as_table()
}

fn in_order<'t, 'i>(table: &'t DeTable<'i>) -> Vec<(&'t SpannedKey<'i>, &'t SpannedValue<'i>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(name, _)| name.span().start);
    entries
}

// Returns ``; did you mean `max_lines`?``, or an empty string if no known name is similar.
fn suggestion(name: &str, known: impl Iterator<Item = &'static str>) -> String {
    let alike = known.map(|known| (strsim::jaro_winkler(name, known), known));
    let best = alike.filter(|(alike, _)| *alike >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0));
    best.map_or(String::new(), |(_, known)| format!("; did you mean `{known}`?"))
}

// Tables that the store's own settings file cannot contain.
pub(crate) const USER_TABLES: [&str; 5] = [EXTRACT, REMOTE, PERMISSIONS, RISK, REDACT];
// Maximum size in bytes of the store's settings file, so that a hostile file cannot use up the time
// of a hook.
const STORE_FILE_BYTES: u64 = 64 << 10;
const NOTICE: usize = 300;

/// The store's own settings file, restricted to the settings that it is allowed to set.
///
/// Every user and program that may write to the store may write this file, for example a command in
/// the sandbox of an agent host. Therefore no setting in it sends data, names a key or a program,
/// grants a right or affects anything outside of the store. No content of the file makes a command
/// fail. An invalid entry is ignored and reported in a notice.
#[derive(Debug)]
pub(crate) struct StoreFile {
    pub(crate) file: SettingsFile,
    left_out: Vec<String>,
    wrong: Option<String>,
}

impl StoreFile {
    pub(crate) fn read(path: &Path) -> Option<Self> {
        match open_regular(path).and_then(|(file, _)| text_of(file, STORE_FILE_BYTES)) {
            Ok(text) => Some(Self::parse(path, &text)),
            Err(error) if is_absent(&error) => None,
            Err(error) => {
                let mut file = Self::new(path);
                file.note(&unreadable(path, &error));
                Some(file)
            }
        }
    }

    fn new(path: &Path) -> Self {
        let file = SettingsFile { path: path.to_owned(), ..SettingsFile::default() };
        Self { file, left_out: Vec::new(), wrong: None }
    }

    fn parse(path: &Path, text: &str) -> Self {
        let reader = SettingsReader { path, text };
        let mut stores = Self::new(path);
        let table = match reader.document() {
            Ok(table) => table,
            Err(failure) => {
                stores.note(&failure);
                return stores;
            }
        };
        for (name, item) in in_order(table.get_ref()) {
            if USER_TABLES.iter().any(|table| name.get_ref() == table) {
                stores.left_out.push(format!("[{}]", name.get_ref()));
            } else if let Err(failure) = reader.entry(name, item, &mut stores.file) {
                stores.note(&failure);
            }
        }
        let (file, left_out) = (&mut stores.file, &mut stores.left_out);
        let keys = file.values.iter().map(|(key, _)| key);
        let keys = keys.chain(file.tools.iter().map(|(_, key, _)| key));
        left_out.extend(
            keys.filter(|key| !key.counts_from_store()).map(|key| key.row().name.to_owned()),
        );
        left_out.dedup();
        file.values.retain(|(key, _)| key.counts_from_store());
        file.tools.retain(|(_, key, _)| key.counts_from_store());
        stores
    }

    fn note(&mut self, failure: &Failure) {
        // Another user may have written the file, and a model may read the message, so special
        // characters are escaped.
        let note = || ctxfs_core::model::visible::escaped(&failure.message, NOTICE);
        self.wrong.get_or_insert_with(note);
    }

    /// Returns notices about the file. `users` is the path of the user's file, to which the notices
    /// refer for settings that are not allowed in this file.
    pub(crate) fn notices(&self, users: Option<&Path>) -> Vec<String> {
        let wrong = self.wrong.as_ref().map(|wrong| format!("{wrong}; this does not count"));
        let left_out = (!self.left_out.is_empty()).then(|| {
            let (names, path) = (self.left_out.join(", "), self.file.path.display());
            let (is, it) = if self.left_out.len() == 1 { ("is", "it") } else { ("are", "them") };
            let place = users
                .map_or("the file of `--config`".to_owned(), |users| users.display().to_string());
            format!("{path}: {names} {is} not read from a store; put {it} into {place}")
        });
        wrong.into_iter().chain(left_out).collect()
    }
}

#[cfg(test)]
mod tests;
