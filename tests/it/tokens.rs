//! The estimate of tokens, against what tokenizers count in real outputs: `tests/tokens.toml`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ctxfs_core::materialize::{Analyzer, TOKEN_ERROR_PERCENT};
use serde::Deserialize;

/// Fewest outputs.
const OUTPUTS: usize = 150;
/// The least part of the outputs whose estimate is right, in percent.
const RIGHT: usize = 95;
/// The most outputs for which no number is near to all counts.
const APART: usize = 8;

/// The outputs that the estimate was fitted to, and those that were set aside.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    fitted: BTreeMap<String, Row>,
    aside: BTreeMap<String, Row>,
}

/// The bytes of a text, and its tokens by each tokenizer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    bytes: u64,
    o200k: u64,
    cl100k: u64,
    claude: u64,
}

impl Row {
    fn least(&self) -> u64 {
        self.o200k.min(self.cl100k).min(self.claude)
    }

    fn most(&self) -> u64 {
        self.o200k.max(self.cl100k).max(self.claude)
    }

    /// Returns true if no number is near to all counts.
    fn is_apart(&self) -> bool {
        !(0..=self.most())
            .any(|tokens| is_near(tokens, self.least()) && is_near(tokens, self.most()))
    }

    /// Returns true if an estimate is near to all counts, or, if none can be, not far beyond them.
    fn allows(&self, tokens: u64) -> bool {
        let (least, most) = (self.least(), self.most());
        let between = least <= tokens && tokens <= most;
        let (near_least, near_most) = (is_near(tokens, least), is_near(tokens, most));
        if self.is_apart() { between || near_least || near_most } else { near_least && near_most }
    }
}

/// Returns true if an estimate is as near to the right number as it says.
fn is_near(tokens: u64, right: u64) -> bool {
    100 * tokens.abs_diff(right) <= u64::from(TOKEN_ERROR_PERCENT) * right
}

/// Returns the estimate for an output, in which escape sequences count for nothing.
fn estimate(name: &str, row: &Row) -> u64 {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let bytes = fs::read(tests.join(name).join("output")).unwrap();
    let mut analyzer = Analyzer::new();
    analyzer.push(&bytes);
    let found = analyzer.finish();
    assert_eq!(found.plain.unwrap_or(found.bytes), row.bytes, "{name}: scripts/tokens count");
    found.tokens
}

/// Returns the outputs whose estimate is wrong, each in a line.
fn wrong(rows: &BTreeMap<String, Row>) -> Vec<String> {
    let judged = rows.iter().map(|(name, row)| (name, row, estimate(name, row)));
    let wrong = judged.filter(|(_, row, tokens)| !row.allows(*tokens));
    wrong.map(|(name, row, tokens)| format!("{name}: {tokens} for {row:?}\n")).collect()
}

#[test]
fn estimates_are_near_to_what_tokenizers_count() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let table: Table =
        toml::from_str(&fs::read_to_string(tests.join("tokens.toml")).unwrap()).unwrap();
    let rows = || table.fitted.values().chain(table.aside.values());
    assert!(rows().count() >= OUTPUTS);
    assert!(rows().filter(|row| row.is_apart()).count() <= APART);
    for rows in [&table.fitted, &table.aside] {
        let wrong = wrong(rows);
        let right = rows.len() - wrong.len();
        assert!(
            100 * right >= RIGHT * rows.len(),
            "{}{right} of {} right",
            wrong.concat(),
            rows.len()
        );
    }
}
