//! Checks that docs/FAULTS.md names only tests that exist, and all tests of `faults`.

use crate::semantics::{is_among, tests};

const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/FAULTS.md"));

/// Returns the rows of all tables, without their heads.
fn rows() -> impl Iterator<Item = &'static str> {
    let is_head = |line: &str| line.starts_with("| fault |") || line.starts_with("|---");
    PAGE.lines().filter(move |line| line.starts_with('|') && !is_head(line))
}

/// Returns the texts between backticks in the last column of a row.
fn named(row: &str) -> Vec<&str> {
    let column = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap();
    column.split('`').skip(1).step_by(2).collect()
}

#[test]
fn each_fault_names_tests_that_are_there() {
    let tests = tests();
    for row in rows() {
        let named = named(row);
        assert!(!named.is_empty(), "no test: {row}");
        let missing: Vec<_> = named.into_iter().filter(|name| !is_among(name, &tests)).collect();
        assert_eq!(missing, [""; 0], "{row}");
    }
}

#[test]
fn each_test_of_a_fault_is_named() {
    let named: Vec<String> = rows().flat_map(named).map(str::to_owned).collect();
    let here = |test: &String| test.starts_with("faults::") && !test.starts_with("faults::table::");
    for test in tests().iter().filter(|test| here(test)) {
        let covered = named.iter().any(|name| is_among(name, std::slice::from_ref(test)));
        assert!(covered, "docs/FAULTS.md has no row for {test}");
    }
}
