//! The settings in effect: flags over environment over files over defaults.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::env::Environment;
use crate::outcome::Failure;
use crate::settings::calls::CallRules;
use crate::settings::file;
use crate::settings::file::{SettingsFile, StoreFile};
use crate::settings::models::ModelTables;
use crate::settings::origin::{Origin, Setting};
use crate::settings::row::Key;
use crate::settings::table::ROWS;
use crate::settings::tools::ToolSettings;
use crate::settings::value::{Value, ValueKind};
use crate::{env, places};
use ctxfs_core::redact::{PatternSet, Rule, SETS, SecretRules};
use ctxfs_engine::Redaction;
use ctxfs_store::{SETTINGS, keep};

/// The settings in effect for a command.
#[derive(Debug)]
pub(crate) struct Settings {
    values: BTreeMap<Key, Setting>,
    pub(super) tools: ToolSettings,
    pub(super) redact: RedactSettings,
    pub(super) calls: CallRules,
    pub(super) models: ModelTables,
    files: Vec<PathBuf>,
    store: Option<PathBuf>,
    notices: Vec<String>,
}

/// The settings for redaction.
#[derive(Debug)]
pub(super) struct RedactSettings {
    pub(super) apply: Setting<String>,
    pub(super) sets: Setting<Vec<String>>,
    pub(super) rules: Setting<Vec<Rule>>,
}

impl Settings {
    /// Loads the settings from the administrator's file, the user's, the store's, `config`,
    /// `environment` and `flags`. Only `config`, if given, must exist. Nothing in the store's file
    /// fails.
    pub(crate) fn load(
        config: Option<&Path>,
        flags: Vec<(Key, Value)>,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let overrides = overrides(flags, environment)?;
        let read = |path: &PathBuf| SettingsFile::read(path);
        let system = environment.system_settings.as_ref().map(read).transpose()?.flatten();
        let user_path = user_file(environment);
        let user = user_path.as_ref().map(read).transpose()?.flatten();
        let given = config.map(read_given).transpose()?;
        let mut values = defaults();
        for file in [&system, &user, &given].into_iter().flatten() {
            values.extend(
                file.values.iter().map(|entry| with_resolved_path(entry, file, environment)),
            );
        }
        values.extend(overrides.iter().cloned());
        let store = path_of(&values, Key::Store);
        let store = places::store(store, environment).ok();
        let stores = store.as_ref().and_then(|store| StoreFile::read(&store.join(SETTINGS)));
        let notices = stores.as_ref().map(|stores| stores.notices(user_path.as_deref()));
        let stores = stores.map(|stores| stores.file);
        let files: Vec<SettingsFile> =
            [system, user, stores, given].into_iter().flatten().collect();
        values = defaults();
        for file in &files {
            values.extend(
                file.values.iter().map(|entry| with_resolved_path(entry, file, environment)),
            );
        }
        values.extend(overrides);
        let redact = RedactSettings::of(&files, environment)?;
        let paths = files.iter().map(|file| file.path.clone()).collect();
        let (mut calls, mut models) = (CallRules::default(), ModelTables::default());
        for file in &files {
            calls.add(&file.calls);
            models.add(&file.models);
        }
        let tools = ToolSettings::new(files.into_iter().flat_map(|file| file.tools));
        let notices = notices.unwrap_or_default();
        Ok(Self { values, tools, redact, calls, models, files: paths, store, notices })
    }

    /// Returns the defaults.
    pub(super) fn defaults() -> Self {
        let redact = RedactSettings {
            apply: Setting { value: "off".to_owned(), origin: Origin::Default },
            sets: Setting { value: all_sets(), origin: Origin::Default },
            rules: Setting { value: Vec::new(), origin: Origin::Default },
        };
        let (tools, files) = (ToolSettings::default(), Vec::new());
        let (calls, models) = (CallRules::default(), ModelTables::default());
        let (store, notices) = (None, Vec::new());
        Self { values: defaults(), tools, redact, calls, models, files, store, notices }
    }

    /// Returns the absolute path of the store.
    pub(crate) fn store(&self, environment: &Environment) -> anyhow::Result<PathBuf> {
        match &self.store {
            Some(store) => Ok(store.clone()),
            None => places::store(None, environment),
        }
    }

    /// Returns what tools of MCP servers may do.
    pub(crate) fn calls(&self) -> &CallRules {
        &self.calls
    }

    /// Returns the files that were read; later ones override earlier ones.
    pub(crate) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// Returns what the user should know about the store's own file: settings in it that do not
    /// count, and what is wrong in it.
    pub(crate) fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Returns a setting, if it is set or has a default.
    pub(super) fn setting(&self, key: Key) -> Option<&Setting> {
        self.values.get(&key)
    }

    /// Returns a setting for the outputs of `tool`.
    pub(super) fn setting_for(&self, tool: Option<&str>, key: Key) -> Option<&Setting> {
        let special = tool.and_then(|tool| self.tools.find(tool, key));
        special.or_else(|| self.setting(key))
    }

    /// Returns a setting that is a path.
    pub(crate) fn path(&self, key: Key) -> Option<&Path> {
        path_of(&self.values, key)
    }

    /// Returns a setting that is a text or a word.
    pub(crate) fn text(&self, key: Key) -> Option<&str> {
        match &self.setting(key)?.value {
            Value::Text(text) => Some(text),
            Value::Word(word) => Some(word),
            Value::Path(_) | Value::Switch(_) | Value::Number(_) => None,
        }
    }

