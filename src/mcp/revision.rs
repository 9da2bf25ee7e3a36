//! Protocol revisions, and how clients and servers describe themselves in each.

pub(crate) mod translation;

use std::borrow::Cow;
use std::sync::atomic::{AtomicU8, Ordering};

use rmcp::model::ProtocolVersion;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json_rpc;
use crate::raw_object::{self, RawObject, elements, quoted, text};

// The revision without `initialize` that the gateway supports.
pub(crate) const MODERN: &str = "2026-07-28";
pub(crate) const REQUEST_KEYS: [&str; 4] =
    [json_rpc::REVISION_KEY, json_rpc::CLIENT_KEY, json_rpc::CAPABILITIES_KEY, json_rpc::LEVEL_KEY];
// The client information for a client that sends none.
const UNNAMED_CLIENT: &str = r#"{"name":"ctxfs","version":"1"}"#;

/// The two kinds of revisions. Up to 2025-11-25 (`Legacy`), `initialize` opens a session, and
/// servers send requests to clients. Since 2026-07-28 (`Modern`), each request describes its client
/// in `_meta`, and a result can ask for input. The names are from the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

#[derive(Debug, Default)]
pub(crate) struct EraCell(AtomicU8);

/// A client and a server of different eras, between which messages are translated. If the eras are
/// equal or one is unknown, messages are relayed unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EraMismatch {
    OldClient,
    NewClient,
}

impl EraCell {
    pub(crate) fn get(&self) -> Option<Era> {
        match self.0.load(Ordering::Relaxed) {
            1 => Some(Era::Legacy),
            2 => Some(Era::Modern),
            _ => None,
        }
    }

    pub(crate) fn set(&self, era: Era) {
        let number = match era {
            Era::Legacy => 1,
            Era::Modern => 2,
        };
        self.0.store(number, Ordering::Relaxed);
    }
}

impl EraMismatch {
    pub(crate) fn of(client: Option<Era>, server: Option<Era>) -> Option<Self> {
        match (client?, server?) {
            (Era::Legacy, Era::Modern) => Some(Self::OldClient),
            (Era::Modern, Era::Legacy) => Some(Self::NewClient),
            _ => None,
        }
    }
}

/// A client's self-description, as written: in `initialize`, or since 2026-07-28 in each request.
/// What no server can read is left out: a client without a name or version, and capabilities that
/// are no objects. A server that is shared by clients would otherwise refuse all of them.
#[derive(Debug, Clone)]
pub(crate) struct ClientProfile {
    info: String,
    capabilities: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputKind {
    Form,
    Url,
    Sampling,
    Roots,
}

/// The kinds of input that a client can provide, as declared. A server that asks for any other kind
/// gets an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct InputKinds([bool; 4]);

impl Default for ClientProfile {
    fn default() -> Self {
        Self { info: UNNAMED_CLIENT.to_owned(), capabilities: "{}".to_owned() }
    }
}

impl ClientProfile {
    pub(crate) fn of_initialize(params: Option<&RawValue>) -> Self {
        let params = params.and_then(RawObject::parse).unwrap_or_default();
        Self::of(params.get("clientInfo"), params.get("capabilities"))
    }

    pub(crate) fn of_request(params: Option<&RawValue>) -> Self {
        let declared = params.and_then(json_rpc::meta_of).unwrap_or_default();
        Self::of(declared.get(json_rpc::CLIENT_KEY), declared.get(json_rpc::CAPABILITIES_KEY))
    }

    pub(crate) fn of_meta(meta: &Value) -> Self {
        let raw = |key: &str| serde_json::value::to_raw_value(&meta[key]).ok();
        Self::of(raw(json_rpc::CLIENT_KEY).as_deref(), raw(json_rpc::CAPABILITIES_KEY).as_deref())
    }

    fn of(info: Option<&RawValue>, capabilities: Option<&RawValue>) -> Self {
        let object = |json: &&RawValue| json.get().starts_with('{');
        let is_named = |info: &&RawValue| {
            let info = RawObject::parse(info).unwrap_or_default();
            info.text("name").is_some() && info.text("version").is_some()
        };
        let info = info.filter(is_named).map_or(UNNAMED_CLIENT, RawValue::get);
        let declared = capabilities.and_then(RawObject::parse).unwrap_or_default();
        let declared = declared.0.iter().filter(|(_, value)| object(value));
        let members = declared.map(|(key, value)| raw_object::member(key, value));
        Self { info: info.to_owned(), capabilities: raw_object::object(members) }
    }

    pub(crate) fn initialize(&self, version: &str) -> String {
        let Self { info, capabilities } = self;
        format!(
            r#"{{"protocolVersion":{},"capabilities":{capabilities},"clientInfo":{info}}}"#,
            quoted(version)
        )
    }

    pub(crate) fn meta(&self) -> String {
        let capabilities = self.without_old_members();
        format!(
            r#""{}":"{MODERN}","{}":{},"{}":{capabilities}"#,
            json_rpc::REVISION_KEY,
            json_rpc::CLIENT_KEY,
            self.info,
            json_rpc::CAPABILITIES_KEY
        )
    }

    fn without_old_members(&self) -> String {
        let object = RawObject::of(&self.capabilities).unwrap_or_default();
        let member = |(key, value): &(std::borrow::Cow<'_, str>, &RawValue)| match &**key {
            "tasks" => None,
            key @ "roots" => Some(raw_object::member(key, "{}")),
            key => Some(raw_object::member(key, value)),
        };
        raw_object::object(object.0.iter().filter_map(member))
    }

