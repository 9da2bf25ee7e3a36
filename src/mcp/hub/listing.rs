//! The lists of all servers as one.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::hub::catalog::{CatalogKind, Row};
use crate::hub::{Hub, names};
use crate::raw_object::{RawObject, quoted};
use crate::relay::Relay;
use crate::tool_name::TrueName;
use crate::{listing, raw_object};

/// The key of `_meta` with the name that a server gave a tool or prompt.
const TRUE_NAME: &str = "ctxfs/tool";

/// Returns the rows of a list, in the order of the servers.
pub(super) fn rows(relay: &Relay, hub: &Hub, kind: CatalogKind) -> Vec<String> {
    if matches!(kind, CatalogKind::Resources | CatalogKind::Templates) {
        let text = |row: &Row| row.raw.get().to_owned();
        return names::lists(hub, kind)
            .flat_map(|(_, rows)| rows.iter().map(text).collect::<Vec<_>>())
            .collect();
    }
    let names = names::names(relay, hub, kind);
    let mut listed = Vec::new();
    for (index, rows) in names::lists(hub, kind) {
        let server = &relay.upstreams[index].name;
        for row in rows.iter() {
            let true_name = TrueName { server: server.clone(), tool: row.key.clone() };
            if let Some(name) = names.name_of(&true_name) {
                let schema = RawObject::parse(&row.raw).and_then(|row| row.get("outputSchema"));
                let is_foreign =
                    |schema| listing::is_foreign(relay, &relay.upstreams[index], schema);
                let drops_schema = kind == CatalogKind::Tools
                    && (relay.shelf.limits(&true_name.to_string()).may_replace()
                        || schema.is_some_and(is_foreign));
                listed.push(renamed(&row.raw, name, &true_name, drops_schema));
            }
        }
    }
    listed
}

/// Returns a row with another name, and without its `outputSchema` if stand-ins may not fit that.
fn renamed(row: &RawValue, name: &str, true_name: &TrueName, drops_schema: bool) -> String {
    let Some(object) = RawObject::parse(row) else { return row.get().to_owned() };
    let is_other = name != true_name.tool;
    let goes = drops_schema && object.get("outputSchema").is_some();
    if !is_other && !goes {
        return row.get().to_owned();
    }
    let member = |(key, value): &(Cow<'_, str>, &RawValue)| match &**key {
        "outputSchema" if goes => None,
        key @ "name" if is_other => Some(raw_object::member(key, quoted(name))),
        "_meta" if is_other => None,
        key => Some(raw_object::member(key, value)),
    };
    let meta = is_other.then(|| raw_object::member("_meta", meta(&object, &true_name.tool)));
    raw_object::object(object.0.iter().filter_map(member).chain(meta))
}

/// Returns the `_meta` of a row with the name that its server gave it.
fn meta(object: &RawObject<'_>, own_name: &str) -> String {
    let meta = object.get("_meta").and_then(RawObject::parse).unwrap_or_default();
    let kept = meta.0.iter().filter(|(key, _)| key != TRUE_NAME);
    let kept = kept.map(|(key, value)| raw_object::member(key, value));
    raw_object::object(kept.chain([raw_object::member(TRUE_NAME, quoted(own_name))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(row: &str, name: &str, drops_schema: bool) -> String {
        let raw: &RawValue = serde_json::from_str(row).unwrap();
        let true_name = TrueName { server: "s".to_owned(), tool: "t".to_owned() };
        renamed(raw, name, &true_name, drops_schema)
    }

    #[test]
    fn a_row_that_keeps_its_name_is_as_it_was() {
        let row = r#"{"name": "t", "inputSchema":{"n":1.10}}"#;
        assert_eq!(shown(row, "t", true), row);
        let with_schema = r#"{"name":"t","outputSchema":{}}"#;
        assert_eq!(shown(with_schema, "t", false), with_schema);
        assert_eq!(shown(with_schema, "t", true), r#"{"name":"t"}"#);
    }

    #[test]
    fn another_name_keeps_the_first_one() {
        assert_eq!(
            shown(r#"{"name":"t","a":1.10,"_meta":{"x":2,"ctxfs/tool":"lie"}}"#, "s__t", true),
            r#"{"name":"s__t","a":1.10,"_meta":{"x":2,"ctxfs/tool":"t"}}"#
        );
        assert_eq!(
            shown(r#"{"name":"t"}"#, "s__t", true),
            r#"{"name":"s__t","_meta":{"ctxfs/tool":"t"}}"#
        );
    }
}
