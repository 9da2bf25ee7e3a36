//! Two outputs that drown a model: a long log with one error, a long line of JSON.

use std::fmt::Write as _;

const LINES: usize = 3000;
const ERROR_AT: usize = 1842;
const ERROR: &str = "\
error[E0308]: mismatched types
   --> crates/billing/src/invoice.rs:117:23
117 |     let due: Date = today + 30;
    |                     ^^^^^^^^^^ expected `Date`, found `i64`
";

/// A build that fails.
pub(super) fn build() -> String {
    let mut log = String::new();
    for line in 1..LINES - 1 {
        if line == ERROR_AT {
            log.push_str(ERROR);
        }
        if !(ERROR_AT..ERROR_AT + ERROR.lines().count()).contains(&line) {
            let _ = writeln!(log, "   Compiling part-{line:04} v1.{}.0 (of {LINES})", line % 7);
        }
    }
    log + "could not compile `billing` due to 1 previous error\nbuild failed: exit status 101\n"
}

/// The answer of a server.
pub(super) fn issues() -> String {
    let items: Vec<serde_json::Value> = (1..=500)
        .map(|id| {
            let state = if id % 3 == 0 { "closed" } else { "open" };
            let title = format!("Invoice {id} is due too early");
            serde_json::json!({ "id": id, "title": title, "state": state, "labels": ["billing"] })
        })
        .collect();
    serde_json::json!({ "total": items.len(), "items": items, "next": null }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_samples_are_what_the_tour_says() {
        let log = build();
        assert_eq!(log.lines().count(), LINES);
        assert!(log.lines().nth(ERROR_AT - 1).unwrap().starts_with("error["));
        assert_eq!(issues().lines().count(), 1);
        assert!((40_000..80_000).contains(&issues().len()), "{}", issues().len());
    }
}