    pub(crate) fn abilities(&self) -> InputKinds {
        let declared = RawObject::of(&self.capabilities).unwrap_or_default();
        let has = |name: &str| declared.get(name).is_some_and(|json| json.get() != "null");
        let modes = declared.get("elicitation").and_then(RawObject::parse);
        let mode = |name: &str| modes.as_ref().is_some_and(|modes| modes.get(name).is_some());
        // A client that declares no modes supports forms.
        let forms = modes.is_some() && (mode("form") || !mode("url"));
        InputKinds([forms, mode("url"), has("sampling"), has("roots")])
    }
}

impl InputKinds {
    pub(crate) fn has(self, ask: InputKind) -> bool {
        self.0[ask as usize]
    }
}

impl InputKind {
    /// Returns the kind of input that a server's request asks for, or `None` for a request that no
    /// client accepts.
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

pub(crate) fn missing_key(params: Option<&RawValue>) -> Option<&'static str> {
    let declared = params.and_then(json_rpc::meta_of).unwrap_or_default();
    let is_object = |json: &RawValue| json.get().starts_with('{');
    if declared.text(json_rpc::REVISION_KEY).is_none() {
        return Some(json_rpc::REVISION_KEY);
    }
    (!declared.get(json_rpc::CAPABILITIES_KEY).is_some_and(is_object))
        .then_some(json_rpc::CAPABILITIES_KEY)
}

pub(crate) fn revision_of(params: Option<&RawValue>) -> Option<String> {
    Some(json_rpc::meta_of(params?)?.text(json_rpc::REVISION_KEY)?.into_owned())
}

/// A server's self-description, as written in the result of `initialize` or `server/discover`.
#[derive(Debug, Clone, Default)]
pub(crate) struct ServerProfile {
    pub(crate) capabilities: String,
    info: Option<String>,
    instructions: Option<String>,
}

impl ServerProfile {
    pub(crate) fn of_initialize(result: &RawValue) -> Option<Self> {
        let result = RawObject::parse(result)?;
        Some(Self::of(&result, result.get("serverInfo")))
    }

    /// Reads the result of `server/discover`. Returns `None` if `result` is invalid or the server
    /// does not support [`MODERN`].
    pub(crate) fn of_discover(result: &RawValue) -> Option<Self> {
        let result = RawObject::parse(result)?;
        let versions = elements(result.get("supportedVersions")?)?;
        let is_ours = |version: &&RawValue| text(version).as_deref() == Some(MODERN);
        versions.iter().find(|version| is_ours(version))?;
        let meta = result.get("_meta").and_then(RawObject::parse).unwrap_or_default();
        Some(Self::of(&result, meta.get(json_rpc::SERVER_KEY)))
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

    pub(crate) fn instructions(&self) -> Option<String> {
        let raw: &RawValue = serde_json::from_str(self.instructions.as_deref()?).ok()?;
        text(raw).map(Cow::into_owned)
    }

    /// Returns true if a capability is declared. If `member` is not empty, the capability must also
    /// have this member set to true.
    pub(crate) fn has(&self, name: &str, member: &str) -> bool {
        let found = RawObject::of(&self.capabilities).and_then(|all| all.get(name));
        let Some(found) = found else { return false };
        let is_true = |json: &RawValue| json.get() == "true";
        member.is_empty()
            || RawObject::parse(found).is_some_and(|found| found.get(member).is_some_and(is_true))
    }

    /// Returns the profile as a result of `initialize`. `name` is used for a server that gives no
    /// name.
    pub(crate) fn initialize_result(&self, version: &str, name: &str) -> String {
        let info = self.info.clone();
        let info = info.unwrap_or_else(|| format!(r#"{{"name":{},"version":"0"}}"#, quoted(name)));
        let instructions = comma_member("instructions", self.instructions.as_deref());
        format!(
            r#"{{"protocolVersion":{},"capabilities":{},"serverInfo":{info}{instructions}}}"#,
            quoted(version),
            self.capabilities
        )
    }

    pub(crate) fn discover_result(&self) -> String {
        let instructions = comma_member("instructions", self.instructions.as_deref());
        let info = self.info.as_ref();
        let meta =
            info.map(|info| raw_object::object([raw_object::member(json_rpc::SERVER_KEY, info)]));
        let meta = comma_member("_meta", meta.as_deref());
        format!(
            r#"{{"resultType":"complete","supportedVersions":["{MODERN}"],"capabilities":{}{instructions},"ttlMs":0,"cacheScope":"private"{meta}}}"#,
            self.modern_capabilities()
        )
    }

    fn modern_capabilities(&self) -> String {
        let all = RawObject::of(&self.capabilities).unwrap_or_default();
        let kept = all.0.iter().filter(|(name, _)| name != "tasks");
        raw_object::object(kept.map(|(name, value)| raw_object::member(name, value)))
    }
}

fn comma_member(name: &str, value: Option<&str>) -> String {
    value.map(|value| format!(",\"{name}\":{value}")).unwrap_or_default()
}

/// Returns the revision for the answer to a client that requested the revision `asked`: the same
/// revision if it is known and uses `initialize`, or else the latest revision that does.
pub(crate) fn negotiated(asked: &str) -> ProtocolVersion {
    let known = ProtocolVersion::KNOWN_VERSIONS.iter().find(|version| version.as_str() == asked);
    let version = known.filter(|version| version.has_initialize());
    version.unwrap_or(&ProtocolVersion::LATEST_WITH_INITIALIZE).clone()
}

#[cfg(test)]
mod tests;
