//! Which tools of a server are offered.

use std::fmt;

use globset::{Glob, GlobMatcher};

/// Globs of the tools that are offered, and of those that are not. Without any, all are offered.
#[derive(Clone, Default)]
pub struct ToolFilter(Vec<Pattern>);

#[derive(Clone)]
struct Pattern {
    hides: bool,
    matcher: GlobMatcher,
}

impl ToolFilter {
    /// Reads patterns. One that begins with `!` hides what it matches. Fails with what is wrong
    /// about the first that is no glob.
    pub fn new<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let read = |pattern: &str| {
            let glob = pattern.strip_prefix('!').unwrap_or(pattern);
            let hides = glob.len() < pattern.len();
            let glob = Glob::new(glob).map_err(|error| format!("`{pattern}`: {}", error.kind()))?;
            Ok(Pattern { hides, matcher: glob.compile_matcher() })
        };
        patterns.into_iter().map(read).collect::<Result<_, String>>().map(Self)
    }

    /// Returns true if `tool`, by the name that its server gave it, is offered: one pattern offers
    /// it, or none offers any, and no pattern hides it.
    pub fn offers(&self, tool: &str) -> bool {
        let matches = |hides| self.0.iter().any(|p| p.hides == hides && p.matcher.is_match(tool));
        let offered = self.0.iter().all(|pattern| pattern.hides) || matches(false);
        offered && !matches(true)
    }
}

impl fmt::Debug for ToolFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |p: &Pattern| format!("{}{}", if p.hides { "!" } else { "" }, p.matcher.glob());
        f.debug_list().entries(self.0.iter().map(shown)).finish()
    }
}

impl PartialEq for ToolFilter {
    fn eq(&self, other: &Self) -> bool {
        let same = |(a, b): (&Pattern, &Pattern)| {
            a.hides == b.hides && a.matcher.glob() == b.matcher.glob()
        };
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(same)
    }
}

impl Eq for ToolFilter {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pattern_offers_and_none_hides() {
        let table: &[(&[&str], &[&str], &[&str])] = &[
            (&[], &["a", "delete_a"], &[]),
            (&["*"], &["a", "x/y"], &[]),
            (&["get_*", "list"], &["get_a", "list"], &["set_a", "lists"]),
            (&["!delete_*"], &["get_a"], &["delete_a"]),
            (&["!get_b", "get_*"], &["get_a"], &["get_b", "set_a"]),
        ];
        for (patterns, offered, hidden) in table {
            let filter = ToolFilter::new(patterns.iter().copied()).unwrap();
            assert!(offered.iter().all(|tool| filter.offers(tool)), "{patterns:?}");
            assert!(!hidden.iter().any(|tool| filter.offers(tool)), "{patterns:?}");
        }
        assert!(ToolFilter::new(["a", "!["]).unwrap_err().starts_with("`![`: "));
    }
}
