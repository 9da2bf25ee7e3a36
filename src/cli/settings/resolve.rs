//! The effective settings: flags override environment variables, which override files, which
//! override defaults.

use std::path::{Path, PathBuf};
use std::{collections::BTreeMap, time::Duration};

use crate::settings::file::{self, SettingsFile, StoreFile};
use crate::settings::rules::{CallRules, ModelTables};
use crate::settings::table::{ROWS, SettingKey};
use crate::settings::value::{Setting, SettingOrigin, SettingValue, ValueKind};
use crate::{Environment, Failure, env, places};
use ctxfs_core::model::{Direction, Limits, LimitsByTool, Root, shell_word};
use ctxfs_core::redact::{PatternSet, Rule, SETS, SecretRules};
use ctxfs_engine::Redaction;
use ctxfs_models::extract::ExtractSettings;
use ctxfs_store::{SETTINGS, keep};

/// The effective settings of a command, each with its origin. The store's own file is read last,
/// after the other sources have determined the location of the store. It overrides only the
/// administrator's and the user's file.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) values: BTreeMap<SettingKey, Setting>,
    pub(crate) tools: ToolSettings,
    pub(crate) redact: RedactSettings,
    pub(crate) calls: CallRules,
    // The administrator's rules for calls. Other rules can only be stricter.
    pub(crate) floor: CallRules,
    pub(crate) models: ModelTables,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) notices: Vec<String>,
    store: Option<PathBuf>,
}

#[derive(Debug)]
pub(crate) struct RedactSettings {
    pub(crate) apply: Setting<String>,
    pub(crate) sets: Setting<Vec<String>>,
    pub(crate) rules: Setting<Vec<Rule>>,
}

impl Settings {
    /// Loads the settings from the administrator's file, the user's file, the store's file, the
    /// file `config`, `environment` and `flags`. Later sources override earlier ones. Only
    /// `config`, if given, must exist. The store's file cannot make a command fail: its faults
    /// become notices.
    pub(crate) fn load(
        config: Option<&Path>,
        flags: Vec<(SettingKey, SettingValue)>,
        environment: &Environment,
    ) -> Result<Self, Failure> {
        let overrides = overrides(flags, environment)?;
        let system = environment.system_settings.as_deref();
        let system = system.map(SettingsFile::read_of_administrator).transpose()?.flatten();
        let floor = system.as_ref().map(|file| file.calls.clone()).unwrap_or_default();
        let user_path = user_file(environment);
        let user = user_path.as_deref().map(SettingsFile::read).transpose()?.flatten();
        let given = config.map(read_given).transpose()?;
        let values = |files: &mut dyn Iterator<Item = &SettingsFile>| {
            let mut values = defaults();
            for file in files {
                let entries = file.values.iter();
                values.extend(entries.map(|entry| with_resolved_path(entry, file, environment)));
            }
            values.extend(overrides.iter().cloned());
            values
        };
        let of_others = values(&mut [&system, &user, &given].into_iter().flatten());
        let store = path_of(&of_others, SettingKey::Store);
        let store = places::store(store, environment).ok();
        let stores = store.as_ref().and_then(|store| StoreFile::read(&store.join(SETTINGS)));
        let notices = stores.as_ref().map(|stores| stores.notices(user_path.as_deref()));
        let stores = stores.map(|stores| stores.file);
        let files: Vec<SettingsFile> =
            [system, user, stores, given].into_iter().flatten().collect();
        let values = values(&mut files.iter());
        let redact = RedactSettings::of(&files, environment)?;
        let paths = files.iter().map(|file| file.path.clone()).collect();
        let (mut calls, mut models) = (CallRules::default(), ModelTables::default());
        for file in &files {
            calls.add(&file.calls);
            models.add(&file.models);
        }
        let tools = ToolSettings::new(files.into_iter().flat_map(|file| file.tools));
        let notices = notices.unwrap_or_default();
        Ok(Self { values, tools, redact, calls, floor, models, files: paths, store, notices })
    }

    /// Returns the store that a command uses without flags and without variables of ctxfs.
    pub(crate) fn bare_store(environment: &Environment) -> anyhow::Result<PathBuf> {
        let bare = Environment { settings: BTreeMap::new(), ..environment.clone() };
        Self::load(None, Vec::new(), &bare)?.store(&bare)
    }

