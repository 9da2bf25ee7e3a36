//! The language models that answer questions: the lists and tables of `[extract]`.

use std::collections::BTreeMap;

use serde_json::json;

use crate::outcome::Failure;
use crate::settings::origin::{Origin, Setting};
use ctxfs_models::extract::{ModelProfile, ProviderKind, TargetSettings, ToolUse};

/// The targets and the providers of one file, or of all.
#[derive(Debug, Clone, Default)]
pub(super) struct ModelTables {
    pub(super) targets: Option<Setting<Vec<String>>>,
    pub(super) providers: BTreeMap<String, Setting<Provider>>,
}

/// An endpoint, and the models that it serves.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Provider {
    pub(super) kind: ProviderKind,
    pub(super) base_url: String,
    pub(super) api_key_env: Option<String>,
    pub(super) models: BTreeMap<String, ProviderModel>,
}

/// What the settings say of a model. Prices are dollars for a million tokens.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ProviderModel {
    pub(super) context_tokens: u64,
    pub(super) max_output_tokens: u64,
    pub(super) tools: ToolUse,
    pub(super) price_in: f64,
    pub(super) price_out: f64,
}

impl ModelTables {
    /// Adds those of another file, which override these by name.
    pub(super) fn add(&mut self, other: &Self) {
        if other.targets.is_some() {
            self.targets.clone_from(&other.targets);
        }
        self.providers.extend(other.providers.clone());
    }

    /// Returns the targets in their order. Fails for one that no provider has.
    pub(super) fn resolved(&self) -> Result<Vec<TargetSettings>, Failure> {
        let Some(Setting { value, origin }) = &self.targets else { return Ok(Vec::new()) };
        value.iter().map(|target| self.target(target, origin)).collect()
    }

    fn target(&self, target: &str, origin: &Origin) -> Result<TargetSettings, Failure> {
        let (provider_name, model_name) = target.split_once('/').unwrap_or((target, ""));
        let no_provider = || {
            let what = format!("there is no `[extract.provider.{provider_name}]` for `{target}`");
            origin.failure(&what)
        };
        let provider = &self.providers.get(provider_name).ok_or_else(no_provider)?.value;
        let no_model = || {
            let known: Vec<&str> = provider.models.keys().map(String::as_str).collect();
            let (known, name) = (known.join(", "), provider_name);
            origin.failure(&format!("the provider `{name}` has no `{model_name}`, but {known}"))
        };
        let model = provider.models.get(model_name).ok_or_else(no_model)?;
        let profile = ModelProfile {
            target: target.to_owned(),
            context_tokens: model.context_tokens,
            max_output_tokens: model.max_output_tokens,
            tools: model.tools,
            price_in: model.price_in,
            price_out: model.price_out,
        };
        Ok(TargetSettings {
            profile,
            model: model_name.to_owned(),
            kind: provider.kind,
            base_url: provider.base_url.clone(),
            api_key_env: provider.api_key_env.clone(),
        })
    }
}

impl Provider {
    fn kind(&self) -> &'static str {
        match self.kind {
            ProviderKind::OpenAi => "openai",
            ProviderKind::Anthropic => "anthropic",
        }
    }

    /// Returns its entries, as a settings file and JSON have them. The address has no secret that
    /// may be used: one with a password is refused.
    pub(super) fn entries(&self) -> Vec<(&'static str, serde_json::Value)> {
        let mut entries = vec![("kind", json!(self.kind())), ("base_url", json!(self.base_url))];
        entries.extend(self.api_key_env.as_ref().map(|name| ("api_key_env", json!(name))));
        entries
    }
}