    /// Returns true if a switch is on.
    pub(crate) fn is_on(&self, key: Key) -> bool {
        self.setting(key).is_some_and(|setting| setting.value == Value::Switch(true))
    }

    /// Returns a setting that is a number, or `None` if it is a word.
    pub(crate) fn number(&self, key: Key) -> Option<u64> {
        match self.setting(key)?.value {
            Value::Number(number) => Some(number),
            _ => None,
        }
    }

    /// Returns the rules of retention.
    pub(crate) fn keep(&self) -> keep::RetentionRules {
        keep::RetentionRules {
            age: self.number(Key::KeepAge).map(Duration::from_secs),
            conversation: self.number(Key::KeepConversation),
            store: self.number(Key::KeepStore),
            free: self.number(Key::KeepFree),
        }
    }

    /// Returns the redaction, or `None` if it is off.
    pub(crate) fn redaction(&self) -> Result<Option<Redaction>, Failure> {
        let stored = match self.redact.apply.value.as_str() {
            "off" => return Ok(None),
            apply => apply == "stored",
        };
        let wanted = |set: &&PatternSet| self.redact.sets.value.iter().any(|name| name == set.name);
        let sets: Vec<&PatternSet> = SETS.iter().filter(wanted).collect();
        let rules = SecretRules::new(&sets, &self.redact.rules.value);
        let rules = rules.map_err(|error| self.redact.rules.origin.failure(&error.to_string()))?;
        Ok(Some(Redaction { rules: Arc::new(rules), stored }))
    }
}

impl RedactSettings {
    fn of(files: &[SettingsFile], environment: &Environment) -> Result<Self, Failure> {
        let mut redact = Settings::defaults().redact;
        for said in files.iter().map(|file| &file.redact) {
            // A file with a `redact` table wants redaction.
            let wanted = said.origin.clone().filter(|_| redact.apply.value == "off");
            let wanted = wanted.map(|origin| Setting { value: "views".to_owned(), origin });
            redact.apply = said.apply.clone().or(wanted).unwrap_or(redact.apply);
            redact.sets = said.sets.clone().unwrap_or(redact.sets);
            redact.rules = said.rules.clone().unwrap_or(redact.rules);
        }
        if let Some(text) = environment.settings.get(env::REDACT) {
            let origin = Origin::Environment { variable: env::REDACT };
            let value = read_variable(env::REDACT, text, file::APPLY)?;
            if let Value::Text(value) = value {
                redact.apply = Setting { value, origin };
            }
        }
        Ok(redact)
    }
}

/// Returns the settings that override files: environment, then flags.
fn overrides(
    flags: Vec<(Key, Value)>,
    environment: &Environment,
) -> Result<Vec<(Key, Setting)>, Failure> {
    let mut overrides = Vec::new();
    for row in ROWS.iter() {
        if let Some(text) = environment.settings.get(row.variable) {
            let origin = Origin::Environment { variable: row.variable };
            let value = read_variable(row.variable, text, row.kind)?;
            overrides.push((row.key, Setting { value, origin }));
        }
    }
    overrides.extend(flags.into_iter().map(|(key, value)| {
        let flag = key.row().flag.unwrap_or_default();
        (key, Setting { value, origin: Origin::Flag { flag } })
    }));
    Ok(overrides)
}

fn read_variable(name: &'static str, text: &OsString, kind: ValueKind) -> Result<Value, Failure> {
    let origin = Origin::Environment { variable: name };
    kind.of_text(text).map_err(|_| {
        let (text, allowed) = (text.to_string_lossy(), kind.allowed());
        origin.failure(&format!("`{name}` cannot be `{text}`: expected {allowed}"))
    })
}

fn defaults() -> BTreeMap<Key, Setting> {
    let setting = |value| Setting { value, origin: Origin::Default };
    ROWS.iter().filter_map(|row| Some((row.key, setting(row.default_value()?)))).collect()
}

fn all_sets() -> Vec<String> {
    SETS.iter().map(|set| set.name.to_owned()).collect()
}

/// Returns the user's file: `$XDG_CONFIG_HOME/ctxfs/ctxfs.toml`, or else the same under
/// `~/.config`.
pub(super) fn user_file(environment: &Environment) -> Option<PathBuf> {
    let home = || Some(environment.home.as_ref()?.join(".config"));
    Some(environment.config_home.clone().or_else(home)?.join("ctxfs").join(SETTINGS))
}

fn read_given(path: &Path) -> Result<SettingsFile, Failure> {
    let missing = || {
        let text = format!("there is no settings file `{}`", path.display());
        Failure::usage(text, "name an existing file: `--config FILE`")
    };
    SettingsFile::read(path)?.ok_or_else(missing)
}

/// Resolves a path in a setting: a relative path starts at the file's directory, and `~` is the
/// user's home.
fn with_resolved_path(
    (key, setting): &(Key, Setting),
    file: &SettingsFile,
    environment: &Environment,
) -> (Key, Setting) {
    let Value::Path(path) = &setting.value else { return (*key, setting.clone()) };
    let path = match (path.strip_prefix("~"), &environment.home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => file.path.parent().unwrap_or(Path::new("")).join(path),
    };
    (*key, Setting { value: Value::Path(path), origin: setting.origin.clone() })
}

fn path_of(values: &BTreeMap<Key, Setting>, key: Key) -> Option<&Path> {
    match &values.get(&key)?.value {
        Value::Path(path) => Some(path),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
