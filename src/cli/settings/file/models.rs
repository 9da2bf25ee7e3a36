//! The table `[extract]` of a settings file: settings for extraction, and the language models that
//! answer questions.

use toml::de::{DeTable, DeValue};

use crate::settings::file::{SettingsFile, SettingsReader, SpannedKey, SpannedValue, in_order};
use crate::settings::rules::{ModelTables, Provider, ProviderModel};
use crate::settings::value::{Setting, SettingValue, ValueKind};
use crate::{Failure, settings::table::SettingGroup};
use ctxfs_models::extract::{ProviderKind, ToolUse};

const TARGETS: &str = "targets";
const PROVIDER: &str = "provider";
const PROVIDER_KEYS: [&str; 4] = ["kind", "base_url", "api_key_env", "models"];
const MODEL_KEYS: [&str; 5] =
    ["context_tokens", "max_output_tokens", "tools", "price_in", "price_out"];
const REPLY_TOKENS: u64 = 2048;
const MOST_PRICE: f64 = 1e6;

impl SettingsReader<'_> {
    pub(crate) fn extraction(
        &self,
        item: &SpannedValue<'_>,
        file: &mut SettingsFile,
    ) -> Result<(), Failure> {
        for (name, item) in in_order(self.table(item, "`extract`", "a table of settings")?) {
            match name.get_ref().as_ref() {
                TARGETS => {
                    let (value, origin) = (self.targets(item)?, self.origin(&name.span()));
                    file.models.targets = Some(Setting { value, origin });
                }
                PROVIDER => self.providers(item, &mut file.models)?,
                _ => {
                    let more = [TARGETS, PROVIDER];
                    let setting = self.row_of(SettingGroup::Extract, &more, name, item)?;
                    file.values.push(setting);
                }
            }
        }
        Ok(())
    }

    fn targets(&self, item: &SpannedValue<'_>) -> Result<Vec<String>, Failure> {
        const ALLOWED: &str = "a list of models such as [\"local/qwen\"]";
        let invalid = |item: &SpannedValue<'_>| self.invalid("extract.targets", item, ALLOWED);
        let list = item.get_ref().as_array().ok_or_else(|| invalid(item))?;
        let target = |item: &SpannedValue<'_>| {
            let text = item.get_ref().as_str().filter(|text| text.contains('/'));
            text.map(str::to_owned).ok_or_else(|| invalid(item))
        };
        list.iter().map(target).collect()
    }

    fn providers(&self, item: &SpannedValue<'_>, models: &mut ModelTables) -> Result<(), Failure> {
        let what = "tables such as `[extract.provider.local]`";
        for (name, item) in in_order(self.table(item, "`extract.provider`", what)?) {
            let (key, origin) = (name.get_ref(), self.origin(&name.span()));
            if key.contains('/') || key.is_empty() {
                let text = format!("`{key}` cannot name a provider: targets are `provider/model`");
                return Err(self.failure(&name.span(), &text));
            }
            let provider = self.provider(name, item)?;
            models.providers.insert(key.to_string(), Setting { value: provider, origin });
        }
        Ok(())
    }

    fn provider(
        &self,
        name: &SpannedKey<'_>,
        item: &SpannedValue<'_>,
    ) -> Result<Provider, Failure> {
        let path = format!("extract.provider.{}", name.get_ref());
        let table = self.table(item, &path, "a table with `kind`, `base_url` and `models`")?;
        let here = format!(" in `[{path}]`");
        self.known_keys(table, &here, &PROVIDER_KEYS)?;
        let lacks = |key: &str| self.failure(&name.span(), &format!("`[{path}]` lacks `{key}`"));
        let text = |key: &str| self.text_in(table, &path, key);
        let kind = match text("kind")?.as_deref() {
            Some("openai") => ProviderKind::OpenAi,
            Some("anthropic") => ProviderKind::Anthropic,
            Some(_) => {
                let (_, item) = entry(table, "kind").ok_or_else(|| lacks("kind"))?;
                let allowed = ValueKind::Choice(&["openai", "anthropic"]).allowed();
                return Err(self.invalid(&format!("{path}.kind"), item, &allowed));
            }
            None => return Err(lacks("kind")),
        };
        let base_url = text("base_url")?.ok_or_else(|| lacks("base_url"))?;
        let api_key_env = text("api_key_env")?;
        let mut models = std::collections::BTreeMap::new();
        let (_, listed) = entry(table, "models").ok_or_else(|| lacks("models"))?;
        for (name, item) in in_order(self.table(listed, &path, "a table of models")?) {
            models.insert(name.get_ref().to_string(), self.model(&path, name, item)?);
        }
        Ok(Provider { kind, base_url, api_key_env, models })
    }

    fn model(
        &self,
        path: &str,
        name: &SpannedKey<'_>,
        item: &SpannedValue<'_>,
    ) -> Result<ProviderModel, Failure> {
        let path = format!("{path}.models.{}", name.get_ref());
        let table = self.table(item, &path, "a table with `context_tokens`")?;
        self.known_keys(table, &format!(" of `{path}`"), &MODEL_KEYS)?;
        let count = |key: &str| self.value_in(table, &path, key, ValueKind::Count(&[]));
        let number = |key: &str| {
            count(key).map(|value| match value {
                Some(SettingValue::Number(number)) => Some(number),
                _ => None,
            })
        };
        let lacks = || self.failure(&name.span(), &format!("`{path}` lacks `context_tokens`"));
        let words = ValueKind::Choice(&["auto", "native", "none"]);
        let tools = match self.value_in(table, &path, "tools", words)? {
            Some(SettingValue::Text(word)) if word == "native" => ToolUse::Native,
            Some(SettingValue::Text(word)) if word == "none" => ToolUse::None,
            _ => ToolUse::Auto,
        };
        Ok(ProviderModel {
            context_tokens: number("context_tokens")?.ok_or_else(lacks)?,
            max_output_tokens: number("max_output_tokens")?.unwrap_or(REPLY_TOKENS),
            tools,
            price_in: self.price(table, &path, "price_in")?,
            price_out: self.price(table, &path, "price_out")?,
        })
    }

    fn price(&self, table: &DeTable<'_>, path: &str, key: &str) -> Result<f64, Failure> {
        let Some((_, item)) = entry(table, key) else { return Ok(0.0) };
        let digits = match item.get_ref() {
            DeValue::Float(number) => number.as_str(),
            DeValue::Integer(number) => number.as_str(),
            _ => "",
        };
        let price = digits.replace('_', "").parse::<f64>().ok();
        let price = price.filter(|price| (0.0..=MOST_PRICE).contains(price));
        let what = format!("{path}.{key}");
        price.ok_or_else(|| self.invalid(&what, item, "dollars for a million tokens, such as 0.15"))
    }

    fn text_in(
        &self,
        table: &DeTable<'_>,
        path: &str,
        key: &str,
    ) -> Result<Option<String>, Failure> {
        Ok(match self.value_in(table, path, key, ValueKind::Text)? {
            Some(SettingValue::Text(text)) => Some(text),
            _ => None,
        })
    }

    fn value_in(
        &self,
        table: &DeTable<'_>,
        path: &str,
        key: &str,
        kind: ValueKind,
    ) -> Result<Option<SettingValue>, Failure> {
        let Some((_, item)) = entry(table, key) else { return Ok(None) };
        let what = format!("{path}.{key}");
        let value = kind.of_toml(item.get_ref());
        value.map(Some).map_err(|_| self.invalid(&what, item, &kind.allowed()))
    }

    fn known_keys(
        &self,
        table: &DeTable<'_>,
        here: &str,
        known: &[&'static str],
    ) -> Result<(), Failure> {
        let is_known = |name: &SpannedKey<'_>| known.contains(&name.get_ref().as_ref());
        match in_order(table).into_iter().find(|(name, _)| !is_known(name)) {
            Some((name, _)) => Err(self.unknown(name, here, known.iter().copied())),
            None => Ok(()),
        }
    }
}

fn entry<'t, 'i>(
    table: &'t DeTable<'i>,
    key: &str,
) -> Option<(&'t SpannedKey<'i>, &'t SpannedValue<'i>)> {
    table.iter().find(|(name, _)| name.get_ref() == key)
}
