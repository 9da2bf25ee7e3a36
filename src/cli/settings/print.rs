//! Prints the effective settings, as a settings file with origins or as JSON.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Map, json};

use crate::Environment;
use crate::settings::resolve::{Settings, ToolSetting};
use crate::settings::rules::{ModelTables, Provider, ProviderModel};
use crate::settings::table::{ROWS, SettingGroup, SettingKey, SettingRow};
use crate::settings::value::{Setting, SettingOrigin, SettingValue, quoted};
use ctxfs_core::redact::{Rule, SETS};

const WIDTH: usize = 40;

/// Formats all settings, or the limits for `tool`, as a settings file. A comment after each setting
/// gives its origin.
pub(crate) fn toml(settings: &Settings, tool: Option<&str>, environment: &Environment) -> String {
    let mut page = String::new();
    let is_shown = |row: &&SettingRow| tool.is_none() || row.group == SettingGroup::Limits;
    for row in ROWS.iter().filter(is_shown).filter(|row| row.group.table().is_none()) {
        match setting_of(settings, tool, row, environment) {
            Some(Setting { value, origin }) => {
                line(&mut page, row.name, &row.kind.to_toml(&value), &origin);
            }
            None => line(&mut page, &format!("# {}", row.name), "...", &SettingOrigin::Default),
        }
    }
    if tool.is_none() {
        own_table(&mut page, settings, SettingGroup::Gateway);
        own_table(&mut page, settings, SettingGroup::Hooks);
        own_table(&mut page, settings, SettingGroup::Remote);
        own_table(&mut page, settings, SettingGroup::Extract);
        models(&mut page, &settings.models);
        redact(&mut page, settings);
        tools(&mut page, settings);
        calls(&mut page, settings);
    }
    page
}

pub(crate) fn json(
    settings: &Settings,
    tool: Option<&str>,
    environment: &Environment,
) -> serde_json::Value {
    let rows = ROWS.iter().filter(|row| tool.is_none() || row.group == SettingGroup::Limits);
    let held =
        rows.map(|row| (row.name.to_owned(), json!(setting_of(settings, tool, row, environment))));
    let held: Map<_, _> = held.collect();
    if let Some(tool) = tool {
        return json!({ "tool": tool, "settings": held });
    }
    let mut tools: Map<String, serde_json::Value> = Map::new();
    for ToolSetting { pattern, key, setting, .. } in settings.tools.entries() {
        tools.entry(pattern).or_insert_with(|| json!({}))[key.row().name] = json!(setting);
    }
    let redact = &settings.redact;
    let rules: Vec<_> = redact.rules.value.iter().map(rule_json).collect();
    let rules = json!({ "value": rules, "origin": redact.rules.origin });
    let redact = json!({ "apply": redact.apply, "sets": redact.sets, "rules": rules });
    let mut object =
        json!({ "files": settings.files, "settings": held, "redact": redact, "tool": tools });
    for (name, rules) in settings.calls.tables() {
        object[name] = json!(rules);
    }
    object["extract"] = models_json(&settings.models);
    object
}

