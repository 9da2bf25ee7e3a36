//! The offered names of the tools of all servers.
//!
//! A name depends only on the set of tools, not on the order of servers or lists, so it survives a
//! restart. If two tools would get the same name, or names that differ only in case, both names get
//! a hash. A name therefore never passes from one tool to another. The gateway's own names are
//! reserved.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Maximum length in bytes of a name that every client accepts.
pub const MAX_BYTES: usize = 64;
// Number of hexadecimal digits of a name's hash, and of the longer hash used if the first name is
// taken.
const HASH_DIGITS: [usize; 2] = [8, 16];

/// A tool, identified by its server and the server's own name of the tool. The display form is
/// `server/tool`, as in rules and limits. It is unambiguous, because no configured name begins like
/// another one and a `/`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ServerTool {
    pub server: String,
    pub tool: String,
}

impl fmt::Display for ServerTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server, self.tool)
    }
}

/// The naming rule for a server's tools. A name that the rule does not permit, or that two tools
/// would get, is replaced by a shortened name with a hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Naming {
    /// The server's own names, without any restriction. Used for the only server.
    AsIs,
    /// The server's own names. A name that not every client accepts is replaced.
    Bare,
    /// `<prefix>__<tool>`. A name that not every client accepts is replaced.
    Prefixed(String),
}

impl Naming {
    /// Returns the naming rule for one of several servers. An empty prefix means no prefix, as in
    /// the servers file.
    pub fn with_prefix(prefix: &str) -> Self {
        if prefix.is_empty() { Self::Bare } else { Self::Prefixed(prefix.to_owned()) }
    }

    fn wish(&self, tool: &str) -> String {
        match self {
            Self::AsIs | Self::Bare => tool.to_owned(),
            Self::Prefixed(prefix) => format!("{prefix}__{tool}"),
        }
    }

    fn takes(&self, wish: &str) -> bool {
        matches!(self, Self::AsIs) || fits(wish) && !is_hashed(wish)
    }

    fn key(&self, name: &str) -> String {
        if matches!(self, Self::AsIs) { name.to_owned() } else { name.to_lowercase() }
    }
}

/// Prefixes of the configured servers, including absent ones. A name belongs to the server whose
/// prefix is the longest at its beginning.
#[derive(Debug, Clone, Default)]
pub struct ServerPrefixes(Vec<(String, String)>);

impl ServerPrefixes {
    /// Returns the prefixes of servers with these names and naming rules.
    pub fn of<'a>(servers: impl IntoIterator<Item = (&'a str, &'a Naming)>) -> Self {
        let prefix = |(server, naming): (&str, &Naming)| match naming {
            Naming::Prefixed(prefix) => {
                Some((format!("{}__", prefix.to_lowercase()), server.to_owned()))
            }
            Naming::AsIs | Naming::Bare => None,
        };
        Self(servers.into_iter().filter_map(prefix).collect())
    }

    fn is_of_other(&self, name: &str, server: &str) -> bool {
        let name = name.to_lowercase();
        let of_name = || self.0.iter().filter(|(prefix, _)| name.starts_with(prefix));
        let longest = of_name().map(|(prefix, _)| prefix.len()).max();
        let mut owners = of_name().filter(|(prefix, _)| Some(prefix.len()) == longest);
        longest.is_some() && !owners.any(|(_, owner)| owner == server)
    }
}

/// The offered names of all tools, in both directions. Names depend only on the set of tools. They
/// are unique even if case is ignored, except under [`Naming::AsIs`]. `by_name` maps each offered
/// name to its tool.
#[expect(missing_docs, reason = "described above")]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolNames {
    pub by_name: BTreeMap<String, ServerTool>,
    by_true_name: BTreeMap<ServerTool, String>,
}

