// ripgrep, fd, git, npm, cargo, rustup, pyenv, editors and file managers look these up.
const NAMES: &[&[u8]] = &[
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

/// Returns true for a name that programs look up on their own in any directory. Directories of
/// queries do not have such a name: an empty result under it would be taken for a configuration
/// file.
pub(super) fn is_probe(name: &[u8]) -> bool {
    NAMES.contains(&name)
        || is_swap(name)
        || [&b".#"[..], b".nfs", b".fuse_hidden"].iter().any(|start| name.starts_with(start))
        || (name.len() > 1 && name.ends_with(b"~"))
        || is_temporary(name)
}

// `.x.swp` and the like: the swap files of vim and nano.
fn is_swap(name: &[u8]) -> bool {
    name.first() == Some(&b'.')
        && name.len() > 5
        && name[..name.len() - 1].ends_with(b".sw")
        && name[name.len() - 1].is_ascii_lowercase()
}

// `x.<32 hexadecimal digits>.tmp`: a file that a file server writes before it renames it.
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