/// Returns a settings file that describes every setting in comments, and sets none.
pub(crate) fn template() -> String {
    let mut page = String::from(
        "# Settings of ctxfs, with their defaults. Uncomment the settings to change.\n\
         # Places: /etc/ctxfs.toml, ~/.config/ctxfs/ctxfs.toml, ctxfs.toml in the store, and --config\n\
         # FILE. In the store, settings that send data, name keys or grant a right do not count.\n",
    );
    let mut table = None;
    for row in ROWS {
        if row.group.table() != table {
            table = row.group.table();
            let _ = write!(page, "\n# [{}]\n", table.unwrap_or_default());
        }
        let default = row.default_value();
        let value = default.map_or("\"...\"".to_owned(), |value| row.kind.to_toml(&value));
        let about = wrapped(row.about);
        let allowed = row.kind.allowed();
        let _ = write!(page, "\n{about}# Allowed: {allowed}.\n# {} = {value}\n", row.name);
    }
    page + "\n# targets = [\"local/qwen\"]\n\
            # [extract.provider.local]\n# kind = \"openai\" # or \"anthropic\"\n\
            # base_url = \"http://127.0.0.1:8080\"\n\
            # api_key_env = \"LOCAL_KEY\" # the name of the variable that holds the key\n\
            # models.qwen = { context_tokens = 32768, max_output_tokens = 2048 }\n\
            \n# Limits for some tools, by the name `server/tool` or a pattern.\n\
            # [tool.\"github/*\"]\n# max_lines = 200\n\n\
            # What the tools of MCP servers may do behind a light index (ctxfs mcp --tools index):\n\
            # allow, ask or deny, by pattern or by risk; and what they do: read, write or execute.\n\
            # [permissions]\n# \"github/create_*\" = \"allow\"\n# execute = \"deny\"\n\
            # [risk]\n# \"shell/*\" = \"execute\"\n\n\
            # Redaction of secrets: \"off\", \"views\" (masks them in everything shown) or \"stored\"\n\
            # (masks them in the stored files too). Without `sets`, all sets apply.\n\
            # [redact]\n# apply = \"views\"\n"
        + &format!("# sets = {}\n", list(SETS.iter().map(|set| set.name)))
        + "# rules = [{ name = \"ticket\", regex = 'TICKET-[0-9]{6}' }]\n"
}

fn setting_of(
    settings: &Settings,
    tool: Option<&str>,
    row: &SettingRow,
    environment: &Environment,
) -> Option<Setting> {
    let found = settings.setting_for(tool, row.key).cloned();
    if row.key != SettingKey::Store {
        return found;
    }
    let value = SettingValue::Path(settings.store(environment).ok()?);
    let origin = found.map_or(SettingOrigin::Default, |setting| setting.origin);
    Some(Setting { value, origin })
}

fn own_table(page: &mut String, settings: &Settings, group: SettingGroup) {
    let _ = write!(page, "\n[{}]\n", group.table().unwrap_or_default());
    for row in ROWS.iter().filter(|row| row.group == group) {
        if let Some(Setting { value, origin }) = settings.values.get(&row.key) {
            line(page, row.name, &row.kind.to_toml(value), origin);
        }
    }
}

// Prints the targets, and the providers with their models. Must come last in `[extract]`, because
// the tables of providers follow.
fn models(page: &mut String, models: &ModelTables) {
    if let Some(Setting { value, origin }) = &models.targets {
        line(page, "targets", &list(value.iter().map(String::as_str)), origin);
    }
    for (name, Setting { value: provider, origin }) in &models.providers {
        let _ = writeln!(page, "\n[extract.provider.{}]  # {}", quoted(name), shown(origin));
        for (key, value) in provider.entries() {
            let _ = writeln!(page, "{key} = {}", toml_of(&value));
        }
        for (name, model) in &provider.models {
            let entries =
                model.entries().map(|(key, value)| format!("{key} = {}", toml_of(&value)));
            let _ = writeln!(page, "models.{} = {{ {} }}", quoted(name), entries.join(", "));
        }
    }
}

fn toml_of(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), quoted)
}

fn models_json(models: &ModelTables) -> serde_json::Value {
    let provider = |setting: &Setting<Provider>| {
        let of_model = |model: &ProviderModel| json!(BTreeMap::from(model.entries()));
        let models = setting.value.models.iter().map(|(name, model)| (name, of_model(model)));
        let mut value = json!(setting.value.entries().into_iter().collect::<BTreeMap<_, _>>());
        value["models"] = json!(models.collect::<BTreeMap<_, _>>());
        json!({ "value": value, "origin": setting.origin })
    };
    let providers: BTreeMap<_, _> =
        models.providers.iter().map(|(name, setting)| (name, provider(setting))).collect();
    json!({ "targets": models.targets, "provider": providers })
}

fn redact(page: &mut String, settings: &Settings) {
    let redact = &settings.redact;
    let rules: Vec<String> = redact.rules.value.iter().map(rule_toml).collect();
    page.push_str("\n[redact]\n");
    line(page, "apply", &quoted(&redact.apply.value), &redact.apply.origin);
    line(page, "sets", &list(redact.sets.value.iter().map(String::as_str)), &redact.sets.origin);
    line(page, "rules", &format!("[{}]", rules.join(", ")), &redact.rules.origin);
}