impl ToolNames {
    /// Assigns names to `tools`. The names in `ours` are reserved for the gateway's own tools,
    /// regardless of case. No tool gets a name with the prefix of another server.
    pub fn new(
        tools: impl IntoIterator<Item = (ServerTool, Naming)>,
        ours: &[&str],
        prefixes: &ServerPrefixes,
    ) -> Self {
        let tools: BTreeMap<ServerTool, Naming> = tools.into_iter().collect();
        let mut left: Vec<(ServerTool, Naming)> = tools.into_iter().collect();
        let mut taken: BTreeSet<String> = ours.iter().map(|name| name.to_lowercase()).collect();
        let mut names = Self::default();
        // Each round uses different hashes, and the number of taken names is finite.
        for round in 0.. {
            if left.is_empty() {
                break;
            }
            left = names.give(left, round, &mut taken, prefixes);
        }
        names
    }

    /// Returns the offered name of `tool`.
    pub fn name_of(&self, tool: &ServerTool) -> Option<&str> {
        self.by_true_name.get(tool).map(String::as_str)
    }

    /// Returns all tools with their offered names, sorted by name.
    pub fn all(&self) -> impl Iterator<Item = (&str, &ServerTool)> {
        self.by_name.iter().map(|(name, tool)| (name.as_str(), tool))
    }

    fn give(
        &mut self,
        tools: Vec<(ServerTool, Naming)>,
        round: usize,
        taken: &mut BTreeSet<String>,
        prefixes: &ServerPrefixes,
    ) -> Vec<(ServerTool, Naming)> {
        let offers: Vec<_> =
            tools.iter().map(|(tool, naming)| offer(tool, naming, round, prefixes)).collect();
        let mut wanted: BTreeMap<String, usize> = BTreeMap::new();
        for ((_, naming), offer) in tools.iter().zip(&offers) {
            if let Some(name) = offer {
                *wanted.entry(naming.key(name)).or_default() += 1;
            }
        }
        let mut left = Vec::new();
        for ((tool, naming), offer) in tools.into_iter().zip(offers) {
            let is_free = |name: &String| {
                wanted.get(&naming.key(name)) == Some(&1) && !taken.contains(&name.to_lowercase())
            };
            let Some(name) = offer.filter(is_free) else {
                left.push((tool, naming));
                continue;
            };
            self.by_name.insert(name.clone(), tool.clone());
            self.by_true_name.insert(tool, name);
        }
        taken.extend(wanted.into_keys().map(|key| key.to_lowercase()));
        left
    }
}

fn offer(
    tool: &ServerTool,
    naming: &Naming,
    round: usize,
    prefixes: &ServerPrefixes,
) -> Option<String> {
    let wish = naming.wish(&tool.tool);
    let is_own =
        |name: &String| matches!(naming, Naming::AsIs) || !prefixes.is_of_other(name, &tool.server);
    if round == 0 {
        return Some(wish).filter(|wish| naming.takes(wish) && is_own(wish));
    }
    // With fewer `__` in the tool's part, a name rarely begins with a longer prefix.
    let plain = naming.wish(&tool.tool.replace("__", "_"));
    let mut names = [wish, plain].into_iter().map(|wish| hashed(&wish, tool, round));
    Some(names.find(is_own).unwrap_or_else(|| hashed("tool", tool, round)))
}

fn hashed(wish: &str, tool: &ServerTool, round: usize) -> String {
    let digits = HASH_DIGITS[usize::from(round > 1)];
    let mut hasher = blake3::Hasher::new();
    for part in [&tool.server, &tool.tool] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    if round > 1 {
        hasher.update(&(round as u64).to_le_bytes());
    }
    let hash = hasher.finalize().to_hex();
    let fitting = wish.chars().map(|c| if is_plain(c) { c } else { '_' });
    let stem: String = fitting.take(MAX_BYTES - 1 - digits).collect();
    format!("{stem}_{}", &hash[..digits])
}

/// Returns true if every client accepts `name`.
pub fn fits(name: &str) -> bool {
    (1..=MAX_BYTES).contains(&name.len()) && name.chars().all(is_plain)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn is_hashed(name: &str) -> bool {
    HASH_DIGITS.iter().any(|digits| {
        let end = name.len().checked_sub(digits + 1).and_then(|at| name.get(at..));
        let hash = end.and_then(|end| end.strip_prefix('_'));
        hash.is_some_and(|hash| hash.chars().all(|c| c.is_ascii_hexdigit()))
    })
}

#[cfg(test)]
mod tests;
