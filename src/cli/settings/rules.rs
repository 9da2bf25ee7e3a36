//! The tables in settings files for which the user chooses the keys: the rules for tool calls, and
//! the language models.

use std::collections::BTreeMap;

use serde_json::json;

use crate::Failure;
use crate::settings::value::{Setting, SettingOrigin};
use ctxfs_mcp::permission::{Risk, RiskRules, RuleAuthor, Rules, Verdict};
use ctxfs_models::extract::{ModelProfile, ProviderKind, TargetSettings, ToolUse};

pub(crate) const PERMISSIONS: &str = "permissions";
pub(crate) const RISK: &str = "risk";

/// The rules for tool calls, from one settings file or merged from several. The keys are patterns
/// for `server/tool`; in `[permissions]`, a key may also be a risk. If two rules have the same
/// pattern, the stricter rule applies.
#[derive(Debug, Default, Clone)]
pub(crate) struct CallRules {
    permissions: RuleTable<Verdict>,
    risks: RuleTable<Risk>,
}

type RuleTable<W> = BTreeMap<String, Setting<W>>;

impl CallRules {
    pub(crate) fn insert(
        &mut self,
        table: &str,
        pattern: &str,
        word: &str,
        origin: SettingOrigin,
    ) -> Result<(), &'static str> {
        if table == RISK {
            let risk = Risk::of_word(word).filter(|risk| *risk != Risk::Unknown);
            let value = risk.ok_or("read, write or execute")?;
            stricter(&mut self.risks, pattern, Setting { value, origin });
        } else {
            let value = Verdict::of_word(word).ok_or("allow, ask or deny")?;
            stricter(&mut self.permissions, pattern, Setting { value, origin });
        }
        Ok(())
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (pattern, verdict) in &other.permissions {
            stricter(&mut self.permissions, pattern, verdict.clone());
        }
        for (pattern, risk) in &other.risks {
            stricter(&mut self.risks, pattern, risk.clone());
        }
    }

    pub(crate) fn tables(&self) -> [(&'static str, RuleTable<&'static str>); 2] {
        let permissions = worded(&self.permissions, Verdict::as_str);
        [(PERMISSIONS, permissions), (RISK, worded(&self.risks, Risk::as_str))]
    }

    /// Returns the rules about calls. `floor` has the administrator's rules.
    pub(crate) fn permissions(&self, floor: &Self) -> Rules {
        let mut rules = Rules::default();
        let mut is_read = true;
        for (table, author) in [(self, RuleAuthor::User), (floor, RuleAuthor::Administrator)] {
            for (key, rule) in &table.permissions {
                is_read &= rules.add(key, rule.value, author).is_ok();
            }
        }
        if !is_read {
            rules.add_unreadable();
        }
        rules
    }

    pub(crate) fn risks(&self, floor: &Self) -> RiskRules {
        let mut rules = RiskRules::default();
        for (table, author) in [(self, RuleAuthor::User), (floor, RuleAuthor::Administrator)] {
            for (pattern, risk) in &table.risks {
                let _checked = rules.add(pattern, risk.value, author);
            }
        }
        rules
    }
}

fn worded<W: Copy>(rules: &RuleTable<W>, word: fn(W) -> &'static str) -> RuleTable<&'static str> {
    let worded =
        |rule: &Setting<W>| Setting { value: word(rule.value), origin: rule.origin.clone() };
    rules.iter().map(|(pattern, rule)| (pattern.clone(), worded(rule))).collect()
}

fn stricter<W: Ord>(rules: &mut RuleTable<W>, pattern: &str, rule: Setting<W>) {
    if rules.get(pattern).is_none_or(|known| known.value < rule.value) {
        rules.insert(pattern.to_owned(), rule);
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct ModelTables {
    pub(crate) targets: Option<Setting<Vec<String>>>,
    pub(crate) providers: BTreeMap<String, Setting<Provider>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Provider {
    pub(crate) kind: ProviderKind,
    pub(crate) base_url: String,
    pub(crate) api_key_env: Option<String>,
    pub(crate) models: BTreeMap<String, ProviderModel>,
}

// A model of a provider. Prices are in dollars per million tokens.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProviderModel {
    pub(crate) context_tokens: u64,
    pub(crate) max_output_tokens: u64,
    pub(crate) tools: ToolUse,
    pub(crate) price_in: f64,
    pub(crate) price_out: f64,
}

impl ModelTables {
    /// Returns true if a language model is configured.
    pub(crate) fn has_target(&self) -> bool {
        self.targets.as_ref().is_some_and(|targets| !targets.value.is_empty())
    }

    pub(crate) fn add(&mut self, other: &Self) {
        if other.targets.is_some() {
            self.targets.clone_from(&other.targets);
        }
        self.providers.extend(other.providers.clone());
    }

    /// Returns the targets in their order. Fails if a target has no provider, or its provider has
    /// no such model.
    pub(crate) fn resolved(&self) -> Result<Vec<TargetSettings>, Failure> {
        let Some(Setting { value, origin }) = &self.targets else { return Ok(Vec::new()) };
        value.iter().map(|target| self.target(target, origin)).collect()
    }

    fn target(&self, target: &str, origin: &SettingOrigin) -> Result<TargetSettings, Failure> {
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

    // A `base_url` with a password is refused, so the printed entries contain no secret.
    pub(crate) fn entries(&self) -> Vec<(&'static str, serde_json::Value)> {
        let mut entries = vec![("kind", json!(self.kind())), ("base_url", json!(self.base_url))];
        entries.extend(self.api_key_env.as_ref().map(|name| ("api_key_env", json!(name))));
        entries
    }
}

impl ProviderModel {
    pub(crate) fn entries(&self) -> [(&'static str, serde_json::Value); 5] {
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

    use crate::settings::file::SettingsFile;

    use super::*;

    fn calls(text: &str) -> Result<CallRules, String> {
        let file = SettingsFile::parse(Path::new("ctxfs.toml"), text);
        file.map(|file| file.calls).map_err(|failure| failure.to_string())
    }

    #[test]
    fn rules_are_patterns_with_words() {
        let text = "[permissions]\n\"fs/*\" = \"allow\"\nexecute = \"deny\"\n[risk]\n\"sh/*\" = \"execute\"\n";
        let mut all = calls(text).unwrap();
        all.add(&calls("[permissions]\n\"fs/*\" = \"deny\"\n").unwrap());
        let none = CallRules::default();
        let (rules, risks) = (all.permissions(&none), all.risks(&none));
        assert_eq!(rules.rule("fs/x", Risk::Read).verdict, Verdict::Deny);
        assert_eq!(risks.risk("sh/run", None), Risk::Execute);
        assert_eq!(rules.rule("x/y", Risk::Execute).verdict, Verdict::Deny);
    }

    #[test]
    fn a_wrong_word_or_pattern_is_named() {
        for (text, told) in [
            ("[permissions]\n\"fs/*\" = \"yes\"\n", "`fs/*` can be allow, ask or deny"),
            ("[risk]\n\"fs/[\" = \"read\"\n", "is not a pattern"),
            ("[risk]\nx = 1\n", "`x` can be read, write or execute"),
            ("risk = 1\n", "`risk`"),
        ] {
            let error = calls(text).unwrap_err();
            assert!(error.contains(told), "{error}");
        }
    }

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
