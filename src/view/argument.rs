//! The arguments in names of views, as `<query>` in `X.grep/<query>`, and how a name spells them.
//!
//! In a name, `%2F` is `/`, `%25` is `%` and `%2E` is `.`; every other byte stands for itself.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::probe;

/// Most bytes of a name: as many as fit into a path.
const LONGEST: usize = 4095;

/// Returns the argument that a name spells. Returns none if programs look up the name by
/// themselves, or if no path has room for it.
pub(super) fn decoded(name: &OsStr) -> Option<Vec<u8>> {
    let name = name.as_bytes();
    if name.is_empty() || name.len() > LONGEST || probe::is_probe(name) {
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

/// Spells `text` with the bytes `which` escaped.
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

/// Returns true if a name is not read as an argument, so that its dots have to be escaped.
pub(super) fn is_taken(name: &[u8]) -> bool {
    matches!(name, b"." | b"..") || probe::is_probe(name)
}
