//! The lists of servers: their kinds, and the pages of an only server that the client has asked for.

use std::collections::{HashMap, HashSet};

use blake3::Hash;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListKind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

// Maximum number of rows that are remembered.
const MAX_ROWS: usize = 20_000;

impl ListKind {
    pub(crate) const ALL: [Self; 4] =
        [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];
    // The kinds of lists whose changes are announced. A change of the templates is announced as a
    // change of the resources.
    pub(crate) const CHANGING: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    pub(crate) fn of_method(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.method() == method)
    }

    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    pub(crate) fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    pub(crate) fn capability(self) -> &'static str {
        match self {
            Self::Templates => Self::Resources.member(),
            kind => kind.member(),
        }
    }

    pub(crate) fn notification(self) -> String {
        format!("notifications/{}/list_changed", self.capability())
    }

    /// Returns the member by which rows are told apart.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    fn hash(self, text: &str) -> Hash {
        blake3::hash(format!("{}\n{text}", self.method()).as_bytes())
    }
}

/// The page of a list that a client asks for. The first page has an empty cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ListPage {
    pub(crate) kind: ListKind,
    cursor: Hash,
}

impl ListPage {
    pub(crate) fn new(kind: ListKind, cursor: &str) -> Self {
        Self { kind, cursor: kind.hash(cursor) }
    }
}

/// The pages of a server's lists, in the order in which the server names them.
///
/// A list ends where a server names a page that leads to the current one, and a row is shown on the
/// first page that has it. Clients may read a list at the same time, and again after it has changed:
/// a page is compared only with the pages that lead to it.
#[derive(Debug, Default)]
pub(crate) struct ListPages {
    // The page that named a page, by cursor.
    before: HashMap<Hash, Hash>,
    // The page that shows a row, by key.
    rows: HashMap<Hash, Hash>,
}

/// The decision on a page. `shown` has an entry for each row, which is true if the row is shown.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PageVerdict {
    pub(crate) shown: Vec<bool>,
    pub(crate) is_last: bool,
}

impl ListPages {
    /// Takes a page with the keys of its rows, and the cursor of the page that it names as the
    /// next one. A row without a key is always shown.
    pub(crate) fn take(
        &mut self,
        ListPage { kind, cursor }: ListPage,
        keys: &[Option<&str>],
        next: Option<&str>,
    ) -> PageVerdict {
        if self.rows.len() > MAX_ROWS || self.before.len() > MAX_ROWS {
            *self = Self::default();
        }
        let earlier = self.leading_to(cursor);
        // The page may have other rows than the last time.
        self.rows.retain(|_, page| *page != cursor);
        let mut here = HashSet::new();
        let mut is_shown = |key: &str| {
            let key = kind.hash(key);
            let is_known = self.rows.get(&key).is_some_and(|page| earlier.contains(page));
            if !is_known {
                self.rows.insert(key, cursor);
            }
            !is_known && here.insert(key)
        };
        let shown: Vec<bool> = keys.iter().map(|key| key.is_none_or(&mut is_shown)).collect();
        let has_news = shown.is_empty() || shown.contains(&true);
        let next = next.filter(|next| !next.is_empty() && has_news).map(|next| kind.hash(next));
        let next = next.filter(|next| *next != cursor && !earlier.contains(next));
        if let Some(next) = next {
            self.before.insert(next, cursor);
        }
        PageVerdict { shown, is_last: next.is_none() }
    }

    fn leading_to(&self, cursor: Hash) -> HashSet<Hash> {
        let mut earlier = HashSet::new();
        let mut at = cursor;
        while let Some(before) = self.before.get(&at)
            && earlier.insert(*before)
        {
            at = *before;
        }
        earlier.remove(&cursor);
        earlier
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(pages: &mut ListPages, cursor: &str, names: &str, next: &str) -> (String, bool) {
        let names: Vec<&str> = names.split_whitespace().collect();
        let keys: Vec<Option<&str>> = names.iter().map(|name| Some(*name)).collect();
        let page = ListPage::new(ListKind::Tools, cursor);
        let PageVerdict { shown, is_last } = pages.take(page, &keys, Some(next));
        let shown: Vec<&str> = names
            .into_iter()
            .zip(shown)
            .filter(|(_, shown)| *shown)
            .map(|(name, _)| name)
            .collect();
        (shown.join(" "), is_last)
    }

    #[test]
    fn a_list_ends_where_it_repeats() {
        let mut pages = ListPages::default();
        // Another client asks for the same list, and it is asked for again.
        for _ in 0..2 {
            for _ in 0..2 {
                assert_eq!(take(&mut pages, "", "a a b", "x"), ("a b".to_owned(), false));
            }
            assert_eq!(take(&mut pages, "x", "b c", "y"), ("c".to_owned(), false));
            assert_eq!(take(&mut pages, "y", "d", "x"), ("d".to_owned(), true));
            assert_eq!(take(&mut pages, "y", "d", "y"), ("d".to_owned(), true));
            assert_eq!(take(&mut pages, "y", "a", "fresh"), (String::new(), true));
            assert_eq!(take(&mut pages, "y", "", "fresh"), (String::new(), false));
            assert_eq!(take(&mut pages, "y", "e", ""), ("e".to_owned(), true));
        }
    }

    #[test]
    fn a_list_that_has_changed_is_shown_as_it_is_now() {
        let mut pages = ListPages::default();
        take(&mut pages, "", "a", "x");
        take(&mut pages, "x", "b", "y");
        take(&mut pages, "y", "c", "");
        assert_eq!(take(&mut pages, "", "c", "y"), ("c".to_owned(), false));
        assert_eq!(take(&mut pages, "y", "b c", "x"), ("b".to_owned(), false));
        assert_eq!(take(&mut pages, "x", "a", "y"), ("a".to_owned(), true));
    }
}
