//! The argument that a name spells, such as `<query>` in `X.grep/<query>`. A name spells `/` as
//! `%2F`, `%` as `%25` and a dot that would change its meaning as `%2E`; every other byte stands
//! for itself.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::probe;

// A path of Linux has at most 4,095 bytes and a NUL.
const LONGEST: usize = 4095;

/// Returns the argument that a name spells. Returns `None` for names that programs probe on their
/// own, and for names that do not fit into a path.
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

/// Returns true if a name is never read as an argument, so that its dots have to be escaped.
pub(super) fn is_taken(name: &[u8]) -> bool {
    matches!(name, b"." | b"..") || probe::is_probe(name)
}