    /// Returns the root for readers who have a shell and no mount: the command `ctxfs view`. It
    /// names the store if it would not find it by itself.
    pub(crate) fn command_root(store: &Path, environment: &Environment) -> Root {
        let view = places::view_command(environment);
        let is_found = Self::bare_store(environment).is_ok_and(|found| found == store);
        let option = || format!(" --store {}", shell_word(&store.display().to_string()));
        Root::Command(if is_found { view } else { view + &option() })
    }

    pub(crate) fn defaults() -> Self {
        let redact = RedactSettings {
            apply: Setting { value: "off".to_owned(), origin: SettingOrigin::Default },
            sets: Setting { value: all_sets(), origin: SettingOrigin::Default },
            rules: Setting { value: Vec::new(), origin: SettingOrigin::Default },
        };
        let (tools, files) = (ToolSettings::default(), Vec::new());
        let (calls, floor) = (CallRules::default(), CallRules::default());
        let (models, store, notices) = (ModelTables::default(), None, Vec::new());
        Self { values: defaults(), tools, redact, calls, floor, models, files, store, notices }
    }

    pub(crate) fn store(&self, environment: &Environment) -> anyhow::Result<PathBuf> {
        match &self.store {
            Some(store) => Ok(store.clone()),
            None => places::store(None, environment),
        }
    }

    pub(crate) fn setting_for(&self, tool: Option<&str>, key: SettingKey) -> Option<&Setting> {
        let special = tool.and_then(|tool| self.tools.find(tool, key));
        special.or_else(|| self.values.get(&key))
    }

    pub(crate) fn path(&self, key: SettingKey) -> Option<&Path> {
        path_of(&self.values, key)
    }

    pub(crate) fn text(&self, key: SettingKey) -> Option<&str> {
        match &self.values.get(&key)?.value {
            SettingValue::Text(text) => Some(text),
            SettingValue::Word(word) => Some(word),
            SettingValue::Path(_) | SettingValue::Switch(_) | SettingValue::Number(_) => None,
        }
    }

    pub(crate) fn is_on(&self, key: SettingKey) -> bool {
        self.values.get(&key).is_some_and(|setting| setting.value == SettingValue::Switch(true))
    }

    pub(crate) fn number(&self, key: SettingKey) -> Option<u64> {
        match self.values.get(&key)?.value {
            SettingValue::Number(number) => Some(number),
            _ => None,
        }
    }

    pub(crate) fn keep(&self) -> keep::RetentionRules {
        keep::RetentionRules {
            age: self.number(SettingKey::KeepAge).map(Duration::from_secs),
            conversation: self.number(SettingKey::KeepConversation),
            store: self.number(SettingKey::KeepStore),
            free: self.number(SettingKey::KeepFree),
            host_age: self.number(SettingKey::HooksKeepAge).map(Duration::from_secs),
            host_store: self.number(SettingKey::HooksKeepStore),
        }
    }

    /// Returns the redaction, or `None` if redaction is off. Fails if a rule does not compile.
    pub(crate) fn redaction(&self) -> Result<Option<Redaction>, Failure> {
        let stored = match self.redact.apply.value.as_str() {
            "off" => return Ok(None),
            apply => apply == "stored",
        };
        let wanted = |set: &&PatternSet| self.redact.sets.value.iter().any(|name| name == set.name);
        let sets: Vec<&PatternSet> = SETS.iter().filter(wanted).collect();
        let rules = SecretRules::new(&sets, &self.redact.rules.value);
        let rules = rules.map_err(|error| self.redact.rules.origin.failure(&error.to_string()))?;
        Ok(Some(Redaction { rules: std::sync::Arc::new(rules), stored }))
    }
}

impl RedactSettings {
    fn of(files: &[SettingsFile], environment: &Environment) -> Result<Self, Failure> {
        let mut redact = Settings::defaults().redact;
        for said in files.iter().map(|file| &file.redact) {
            let wanted = said.origin.clone().filter(|_| redact.apply.value == "off");
            let wanted = wanted.map(|origin| Setting { value: "views".to_owned(), origin });
            redact.apply = said.apply.clone().or(wanted).unwrap_or(redact.apply);
            redact.sets = said.sets.clone().unwrap_or(redact.sets);
            redact.rules = said.rules.clone().unwrap_or(redact.rules);
        }
        if let Some(text) = environment.settings.get(env::REDACT) {
            let origin = SettingOrigin::Environment { variable: env::REDACT };
            let value = read_variable(env::REDACT, text, file::APPLY)?;
            if let SettingValue::Text(value) = value {
                redact.apply = Setting { value, origin };
            }
        }
        Ok(redact)
    }
}

