//! Checks that manipulated archives are refused.

use std::fmt::Write as _;
use std::io::Read as _;

use tar::{EntryType, Header};

use super::{Members, Place, anything, id, members, put};
use crate::archive::{DIGESTS, MAX_HEADER};
use crate::{ArchiveError, ImportOptions, walk};
use ctxfs_core::model::Provenance;

fn header(name: &[u8], kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_ustar();
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_size(size);
    header.set_cksum();
    header
}

/// Returns an archive that contains the bytes `tar`.
fn packed(tar: &[u8]) -> Vec<u8> {
    zstd::encode_all(tar, 1).unwrap()
}

/// Returns an archive of `members` with correct digests. `plant` adds members before the records.
fn forged(members: &Members, plant: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut plant = Some(plant);
    let mut digests = String::new();
    for (name, content) in members {
        if name.ends_with("manifest.jsonl")
            && let Some(plant) = plant.take()
        {
            plant(&mut tar);
        }
        let is_dir = name.ends_with('/');
        let kind = if is_dir { EntryType::Directory } else { EntryType::Regular };
        let content = if name.ends_with(DIGESTS) { digests.as_bytes() } else { content };
        tar.append(&header(name.as_bytes(), kind, content.len() as u64), content).unwrap();
        if !is_dir {
            writeln!(digests, "{}  {name}", blake3::hash(content).to_hex()).unwrap();
        }
    }
    packed(&tar.into_inner().unwrap())
}

/// Returns the members of a small conversation.
fn small() -> Members {
    let place = Place::new();
    let conversation = place.store.create_conversation(&id("c7")).unwrap();
    put(&conversation, "9f3k", Provenance::default());
    members(&place.export("c7"))
}

