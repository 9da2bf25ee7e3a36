//! What a client says of itself: once in `initialize`, or in each request.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::bridge::era::MODERN;
use crate::raw_object::{RawObject, quoted};
use crate::{meta, raw_object};

/// The keys of `_meta` by which a request says it.
pub(super) const REQUEST_KEYS: [&str; 4] =
    [meta::REVISION, meta::CLIENT, meta::CAPABILITIES, meta::LEVEL];

/// The name of a client that tells none.
const NOBODY: &str = r#"{"name":"ctxfs","version":"1"}"#;

/// The words of a client, as it wrote them.
#[derive(Debug, Clone)]
pub(crate) struct ClientSaid {
    info: String,
    capabilities: String,
}

/// A kind of request of a server to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Form,
    Url,
    Sampling,
    Roots,
}

/// The kinds of requests that a client answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Abilities([bool; 4]);

impl Default for ClientSaid {
    fn default() -> Self {
        Self { info: NOBODY.to_owned(), capabilities: "{}".to_owned() }
    }
}

impl ClientSaid {
    /// Returns what the parameters of `initialize` say.
    pub(crate) fn of_initialize(params: Option<&RawValue>) -> Self {
        let params = params.and_then(RawObject::parse).unwrap_or_default();
        Self::of(params.get("clientInfo"), params.get("capabilities"))
    }

    /// Returns what the parameters of a request say in `_meta`.
    pub(crate) fn of_request(params: Option<&RawValue>) -> Self {
        let said = params.and_then(meta::of).unwrap_or_default();
        Self::of(said.get(meta::CLIENT), said.get(meta::CAPABILITIES))
    }

    /// Returns what the `_meta` of a request says.
    pub(crate) fn of_meta(meta: &Value) -> Self {
        let raw = |key: &str| serde_json::value::to_raw_value(&meta[key]).ok();
        Self::of(raw(meta::CLIENT).as_deref(), raw(meta::CAPABILITIES).as_deref())
    }

    fn of(info: Option<&RawValue>, capabilities: Option<&RawValue>) -> Self {
        let object = |json: &&RawValue| json.get().starts_with('{');
        let info = info.filter(object).map_or(NOBODY, RawValue::get);
        let capabilities = capabilities.filter(object).map_or("{}", RawValue::get);
        Self { info: info.to_owned(), capabilities: capabilities.to_owned() }
    }

    /// Returns the parameters of `initialize` that say it in revision `version`.
    pub(crate) fn initialize(&self, version: &str) -> String {
        let Self { info, capabilities } = self;
        format!(
            r#"{{"protocolVersion":{},"capabilities":{capabilities},"clientInfo":{info}}}"#,
            quoted(version)
        )
    }

    /// Returns the members of `_meta` that say it.
    pub(crate) fn meta(&self) -> String {
        let capabilities = self.without_old_members();
        format!(
            r#""{}":"{MODERN}","{}":{},"{}":{capabilities}"#,
            meta::REVISION,
            meta::CLIENT,
            self.info,
            meta::CAPABILITIES
        )
    }

    /// Returns the capabilities without what the newer revision has taken out.
    fn without_old_members(&self) -> String {
        let object = RawObject::of(&self.capabilities).unwrap_or_default();
        let member = |(key, value): &(std::borrow::Cow<'_, str>, &RawValue)| match &**key {
            "tasks" => None,
            key @ "roots" => Some(raw_object::member(key, "{}")),
            key => Some(raw_object::member(key, value)),
        };
        raw_object::object(object.0.iter().filter_map(member))
    }

    pub(crate) fn abilities(&self) -> Abilities {
        let said = RawObject::of(&self.capabilities).unwrap_or_default();
        let has = |name: &str| said.get(name).is_some_and(|json| json.get() != "null");
        let modes = said.get("elicitation").and_then(RawObject::parse);
        let mode = |name: &str| modes.as_ref().is_some_and(|modes| modes.get(name).is_some());
        // Without a word on modes, a client has forms.
        let forms = modes.is_some() && (mode("form") || !mode("url"));
        Abilities([forms, mode("url"), has("sampling"), has("roots")])
    }
}

impl Abilities {
    pub(crate) fn has(self, ask: Ask) -> bool {
        self.0[ask as usize]
    }
}

impl Ask {
    /// Returns the kind of a request; `None` if no client takes such.
    pub(crate) fn of(method: &str, params: Option<&RawValue>) -> Option<Self> {
        match method {
            "sampling/createMessage" => Some(Self::Sampling),
            "roots/list" => Some(Self::Roots),
            "elicitation/create" => {
                let mode = params.and_then(RawObject::parse).and_then(|params| params.text("mode"));
                Some(if mode.as_deref() == Some("url") { Self::Url } else { Self::Form })
            }
            _ => None,
        }
    }
}

/// Returns the key of `_meta` that a request of 2026-07-28 must have, and does not.
pub(crate) fn lacking(params: Option<&RawValue>) -> Option<&'static str> {
    let said = params.and_then(meta::of).unwrap_or_default();
    let is_object = |json: &RawValue| json.get().starts_with('{');
    if said.text(meta::REVISION).is_none() {
        return Some(meta::REVISION);
    }
    (!said.get(meta::CAPABILITIES).is_some_and(is_object)).then_some(meta::CAPABILITIES)
}

