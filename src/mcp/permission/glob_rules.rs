//! Globs of `server/tool`, the longest of which decides.

use globset::{Glob, GlobMatcher};

/// A pattern that is no glob.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is not a pattern of tools: {why}")]
pub struct InvalidGlob {
    pattern: String,
    why: String,
}

/// Values by globs. In a glob `*` stands for any text, `/` too, as in `[tool."..."]`.
#[derive(Debug, Clone)]
pub(super) struct GlobRules<T>(Vec<GlobRule<T>>);

impl<T> Default for GlobRules<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

#[derive(Debug, Clone)]
struct GlobRule<T> {
    pattern: String,
    matcher: GlobMatcher,
    value: T,
}

impl<T: Copy + Ord> GlobRules<T> {
    /// Adds a rule.
    pub(super) fn add(&mut self, pattern: &str, value: T) -> Result<(), InvalidGlob> {
        let glob = Glob::new(pattern).map_err(|error| InvalidGlob {
            pattern: pattern.to_owned(),
            why: error.kind().to_string(),
        })?;
        let (pattern, matcher) = (pattern.to_owned(), glob.compile_matcher());
        self.0.push(GlobRule { pattern, matcher, value });
        Ok(())
    }

    /// Returns the longest pattern that matches `tool`, with its value. Of equal ones the greatest
    /// value decides.
    pub(super) fn find(&self, tool: &str) -> Option<(&str, T)> {
        let matching = self.0.iter().filter(|rule| rule.matcher.is_match(tool));
        let longest = matching.max_by_key(|rule| (rule.pattern.chars().count(), rule.value))?;
        Some((&longest.pattern, longest.value))
    }

    /// Returns all rules in the order in which they were added.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, T)> {
        self.0.iter().map(|rule| (rule.pattern.as_str(), rule.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_glob_decides_and_the_greatest_of_equal_ones() {
        let mut rules = GlobRules::default();
        for (pattern, value) in [("*", 1), ("github/*", 2), ("github/get_*", 3), ("*/get_issue", 4)]
        {
            rules.add(pattern, value).unwrap();
        }
        let table = [
            ("fs/read", Some(("*", 1))),
            ("github/search", Some(("github/*", 2))),
            ("github/get_me", Some(("github/get_*", 3))),
            ("fs/get_issue", Some(("*/get_issue", 4))),
            // Both patterns have 12 and 11 characters.
            ("github/get_issue", Some(("github/get_*", 3))),
        ];
        for (tool, expected) in table {
            assert_eq!(rules.find(tool), expected, "{tool}");
        }
        rules.add("*/get_issue?", 9).unwrap();
        rules.add("github/get_*", 7).unwrap();
        rules.add("github/get_*", 5).unwrap();
        assert_eq!(rules.find("github/get_issue"), Some(("github/get_*", 7)));
    }

    #[test]
    fn what_is_no_glob_is_named() {
        let error = GlobRules::default().add("github/[", 1).unwrap_err();
        assert!(error.to_string().starts_with("`github/[` is not a pattern of tools: "), "{error}");
    }
}