/// Returns the reason why an archive is refused to which `plant` has added members.
fn planted(plant: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> String {
    Place::new().refusal(&forged(&small(), plant))
}

#[test]
fn a_forged_archive_that_is_right_is_taken() {
    let place = Place::new();
    place.import(&forged(&small(), |_| {}), &anything()).unwrap();
    assert!(place.path("c7/artifacts/tool/9f3k.txt").exists());
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    for (name, told) in [
        (&b"/etc/cron.d/x"[..], "outside the conversation"),
        (b"c7/../c8/x", "cannot be empty"),
        (b"../x", "outside the conversation"),
        (b"c7//x", "cannot be empty"),
        (b"c7/./x", "cannot be empty"),
        (b"c8/x", "outside the conversation"),
        (b"c77/x", "outside the conversation"),
        (b"c7", "outside the conversation"),
        (b"c7/", "cannot be empty"),
        (b"c7/zz\nx", "control character"),
        (b"c7/zz\x1b[2J", "control character"),
        (b"c7/zz/.ctxfs-x", "reserved"),
        (b"c7/.ctxfs-manifest", "reserved"),
        (b"c7/nowhere/x", "its directory is not in the archive"),
        (b"c7/artifacts/tool/9f3k.txt", "twice, or out of order"),
        (b"c7/artifacts/a", "twice, or out of order"),
        (b"c7/artifacts", "twice, or out of order"),
        (b"", "outside the conversation"),
    ] {
        let add = |tar: &mut tar::Builder<Vec<u8>>| {
            tar.append(&header(name, EntryType::Regular, 1), &b"x"[..]).unwrap();
        };
        let refusal = planted(add);
        assert!(refusal.contains(told), "{}: {refusal}", name.escape_ascii());
        assert!(!refusal.contains(['\n', '\x1b']), "{refusal:?}");
    }
    let twice = |tar: &mut tar::Builder<Vec<u8>>| {
        for _ in 0..2 {
            tar.append(&header(b"c7/zz", EntryType::Regular, 0), std::io::empty()).unwrap();
        }
    };
    assert!(planted(twice).contains("twice"));
    let in_file = |tar: &mut tar::Builder<Vec<u8>>| {
        for name in [&b"c7/zz"[..], b"c7/zz/x"] {
            tar.append(&header(name, EntryType::Regular, 0), std::io::empty()).unwrap();
        }
    };
    assert!(planted(in_file).contains("its directory is not in the archive"));
    let manifest = |tar: &mut tar::Builder<Vec<u8>>| {
        let dir = header(b"c7/manifest.jsonl/", EntryType::Directory, 0);
        tar.append(&dir, std::io::empty()).unwrap();
    };
    assert!(planted(manifest).contains("reserved"));
}

#[test]
fn links_and_devices_are_refused() {
    for kind in [
        EntryType::Link,
        EntryType::Symlink,
        EntryType::Char,
        EntryType::Block,
        EntryType::Fifo,
        EntryType::Continuous,
        EntryType::GNUSparse,
        EntryType::GNULongName,
        EntryType::GNULongLink,
        EntryType::XGlobalHeader,
        EntryType::new(b'V'),
    ] {
        let add = |tar: &mut tar::Builder<Vec<u8>>| {
            let mut header = header(b"c7/zz", kind, 0);
            header.set_link_name("/etc/passwd").unwrap();
            header.set_cksum();
            tar.append(&header, std::io::empty()).unwrap();
        };
        let refusal = planted(add);
        assert!(refusal.contains("neither a file nor a directory"), "{kind:?}: {refusal}");
    }
}

#[test]
fn directories_that_are_nested_too_deep_are_refused() {
    let nested = |levels: usize| {
        planted(move |tar| {
            for level in 1..=levels {
                let path = format!("c7/{}/", vec!["zz"; level].join("/"));
                tar.append_pax_extensions([("path", path.as_bytes())]).unwrap();
                let header = header(b"c7/zz/", EntryType::Directory, 0);
                tar.append(&header, std::io::empty()).unwrap();
            }
            tar.append(&header(b"c7/a", EntryType::Regular, 0), std::io::empty()).unwrap();
        })
    };
    assert!(nested(walk::MAX_LEVELS + 1).contains("256 directories deep"));
    assert!(nested(walk::MAX_LEVELS).contains("out of order"));
}

#[test]
fn headers_that_ctxfs_does_not_write_are_refused() {
    let extended = |records: &[(&str, &[u8])]| {
        let records = records.to_vec();
        planted(move |tar| {
            tar.append_pax_extensions(records.iter().copied()).unwrap();
            tar.append(&header(b"c7/zz", EntryType::Regular, 0), std::io::empty()).unwrap();
        })
    };
    for (key, value) in [
        ("size", &b"100"[..]),
        ("linkpath", b"/etc/passwd"),
        ("GNU.sparse.major", b"1"),
        ("uid", b"0"),
        ("mtime", b"soon"),
        ("SCHILY.xattr.security.capability", b"x"),
        ("SCHILY.xattr.trusted.x", b"x"),
        ("SCHILY.acl.access", b"x"),
    ] {
        let refusal = extended(&[(key, value)]);
        assert!(refusal.contains("its header is"), "{key}: {refusal}");
    }
    let refusal = extended(&[("path", b"c7/../../x")]);
    assert!(refusal.contains("cannot be empty"), "{refusal}");
    let large = vec![b'x'; MAX_HEADER as usize];
    assert!(extended(&[("SCHILY.xattr.user.x", &large)]).contains("its header is"));
    let two = planted(|tar| {
        for _ in 0..2 {
            tar.append_pax_extensions([("mtime", &b"1"[..])]).unwrap();
        }
    });
    assert!(two.contains("its header is"), "{two}");
    let with_content = planted(|tar| {
        tar.append(&header(b"c7/zz/", EntryType::Directory, 1), &b"x"[..]).unwrap();
    });
    assert!(with_content.contains("its header is"), "{with_content}");
}

#[test]
fn wrong_digests_are_refused() {
    // First the digest of an artifact is wrong, then that of a file that only the list of digests
    // contains.
    let archive = Place::filled().export("c7");
    let mut tar = zstd::decode_all(&*archive).unwrap();
    let at = tar.windows(13).position(|bytes| bytes == b"line of text\n").unwrap();
    tar[at] = b'L';
    let refusal = Place::new().refusal(&packed(&tar));
    assert!(refusal.contains("the digest in its record"), "{refusal}");
    let mut tar = zstd::decode_all(&*archive).unwrap();
    let at = tar.windows(8).position(|bytes| bytes == b"note\0\0\0\0").unwrap();
    tar[at] = b'N';
    let refusal = Place::new().refusal(&packed(&tar));
    assert!(refusal.contains("x.txt`: its digest is not"), "{refusal}");
    // The digest in a record is wrong, while the list of digests is correct.
    let mut members = small();
    let records =
        &mut members.iter_mut().find(|(name, _)| name.ends_with("manifest.jsonl")).unwrap().1;
    let text = String::from_utf8(std::mem::take(records)).unwrap();
    let digest = blake3::hash(b"line of text\n").to_hex();
    assert!(text.contains(digest.as_str()));
    *records = text.replace(digest.as_str(), &"0".repeat(64)).into_bytes();
    let refusal = Place::new().refusal(&forged(&members, |_| {}));
    assert!(refusal.contains("the digest in its record"), "{refusal}");
}

#[test]
fn records_that_cannot_be_are_refused() {
    let with = |change: &dyn Fn(&str) -> String| {
        let mut members = small();
        let records =
            &mut members.iter_mut().find(|(name, _)| name.ends_with("manifest.jsonl")).unwrap().1;
        *records = change(std::str::from_utf8(records).unwrap()).into_bytes();
        Place::new().refusal(&forged(&members, |_| {}))
    };
    let changes: [&dyn Fn(&str) -> String; 7] = [
        &|text| text.replace("\"path\":\"artifacts", "\"path\":\"../artifacts"),
        &|text| text.replace("\"path\":\"artifacts/tool/9f3k.txt", "\"path\":\"/etc/passwd"),
        &|text| text.replace("\"generation\":1", "\"generation\":18446744073709551615"),
        &|text| text.replace("\"generation\":1", "\"generation\":0"),
        &|text| text.replace("\"state\":\"sealed\"", "\"state\":\"gone\""),
        &|text| text.trim_end().to_owned(),
        &|text| format!("{text}no record\n"),
    ];
    for (number, change) in changes.iter().enumerate() {
        let refusal = with(change);
        assert!(refusal.contains("is not a record of a file"), "{number}: {refusal}");
    }
}

#[test]
fn what_is_cut_off_is_refused() {
    let archive = Place::filled().export("c7");
    for length in (0..archive.len()).step_by(97).chain([archive.len() - 1]) {
        Place::new().refusal(&archive[..length]);
    }
    let tar = zstd::decode_all(&*archive).unwrap();
    for length in (0..tar.len() - 1024).step_by(512) {
        Place::new().refusal(&packed(&tar[..length]));
    }
    // The zeros at the end may be missing.
    Place::new().import(&packed(&tar[..tar.len() - 1024]), &anything()).unwrap();
}

#[test]
fn what_follows_the_end_is_refused() {
    let archive = Place::filled().export("c7");
    let refusal = Place::new().refusal(&[&archive[..], b"x"].concat());
    assert!(refusal.contains("something follows"), "{refusal}");
    let refusal = Place::new().refusal(&[&archive[..], &archive[..]].concat());
    assert!(refusal.contains("something follows"), "{refusal}");
    let mut tar = zstd::decode_all(&*archive).unwrap();
    let end = tar.len();
    tar[end - 1] = 1;
    assert!(Place::new().refusal(&packed(&tar)).contains("something follows"));
    tar[end - 1] = 0;
    tar.resize(tar.len() + (1 << 20), 0);
    assert!(Place::new().refusal(&packed(&tar)).contains("something follows"));
    let after = forged(&small(), |_| {});
    let mut tar = zstd::decode_all(&*after).unwrap();
    tar.truncate(tar.len() - 1024);
    let mut builder = tar::Builder::new(tar);
    builder.append(&header(b"c7/zz", EntryType::Regular, 0), std::io::empty()).unwrap();
    let refusal = Place::new().refusal(&packed(&builder.into_inner().unwrap()));
    assert!(refusal.contains("twice, or out of order"), "{refusal}");
}

#[test]
fn what_is_too_large_is_refused_before_it_is_written() {
    let place = Place::new();
    let claims = forged(&small(), |tar| {
        tar.append(&header(b"c7/zz", EntryType::Regular, 1 << 60), std::io::empty()).unwrap();
    });
    let error = place.import(&claims, &anything()).unwrap_err();
    assert!(matches!(error, ArchiveError::NoRoom { needed, .. } if needed == 1 << 60), "{error}");
    let zeros = 64 << 20;
    let bomb = forged(&small(), |tar| {
        let zeros = std::io::repeat(0).take(zeros);
        tar.append(&header(b"c7/zz", EntryType::Regular, 64 << 20), zeros).unwrap();
    });
    assert!(bomb.len() < 100_000);
    let bounded = ImportOptions { most_bytes: 1 << 20, ..anything() };
    let error = place.import(&bomb, &bounded).unwrap_err();
    assert!(matches!(error, ArchiveError::TooLarge { most } if most == 1 << 20), "{error}");
    let many = forged(&small(), |tar| {
        for number in 0..2000 {
            let name = format!("c7/zz{number:04}");
            let header = header(name.as_bytes(), EntryType::Regular, 0);
            tar.append(&header, std::io::empty()).unwrap();
        }
    });
    let few = ImportOptions { most_files: 1000, ..anything() };
    let error = place.import(&many, &few).unwrap_err();
    assert!(matches!(error, ArchiveError::TooMany { most: 1000 }), "{error}");
    let full = ImportOptions { min_free: u64::MAX, ..anything() };
    let error = place.import(&bomb, &full).unwrap_err();
    assert!(matches!(error, ArchiveError::NoRoom { .. }), "{error}");
    let small = ImportOptions { quota: Some(1 << 20), ..anything() };
    let error = place.import(&bomb, &small).unwrap_err();
    assert!(matches!(error, ArchiveError::OverQuota { quota } if quota == 1 << 20), "{error}");
    assert!(place.store.conversations().unwrap().is_empty());
}

#[test]
fn what_is_no_archive_is_told() {
    for bytes in [&b""[..], b"text", b"\x28\xb5\x2f\xfd", &packed(b""), &packed(&[7; 4096])] {
        let refusal = Place::new().refusal(bytes);
        let damaged = refusal.contains("cut off or damaged");
        assert!(damaged || refusal.contains("not an archive of a conversation"), "{refusal}");
    }
    let mut newer = small();
    newer[0].1 = br#"{"format":2,"conversation":"c7"}"#.to_vec();
    let refusal = Place::new().refusal(&forged(&newer, |_| {}));
    assert!(refusal.contains("has format 2"), "{refusal}");
    newer[0].1 = br#"{"format":1,"conversation":"../c7"}"#.to_vec();
    Place::new().refusal(&forged(&newer, |_| {}));
}
