//! The calls of tools through the gateway, and what its index saved.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::ls;
use ctxfs_core::model::{CallCounts, Counts, IndexCounts, visible};

/// Returns a line for each tool, most calls first, and one for the total; nothing without calls.
pub(super) fn table(by_tool: &BTreeMap<String, Counts>, total: &CallCounts) -> String {
    let mut rows: Vec<(&str, &CallCounts)> =
        by_tool.iter().map(|(tool, counts)| (tool.as_str(), &counts.calls)).collect();
    rows.retain(|(_, calls)| calls.times > 0);
    if rows.is_empty() {
        return String::new();
    }
    rows.sort_by_key(|(_, calls)| std::cmp::Reverse(calls.times));
    rows.push(("all", total));
    let mut text = format!(
        "\n{:>8} {:>9} {:>9} {:>9} {:>9}  tool\n",
        "calls", "errors", "time", "results", "given"
    );
    for (tool, calls) in rows {
        let CallCounts { times, errors, millis, received, given } = calls;
        let (time, received, given) = (time(*millis), ls::size(*received), ls::size(*given));
        let _ = writeln!(
            text,
            "{times:>8} {errors:>9} {time:>9} {received:>9} {given:>9}  {}",
            visible::whole(tool)
        );
    }
    text
}

/// Returns what the light index saved; nothing if no session was told one.
pub(super) fn index(index: &IndexCounts) -> String {
    let IndexCounts { times, tokens, schemas } = index;
    if *times == 0 {
        return String::new();
    }
    format!("\nsessions with a light index: {times}, {tokens} tokens in place of {schemas}\n")
}

/// Formats a time: `1.5s`, `12m`.
pub(super) fn time(millis: u64) -> String {
    let time = Duration::from_millis(millis);
    match time.as_secs() {
        0..100 => format!("{:.1}s", time.as_secs_f64()),
        100..6000 => format!("{}m", time.as_secs() / 60),
        seconds => format!("{}h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_tools_that_were_called() {
        let calls =
            |times| CallCounts { times, errors: 1, millis: 90_500, received: 2048, given: 10 };
        let counts = |times| Counts { calls: calls(times), ..Counts::default() };
        let rows = BTreeMap::from([
            ("a/x".to_owned(), counts(2)),
            ("b/y".to_owned(), counts(3)),
            ("c/z".to_owned(), Counts::default()),
        ]);
        let text = table(&rows, &calls(5));
        let lines: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(lines[0], "       3         1     90.5s      2.0K        10  b/y");
        assert!(lines.len() == 3 && lines[1].ends_with("  a/x") && lines[2].ends_with("  all"));
        assert_eq!(table(&BTreeMap::new(), &CallCounts::default()), "");
        assert_eq!([0, 99_900, 720_000, 7_200_000].map(time), ["0.0s", "99.9s", "12m", "2h"]);
    }
}
