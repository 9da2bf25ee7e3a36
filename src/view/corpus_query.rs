use std::ffi::OsStr;
use std::io::Write;

use crate::{Directory, Query, RenderError, Rendered, ViewDir, Words, find, grep};

/// A search of all artifacts below a directory, as `<conversation>/.grep/<query>` and
/// `<conversation>/.find/<words>` name it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CorpusQuery {
    /// `.grep/<query>`: the lines that match.
    Grep(Query),
    /// `.find/<words>`: the passages that match some words best.
    Find(Words),
}

impl CorpusQuery {
    /// Reads a name in the directory `dir` of searches. Returns `None` if the name is not a search.
    pub fn named(dir: ViewDir, name: &OsStr) -> Option<Self> {
        match dir {
            ViewDir::Grep => Query::of_many(name).map(Self::Grep),
            ViewDir::Find => Words::parse(name).map(Self::Find),
            ViewDir::Lines | ViewDir::Jq | ViewDir::Pages | ViewDir::Extract => None,
        }
    }

    /// Searches all artifacts in `directory` and writes the result to `out`, without the notice.
    ///
    /// Calls `expired` from time to time; once it returns true, the text so far is the result.
    /// Memory is bounded for any artifacts. The length of the output is bounded, except for a
    /// `Grep` with `-m0`.
    ///
    /// Counts the masked secrets in the output; the first line of the notice tells the numbers.
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