fn overrides(
    flags: Vec<(SettingKey, SettingValue)>,
    environment: &Environment,
) -> Result<Vec<(SettingKey, Setting)>, Failure> {
    let mut overrides = Vec::new();
    for row in ROWS {
        if let Some(text) = environment.settings.get(row.variable) {
            let origin = SettingOrigin::Environment { variable: row.variable };
            let value = read_variable(row.variable, text, row.kind)?;
            overrides.push((row.key, Setting { value, origin }));
        }
    }
    overrides.extend(flags.into_iter().map(|(key, value)| {
        let flag = key.row().flag.unwrap_or_default();
        (key, Setting { value, origin: SettingOrigin::Flag { flag } })
    }));
    Ok(overrides)
}

fn read_variable(
    name: &'static str,
    text: &std::ffi::OsString,
    kind: ValueKind,
) -> Result<SettingValue, Failure> {
    let origin = SettingOrigin::Environment { variable: name };
    kind.of_text(text).map_err(|_| {
        let (text, allowed) = (text.to_string_lossy(), kind.allowed());
        origin.failure(&format!("`{name}` cannot be `{text}`: expected {allowed}"))
    })
}

fn defaults() -> BTreeMap<SettingKey, Setting> {
    let setting = |value| Setting { value, origin: SettingOrigin::Default };
    ROWS.iter().filter_map(|row| Some((row.key, setting(row.default_value()?)))).collect()
}

fn all_sets() -> Vec<String> {
    SETS.iter().map(|set| set.name.to_owned()).collect()
}

// Returns `$XDG_CONFIG_HOME/ctxfs/ctxfs.toml`, or else `~/.config/ctxfs/ctxfs.toml`.
fn user_file(environment: &Environment) -> Option<PathBuf> {
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

// A relative path is resolved from the directory of its file. `~` is the user's home.
fn with_resolved_path(
    (key, setting): &(SettingKey, Setting),
    file: &SettingsFile,
    environment: &Environment,
) -> (SettingKey, Setting) {
    let SettingValue::Path(path) = &setting.value else { return (*key, setting.clone()) };
    let path = match (path.strip_prefix("~"), &environment.home) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => file.path.parent().unwrap_or(Path::new("")).join(path),
    };
    (*key, Setting { value: SettingValue::Path(path), origin: setting.origin.clone() })
}

fn path_of(values: &BTreeMap<SettingKey, Setting>, key: SettingKey) -> Option<&Path> {
    match &values.get(&key)?.value {
        SettingValue::Path(path) => Some(path),
        _ => None,
    }
}

/// The settings in `[tool."..."]` tables, least specific first.
///
/// A name overrides a pattern, a longer pattern overrides a shorter one, and a later table
/// overrides an earlier one. This applies to each key separately, so a table need not repeat the
/// keys of another table.
#[derive(Debug, Default)]
pub(crate) struct ToolSettings(Vec<ToolSetting>);

#[derive(Debug)]
pub(crate) struct ToolSetting {
    pub(crate) pattern: String,
    glob: Option<globset::GlobMatcher>,
    pub(crate) key: SettingKey,
    pub(crate) setting: Setting,
}

impl ToolSettings {
    fn new(entries: impl Iterator<Item = (String, SettingKey, Setting)>) -> Self {
        let mut entries: Vec<ToolSetting> = entries
            .map(|(pattern, key, setting)| ToolSetting {
                glob: glob(&pattern),
                pattern,
                key,
                setting,
            })
            .collect();
        entries.sort_by_key(|entry| (entry.glob.is_none(), entry.pattern.len()));
        Self(entries)
    }

