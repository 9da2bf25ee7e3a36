//! The name of an artifact, from the id of its call.

use std::ffi::OsString;

use crate::materialize::Analyzer;
use crate::model::Component;
use crate::model::Json;
use crate::model::is_scratch;

/// Bytes of a call id that is used as it is: with an extension and the suffix of a view it stays
/// below the 255 that a name may have.
const MOST_BYTES: usize = 200;
/// Hexadecimal digits of a digest that stand for a call id.
const DIGITS: usize = 32;

/// What the artifact of a call is named, before its extension.
///
/// The id itself, where it can be a name: one component, not reserved, not scratch, not too long.
/// Otherwise `call-` and a digest of the id, the same for the same id; its writer keeps the id in
/// `Provenance::call`.
pub fn call_stem(call: &str) -> Component {
    Component::new(call).ok().filter(is_usable).unwrap_or_else(|| hashed(call))
}

/// What the artifact of a writer will be named.
#[derive(Debug)]
pub(super) enum Naming {
    /// So.
    Given(Component),
    /// By the stem of a call, with the extension that fits the content.
    Call(Component),
}

impl Naming {
    /// The name for content that is JSON, or is not.
    pub(super) fn name(&self, json: bool) -> Component {
        match self {
            Self::Given(name) => name.clone(),
            Self::Call(stem) => with_extension(stem, json),
        }
    }
}

/// `<stem>.json` for one JSON value or JSON Lines, else `<stem>.txt`.
fn with_extension(stem: &Component, json: bool) -> Component {
    let mut name = OsString::from(stem);
    name.push(if json { ".json" } else { ".txt" });
    Component::new(name).unwrap_or_else(|_| stem.clone())
}

/// Whether the extension is `.json`.
pub(super) fn is_json(json: &Json) -> bool {
    matches!(json, Json::Document { .. } | Json::Lines { .. })
}

fn is_usable(stem: &Component) -> bool {
    let short = stem.as_os_str().len() <= MOST_BYTES;
    short && !is_scratch(with_extension(stem, false).as_os_str())
}

fn hashed(call: &str) -> Component {
    let mut analyzer = Analyzer::new();
    analyzer.push(call.as_bytes());
    let mut digest = analyzer.finish().digest;
    digest.truncate(DIGITS);
    Component::new(format!("call-{digest}")).expect("hexadecimal digits are a name")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_can_be_a_name_is_kept() {
        for call in ["9f3k", "call_1", "toolu 01:a", "a.b", "a~", "\u{fc}ber", &"x".repeat(200)] {
            assert_eq!(call_stem(call).to_text(), call);
        }
    }

    #[test]
    fn an_id_that_cannot_becomes_a_digest() {
        let long = "x".repeat(1536);
        let ids =
            ["", ".", "..", ".ctxfs", ".hidden", "a/b", "../../etc", "a\nb", &long, &long[1..]];
        let mut names: Vec<String> = ids.iter().map(|call| call_stem(call).to_text()).collect();
        for name in &names {
            assert!(name.starts_with("call-") && name.len() == 37, "{name}");
        }
        assert_eq!(call_stem(&long).to_text(), names[8]);
        names.sort();
        names.dedup();
        assert_eq!(names.len(), ids.len());
    }
}
