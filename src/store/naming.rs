//! Naming an artifact after the id of its call.

use std::ffi::OsString;

use crate::materialize::Analyzer;
use crate::model::Component;
use crate::model::Json;
use crate::model::is_scratch;

/// The longest call id that is used as it is, in bytes. With an extension and the suffix of a view
/// the name stays below the limit of 255.
const MOST_BYTES: usize = 200;
/// The hexadecimal digits of a digest that replace a call id.
const DIGITS: usize = 32;

/// Returns the name for the artifact of a call, without an extension.
///
/// It is the id itself if that can be a name: one component, not reserved, not scratch and not too
/// long. Otherwise it is `call-` and a digest of the id, and the writer keeps the id in
/// `Said::call`.
pub fn call_stem(call: &str) -> Component {
    Component::new(call).ok().filter(is_usable).unwrap_or_else(|| hashed(call))
}

/// The choice of a name for the artifact of a writer.
#[derive(Debug)]
pub(super) enum Naming {
    /// The name itself.
    Given(Component),
    /// The stem for a call. The extension depends on the content.
    Call(Component),
}

impl Naming {
    /// Returns the name for content that is JSON, or that is not.
    pub(super) fn name(&self, json: bool) -> Component {
        match self {
            Self::Given(name) => name.clone(),
            Self::Call(stem) => with_extension(stem, json),
        }
    }
}

/// Returns `<stem>.json` if the content is one JSON value or JSON Lines, else `<stem>.txt`.
fn with_extension(stem: &Component, json: bool) -> Component {
    let mut name = OsString::from(stem);
    name.push(if json { ".json" } else { ".txt" });
    Component::new(name).unwrap_or_else(|_| stem.clone())
}

/// Returns true if content of this kind gets the extension `.json`.
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
