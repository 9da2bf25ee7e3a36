//! The names under which the tools of all servers are offered.
//!
//! A name depends on the set of tools alone, not on the order of servers or of their lists, so a restart
//! changes nothing. If two tools would get one name, or names that differ only in case, both get a hash;
//! a name never comes to mean another tool. The gateway's own names are reserved.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Longest name that every client accepts.
pub const MAX_BYTES: usize = 64;
// Hexadecimal digits of a hash, and of a second one if the first one is taken.
const HASH_DIGITS: [usize; 2] = [8, 16];

/// A tool by its server and the server's own name, displayed as `server/tool` as in rules and
/// limits. The configured name of a server holds no `/`, so the display is unambiguous.
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

/// The rule for the names of a server's tools. A name that not every client accepts, or that two
/// tools would get, is replaced by a shortened name with a hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Naming {
    /// The server's own names, whatever they hold. For the only server.
    AsIs,
    /// The server's own names, if every client accepts them.
    Bare,
    /// `<prefix>__<tool>`, if every client accepts it.
    Prefixed(String),
}

impl Naming {
    /// Returns the naming of a server among others, whose tools get this prefix. An empty prefix
    /// means none, as in the file of servers.
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

/// The offered names of all tools, in both directions. Names are unique even if case is ignored,
/// and depend on the set of tools alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolNames {
    by_name: BTreeMap<String, ServerTool>,
    by_true_name: BTreeMap<ServerTool, String>,
}

impl ToolNames {
    /// Names `tools`. None gets one of the names `ours`, in any case, as those are tools of the
    /// gateway.
    pub fn new(tools: impl IntoIterator<Item = (ServerTool, Naming)>, ours: &[&str]) -> Self {
        let tools: BTreeMap<ServerTool, Naming> = tools.into_iter().collect();
        let mut left: Vec<(ServerTool, Naming)> = tools.into_iter().collect();
        let mut taken: BTreeSet<String> = ours.iter().map(|name| name.to_lowercase()).collect();
        let mut names = Self::default();
        // Each round has other hashes, and only so many names are taken.
        for round in 0.. {
            if left.is_empty() {
                break;
            }
            left = names.give(left, round, &mut taken);
        }
        names
    }

    /// Returns the offered name of a tool.
    pub fn name_of(&self, tool: &ServerTool) -> Option<&str> {
        self.by_true_name.get(tool).map(String::as_str)
    }

    /// Returns the tool with an offered name.
    pub fn tool_of(&self, name: &str) -> Option<&ServerTool> {
        self.by_name.get(name)
    }

    /// Returns all offered names in order, with their tools.
    pub fn all(&self) -> impl Iterator<Item = (&str, &ServerTool)> {
        self.by_name.iter().map(|(name, tool)| (name.as_str(), tool))
    }

    fn give(
        &mut self,
        tools: Vec<(ServerTool, Naming)>,
        round: usize,
        taken: &mut BTreeSet<String>,
    ) -> Vec<(ServerTool, Naming)> {
        let offers: Vec<_> =
            tools.iter().map(|(tool, naming)| offer(tool, naming, round)).collect();
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

fn offer(tool: &ServerTool, naming: &Naming, round: usize) -> Option<String> {
    let wish = naming.wish(&tool.tool);
    match round {
        0 => naming.takes(&wish).then_some(wish),
        _ => Some(hashed(&wish, tool, round)),
    }
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
