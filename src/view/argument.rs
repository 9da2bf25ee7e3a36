//! Decoding of arguments in names, such as `<query>` in `X.grep/<query>`. A name encodes `/` as
//! `%2F`, `%` as `%25` and a dot that would change its meaning as `%2E`. Every other byte stands
//! for itself.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

// A Linux path has at most 4,095 bytes and a NUL.
const MAX_NAME_BYTES: usize = 4095;

/// Decodes the argument in a name. Returns `None` for names that programs probe on their own, and
/// for names that do not fit into a path.
pub(super) fn decoded(name: &OsStr) -> Option<Vec<u8>> {
    let name = name.as_bytes();
    if name.is_empty() || name.len() > MAX_NAME_BYTES || is_probe(name) {
        return None;
    }
    let mut text = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, after)) = rest.split_first() {
        let (byte, used) = match rest.get(..3) {
            Some(b"%2F") => (b'/', 3),
            Some(b"%25") => (b'%', 3),
            Some(b"%2E") => (b'.', 3),
            _ => (first, rest.len() - after.len()),
        };
        text.push(byte);
        rest = &rest[used..];
    }
    Some(text)
}

pub(super) fn encoded(text: &[u8], which: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(text.len());
    for byte in text {
        if which.contains(byte) {
            name.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            name.push(*byte);
        }
    }
    name
}

// Returns true if a name is never read as an argument. The dots of such an argument are escaped.
pub(super) fn is_taken(name: &[u8]) -> bool {
    matches!(name, b"." | b"..") || is_probe(name)
}

// Names that ripgrep, fd, git, npm, cargo, rustup, pyenv, editors and file managers look up.
const PROBED_NAMES: &[&[u8]] = &[
    b".git",
    b".gitignore",
    b".ignore",
    b".rgignore",
    b".fdignore",
    b".gitattributes",
    b".gitmodules",
    b"HEAD",
    b".npmrc",
    b"package.json",
    b".python-version",
    b"rust-toolchain",
    b"rust-toolchain.toml",
    b"Cargo.toml",
    b".editorconfig",
    b".DS_Store",
    b"4913",
];

/// Returns true for a name that programs look up on their own in any directory. Query directories
/// do not contain such names: a program would take the empty result for a configuration file.
fn is_probe(name: &[u8]) -> bool {
    PROBED_NAMES.contains(&name)
        || is_swap(name)
        || [&b".#"[..], b".nfs", b".fuse_hidden"].iter().any(|start| name.starts_with(start))
        || (name.len() > 1 && name.ends_with(b"~"))
        || is_temporary(name)
}

// Matches the swap files of vim and nano, such as `.x.swp`.
fn is_swap(name: &[u8]) -> bool {
    name.first() == Some(&b'.')
        && name.len() > 5
        && name[..name.len() - 1].ends_with(b".sw")
        && name[name.len() - 1].is_ascii_lowercase()
}

// Matches `x.<32 hexadecimal digits>.tmp`, a file that a file server writes and then renames.
fn is_temporary(name: &[u8]) -> bool {
    let stem = name.strip_suffix(b".tmp").unwrap_or_default();
    stem.len() > 33 && {
        let (rest, digits) = stem.split_at(stem.len() - 32);
        rest.ends_with(b".") && digits.iter().all(u8::is_ascii_hexdigit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes() {
        let names = [
            ".git",
            "HEAD",
            "4913",
            "Cargo.toml",
            ".timeout.swp",
            ".x.swo",
            ".#x",
            "x~",
            ".nfs0001",
            ".fuse_hidden0001",
            "x.0123456789abcdef0123456789abcdef.tmp",
        ];
        for name in names {
            assert!(is_probe(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn queries() {
        let names =
            ["[H]EAD", "HEAD ", "git", "~", "x.tmp", ".", ".swp", "a.swp", "0123.tmp", ".x"];
        for name in names {
            assert!(!is_probe(name.as_bytes()), "{name}");
        }
    }
}
