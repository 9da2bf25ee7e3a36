//! The rules in the store: read, and added to.

use crate::permission::glob_rules::InvalidGlob;
use crate::permission::rule_file::{FileRules, NotToml, with_rule};
use crate::permission::rules::{Rules, Verdict};
use ctxfs_store::{Store, StoreError};

/// Why a rule was not kept.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    /// It is no rule.
    #[error(transparent)]
    Glob(#[from] InvalidGlob),
    /// The file cannot be changed.
    #[error(transparent)]
    File(#[from] NotToml),
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Adds the rules of `store` to `rules`. Returns what is wrong, in texts for a person; then nothing
/// is allowed without one.
pub fn add_stored(rules: &mut Rules, store: &Store) -> Vec<String> {
    match store.permissions() {
        Ok(text) => {
            let flaws = FileRules::parse(&text).add_to(rules);
            flaws.iter().map(ToString::to_string).collect()
        }
        Err(error) => {
            rules.add_unreadable();
            vec![error.to_string()]
        }
    }
}

/// Keeps a rule in `store`, in place of one with the same key, which is a pattern of `server/tool`
/// or the word of a risk. Everything else in the file stays, what other processes write too.
pub fn keep(store: &Store, key: &str, verdict: Verdict) -> Result<(), NotKept> {
    Rules::default().add_by_key(key, verdict)?;
    let locked = store.lock_permissions()?;
    let text = locked.text()?;
    let changed = with_rule(&text, key, verdict)?;
    if changed != text {
        locked.replace(&changed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use super::*;
    use crate::permission::risk::Risk;

    fn store() -> (tempfile::TempDir, Store) {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(temporary.path()).unwrap();
        (temporary, store)
    }

    #[test]
    fn what_is_kept_holds() {
        let (_temporary, store) = store();
        keep(&store, "github/create_issue", Verdict::Allow).unwrap();
        keep(&store, "execute", Verdict::Deny).unwrap();
        let mut rules = Rules::default();
        assert_eq!(add_stored(&mut rules, &store), Vec::<String>::new());
        let verdict = |tool: &str, risk| rules.rule(tool, risk).verdict;
        assert_eq!(verdict("github/create_issue", Risk::Write), Verdict::Allow);
        assert_eq!(verdict("github/other", Risk::Write), Verdict::Ask);
        assert_eq!(verdict("github/other", Risk::Execute), Verdict::Deny);
        let error = keep(&store, "a/[", Verdict::Allow).unwrap_err().to_string();
        assert!(error.starts_with("`a/[` is not a pattern of tools"), "{error}");
    }

    #[test]
    fn writers_at_once_lose_no_rule() {
        let (_temporary, store) = store();
        thread::scope(|scope| {
            for writer in 0..4 {
                let store = &store;
                scope.spawn(move || {
                    for n in 0..5 {
                        keep(store, &format!("s{writer}/t{n}"), Verdict::Allow).unwrap();
                    }
                });
            }
        });
        let read = FileRules::parse(&store.permissions().unwrap());
        assert_eq!((read.rules.len(), read.flaws.len()), (20, 0));
    }

    #[test]
    fn a_file_that_cannot_be_read_allows_nothing_and_is_not_written_over() {
        let (temporary, store) = store();
        let path = temporary.path().join("permissions.toml");
        for content in [&b"[permissions\n"[..], b"\xff"] {
            fs::write(&path, content).unwrap();
            let mut rules = Rules::default();
            assert_eq!(add_stored(&mut rules, &store).len(), 1);
            assert_eq!(rules.rule("s/t", Risk::Read).verdict, Verdict::Ask);
            keep(&store, "s/t", Verdict::Allow).unwrap_err();
            assert_eq!(fs::read(&path).unwrap(), content);
        }
    }
}
