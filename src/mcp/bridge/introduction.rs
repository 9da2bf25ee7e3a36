//! The words of a server about itself: in the answer to `initialize`, or to `server/discover`.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::bridge::era::MODERN;
use crate::raw_object::{RawObject, elements, quoted, text};
use crate::{meta, raw_object};

/// The words of a server, as it wrote them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Introduction {
    pub(crate) capabilities: String,
    info: Option<String>,
    instructions: Option<String>,
}

impl Introduction {
    /// Returns what the result of `initialize` says.
    pub(super) fn of_initialize(result: &RawValue) -> Option<Self> {
        let result = RawObject::parse(result)?;
        Some(Self::of(&result, result.get("serverInfo")))
    }

    /// Returns what the result of `server/discover` says; `None` if it is no such result, or not of
    /// a server that the gateway can talk to.
    pub(super) fn of_discover(result: &RawValue) -> Option<Self> {
        let result = RawObject::parse(result)?;
        let versions = elements(result.get("supportedVersions")?)?;
        let is_ours = |version: &&RawValue| text(version).as_deref() == Some(MODERN);
        versions.iter().find(|version| is_ours(version))?;
        let meta = result.get("_meta").and_then(RawObject::parse).unwrap_or_default();
        Some(Self::of(&result, meta.get(meta::SERVER)))
    }

    fn of(result: &RawObject<'_>, info: Option<&RawValue>) -> Self {
        let is_object = |json: &&RawValue| json.get().starts_with('{');
        let capabilities = result.get("capabilities").filter(is_object);
        let instructions = result.get("instructions").filter(|json| json.get().starts_with('"'));
        Self {
            capabilities: capabilities.map_or("{}", RawValue::get).to_owned(),
            info: info.filter(is_object).map(|info| info.get().to_owned()),
            instructions: instructions.map(|text| text.get().to_owned()),
        }
    }

    /// Returns the text of the instructions.
    pub(crate) fn instructions(&self) -> Option<String> {
        let raw: &RawValue = serde_json::from_str(self.instructions.as_deref()?).ok()?;
        text(raw).map(Cow::into_owned)
    }

    /// Returns true if the capabilities have an object of this name in which `member` is true, or
    /// any if it is "".
    pub(crate) fn has(&self, name: &str, member: &str) -> bool {
        let found = RawObject::of(&self.capabilities).and_then(|all| all.get(name));
        let Some(found) = found else { return false };
        let is_true = |json: &RawValue| json.get() == "true";
        member.is_empty()
            || RawObject::parse(found).is_some_and(|found| found.get(member).is_some_and(is_true))
    }

    /// Returns it as a result of `initialize`, for a server that the gateway calls `name`.
    pub(super) fn initialize_result(&self, version: &str, name: &str) -> String {
        let info = self.info.clone();
        let info = info.unwrap_or_else(|| format!(r#"{{"name":{},"version":"0"}}"#, quoted(name)));
        let instructions = member("instructions", self.instructions.as_deref());
        format!(
            r#"{{"protocolVersion":{},"capabilities":{},"serverInfo":{info}{instructions}}}"#,
            quoted(version),
            self.capabilities
        )
    }

    /// Returns it as a result of `server/discover`.
    pub(super) fn discover_result(&self) -> String {
        let instructions = member("instructions", self.instructions.as_deref());
        let info = self.info.as_ref();
        let meta = info.map(|info| raw_object::object([raw_object::member(meta::SERVER, info)]));
        let meta = member("_meta", meta.as_deref());
        format!(
            r#"{{"resultType":"complete","supportedVersions":["{MODERN}"],"capabilities":{}{instructions},"ttlMs":0,"cacheScope":"private"{meta}}}"#,
            self.modern_capabilities()
        )
    }

    /// Returns the capabilities without what the newer revision has taken out.
    fn modern_capabilities(&self) -> String {
        let all = RawObject::of(&self.capabilities).unwrap_or_default();
        let kept = all.0.iter().filter(|(name, _)| name != "tasks");
        raw_object::object(kept.map(|(name, value)| raw_object::member(name, value)))
    }
}

/// Returns a member with a comma before it, if it has a value.
fn member(name: &str, value: Option<&str>) -> String {
    value.map(|value| format!(",\"{name}\":{value}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> &RawValue {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn an_old_introduction_becomes_a_new_one_and_back() {
        let old = r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"tasks":{},"x":{"n":1.10}},"serverInfo":{"name":"s","version":"2"},"instructions":"Be \u00e9."}"#;
        let said = Introduction::of_initialize(raw(old)).unwrap();
        assert_eq!(said.instructions().as_deref(), Some("Be \u{e9}."));
        let new = said.discover_result();
        assert_eq!(
            new,
            r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"x":{"n":1.10}},"instructions":"Be \u00e9.","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"2"}}}"#
        );
        let said = Introduction::of_discover(raw(&new)).unwrap();
        assert_eq!(
            said.initialize_result("2025-11-25", "n"),
            r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"x":{"n":1.10}},"serverInfo":{"name":"s","version":"2"},"instructions":"Be \u00e9."}"#
        );
    }

    #[test]
    fn a_server_that_says_nothing_has_the_name_of_the_gateway_for_it() {
        let said =
            Introduction::of_discover(raw(r#"{"supportedVersions":["2026-07-28"]}"#)).unwrap();
        assert_eq!(
            said.initialize_result("2025-11-25", "n"),
            r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"n","version":"0"}}"#
        );
    }

    #[test]
    fn what_is_no_answer_to_discover_is_none() {
        for json in [
            "{}",
            "[]",
            r#"{"method":"server/discover","params":{}}"#,
            r#"{"supportedVersions":"2026-07-28"}"#,
            r#"{"supportedVersions":["2025-11-25"]}"#,
        ] {
            assert!(Introduction::of_discover(raw(json)).is_none(), "{json}");
        }
    }

    #[test]
    fn capabilities_are_looked_up() {
        let said = Introduction::of_initialize(raw(
            r#"{"capabilities":{"logging":{},"resources":{"subscribe":true,"listChanged":false}}}"#,
        ));
        let said = said.unwrap();
        for (name, member, expected) in [
            ("logging", "", true),
            ("resources", "subscribe", true),
            ("resources", "listChanged", false),
            ("tools", "", false),
            ("tools", "listChanged", false),
        ] {
            assert_eq!(said.has(name, member), expected, "{name} {member}");
        }
    }
}
