//! Settings for some tools.

use globset::{Glob, GlobMatcher};

use crate::settings::origin::Setting;
use crate::settings::row::Key;

/// The settings in `[tool."..."]` tables, the least specific first.
///
/// A name wins over a pattern, a longer pattern over a shorter one, and a later table over an
/// earlier one. This holds key by key, so that a table need not repeat another one.
#[derive(Debug, Default)]
pub(super) struct ToolSettings(Vec<ToolSetting>);

#[derive(Debug)]
pub(super) struct ToolSetting {
    pub(super) pattern: String,
    /// `None` if the pattern is a name.
    glob: Option<GlobMatcher>,
    pub(super) key: Key,
    pub(super) setting: Setting,
}

impl ToolSettings {
    /// Sorts `entries`, which come in the order in which they were read.
    pub(super) fn new(entries: impl Iterator<Item = (String, Key, Setting)>) -> Self {
        let mut entries: Vec<ToolSetting> = entries
            .map(|(pattern, key, setting)| ToolSetting {
                glob: glob(&pattern),
                pattern,
                key,
                setting,
            })
            .collect();
        entries.sort_by_key(|entry| (entry.glob.is_none(), entry.pattern.len()));
        Self(entries)
    }

    /// Finds the setting for `tool`, if a table has one.
    pub(super) fn find(&self, tool: &str, key: Key) -> Option<&Setting> {
        let said = self.0.iter().rev().find(|entry| entry.key == key && entry.is_for(tool));
        said.map(|entry| &entry.setting)
    }

    /// Returns all settings in effect, the least specific first.
    pub(super) fn entries(&self) -> impl Iterator<Item = &ToolSetting> {
        self.0.iter().enumerate().filter_map(|(number, entry)| {
            let same =
                |later: &ToolSetting| later.pattern == entry.pattern && later.key == entry.key;
            (!self.0[number + 1..].iter().any(same)).then_some(entry)
        })
    }
}

impl ToolSetting {
    fn is_for(&self, tool: &str) -> bool {
        self.glob.as_ref().map_or(self.pattern == tool, |glob| glob.is_match(tool))
    }
}

/// Returns the matcher of a pattern, or `None` for a name. Invalid patterns were refused when the
/// file was read.
fn glob(pattern: &str) -> Option<GlobMatcher> {
    let is_glob = pattern.contains(['*', '?', '[', '{', '\\']);
    Glob::new(pattern).ok().filter(|_| is_glob).map(|glob| glob.compile_matcher())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::origin::Origin;
    use crate::settings::value::Value;

    fn tools(entries: &[(&str, u64)]) -> ToolSettings {
        let setting = |number| Setting { value: Value::Number(number), origin: Origin::Default };
        let entries = entries.iter();
        ToolSettings::new(
            entries
                .map(|(pattern, number)| ((*pattern).to_owned(), Key::MaxLines, setting(*number))),
        )
    }

    fn found(tools: &ToolSettings, tool: &str) -> Option<Value> {
        tools.find(tool, Key::MaxLines).map(|setting| setting.value.clone())
    }

    #[test]
    fn the_most_specific_wins() {
        let all = tools(&[
            ("github/search_issues", 1),
            ("github/*", 2),
            ("*", 3),
            ("github/search_*", 4),
            ("{shell,bash}/exec", 5),
        ]);
        let cases = [
            ("github/search_issues", 1),
            ("github/search_code", 4),
            ("github/get_file", 2),
            ("gitlab/get_file", 3),
            ("read", 3),
            ("bash/exec", 5),
        ];
        for (tool, number) in cases {
            assert_eq!(found(&all, tool), Some(Value::Number(number)), "{tool}");
        }
        assert_eq!(all.find("read", Key::MaxBytes), None);
        assert_eq!(found(&tools(&[("github/*", 2)]), "gitlab/x"), None);
    }

    #[test]
    fn of_the_same_pattern_the_later_wins() {
        let all = tools(&[("github/*", 1), ("github/*", 2), ("gitlab/*", 3)]);
        assert_eq!(found(&all, "github/x"), Some(Value::Number(2)));
        assert_eq!(all.entries().count(), 2);
    }
}
