//! A question about all artifacts below a directory.

use std::ffi::OsStr;
use std::io::Write;

use crate::{Directory, Query, RenderError, Rendered, ViewDir, Words, find, grep};

/// A search of all artifacts below a directory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CorpusQuery {
    /// `.grep/<query>`: the lines that match.
    Grep(Query),
    /// `.find/<words>`: the passages that fit some words best.
    Find(Words),
}

impl CorpusQuery {
    /// Reads a name in the directory `dir` of searches. Returns none if there is no such search.
    pub fn named(dir: ViewDir, name: &OsStr) -> Option<Self> {
        match dir {
            ViewDir::Grep => Query::of_many(name).map(Self::Grep),
            ViewDir::Find => Words::parse(name).map(Self::Find),
            ViewDir::Lines | ViewDir::Jq | ViewDir::Pages | ViewDir::Extract => None,
        }
    }

    /// Searches all artifacts in `directory` and writes what it finds to `out`, without the notice.
    ///
    /// `expired` is called now and then; once it returns true, the text so far is the result.
    /// Memory is bounded for any artifacts. The length of the output is bounded, except for a
    /// `Grep` with `-m0`.
    ///
    /// Masked secrets in the output are counted, and the first line of the notice tells the
    /// numbers.
    pub fn render(
        &self,
        directory: &Directory<'_>,
        expired: &(dyn Fn() -> bool + Sync),
        out: &mut (dyn Write + Send),
    ) -> Result<Rendered, RenderError> {
        match self {
            Self::Grep(query) => grep::render_many(query, directory, expired, out),
            Self::Find(words) => find::render_many(words, directory, expired, out),
        }
    }
}
