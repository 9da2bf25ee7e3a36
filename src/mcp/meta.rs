//! The `_meta` of parameters and results, and the keys in it that the protocol has.

use serde_json::value::RawValue;

use crate::raw_object::RawObject;

/// The keys by which a request says what its client is, since 2026-07-28.
pub(super) const REVISION: &str = "io.modelcontextprotocol/protocolVersion";
pub(super) const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
pub(super) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
pub(super) const LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The key with the name of a server.
pub(super) const SERVER: &str = "io.modelcontextprotocol/serverInfo";
/// The key that names the request of a subscription.
pub(super) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Returns the `_meta` of parameters.
pub(super) fn of(params: &RawValue) -> Option<RawObject<'_>> {
    RawObject::parse(RawObject::parse(params)?.get("_meta")?)
}

/// Returns the id of the request whose subscription a notification is about.
pub(super) fn subscription<'a>(params: &RawObject<'a>) -> Option<&'a RawValue> {
    RawObject::parse(params.get("_meta")?)?.get(SUBSCRIPTION)
}

/// Returns the number that an id is, which may be written as a text.
pub(super) fn number(id: &RawValue) -> Option<u64> {
    id.get().trim_matches('"').parse().ok()
}