    fn find(&self, tool: &str, key: SettingKey) -> Option<&Setting> {
        let entry = self.0.iter().rev().find(|entry| entry.key == key && entry.is_for(tool));
        entry.map(|entry| &entry.setting)
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &ToolSetting> {
        self.0.iter().enumerate().filter_map(|(number, entry)| {
            let same =
                |later: &ToolSetting| later.pattern == entry.pattern && later.key == entry.key;
            (!self.0[number + 1..].iter().any(same)).then_some(entry)
        })
    }
}

impl ToolSetting {
    fn is_for(&self, tool: &str) -> bool {
        self.glob.as_ref().map_or(self.pattern == tool, |glob| glob.is_match(tool))
    }
}

// Invalid patterns were already refused when the file was read.
fn glob(pattern: &str) -> Option<globset::GlobMatcher> {
    let is_glob = pattern.contains(['*', '?', '[', '{', '\\']);
    globset::Glob::new(pattern).ok().filter(|_| is_glob).map(|glob| glob.compile_matcher())
}

// The value of a limit with which outputs pass unchanged and are also stored.
const MIRROR: SettingValue = SettingValue::Word("mirror");

// The limits of each form of stand-in. If one of them is `mirror`, all limits of the form are off.
const FORMS: [&[SettingKey]; 4] = [
    &[SettingKey::MaxInlineChars, SettingKey::MaxInlineBytes],
    &[SettingKey::MaxLines, SettingKey::MaxBytes],
    &[SettingKey::MessageThreshold],
    &[SettingKey::ToolResponseMaxBytes, SettingKey::TokenBudget],
];

impl LimitsByTool for Settings {
    fn limits(&self, tool: Option<&str>) -> Limits {
        let value = |key| self.setting_for(tool, key).map(|setting| &setting.value);
        let is_mirror = |key: &SettingKey| value(*key) == Some(&MIRROR);
        let mirrored = |key| FORMS.iter().any(|f| f.contains(&key) && f.iter().any(is_mirror));
        let number = |key| match value(key) {
            Some(SettingValue::Number(number)) if !mirrored(key) => Some(*number),
            _ => None,
        };
        let limit = |key| number(key).unwrap_or(Limits::NEVER);
        let size = |key| usize::try_from(limit(key)).unwrap_or(usize::MAX);
        let text = |key| match value(key) {
            Some(SettingValue::Text(text)) => text.as_str(),
            _ => "",
        };
        Limits {
            max_inline_chars: limit(SettingKey::MaxInlineChars),
            max_inline_bytes: limit(SettingKey::MaxInlineBytes),
            snippet_lines: size(SettingKey::SnippetLines),
            snippet_bytes: size(SettingKey::SnippetBytes),
            max_lines: limit(SettingKey::MaxLines),
            max_bytes: limit(SettingKey::MaxBytes),
            direction: direction(text(SettingKey::Direction)),
            dir: PathBuf::from(text(SettingKey::Dir)),
            retention_days: u32::try_from(limit(SettingKey::RetentionDays)).unwrap_or(u32::MAX),
            message_threshold: limit(SettingKey::MessageThreshold),
            message_preview: size(SettingKey::MessagePreview),
            tool_response_max_bytes: limit(SettingKey::ToolResponseMaxBytes),
            token_budget: number(SettingKey::TokenBudget),
            mirror: FORMS.concat().iter().any(is_mirror),
        }
    }
}

fn direction(word: &str) -> Direction {
    match word {
        "tail" => Direction::Tail,
        "head_tail" => Direction::HeadTail,
        _ => Direction::Head,
    }
}

// Maximum size in bytes that is shown without a model, independent of the limit of the tool
// `tool_output`.
const MOST_SHOWN: u64 = 51_200;

impl Settings {
    /// Returns the settings for questions to language models. Fails if a target is not defined.
    pub(crate) fn extraction(&self) -> Result<ExtractSettings, Failure> {
        let number = |key| self.number(key).unwrap_or_default();
        let size = |key| usize::try_from(number(key)).unwrap_or(usize::MAX);
        let shown = self.limits(None).tool_response_max_bytes.min(MOST_SHOWN);
        Ok(ExtractSettings {
            targets: self.models.resolved()?,
            max_chunks_full: number(SettingKey::ExtractMaxChunksFull),
            long_line_bytes: number(SettingKey::ExtractLongLineBytes),
            overlap_percent: number(SettingKey::ExtractOverlapPercent),
            concurrency: size(SettingKey::ExtractConcurrency),
            max_steps: u32::try_from(number(SettingKey::ExtractMaxSteps)).unwrap_or(u32::MAX),
            max_tokens_per_question: number(SettingKey::ExtractMaxTokens),
            inline_bytes: shown as usize,
            timeout: Duration::from_secs(number(SettingKey::ExtractTimeout)),
            view: self.is_on(SettingKey::ExtractView),
        })
    }
}

#[cfg(test)]
mod tests;
