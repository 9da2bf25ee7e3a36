//! Tests that documents name are there.

use std::fs;
use std::path::Path;

use crate::semantics::is_among;
use crate::semantics::tests;

/// Documents in which a word in backticks with `::` in it is a test, or a module of tests: of
/// `tests/it`, of the library, or of another file in `tests`.
const DOCUMENTS: &[&str] = &["docs/SECURITY.md"];

#[test]
fn tests_that_documents_name_are_there() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tests = tests();
    for document in DOCUMENTS {
        let text = fs::read_to_string(top.join(document)).unwrap();
        let named: Vec<&str> = named(&text).collect();
        assert!(named.len() > 10, "{document}: {named:?}");
        let missing: Vec<_> = named.iter().filter(|name| !is_among(name, &tests)).collect();
        assert!(missing.is_empty(), "{document} names {missing:?}");
    }
}

#[test]
fn names_are_seen() {
    let text = "`a`, `one::two`, one::three, `four::`, `not a::name`";
    assert_eq!(named(text).collect::<Vec<_>>(), ["one::two", "four"]);
    let tests = tests();
    for there in ["documents::names_are_seen", "security", "layering::a_breach_is_seen"] {
        assert!(is_among(there, &tests), "{there}");
    }
    assert!(!is_among("documents::named", &tests) && !is_among("layering::breaches", &tests));
}

fn named(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split('`').skip(1).step_by(2);
    words
        .filter(|word| word.contains("::") && !word.contains(' '))
        .map(|word| word.trim_end_matches("::"))
}
