//! The names under which the tools of all upstreams are offered.
//!
//! A name is a function of the set of tools alone: the order of the servers and of their lists does
//! not matter, and a restart changes nothing. Where two tools would get one name, or names that
//! differ only in case, both get a hash, so that a name never comes to mean another tool. Our own
//! names are never given away.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The most bytes of a name that every client takes.
pub const MOST_BYTES: usize = 64;

/// Hexadecimal digits of a hash, and of one that is needed because a first one was no use.
const HASH_DIGITS: [usize; 2] = [8, 16];

/// The name of a tool that its server knows, and the server.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrueName {
    /// The name of the server in the configuration, which holds no `/`.
    pub server: String,
    /// The name that the server gave the tool.
    pub tool: String,
}

/// `server/tool`, as rules and limits name it.
impl fmt::Display for TrueName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server, self.tool)
    }
}

/// The names of the tools of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Naming {
    /// As the server has them, whatever they hold: it is the only one.
    AsIs,
    /// As the server has them, if every client takes that.
    Bare,
    /// `<prefix>__<tool>`, if every client takes that.
    Prefixed(String),
}

impl Naming {
    /// Returns the naming of a server among others, from its prefix. An empty prefix is none.
    pub fn with_prefix(prefix: &str) -> Self {
        if prefix.is_empty() { Self::Bare } else { Self::Prefixed(prefix.to_owned()) }
    }

    fn wish(&self, tool: &str) -> String {
        match self {
            Self::AsIs | Self::Bare => tool.to_owned(),
            Self::Prefixed(prefix) => format!("{prefix}__{tool}"),
        }
    }

    /// Returns true if a tool can have the name that it wishes, as far as no other one has it.
    fn takes(&self, wish: &str) -> bool {
        matches!(self, Self::AsIs) || fits(wish) && !looks_hashed(wish)
    }

    /// Returns what two names have in common that must not both be given.
    fn key(&self, name: &str) -> String {
        if matches!(self, Self::AsIs) { name.to_owned() } else { name.to_lowercase() }
    }
}

/// The names of all tools, both ways.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolNames {
    by_name: BTreeMap<String, TrueName>,
    by_true_name: BTreeMap<TrueName, String>,
}

impl ToolNames {
    /// Names `tools`. None gets one of `ours`, in whatever case.
    pub fn new(tools: impl IntoIterator<Item = (TrueName, Naming)>, ours: &[&str]) -> Self {
        let tools: BTreeMap<TrueName, Naming> = tools.into_iter().collect();
        let mut left: Vec<(TrueName, Naming)> = tools.into_iter().collect();
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

    /// Returns the name of a tool.
    pub fn name_of(&self, tool: &TrueName) -> Option<&str> {
        self.by_true_name.get(tool).map(String::as_str)
    }

    /// Returns the tool of a name.
    pub fn tool_of(&self, name: &str) -> Option<&TrueName> {
        self.by_name.get(name)
    }

    /// Returns all names with their tools, sorted by name.
    pub fn all(&self) -> impl Iterator<Item = (&str, &TrueName)> {
        self.by_name.iter().map(|(name, tool)| (name.as_str(), tool))
    }

    /// Gives the names of a round to the tools that can have them, and returns the other tools.
    fn give(
        &mut self,
        tools: Vec<(TrueName, Naming)>,
        round: usize,
        taken: &mut BTreeSet<String>,
    ) -> Vec<(TrueName, Naming)> {
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

/// Returns the name that a tool can have in a round, if any: its own first, then one with a hash.
fn offer(tool: &TrueName, naming: &Naming, round: usize) -> Option<String> {
    let wish = naming.wish(&tool.tool);
    match round {
        0 => naming.takes(&wish).then_some(wish),
        _ => Some(hashed(&wish, tool, round)),
    }
}

/// Returns `wish` made to fit, with the hash of `tool` at its end.
fn hashed(wish: &str, tool: &TrueName, round: usize) -> String {
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
    let stem: String = fitting.take(MOST_BYTES - 1 - digits).collect();
    format!("{stem}_{}", &hash[..digits])
}

/// Returns true if every client takes `name`.
pub fn fits(name: &str) -> bool {
    (1..=MOST_BYTES).contains(&name.len()) && name.chars().all(is_plain)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// Returns true if `name` ends as names with a hash do, so that it could be made to equal one.
fn looks_hashed(name: &str) -> bool {
    HASH_DIGITS.iter().any(|digits| {
        let end = name.len().checked_sub(digits + 1).and_then(|at| name.get(at..));
        let hash = end.and_then(|end| end.strip_prefix('_'));
        hash.is_some_and(|hash| hash.chars().all(|c| c.is_ascii_hexdigit()))
    })
}

#[cfg(test)]
mod tests;