impl ProviderModel {
    /// Returns its entries, as a settings file and JSON have them.
    pub(super) fn entries(&self) -> [(&'static str, serde_json::Value); 5] {
        let tools = match self.tools {
            ToolUse::Auto => "auto",
            ToolUse::Native => "native",
            ToolUse::None => "none",
        };
        [
            ("context_tokens", json!(self.context_tokens)),
            ("max_output_tokens", json!(self.max_output_tokens)),
            ("tools", json!(tools)),
            ("price_in", json!(self.price_in)),
            ("price_out", json!(self.price_out)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::settings::file::SettingsFile;

    const FILE: &str = r#"
[extract]
targets = ["local/qwen", "far/big/one"]
max_steps = 3
[extract.provider.local]
kind = "openai"
base_url = "http://127.0.0.1:8080"
api_key_env = "LOCAL_KEY"
models.qwen = { context_tokens = 32768, tools = "none", price_in = 1, price_out = 0.25 }
[extract.provider.far]
kind = "anthropic"
base_url = "https://far.example/"
models."big/one" = { context_tokens = 200_000, max_output_tokens = 4096 }
"#;

    fn tables(text: &str) -> Result<ModelTables, String> {
        let file = SettingsFile::parse(Path::new("ctxfs.toml"), text);
        file.map(|file| file.models).map_err(|failure| failure.to_string())
    }

    #[test]
    fn targets_are_what_their_providers_say() {
        let found = tables(FILE).unwrap().resolved().unwrap();
        let [qwen, big] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&*qwen.profile.target, &*qwen.model), ("local/qwen", "qwen"));
        assert_eq!((qwen.profile.context_tokens, qwen.profile.max_output_tokens), (32_768, 2048));
        assert_eq!((qwen.profile.price_in, qwen.profile.price_out), (1.0, 0.25));
        assert_eq!((qwen.profile.tools, qwen.kind), (ToolUse::None, ProviderKind::OpenAi));
        assert_eq!(qwen.api_key_env.as_deref(), Some("LOCAL_KEY"));
        assert_eq!((&*big.model, big.kind), ("big/one", ProviderKind::Anthropic));
        assert_eq!((big.profile.max_output_tokens, &big.api_key_env), (4096, &None));
    }

    #[test]
    fn later_files_override_by_name() {
        let mut all = tables(FILE).unwrap();
        let more = "[extract.provider.local]\nkind = \"openai\"\nbase_url = \"http://b\"\n\
                    models.qwen = { context_tokens = 1 }\n";
        all.add(&tables(more).unwrap());
        let found = all.resolved().unwrap();
        assert_eq!((&*found[0].base_url, found[0].profile.context_tokens), ("http://b", 1));
        all.add(&tables("extract.targets = []").unwrap());
        assert!(all.resolved().unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_is_named() {
        let provider = |rest: &str| format!("[extract.provider.p]\n{rest}\n");
        let whole = "kind = \"openai\"\nbase_url = \"http://a\"\n";
        let cases = [
            ("extract = 1".to_owned(), "`extract` cannot be `1`"),
            ("[extract]\ntarget = []".to_owned(), "did you mean `targets`?"),
            ("[extract]\nmax_step = 1".to_owned(), "did you mean `max_steps`?"),
            ("[extract]\ntargets = [\"x\"]".to_owned(), "a list of models such as"),
            (provider(whole), "lacks `models`"),
            (provider("kind = \"openai\""), "lacks `base_url`"),
            (provider("kind = \"closed\""), "\"openai\" or \"anthropic\""),
            (provider(&format!("{whole}api_key = \"s\"")), "did you mean `api_key_env`?"),
            (provider(&format!("{whole}models.m = {{}}")), "lacks `context_tokens`"),
            (
                provider(&format!("{whole}models.m = {{ context_tokens = 0 }}")),
                "a positive whole number",
            ),
            (
                provider(&format!("{whole}models.m = {{ context_tokens = 1, price_in = -1 }}")),
                "dollars for a million tokens",
            ),
        ];
        for (text, told) in cases {
            let error = tables(&text).unwrap_err();
            assert!(error.contains(told) && error.starts_with("ctxfs.toml:"), "{text}: {error}");
        }
        let missing = tables("[extract]\ntargets = [\"a/b\"]").unwrap().resolved().unwrap_err();
        assert!(missing.to_string().contains("no `[extract.provider.a]`"), "{missing}");
        let other = FILE.replace("local/qwen", "local/llama");
        let error = tables(&other).unwrap().resolved().unwrap_err().to_string();
        assert!(error.contains("has no `llama`, but qwen"), "{error}");
    }
}
