//! Archives from any source.
//!
//! If the first byte is `m`, the rest is a list of members, separated by 0xFE: a byte for the kind,
//! a name, NUL, and the content. An archive with valid checksums and digests is built from these
//! members, so that an import can reject only the members themselves. Otherwise the input is a tar
//! archive, and its checksums are corrected.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use tar::{EntryType, Header};

use crate::empty_store;
use ctxfs_core::model::Component;
use ctxfs_store::{ExportParts, ImportOptions, export};

/// Maximum bytes of an imported conversation.
const MOST: u64 = 1 << 20;
const BLOCK: usize = 512;

/// Imports an archive. Asserts that the resulting conversation can be exported and imported again,
/// or that a failed import leaves nothing behind.
pub fn archive(data: &[u8]) {
    imported(data);
}

/// Imports an archive. Returns true if it became a conversation.
fn imported(data: &[u8]) -> bool {
    let tar = match data.split_first() {
        Some((b'm', members)) => forged(members),
        _ => summed(data),
    };
    let packed = zstd::encode_all(&*tar, 1).expect("memory");
    let (dir, store) = empty_store();
    let (most_bytes, most_files) = (MOST, 1000);
    let options = |id| ImportOptions { id, most_bytes, most_files, min_free: 0, quota: None };
    let imported = store.import(&*packed, &options(None));
    assert_eq!(names(dir.path()), ["store"], "something is beside the store");
    let conversations = dir.path().join("store/context");
    let Ok(imported) = imported else {
        assert_eq!(names(&conversations), [""; 0], "something is left");
        return false;
    };
    let first = tree(&conversations.join(imported.id.as_os_str()));
    let bytes: usize = first.iter().filter_map(|(_, content)| content.as_ref()).map(Vec::len).sum();
    assert!(bytes as u64 <= MOST, "{bytes} bytes");

    let conversation = store.conversation(&imported.id).expect("readable").expect("it is there");
    let mut again = Vec::new();
    export(&conversation, ExportParts::default(), &mut again, &mut |_| {})
        .expect("it can be exported");
    let id = Component::new("again").expect("a name");
    store.import(&*again, &options(Some(id))).expect("what was exported can be imported");
    assert_eq!(tree(&conversations.join("again")), first);
    true
}

/// Corrects the checksum of each block that looks like a header, so that an import checks the
/// fields of the header.
fn summed(tar: &[u8]) -> Vec<u8> {
    let mut tar = tar.to_vec();
    for block in tar.chunks_exact_mut(BLOCK).filter(|block| &block[257..262] == b"ustar") {
        let mut header = Header::new_ustar();
        header.as_mut_bytes().copy_from_slice(block);
        header.set_cksum();
        block.copy_from_slice(header.as_bytes());
    }
    tar
}

/// Returns an archive of the conversation `c7`, with `members` between its first and its last
/// member.
fn forged(members: &[u8]) -> Vec<u8> {
    let mut forge = Forge { tar: tar::Builder::new(Vec::new()), digests: String::new() };
    forge.add(b'0', b"c7/.ctxfs-archive", br#"{"format":1,"conversation":"c7"}"#);
    forge.add(b'5', b"c7/", b"");
    let mut records = &b""[..];
    for member in members.split(|byte| *byte == 0xFE) {
        let Some((kind, rest)) = member.split_first() else { continue };
        let at = memchr::memchr(0, rest).unwrap_or(rest.len());
        let (name, content) = (&rest[..at], rest.get(at + 1..).unwrap_or_default());
        if name == b"c7/manifest.jsonl" {
            records = content;
        } else {
            forge.add(*kind, name, content);
        }
    }
    forge.add(b'0', b"c7/manifest.jsonl", records);
    let digests = std::mem::take(&mut forge.digests);
    forge.add(b'0', b"c7/.ctxfs-digests", digests.as_bytes());
    forge.tar.into_inner().expect("memory")
}

/// Writer of archives with arbitrary members.
struct Forge {
    tar: tar::Builder<Vec<u8>>,
    digests: String,
}

impl Forge {
    fn add(&mut self, kind: u8, name: &[u8], content: &[u8]) {
        let mut header = Header::new_ustar();
        let name = &name[..name.len().min(100)];
        header.as_old_mut().name[..name.len()].copy_from_slice(name);
        header.set_entry_type(EntryType::new(kind));
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_size(content.len() as u64);
        if matches!(kind, b'1' | b'2') {
            let target = &content[..content.len().min(100)];
            header.as_old_mut().linkname[..target.len()].copy_from_slice(target);
        }
        header.set_cksum();
        self.tar.append(&header, content).expect("memory");
        if kind == b'0' {
            let (digest, name) = (blake3::hash(content).to_hex(), String::from_utf8_lossy(name));
            writeln!(self.digests, "{digest}  {name}").expect("memory");
        }
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("readable").map(|entry| entry.expect("readable"));
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Returns the directories below `dir` and the files with their content, except for the manifest.
/// Asserts that there are no entries of other kinds.
fn tree(dir: &Path) -> Vec<(String, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut left = vec![dir.to_owned()];
    while let Some(next) = left.pop() {
        for entry in fs::read_dir(&next).expect("readable").map(|entry| entry.expect("readable")) {
            let (path, kind) = (entry.path(), entry.file_type().expect("readable"));
            let name = path.strip_prefix(dir).expect("below").to_string_lossy().into_owned();
            assert!(kind.is_dir() || kind.is_file(), "{name} is neither");
            if kind.is_dir() {
                left.push(path);
                found.push((name, None));
            } else if name != "manifest.jsonl" {
                found.push((name, Some(fs::read(path).expect("readable"))));
            }
        }
    }
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_come_as_far_as_a_conversation() {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/archive");
        for (name, taken) in [
            ("exported.tar", true),
            ("plain", true),
            ("pax", true),
            ("attribute", true),
            ("outside", false),
        ] {
            assert_eq!(imported(&fs::read(kept.join(name)).unwrap()), taken, "{name}");
        }
    }
}
