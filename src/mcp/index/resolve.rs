//! Which tool a model means.

use crate::index::Index;
use crate::index::nearest::nearest;
use crate::index::tool::Tool;

/// The most names that are suggested.
const MOST_SUGGESTED: usize = 3;

/// The meaning of a name.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolved<'i> {
    /// This tool.
    Tool(&'i Tool),
    /// None, or several: names that may be meant.
    Missing(Vec<String>),
}

impl Index {
    /// Finds the tool of a name: as it is offered, or where one tool alone fits, in another case,
    /// as `server/tool`, or without its server.
    pub fn resolve(&self, name: &str) -> Resolved<'_> {
        if let Some(tool) = self.get(name) {
            return Resolved::Tool(tool);
        }
        let meant = |tool: &Tool| {
            let is = |other: &str| other.to_lowercase() == name.to_lowercase();
            is(&tool.name) || is(&tool.true_name.to_string()) || is(&tool.true_name.tool)
        };
        let meant: Vec<&Tool> = self.tools().filter(|tool| meant(tool)).collect();
        match meant[..] {
            [tool] => Resolved::Tool(tool),
            [] => {
                let names = self.tools().map(|tool| tool.name.as_str());
                Resolved::Missing(nearest(name, names, MOST_SUGGESTED))
            }
            _ => Resolved::Missing(meant.iter().map(|tool| tool.name.clone()).take(20).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::fixture;

    fn resolved(name: &str) -> Result<String, Vec<String>> {
        match fixture::index().resolve(name) {
            Resolved::Tool(tool) => Ok(tool.name.clone()),
            Resolved::Missing(alike) => Err(alike),
        }
    }

    #[test]
    fn a_name_is_found_where_its_meaning_is_plain() {
        let table = [
            ("github__create_issue", Ok("github__create_issue")),
            ("create_issue", Ok("github__create_issue")),
            ("Create_Issue", Ok("github__create_issue")),
            ("github/create_issue", Ok("github__create_issue")),
            ("GITHUB__CREATE_ISSUE", Ok("github__create_issue")),
            ("list_all", Err(vec!["fs__list_all", "github__list_all"])),
            ("fs__list_all", Ok("fs__list_all")),
            ("creat_issue", Err(vec!["github__create_issue"])),
            ("github__createIssue", Err(vec!["github__create_issue"])),
            ("zzz", Err(vec![])),
            ("", Err(vec![])),
        ];
        for (name, expected) in table {
            let found = resolved(name).map_err(|alike| {
                alike
                    .into_iter()
                    .take(expected.as_ref().err().map_or(9, |e| e.len().max(1)))
                    .collect()
            });
            let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(found, expected.map(str::to_owned).map_err(owned), "{name}");
        }
    }
}