fn tools(page: &mut String, settings: &Settings) {
    let mut entries: Vec<&ToolSetting> = settings.tools.entries().collect();
    entries.sort_by(|a, b| a.pattern.cmp(&b.pattern));
    let mut last = None;
    for entry in entries {
        if last != Some(&entry.pattern) {
            let _ = write!(page, "\n[tool.{}]\n", quoted(&entry.pattern));
            last = Some(&entry.pattern);
        }
        let row = entry.key.row();
        line(page, row.name, &row.kind.to_toml(&entry.setting.value), &entry.setting.origin);
    }
}

fn calls(page: &mut String, settings: &Settings) {
    for (name, rules) in settings.calls.tables().into_iter().filter(|(_, rules)| !rules.is_empty())
    {
        let _ = write!(page, "\n[{name}]\n");
        for (pattern, rule) in rules {
            line(page, &quoted(&pattern), &quoted(rule.value), &rule.origin);
        }
    }
}

fn line(page: &mut String, name: &str, value: &str, origin: &SettingOrigin) {
    let _ = writeln!(page, "{:WIDTH$}  # {}", format!("{name} = {value}"), shown(origin));
}

fn shown(origin: &SettingOrigin) -> String {
    origin.to_string().replace(|c: char| c.is_control(), " ")
}

fn list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    format!("[{}]", words.map(quoted).collect::<Vec<String>>().join(", "))
}

fn rule_toml(rule: &Rule) -> String {
    format!("{{ name = {}, regex = {} }}", quoted(&rule.name), quoted(&rule.regex))
}

fn rule_json(rule: &Rule) -> serde_json::Value {
    json!({ "name": rule.name, "regex": rule.regex })
}

fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > 96 {
            lines += &(std::mem::replace(&mut line, "#".to_owned()) + "\n");
        }
        line += " ";
        line += word;
    }
    lines + &line + "\n"
}

/// Fuzz target. A settings file is either refused with its path and a hint, or printing its
/// settings gives a file with the same settings. A store's own settings file is never refused.
#[cfg(any(test, feature = "testing"))]
pub fn fuzz_settings(data: &[u8]) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("given.toml");
    let environment = Environment { home: Some(dir.path().to_owned()), ..Environment::default() };
    std::fs::write(&path, data).expect("room");
    let store = vec![(SettingKey::Store, SettingValue::Path(dir.path().to_owned()))];
    std::fs::write(dir.path().join(ctxfs_store::SETTINGS), data).expect("room");
    let of_store = Settings::load(None, store, &environment).expect("nothing in a store fails");
    assert!(of_store.notices.len() <= 2, "{of_store:?}");
    assert!(of_store.redact.apply.value == "off", "{of_store:?}");
    let settings = match Settings::load(Some(&path), Vec::new(), &environment) {
        Ok(settings) => settings,
        Err(failure) => {
            assert!(failure.message.contains(&*path.to_string_lossy()), "{failure:?}");
            assert!(failure.hint.is_some(), "{failure:?}");
            return;
        }
    };
    std::fs::write(&path, toml(&settings, None, &environment)).expect("room");
    let again = Settings::load(Some(&path), Vec::new(), &environment);
    let again = again.expect("what is printed is a settings file");
    assert_eq!(
        json_without_origins(&again, &path, &environment),
        json_without_origins(&settings, &path, &environment)
    );
}

#[cfg(any(test, feature = "testing"))]
fn json_without_origins(
    settings: &Settings,
    path: &std::path::Path,
    environment: &Environment,
) -> serde_json::Value {
    let mut value = json(settings, None, environment);
    assert_eq!(value["files"], serde_json::json!([path]));
    without_origins(&mut value);
    value
}

#[cfg(any(test, feature = "testing"))]
fn without_origins(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(members) => {
            members.remove("origin");
            members.values_mut().for_each(without_origins);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(without_origins),
        serde_json::Value::Null
        | serde_json::Value::Bool(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests;