/// Returns the revision that a request names itself.
pub(crate) fn revision_of(params: Option<&RawValue>) -> Option<String> {
    Some(meta::of(params?)?.text(meta::REVISION)?.into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(json: &str) -> Option<&RawValue> {
        serde_json::from_str(json).ok()
    }

    #[test]
    fn each_revision_says_it_in_its_own_way() {
        let old = r#"{"protocolVersion":"2025-06-18","clientInfo":{"name":"c","version":"1.10"},"capabilities":{"roots":{"listChanged":true},"tasks":{},"sampling":{},"x":{"n":1.10}}}"#;
        let said = ClientSaid::of_initialize(raw(old));
        assert_eq!(
            said.meta(),
            r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1.10"},"io.modelcontextprotocol/clientCapabilities":{"roots":{},"sampling":{},"x":{"n":1.10}}"#
        );
        let new = format!(r#"{{"_meta":{{{}}}}}"#, said.meta());
        let said = ClientSaid::of_request(raw(&new));
        assert_eq!(
            said.initialize("2025-11-25"),
            r#"{"protocolVersion":"2025-11-25","capabilities":{"roots":{},"sampling":{},"x":{"n":1.10}},"clientInfo":{"name":"c","version":"1.10"}}"#
        );
        assert_eq!(revision_of(raw(&new)).as_deref(), Some("2026-07-28"));
        for nothing in [None, raw("{}"), raw("[]"), raw(r#"{"_meta":1}"#)] {
            assert_eq!(
                ClientSaid::of_request(nothing).initialize("v"),
                ClientSaid::default().initialize("v")
            );
            assert_eq!(revision_of(nothing), None);
        }
    }

    #[test]
    fn a_request_says_its_revision_and_the_capabilities() {
        let (revision, capabilities) = (Some(meta::REVISION), Some(meta::CAPABILITIES));
        for (meta, expected) in [
            ("{}", revision),
            ("1", revision),
            (r#"{"io.modelcontextprotocol/clientCapabilities":{}}"#, revision),
            (r#"{"io.modelcontextprotocol/protocolVersion":1}"#, revision),
            (r#"{"io.modelcontextprotocol/protocolVersion":"v"}"#, capabilities),
            (
                r#"{"io.modelcontextprotocol/protocolVersion":"v","io.modelcontextprotocol/clientCapabilities":[]}"#,
                capabilities,
            ),
            (
                r#"{"io.modelcontextprotocol/protocolVersion":"v","io.modelcontextprotocol/clientCapabilities":{}}"#,
                None,
            ),
        ] {
            let params = format!(r#"{{"_meta":{meta}}}"#);
            assert_eq!(lacking(raw(&params)), expected, "{meta}");
        }
        assert_eq!(lacking(None), revision);
    }

    #[test]
    fn abilities_are_those_that_were_declared() {
        for (capabilities, expected) in [
            ("{}", [false, false, false, false]),
            (r#"{"elicitation":{}}"#, [true, false, false, false]),
            (r#"{"elicitation":{"form":{}}}"#, [true, false, false, false]),
            (r#"{"elicitation":{"url":{}}}"#, [false, true, false, false]),
            (r#"{"elicitation":{"url":{},"form":{}}}"#, [true, true, false, false]),
            (r#"{"elicitation":{"form":{},"url":{}}}"#, [true, true, false, false]),
            (r#"{"elicitation":true,"roots":null}"#, [false, false, false, false]),
            (r#"{"elicitation":true}"#, [false, false, false, false]),
            (r#"{"sampling":{}}"#, [false, false, true, false]),
            ("null", [false, false, false, false]),
            (r#"{"sampling":{},"roots":{"listChanged":true}}"#, [false, false, true, true]),
        ] {
            let params = format!(r#"{{"capabilities":{capabilities}}}"#);
            let said = ClientSaid::of_initialize(raw(&params));
            assert_eq!(said.abilities(), Abilities(expected), "{capabilities}");
            let capabilities: Value = serde_json::from_str(capabilities).unwrap();
            let said = ClientSaid::of_meta(&json!({ meta::CAPABILITIES: capabilities }));
            assert_eq!(said.abilities(), Abilities(expected), "{capabilities}");
        }
    }

    #[test]
    fn requests_of_servers_have_kinds() {
        for (method, params, expected) in [
            ("roots/list", None, Some(Ask::Roots)),
            ("sampling/createMessage", Some("{}"), Some(Ask::Sampling)),
            ("elicitation/create", Some("{}"), Some(Ask::Form)),
            ("elicitation/create", Some(r#"{"mode":"form"}"#), Some(Ask::Form)),
            ("elicitation/create", Some(r#"{"mode":"url"}"#), Some(Ask::Url)),
            ("ping", None, None),
            ("x/y", Some("{}"), None),
        ] {
            assert_eq!(Ask::of(method, params.and_then(raw)), expected, "{method} {params:?}");
        }
    }
}
